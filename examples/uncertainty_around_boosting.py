"""What a law around a boosted mean adds to it: doubt where there are no data.

    python examples/uncertainty_around_boosting.py [figure.png]

Left, one input with a gap: boosting says nothing of its error there, or beyond the
data; the law around it widens, and its draws are functions. Right, five inputs, of
which one goes beyond what was seen: errors grow with the distance, and the standard
deviation with them, though too slowly: y is smooth, which the kernel learns, and
boosting is not. A constant one, right inside, covers less.
"""

import sys

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgpx import GWIRegressor

BLUE, ORANGE, INK, GREY = "#1f6fb4", "#d9661f", "#1d2733", "#9aa5b1"
GRID = np.linspace(-2.0, 12.0, 500)[:, np.newaxis]
EDGE = 0.75


def curve():
    """Rows of one input, none between 4 and 6.5, and the model."""
    rng = np.random.default_rng(0)
    x = np.concatenate((rng.uniform(0.0, 4.0, 180), rng.uniform(6.5, 10.0, 160)))
    y = np.sin(1.5 * x) + 0.2 * x + 0.25 * rng.standard_normal(len(x))
    boosting = HistGradientBoostingRegressor(max_iter=60, random_state=0)
    kernel = ConstantKernel() * Matern(1.0, nu=1.5)
    model = GWIRegressor(boosting, kernel, random_state=0)
    return x, y, model.fit(x[:, np.newaxis], y)


def outside():
    """Friedman's five inputs: fitted below the edge of the fourth, judged all over."""
    X, y = make_friedman1(6000, n_features=5, noise=1.0, random_state=0)
    train = np.flatnonzero(X[:, 3] < EDGE)[:800]
    # as rough as boosting: a smooth kernel would take it to extrapolate, too
    kernel = ConstantKernel() * Matern(np.ones(5), nu=0.5)
    model = GWIRegressor(HistGradientBoostingRegressor(), kernel, random_state=0)
    model.fit(X[train], y[train])
    test = np.setdiff1d(np.arange(len(y)), train)
    mean, std = model.predict(X[test], return_std=True)
    constant = np.sqrt(model.noise_variance_ / model.temper_[0])
    return X[test, 3], y[test] - mean, std, constant


def binned(position, values, n_bins=16):
    """Centres of bins and root mean squares of the values there."""
    ends = np.linspace(0.0, 1.0, n_bins + 1)
    which = np.clip(np.digitize(position, ends) - 1, 0, n_bins - 1)
    squares = [np.mean(values[which == b] ** 2) for b in range(n_bins)]
    return 0.5 * (ends[1:] + ends[:-1]), np.sqrt(squares)


def main():
    """Print coverage; a figure on request."""
    position, error, std, constant = outside()
    for name, rows in (("inside", position < EDGE), ("outside", position >= EDGE)):
        law = np.mean(np.abs(error[rows]) < 1.96 * std[rows])
        flat = np.mean(np.abs(error[rows]) < 1.96 * constant)
        print(f"95 % intervals {name}: {law:.2f}, with a constant width {flat:.2f}")
    if len(sys.argv) > 1:
        draw(curve(), (position, error, std, constant), sys.argv[1])


def draw(one, many, path):
    """Intervals and draws of the curve; errors and standard deviations outside."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    x, y, model = one
    axis, grid = axes[0], GRID[:, 0]
    low, high = model.predict_interval(GRID, 0.95).T
    axis.fill_between(grid, low, high, color=BLUE, alpha=0.15, lw=0, label="95 %")
    draws = model.sample_functions(6, random_state=0)(GRID)
    axis.plot(grid, draws, color=BLUE, lw=0.6, alpha=0.6)
    mean = model.predict(GRID)
    axis.plot(grid, mean, color=BLUE, lw=1.8, label="boosting")
    half = 1.96 * np.sqrt(model.noise_variance_ / model.temper_[0])
    for sign in (-1.0, 1.0):
        label = "constant width" if sign > 0 else None
        axis.plot(grid, mean + sign * half, color=GREY, lw=0.9, ls="--", label=label)
    axis.plot(x, y, ".", color=INK, ms=2.5)
    axis.set(title="A gap, and no data beyond the edges", xlabel="x", ylabel="y")
    axis.legend(loc="upper left", frameon=False)
    position, error, std, constant = many
    axis = axes[1]
    axis.axvspan(EDGE, 1.0, color=ORANGE, alpha=0.08, lw=0)
    axis.plot(*binned(position, error), "o-", color=INK, ms=4, label="error, RMS")
    axis.plot(*binned(position, std), color=BLUE, lw=2, label="standard deviation")
    axis.axhline(constant, color=GREY, ls="--", lw=1.0, label="constant")
    axis.text(EDGE + 0.01, 0.15, "not seen", color=ORANGE)
    axis.set(
        title="Errors grow, and so does doubt: too slowly here", xlabel="fourth input"
    )
    axis.set(ylim=(0.0, None), xlim=(0.0, 1.0))
    axis.legend(loc="upper left", frameon=False)
    plt.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
