"""What few inducing variables do to credible sets: wider, and still honest.

    python examples/credible_sets.py [figure.png]

One rough prior, four kinds of inducing variables, m = 30 and 60, beside the exact
posterior: how much wider the standard deviations are, how much of the curve the
pointwise bands cover, and the radius of the 95 % ball.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgpx import SpectralVGPRegressor

NOISE = 0.01
KERNEL = ConstantKernel(0.3, "fixed") * Matern(0.2, "fixed", nu=0.5)
GRID = np.linspace(0.0, 1.0, 500)[:, np.newaxis]
KINDS = {
    "Fourier": {"basis": "fourier"},
    "empirical": {"basis": "empirical"},
    "equispaced": {"basis": "inducing", "inducing": "equispaced"},
    "m-DPP": {"basis": "inducing", "inducing": "dpp"},
}


def truth(X):
    """A curve with kinks, about as rough as the prior."""
    x = X[:, 0]
    return np.abs(np.sin(9.0 * x)) + 0.4 * np.abs(np.cos(31.0 * x))


def main():
    """Fit all, print the table; a figure on request."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 1))
    y = truth(X) + np.sqrt(NOISE) * rng.standard_normal(len(X))
    y -= truth(GRID).mean()
    f = truth(GRID) - truth(GRID).mean()
    exact = GaussianProcessRegressor(KERNEL, alpha=NOISE, optimizer=None).fit(X, y)
    mean, std = exact.predict(GRID, return_std=True)
    posteriors = {"exact": (mean, std)}
    print("variables        m  std/exact  pointwise  radius   loss   fit")
    print(f"{'exact':12s} {'':5s} {1.0:9.2f} {covered(f, mean, std):10.3f}")
    settings = {
        "noise_variance": NOISE, "optimizer": None, "normalize_y": False,
        "random_state": 0, "domain": (0.0, 1.0),
    }  # fmt: skip
    for m in (30, 60):
        for name, kind in KINDS.items():
            model = SpectralVGPRegressor(KERNEL, n_basis=m, **kind, **settings)
            start = time.perf_counter()
            with warnings.catch_warnings():
                # m is far below the elbow: the model says what is left to the tail
                warnings.simplefilter("ignore", UserWarning)
                model.fit(X, y)
            seconds = time.perf_counter() - start
            found = model.predict(GRID, return_std=True, include_noise=False)
            posteriors[f"{name}, m = {m}"] = found
            loss = np.sqrt(np.mean((found[0] - f) ** 2))
            print(
                f"{name:12s} {m:5d} {np.mean(found[1] / std):9.2f} "
                f"{covered(f, *found):10.3f} {model.credible_ball(0.95):7.3f} "
                f"{loss:6.3f} {seconds:4.2f} s"
            )
    if len(sys.argv) > 1:
        draw(posteriors, f, sys.argv[1])


def covered(f, mean, std):
    """Part of the curve within pointwise 95 % bands."""
    return np.mean(np.abs(mean - f) <= 1.96 * std)


def draw(posteriors, f, path):
    """Bands of a few of the posteriors around the curve."""
    import matplotlib.pyplot as plt

    chosen = ("exact", "Fourier, m = 30", "Fourier, m = 60", "m-DPP, m = 60")
    _, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained", sharey=True)
    for axis, name in zip(axes.ravel(), chosen, strict=True):
        mean, std = posteriors[name]
        axis.fill_between(
            GRID[:, 0], mean - 1.96 * std, mean + 1.96 * std, color="C0", alpha=0.3
        )
        axis.plot(GRID[:, 0], mean, color="C0", linewidth=0.8)
        axis.plot(GRID[:, 0], f, color="k", linewidth=0.8)
        axis.set_title(name)
    plt.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
