"""The regressor of DecoupledSampler if none is given, and what is too large for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from skgpx._decoupled._drawable import check_drawable
from skgpx._hyperparameters import PriorSettings, SearchRecord, fit_prior
from skgpx._pls import PLSRegressor
from skgpx._validation import canonical_rows, generator, warn
from skgpx.exceptions import FitWarning
from skgpx.kernels import default_kernel
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

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
