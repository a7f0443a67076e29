"""Frequencies that are spread by Stein descent, and what they are good for.

    python examples/stein_features.py figure.png

The figure: independent, Halton and Stein frequencies of an RBF of two
inputs, and the error of the Gram matrix against the number of frequencies.
"""

import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem

from skgpx import SteinFourierFeatures

METHODS = {"mc": "#9aa5b1", "halton": "#d9661f", "stein": "#1f6fb4"}
NAMES = {"mc": "independent", "halton": "Halton", "stein": "Stein"}
SIZES = (10, 20, 50, 100, 200)


def error(kernel, X, transformer):
    """Relative Frobenius error of the Gram matrix."""
    Z, K = transformer.fit_transform(X), kernel(X)
    return np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)


def mean_errors(kernel, X, make):
    """Means over five seeds, for each size."""
    return [
        np.mean([error(kernel, X, make(size, seed)) for seed in range(5)])
        for size in SIZES
    ]


def show_frequencies(ax, X, method):
    """Frequencies and their mirror images, which are the same waves."""
    model = SteinFourierFeatures(RBF(), method=method, random_state=0).fit(X)
    for sign, alpha in ((1.0, 1.0), (-1.0, 0.3)):
        points = sign * model.frequencies_
        ax.plot(*points.T, "o", ms=3.0, mew=0.0, color=METHODS[method], alpha=alpha)
    ax.set(xlim=(-3.4, 3.4), ylim=(-3.4, 3.4), aspect="equal", xlabel="ω₁")
    ax.set_title(NAMES[method], loc="left")


def show_errors(ax, X, d):
    """Errors against the number of frequencies, Nystroem with as many columns."""
    kernel = RBF(np.sqrt(d))
    for method, color in METHODS.items():

        def make(size, seed, method=method):
            return SteinFourierFeatures(
                kernel, n_frequencies=size, method=method, random_state=seed
            )

        errors = mean_errors(kernel, X, make)
        ax.loglog(SIZES, errors, "o-", ms=3, color=color, label=NAMES[method])

    def nystroem(size, seed):
        return Nystroem(kernel, n_components=2 * size, random_state=seed)

    errors = mean_errors(kernel, X, nystroem)
    ax.loglog(SIZES, errors, "k--", lw=1, label="Nyström, 2R columns")
    ax.set(xlabel="frequencies R", ylim=(1e-4, 1.0), xticks=SIZES, xticklabels=SIZES)
    ax.minorticks_off()
    ax.set_title(f"error of the Gram matrix, d = {d}", loc="left")


def main(path):
    """Draw five panels."""
    figure, axes = plt.subplots(1, 5, figsize=(16.0, 3.5), layout="constrained")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2)) * np.sqrt(0.5)
    for ax, method in zip(axes, METHODS, strict=False):
        show_frequencies(ax, X, method)
    axes[0].set_ylabel("ω₂")
    for ax, d in zip(axes[3:], (2, 8), strict=True):
        show_errors(ax, rng.normal(size=(500, d)), d)
    axes[4].legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(path, dpi=110, facecolor="white")


if __name__ == "__main__":
    main(sys.argv[1])
