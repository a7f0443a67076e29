"""Regressors whose functions can be drawn: the default, and what is asked of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel, WhiteKernel

from skgpx._decoupled._exact import ExactPosterior, regressor_posterior
from skgpx._decoupled._sparse_process import SparseProcess
from skgpx._draws import check_sections
from skgpx._latent import LatentModel
from skgpx._pls import PLSRegressor
from skgpx._selection import PriorSettings, SearchRecord, fit_prior
from skgpx._validation import canonical_rows, check_kernel, generator, warn
from skgpx._wrapped import is_search
from skgpx.exceptions import FitWarning
from skgpx.kernels import default_kernel
from skgpx.likelihoods import Gaussian

# ---- What a regressor says of functions: their law, its kernel, and the noise --------


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


# ---- Which estimators functions can be drawn from ------------------------------------


def check_drawable(estimator: Any) -> None:
    """Refuse estimators that functions cannot be drawn from.

    Raises
    ------
    ValueError
        With a message that says what to do instead.
    """
    if isinstance(estimator, GaussianProcessRegressor | SparseProcess):
        return
    if is_search(estimator):
        check_drawable(estimator.estimator)
        return
    if isinstance(estimator, type):
        raise ValueError(
            f"DecoupledSampler expects an estimator; got the class "
            f"{estimator.__name__}. Call it: {estimator.__name__}()."
        )
    expected = (
        "DecoupledSampler expects a GaussianProcessRegressor, or a regressor with a "
        f"method sample_functions; got {estimator!r}. "
    )
    if hasattr(estimator, "steps"):
        raise ValueError(
            f"{expected}Put the sampler inside the pipeline, as its last step: "
            "make_pipeline(scaler, DecoupledSampler(regressor))."
        )
    if isinstance(estimator, BaseEstimator) and is_classifier(estimator):
        raise ValueError(
            f"{expected}PLSClassifier draws functions itself: sample_functions."
        )
    if not hasattr(estimator, "sample_functions"):
        raise ValueError(
            f"{expected}For a sparse model of another library see "
            "DecoupledSampler.from_inducing."
        )


# ---- The regressor of DecoupledSampler if none is given ------------------------------


# Most rows of the exact process that is the default, and of one without a warning.
EXACT_ROWS, MANY_ROWS = 1500, 10_000


def fresh_estimator(
    given: Any, X: Array, y: Array, random_state: Any
) -> tuple[Any, SearchRecord | None]:
    """Unfitted copy of an estimator, or the default one and which rows chose it."""
    if given is None:
        return default_estimator(X, y, random_state)
    check_drawable(given)
    return clone(given), None


def default_estimator(
    X: Array, y: Array, random_state: Any
) -> tuple[Any, SearchRecord | None]:
    """Regressor for these rows, not fitted yet, and which rows chose its kernel.

    Up to 1500 rows an exact process whose kernel and noise are those of the library's
    search; above, `PLSRegressor`. For several targets, which share a kernel, an exact
    process with a search of its own.
    """
    if y.ndim == 2 and y.shape[1] > 1:
        kernel = default_kernel(X) + WhiteKernel(0.1, (1e-8, 1e1))
        how = {"normalize_y": True, "random_state": random_state}
        return GaussianProcessRegressor(kernel, **how), None
    if len(X) > EXACT_ROWS:
        return PLSRegressor(random_state=random_state), None
    kernel, record = _learned(X, y.ravel(), random_state)
    exact = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True)
    return exact, record


def _learned(X: Array, y: Array, random_state: Any) -> tuple[Any, SearchRecord]:
    """Kernel and white noise for the standardised y."""
    # as GaussianProcessRegressor standardises
    spread = y.std() or 1.0
    rows = canonical_rows(X, (y - y.mean()) / spread, np.ones(len(y)))
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    settings = PriorSettings(
        kernel=None,
        prior="gp",
        optimizer="evidence",
        n_restarts=1,
        inducing="greedy",
        n_inducing=None,
    )
    found = fit_prior(rows, likelihood, settings, generator(random_state))
    noise = WhiteKernel(float(found.likelihood.variance(0.0)))
    return found.kernel + noise, found.record


def warn_of_many_rows(estimator: Any, n: int) -> None:
    """Say what an exact process of many rows costs, and what to use instead."""
    if not isinstance(estimator, GaussianProcessRegressor) or n <= MANY_ROWS:
        return
    warn(
        f"GaussianProcessRegressor with {n} rows needs several matrices of "
        f"{8 * n**2 / 2**30:.1f} GiB and a time that grows with the cube of n. Use "
        "DecoupledSampler(PLSRegressor()), whose time is linear in n.",
        FitWarning,
    )
