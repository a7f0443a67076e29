"""A Matérn 3/2 process with noise by celerite2's compiled solver."""

from __future__ import annotations

from collections.abc import Callable

import celerite2
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]

# Step of the differences that stand for a gradient: the log likelihood of a million
# rows has an error by rounding of 1e-9 a row.
STEP = 1e-4


def process(t: Array, log_parameters: Array) -> celerite2.GaussianProcess:
    """The process at sorted times.

    Parameters
    ----------
    t : ndarray of shape (n,)
    log_parameters : ndarray of shape (3,)
        Logarithms of the standard deviation, the lengthscale and the noise variance.
    """
    sigma, rho, noise = np.exp(log_parameters)
    kernel = celerite2.terms.Matern32Term(sigma=sigma, rho=rho)
    model = celerite2.GaussianProcess(kernel, mean=0.0)
    model.compute(t, diag=np.full(len(t), noise), check_sorted=False)
    return model


def log_likelihood(t: Array, y: Array, log_parameters: Array) -> float:
    """Of values y (n,) at sorted times."""
    return float(process(t, log_parameters).log_likelihood(y))


def fit(t: Array, y: Array, start: Array) -> tuple[celerite2.GaussianProcess, float]:
    """The process of the largest likelihood, and how often that was computed."""
    centre = y.mean()

    def loss(log_parameters: Array) -> float:
        try:
            return -log_likelihood(t, y - centre, log_parameters) / len(t)
        except celerite2.backprop.LinAlgError:
            return 1e10

    found = minimize(loss, start, method="L-BFGS-B", options={"eps": STEP})
    return process(t, found.x), found.nfev


def predictor(
    model: celerite2.GaussianProcess, y: Array
) -> Callable[[Array, bool], tuple[Array, Array | None]]:
    """Mean of the function, and if asked for its variance, at some times."""
    centre = y.mean()

    def predict(times: Array, with_variance: bool) -> tuple[Array, Array | None]:
        if not with_variance:
            return centre + model.predict(y - centre, t=times), None
        mean, variance = model.predict(y - centre, t=times, return_var=True)
        return centre + mean, variance

    return predict
