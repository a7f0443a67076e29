"""Figure 5 of the paper on decoupled sampling: a neuron under a sinusoidal current.

Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently sampling functions
from Gaussian process posteriors", ICML 2020. The drift of a FitzHugh-Nagumo neuron with
process noise of covariance 0.01 I is learned from 10 000 noisy increments over a step
of 0.25, at uniform states and currents, by one sparse process of 32 inducing points for
each state. Each of 1000 paths follows its own draw of the drift for 400 steps under a
sinusoidal current. Quartiles of the voltage are compared with those of 1000 paths of
the true system, and the clouds of states by the 2-Wasserstein distance (an exact
assignment; the paper approximates it by the Sinkhorn algorithm). The noise floor is the
distance between two sets of paths of the true system.

The processes are ``PLSRegressor(kernel, n_inducing=32, n_neighbors=0)`` with the
paper's Matern-5/2 kernel: their hyperparameters maximise the evidence with a prior,
those of the paper were found by stochastic gradient descent. The points of the paper
are shared by both states, here each state has its own. Ranges of the states and current
are not printed in the paper; those below are ours.

The paper simulated in 20 seconds, where drawing the drift step by step took 10 hours.
`python -m benchmarks.bench_loops` compares with a compiled version of the latter. Here
fits take about 30 CPU seconds and the simulation about four. ``--plot`` shows paths.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgpx import DecoupledSampler, PLSRegressor
from skgpx.simulation import simulate_sde

STEP, DIFFUSION = 0.25, 0.1
N_ROWS, N_INDUCING, N_PATHS, N_STEPS = 10_000, 32, 1000, 400
# voltage, recovery, current
LOW, HIGH = np.array([-2.5, -1.5, 0.0]), np.array([2.5, 2.5, 1.0])
START = np.array([-1.0, -0.5])


def drift(inputs: np.ndarray) -> np.ndarray:
    """Velocity of states with their currents (n, 3), shape (n, 2)."""
    v, w, current = inputs.T
    return np.column_stack((v - v**3 / 3.0 - w + current, 0.08 * (v + 0.7 - 0.8 * w)))


def current(t: float) -> float:
    """Sinusoidal control, in two periods over 100 units of time."""
    return float(0.5 + 0.5 * np.sin(2.0 * np.pi * t / 50.0))


def scaled(inputs: np.ndarray) -> np.ndarray:
    """Inputs in the unit cube."""
    k = inputs.shape[1]
    unit: np.ndarray = (inputs - LOW[:k]) / (HIGH[:k] - LOW[:k])
    return unit


def true_paths(rng: np.random.Generator) -> np.ndarray:
    """Euler-Maruyama paths of the true system, (n_steps + 1, n_paths, 2)."""
    paths = np.empty((N_STEPS + 1, N_PATHS, 2))
    paths[0] = START
    for i in range(N_STEPS):
        control = np.full((N_PATHS, 1), current(STEP * i))
        velocity = drift(np.hstack((paths[i], control)))
        kick = DIFFUSION * np.sqrt(STEP) * rng.standard_normal((N_PATHS, 2))
        paths[i + 1] = paths[i] + STEP * velocity + kick
    return paths


def learned_paths(rng: np.random.Generator) -> tuple[np.ndarray, float, float]:
    """Paths of draws of the learned drift, and CPU seconds of fits and simulation."""
    X = rng.uniform(LOW, HIGH, size=(N_ROWS, 3))
    noise = DIFFUSION / np.sqrt(STEP) * rng.standard_normal((N_ROWS, 2))
    increments = drift(X) + noise
    begin = time.process_time()
    width = (HIGH - LOW)[:2]
    # velocities of the states in the unit square
    models = [
        DecoupledSampler(
            PLSRegressor(
                ConstantKernel() * Matern(np.ones(3), nu=2.5),
                n_inducing=N_INDUCING,
                n_neighbors=0,
                random_state=0,
            )
        ).fit(scaled(X), column)
        for column in (increments / width).T
    ]
    fitted = time.process_time()
    draws = [
        model.sample_functions(N_PATHS, random_state=i)
        for i, model in enumerate(models)
    ]
    paths = simulate_sde(
        draws,
        scaled(START[np.newaxis])[0],
        STEP * np.arange(N_STEPS + 1),
        DIFFUSION / width,
        controls=lambda t: [current(t)],
        random_state=0,
    )
    simulated = time.process_time()
    return LOW[:2] + width * paths, fitted - begin, simulated - fitted


def distance(first: np.ndarray, second: np.ndarray) -> float:
    """2-Wasserstein distance of two clouds of scaled states (s, 2)."""
    cost = cdist(scaled(first), scaled(second), "sqeuclidean")
    return float(np.sqrt(cost[linear_sum_assignment(cost)].mean()))


def main() -> None:
    """Quartiles of the voltage, distances of the clouds, times."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plot", action="store_true")
    plot = parser.parse_args().plot
    rng = np.random.default_rng(0)
    truth, again = true_paths(rng), true_paths(rng)
    ours, fit_seconds, simulation_seconds = learned_paths(rng)
    print(f"CPU seconds: fits {fit_seconds:.1f}, simulation {simulation_seconds:.1f}")
    t = STEP * np.arange(N_STEPS + 1)
    print("   t   quartiles of the voltage: true, learned     distance   floor")
    quartiles = [
        np.quantile(paths[:, :, 0], (0.25, 0.5, 0.75), axis=1)
        for paths in (truth, ours)
    ]
    for i in range(50, N_STEPS + 1, 50):
        numbers = "".join(f"{x:7.2f}" for part in quartiles for x in part[:, i])
        far, floor = distance(truth[i], ours[i]), distance(truth[i], again[i])
        print(f"{t[i]:5.1f} {numbers}{far:11.3f}{floor:8.3f}")
    every = range(20, N_STEPS + 1, 20)
    means = [
        np.mean([distance(truth[i], other[i]) for i in every])
        for other in (ours, again)
    ]
    error = np.mean(np.abs(quartiles[0] - quartiles[1]), axis=1)
    spread = truth[:, :, 0].std()
    print("mean distance {:.3f}, floor {:.3f}".format(*means))
    print("mean error of the quartiles {:.3f}, {:.3f}, {:.3f}".format(*error), end="")
    print(f"; standard deviation of the voltage {spread:.2f}")
    if plot:
        show(t, quartiles)


def show(t: np.ndarray, quartiles: list[np.ndarray]) -> None:
    """Quartiles of the voltage over time, and the control."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.0, 3.5), layout="constrained")
    for name, color, parts in zip(
        ("true", "learned"), ("0.4", "C0"), quartiles, strict=True
    ):
        axis.fill_between(t, parts[0], parts[2], color=color, alpha=0.3, label=name)
        axis.plot(t, parts[1], color=color)
    axis.plot(t, [current(now) for now in t], "k--", lw=1.0, label="current")
    axis.set(xlabel="time", ylabel="voltage")
    axis.legend(ncols=3)
    figure.show()
    plt.show()


if __name__ == "__main__":
    main()
