"""scikit-learn's exact Gaussian processes, fitted as a careful user would."""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel


class Prediction(NamedTuple):
    """What a fitted model says of the test rows, and what it cost.

    ``mean`` and ``std`` are those of y, noise included; for a classifier ``mean`` holds
    the probabilities, (n, n_classes), and ``std`` is empty.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    fit_seconds: float
    predict_seconds: float
    n_rows_used: int


def _kernel(X: NDArray[np.float64]) -> Kernel:
    start = np.full(X.shape[1], 2.0 * np.sqrt(X.shape[1]))
    return ConstantKernel(1.0, (1e-3, 1e3)) * RBF(start, (1e-2, 1e3))


def _subset(n: int, max_rows: int, seed: int) -> NDArray[np.intp]:
    """At most ``max_rows`` rows: the exact model costs the cube of their number."""
    return np.random.default_rng(seed).permutation(n)[:max_rows]


def regressor(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    X_test: NDArray[np.float64],
    max_rows: int = 2000,
    seed: int = 0,
) -> Prediction:
    """Anisotropic RBF plus white noise, two restarts, on standardised data."""
    rows = _subset(len(y), max_rows, seed)
    kernel = _kernel(X) + WhiteKernel(0.1, (1e-6, 1e1))
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=1, random_state=seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[rows], y[rows])
    fitted = time.perf_counter()
    mean, std = model.predict(X_test, return_std=True)
    done = time.perf_counter()
    return Prediction(mean, std, fitted - start, done - fitted, len(rows))


def classifier(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    X_test: NDArray[np.float64],
    max_rows: int = 1000,
    seed: int = 0,
) -> Prediction:
    """Isotropic RBF, Laplace approximation, one against the rest."""
    rows = _subset(len(y), max_rows, seed)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.sqrt(X.shape[1]), (1e-2, 1e3))
    model = GaussianProcessClassifier(kernel, random_state=seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[rows], y[rows])
    fitted = time.perf_counter()
    mean = model.predict_proba(X_test)
    done = time.perf_counter()
    return Prediction(mean, np.empty(0), fitted - start, done - fitted, len(rows))
