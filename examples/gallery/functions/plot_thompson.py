"""
Minimise an expensive function by Thompson sampling
===================================================

An expensive function of six inputs is minimised with four evaluations at a time. Each
of the four proposals of a round is the minimum of its own draw from the posterior. The
draws are functions with gradients, so that their minima are found by descent. (By
default ``ThompsonSampler`` proposes where the expected improvement is largest.)
"""

# %%
# The function
# ------------
# The Hartmann function has four wells of different depth; its smallest value is -3.32.
import matplotlib.pyplot as plt
import numpy as np

from skgpx.thompson import ThompsonSampler

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
    squares = (X[:, np.newaxis] - CENTRES) ** 2
    return -np.exp(-np.sum(CURVATURES * squares, axis=2)) @ DEPTHS


# %%
# Ask and tell
# ------------
# The sampler never calls the function. Results are passed to ``tell``, late, in any
# order, or not at all. The first proposals are a scrambled Sobol design.
SEEDS = 0, 1
ROUNDS, BATCH = 20, 4
bounds = [(0.0, 1.0)] * 6
runs = []
for seed in SEEDS:
    optimizer = ThompsonSampler(
        bounds,
        acquisition="thompson",
        refit_every=2,
        n_mesh=2000,
        random_state=seed,
    )
    values = []
    for _ in range(ROUNDS):
        X = optimizer.ask(BATCH)
        y = hartmann(X)
        optimizer.tell(X, y)
        values.extend(y)
    runs.append(np.minimum.accumulate(values))
    print(f"seed {seed}: smallest value {runs[-1][-1]:.3f}")

# %%
# Beside random search
# --------------------
# The figure shows the smallest value so far, beside that of as many random points.
evaluations = np.arange(1, ROUNDS * BATCH + 1)
rng = np.random.default_rng(0)
luck = hartmann(rng.random((200 * len(evaluations), 6))).reshape(200, -1)
luck = np.minimum.accumulate(luck, axis=1)
figure, axis = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
low, middle, high = np.quantile(luck, (0.05, 0.5, 0.95), axis=0)
axis.fill_between(evaluations, low, high, color="0.85", label="random points, 90 %")
axis.plot(evaluations, middle, "0.5", ls="--", label="their median")
for seed, run in enumerate(runs):
    label = "Thompson sampling, two seeds" if seed == 0 else None
    axis.step(evaluations, run, "C0", where="post", label=label)
axis.axhline(-3.32, color="k", lw=0.8, ls=":", label="minimum")
axis.set(xlabel="evaluations", ylabel="smallest value so far")
axis.legend()
plt.show()
