"""Learned frequencies of a series of three cycles, with a gap: its fit and spectrum.

    python examples/learned_spectrum.py [FILE]

Without FILE the figure is shown.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skgpx import SteinRFFRegressor

CYCLES, SIZES = np.array([0.31, 0.83, 1.27]), np.array([1.0, 0.7, 0.5])


def series() -> tuple[np.ndarray, np.ndarray]:
    """Times with a gap, and noisy sums of three cycles."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 20.0, 300))
    t = t[(t < 9.0) | (t > 12.0)]
    return t[:, np.newaxis], signal(t) + 0.3 * rng.standard_normal(len(t))


def signal(t: np.ndarray) -> np.ndarray:
    """The sum without its noise."""
    return np.sin(2.0 * np.pi * np.outer(t, CYCLES)) @ SIZES


def main() -> None:
    """Fit with and without learning, and draw both."""
    X, y = series()
    # a kernel that says only how fast the function may vary
    settings = {"kernel": RBF(0.2), "optimizer": None, "noise_variance": 0.09}
    settings |= {"n_frequencies": 30, "random_state": 0}
    models = {
        "fixed": SteinRFFRegressor(max_iter=0, **settings),
        "learned": SteinRFFRegressor(repulsion=0.1, **settings),
    }
    grid = np.linspace(0.0, 20.0, 800)
    figure, axes = plt.subplots(2, 2, figsize=(9.0, 5.0), sharex="col")
    for (name, model), (left, right) in zip(models.items(), axes, strict=True):
        model.fit(X, y)
        mean = model.predict(grid[:, np.newaxis])
        low, high = model.predict_interval(grid[:, np.newaxis], 0.95).T
        left.fill_between(grid, low, high, alpha=0.25, lw=0.0)
        left.plot(grid, mean)
        left.plot(grid, signal(grid), "k:", lw=0.8)
        left.plot(X[:, 0], y, "k.", ms=2.0)
        error = np.sqrt(np.mean((mean - signal(grid)) ** 2))
        left.set_title(f"{name} frequencies: error {error:.2f}", fontsize=10)
        cycles = np.abs(model.frequencies_).ravel() / (2.0 * np.pi)
        right.vlines(cycles, 0.0, model.spectrum_.ravel(), lw=1.2)
        right.plot(CYCLES, np.zeros(3), "r^", clip_on=False)
        right.set_ylabel("mean square")
    axes[1, 0].set_xlabel("time")
    axes[1, 1].set_xlabel("cycles per unit of time")
    axes[1, 1].set_xlim(0.0, 2.5)
    figure.tight_layout()
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=110)
    else:
        plt.show()


if __name__ == "__main__":
    main()
