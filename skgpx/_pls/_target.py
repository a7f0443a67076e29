"""Target of the chains from a basis, rows and a likelihood, and its mode."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters import rough_start, row_target
from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.quadrature import expectation_nodes
from skgpx._numerics.regression import posterior
from skgpx._numerics.smoothing import smoothed
from skgpx._parallel import blas_jobs, parallel_map
from skgpx._row_statistics import row_statistics
from skgpx._validation import Rows
from skgpx.bases import Nystroem
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

# Rows of features computed at a time; fixed, so that sums do not depend on workers.
_ROWS = 4096


def target_and_mode(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    optimal: bool,
    by_rows: bool,
    n_jobs: int | None,
) -> tuple[Target, laplace.Mode]:
    """Target in the coordinates of the weights, and its Laplace approximation.

    Parameters
    ----------
    basis : Nystroem
    rows : Rows
    likelihood : Likelihood
        Prepared.
    optimal : bool
        Which potential, see `PLSRegressor`.
    by_rows : bool
        Whether the target has to consist of rows, also under Gaussian noise, where
        sums over them would do.
    n_jobs : int or None
    """
    if isinstance(likelihood, Gaussian) and not by_rows:
        noise_variance = float(likelihood.variance(0.0))
        statistics = row_statistics(basis, rows, n_jobs)
        law = posterior(statistics, noise_variance)
        gram, moment = statistics.gram, statistics.moment
        target = langevin.quadratic_target(
            gram / noise_variance, moment / noise_variance
        )
        return target, laplace.Mode(law.mean, law.root, np.nan, 0, True)
    target = _row_target(basis, rows, likelihood, optimal, n_jobs)
    return target, laplace.find_mode(smoothed(target), rough_start(target))


def _block_features(basis: Nystroem, X: Array) -> tuple[Array, Array]:
    features = basis(X)
    return np.ascontiguousarray(features), basis.residual_variance(X, features)


def _row_target(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    optimal: bool,
    n_jobs: int | None,
) -> Target:
    """Target with the features of all rows, O(n m) memory."""
    X = rows.X
    items = [(X[i : i + _ROWS],) for i in range(0, len(X), _ROWS)]
    jobs = blas_jobs(n_jobs) if len(items) > 1 else 1
    # threads: to send features takes as long as to compute them
    parts = parallel_map(_block_features, items, jobs, basis, in_threads=True)
    features = np.concatenate([part[0] for part in parts])
    if not optimal:
        return row_target(features, rows, likelihood)
    std = np.sqrt(np.concatenate([part[1] for part in parts]))
    c = likelihood.n_outputs_
    std = np.repeat(std[:, np.newaxis], c, axis=1)
    return row_target(features, rows, likelihood, std, expectation_nodes(c))
