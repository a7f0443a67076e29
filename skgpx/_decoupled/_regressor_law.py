"""What a regressor says of functions: their law, its kernel, and the noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel

from skgpx._decoupled._exact import ExactPosterior, regressor_posterior
from skgpx._decoupled._sparse_process import SparseProcess
from skgpx._draws import check_sections
from skgpx._latent import LatentModel
from skgpx._validation import check_kernel

Array = NDArray[np.float64]


def check_kernel_of(estimator: Any, X: Array) -> None:
    """Refuse a kernel, fitted or not, that no sections can be made of."""
    kernel = getattr(estimator, "kernel_", getattr(estimator, "kernel", None))
    if isinstance(kernel, Kernel):
        check_kernel(kernel, X)
        check_sections(kernel, X)


def posterior_of(
    estimator: Any, n_features: int
) -> ExactPosterior | LatentModel | None:
    """Law of the functions; None for an estimator with `sample_functions`."""
    if isinstance(estimator, SparseProcess):
        return estimator.model
    if isinstance(estimator, GaussianProcessRegressor):
        return regressor_posterior(estimator, n_features)
    return None


def kernel_of(estimator: Any, posterior: Any) -> Any:
    """Kernel of the regressor, white noise included; None if it has none."""
    if isinstance(posterior, ExactPosterior):
        return posterior.full_kernel
    return getattr(estimator, "kernel_", None)


def noise_variance_of(estimator: Any, posterior: Any) -> Callable[[Array], Array]:
    """Function that gives the noise variance of observations at rows, (n, c)."""
    if isinstance(estimator, SparseProcess):
        return estimator.noise_variance_at
    noise: Callable[[Array], Array] = posterior.noise_variance
    return noise
