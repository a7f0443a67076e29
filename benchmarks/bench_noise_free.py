"""Functions without noise, against scikit-learn's Gaussian process.

    python -m benchmarks.bench_noise_free

Standard test functions of optimisation and regression at the points of Sobol's
sequence; errors at 2000 other points, in units of the standard deviation of y, the
coverage of 90 % intervals, and CPU seconds. The kernels of scikit-learn's process have
one lengthscale a column and bounds from 1e-2 to 1e3; it restarts its search twice.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy.stats import qmc
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpx import DecoupledSampler, PLSRegressor


def rosenbrock(X):
    """Rosenbrock's function on [-2, 2]²."""
    x, y = 4.0 * X.T - 2.0
    return (1.0 - x) ** 2 + 100.0 * (y - x**2) ** 2


def branin(X):
    """Branin's function, in units of its box."""
    x, y = 15.0 * X[:, 0] - 5.0, 15.0 * X[:, 1]
    ring = y - 5.1 / (4.0 * np.pi**2) * x**2 + 5.0 / np.pi * x - 6.0
    return ring**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x) + 10.0


def friedman(X):
    """Friedman's function of five columns of the unit cube."""
    wave = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1])
    return wave + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3] + 5.0 * X[:, 4]


def kinked(X):
    """A function with two kinks."""
    return np.abs(X[:, 0] - 0.4) + np.abs(X[:, 1] - X[:, 0])


CASES = {
    "Rosenbrock": (rosenbrock, 2, 128),
    "Branin": (branin, 2, 64),
    "Friedman": (friedman, 6, 128),
    "two kinks": (kinked, 2, 128),
}


def exact(shape):
    """scikit-learn's process with one lengthscale a column."""
    kernel = ConstantKernel(1.0, (1e-3, 1e6)) * shape
    process = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0
    )
    return make_pipeline(StandardScaler(), process)


def models(d):
    """Name, model and what its fit is given."""
    bounds = (1e-2, 1e3)
    return {
        "PLSRegressor": (PLSRegressor(random_state=0), {}),
        "PLSRegressor, noise_variance=0": (
            PLSRegressor(random_state=0),
            {"noise_variance": 0.0},
        ),
        "DecoupledSampler": (DecoupledSampler(random_state=0), {}),
        "scikit-learn, RBF": (exact(RBF(np.ones(d), bounds)), {}),
        "scikit-learn, Matern 5/2": (exact(Matern(np.ones(d), bounds, 2.5)), {}),
    }


def main():
    """Print one line for each function and model."""
    for name, (function, d, n) in CASES.items():
        points = qmc.Sobol(d, seed=0).random(n)
        new = np.random.default_rng(1).uniform(size=(2000, d))
        y, truth = function(points), function(new)
        line = f"{name}, {n} rows of {d} columns, sd of y {y.std():.3g}"
        print(line)  # noqa: T201
        for title, (model, given) in models(d).items():
            seconds = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(points, y, **given)
                mean, std = model.predict(new, return_std=True)
            seconds = time.process_time() - seconds
            error = np.sqrt(np.mean((mean - truth) ** 2)) / y.std()
            inside = np.mean(np.abs(mean - truth) <= 1.645 * std)
            line = f"  {title:32} {error:9.2g}  {inside:5.2f}  {seconds:5.1f} s"
            print(line)  # noqa: T201


if __name__ == "__main__":
    main()
