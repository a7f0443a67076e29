"""Optimise an expensive function of six inputs, four evaluations at a time.

    python examples/thompson.py

Each of the four proposals of a round is the minimum of its own draw from the posterior,
found by gradients. Beside it: the best of as many random points.
"""

import pickle

import numpy as np

from skgpx.thompson import ThompsonSampler

BOUNDS = np.array([[0.0, 1.0]] * 6)
ROUNDS, BATCH = 20, 4
# the Hartmann function: four wells of different depth
DEPTHS = np.array([1.0, 1.2, 3.0, 3.2])
CENTRES = np.array(
    [
        [0.131, 0.170, 0.557, 0.012, 0.828, 0.589],
        [0.233, 0.414, 0.831, 0.374, 0.100, 0.999],
        [0.235, 0.145, 0.352, 0.288, 0.305, 0.665],
        [0.405, 0.883, 0.873, 0.574, 0.109, 0.038],
    ]
)
CURVATURES = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)


def hartmann(X):
    """Values of the function; its smallest is -3.32."""
    squares = (X[:, np.newaxis] - CENTRES) ** 2
    return -np.exp(-np.sum(CURVATURES * squares, axis=2)) @ DEPTHS


def main():
    """Print the best value after every fifth round."""
    optimizer = ThompsonSampler(BOUNDS, refit_every=2, n_mesh=2000, random_state=0)
    luck = hartmann(np.random.default_rng(0).random((ROUNDS * BATCH, 6)))
    print(f"{'evaluations':>12}{'Thompson':>12}{'random':>12}")
    for i in range(1, ROUNDS + 1):
        X = optimizer.ask(BATCH)
        optimizer.tell(X, hartmann(X))
        if i % 5 == 0:
            n = i * BATCH
            print(f"{n:12}{optimizer.best_y_:12.4f}{luck[:n].min():12.4f}")
            # what another process would load to go on
            optimizer = pickle.loads(pickle.dumps(optimizer))
    print(f"best input: {np.round(optimizer.best_x_, 3)}")


if __name__ == "__main__":
    main()
