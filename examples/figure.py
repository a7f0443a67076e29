"""Four posteriors that are not Gaussian: the figure of README and of the first page.

python examples/figure.py [docs/images/demo.png]
"""

import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from sklearn.datasets import make_moons
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import Poisson, ShiftedMixture, StudentT

INK, MUTED, GREY = "#1d2733", "#5c6a79", "#9aa5b1"
BLUE, ORANGE = "#1f6fb4", "#d9661f"
MODES = BLUE, ORANGE, "#2a9d8f", "#8e5bb5"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


def draw_figure(path):
    """Fit the four models and write the picture."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 2, figsize=(11.0, 7.6), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        outliers(axes[0, 0])
        counts(axes[0, 1])
        two_explanations(axes[1, 0])
        boundary(axes[1, 1])
        figure.savefig(path, dpi=150, facecolor="white")
        plt.close(figure)


def title(ax, headline, detail):
    """A headline in ink and one line of explanation below it."""
    ax.set_title(headline, loc="left", fontsize=12, fontweight="bold", pad=22)
    ax.text(0.0, 1.025, detail, transform=ax.transAxes, color=MUTED, fontsize=9)


def gaussian_band(ax, X, y, grid):
    """95 % interval of scikit-learn's regressor, dashed."""
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.5)
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2)
    mean, std = model.set_params(random_state=0).fit(X, y).predict(grid, True)
    for sign in (-1.96, 1.96):
        ax.plot(grid, mean + sign * std, color=GREY, lw=1.0, ls=(0, (4, 3)), zorder=1)


def legend(ax, entries, **options):
    """Legend of (label, keywords of a line)."""
    lines = [Line2D([], [], label=label, **style) for label, style in entries]
    ax.legend(handles=lines, handlelength=1.6, **options)


DRAWS = "function draws", {"color": BLUE, "lw": 0.9, "alpha": 0.6}
MEAN = "mean", {"color": BLUE, "lw": 2.2}
BAND = "95 % interval", {"color": BLUE, "lw": 7, "alpha": 0.18}
PEER = "95 % GaussianProcessRegressor", {"color": GREY, "lw": 1.0, "ls": (0, (4, 3))}
DATA = {"marker": "o", "ls": "", "ms": 3.4, "color": INK}


def outliers(ax):
    """Student-t noise: a few outliers neither bend the mean nor widen the band."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0.0, 10.0, 110))
    y = np.sin(x) + 0.3 * x + 0.15 * rng.standard_normal(len(x))
    wild = rng.choice(len(x), 14, replace=False)
    y[wild] += rng.choice([-1.0, 1.0], 14) * rng.uniform(1.5, 4.0, 14)
    X, grid = x[:, np.newaxis], np.linspace(-0.5, 12.0, 300)[:, np.newaxis]
    model = PLSRegressor(likelihood=StudentT(df=2.5), random_state=0).fit(X, y)
    gaussian_band(ax, X, y, grid)
    low, high = model.predict_interval(grid, 0.95).T
    ax.fill_between(grid[:, 0], low, high, color=BLUE, alpha=0.18, lw=0)
    draws = model.sample_functions(12, random_state=0)(grid)
    ax.plot(grid, draws, color=BLUE, lw=0.7, alpha=0.45)
    ax.plot(grid, model.predict(grid), **MEAN[1])
    ax.plot(x, y, **DATA)
    ax.set(xlim=(-0.5, 12.0), ylim=(-3.5, 8.5))
    title(ax, "Outliers", "Student-t noise: outliers do not widen the interval")
    legend(ax, [MEAN, DRAWS, BAND, PEER], loc="upper left")


def counts(ax):
    """Poisson counts: intervals are whole numbers and never negative."""
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(0.0, 10.0, 140))
    rate = 0.3 + 9.0 * np.exp(-0.5 * ((x - 3.0) / 0.8) ** 2)
    rate += 4.0 * np.exp(-0.5 * ((x - 7.5) / 0.6) ** 2)
    y = rng.poisson(rate)
    X, grid = x[:, np.newaxis], np.linspace(0.0, 10.0, 300)[:, np.newaxis]
    model = PLSRegressor(likelihood=Poisson(), random_state=0).fit(X, y)
    gaussian_band(ax, X, y, grid)
    low, high = model.predict_interval(grid, 0.95).T
    ax.fill_between(grid[:, 0], low, high, color=BLUE, alpha=0.18, lw=0, step="mid")
    latent = model.sample_functions(12, random_state=0)(grid)
    ax.plot(grid, model.likelihood_.mean(latent), color=BLUE, lw=0.7, alpha=0.45)
    ax.plot(grid, model.predict(grid), **MEAN[1])
    ax.plot(x, y, **DATA)
    ax.axhline(0.0, color=GREY, lw=0.8)
    ax.set(xlim=(0.0, 10.0), ylim=(-4.5, 17.0), yticks=range(0, 17, 4))
    title(ax, "Counts", "Poisson: intervals are whole numbers, never below zero")


def two_explanations(ax):
    """Readings that may be off by a known amount: each cluster has two explanations."""
    rng = np.random.default_rng(8)
    x = np.concatenate((rng.uniform(0.0, 2.2, 12), rng.uniform(4.5, 7.0, 12)))
    wave = np.where(x < 3.0, np.sin(2.8 * x), -np.sin(2.5 * (x - 4.5)))
    y = 1.0 + 0.35 * wave + 0.2 * rng.standard_normal(len(x))
    model = PLSRegressor(
        ConstantKernel(1.0, "fixed") * RBF(1.2, "fixed"),
        likelihood=ShiftedMixture(shift=2.0, noise_variance=0.04),
        method="smc",
        n_particles=1000,
        normalize_y=False,
        random_state=0,
    ).fit(x[:, np.newaxis], y)
    grid = np.linspace(-0.8, 7.8, 300)[:, np.newaxis]
    functions = model.sample_functions(80, random_state=1)
    left, right = functions(np.array([[1.1], [5.7]])) > 0.0
    draws = functions(grid)
    for mode, color in zip(((1, 1), (0, 0), (1, 0), (0, 1)), MODES, strict=True):
        chosen = (left == mode[0]) & (right == mode[1])
        ax.plot(grid, draws[:, chosen], color=color, lw=0.8, alpha=0.55)
    ax.plot(x, y, **DATA)
    ax.set(xlim=(-0.8, 7.8), ylim=(-3.2, 3.2))
    title(ax, "Several explanations", "Readings either right or 2 too high: four modes")


def boundary(ax):
    """Two classes: the probability, and the boundaries of twenty function draws."""
    X, y = make_moons(90, noise=0.28, random_state=4)
    model = PLSClassifier(random_state=0).fit(X, y)
    u, v = np.linspace(-2.2, 3.2, 120), np.linspace(-1.9, 2.4, 100)
    grid = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
    shape = len(v), len(u)
    colors = LinearSegmentedColormap.from_list("classes", [ORANGE, "#ffffff", BLUE])
    proba = model.predict_proba(grid)[:, 1].reshape(shape)
    levels = np.linspace(0.0, 1.0, 21)
    ax.contourf(u, v, proba, levels, cmap=colors, alpha=0.75)
    for draw in model.sample_functions(20, random_state=0)(grid).T:
        ax.contour(u, v, draw.reshape(shape), [0.0], colors=INK, linewidths=0.5)
    for label, color in ((0, ORANGE), (1, BLUE)):
        ax.plot(*X[y == label].T, "o", ms=4.5, color=color, mec="white", mew=0.6)
    title(ax, "Classes", "Probability, and where twenty function draws change sign")


if __name__ == "__main__":
    draw_figure(sys.argv[1] if len(sys.argv) > 1 else "figure.png")
