"""The paper's rule for hyperparameters: exact evidence on neighbourhoods, averaged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters._candidates import Candidate
from skgpx._hyperparameters._climb import climb
from skgpx._hyperparameters._latent_scale import rough_latent
from skgpx._hyperparameters._search_record import SearchRecord
from skgpx._validation import Rows
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

_MAX_ITER = 100
# (rows of a neighbourhood, neighbourhoods) for regression and for classes.
_REGRESSION, _CLASSES = (2000, 10), (1000, 5)


def average_over_neighbourhoods(
    rows: Rows, kernel: Any, likelihood: Likelihood, rng: np.random.Generator
) -> tuple[Any, Likelihood, SearchRecord]:
    """Hyperparameters of the exact Gaussian process with kernel k.

    Maximises the exact marginal likelihood of Gaussian regression on the rows nearest
    to a random centroid, several times, and averages the logarithms of what it finds;
    on all rows, once, when there are few. For other likelihoods the targets are the
    rough latent values of the rows around their base, and the likelihood's own scales
    keep their starting values.

    Parameters
    ----------
    rows : Rows
        Weights decide which rows count as centroids only.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Without white noise.
    likelihood : Likelihood
    rng : numpy.random.Generator

    Returns
    -------
    kernel, likelihood
        With the averaged hyperparameters.
    record : SearchRecord

    Notes
    -----
    O(2000^3) for each evaluation of each neighbourhood. Appendix N.1 of
    [1]_. The lengthscales it finds suit an exact process and are too short for few
    inducing points.

    References
    ----------
    .. [1] Wild, Wu, Sejdinovic and Knoblauch, "Near-optimal approximations for
       Bayesian inference in function space".
    """
    size, repeats = _REGRESSION if likelihood.location_scale else _CLASSES
    n = len(rows.y)
    targets = rough_latent(rows, likelihood)
    noise = likelihood
    if not isinstance(noise, Gaussian):
        noise = Gaussian().prepare(targets.ravel())
    candidate = Candidate.of_kernel(kernel)
    thetas = []
    for _ in range(repeats if n > size else 1):
        chosen = _neighbourhood(rows, size, rng)
        for y in targets[chosen].T:
            block = rows.take(chosen)._replace(y=y, weights=np.ones(len(chosen)))
            if noise is not likelihood:
                block = block._replace(known=None)
            found = climb(candidate, noise, (block,), kernel.theta, _MAX_ITER)
            thetas.append(np.concatenate((found.u, found.likelihood.theta)))
    mean, p = np.mean(thetas, axis=0), candidate.n_free
    if isinstance(likelihood, Gaussian):
        likelihood = likelihood.with_theta(mean[p:])
    record = SearchRecord("exact evidence, averaged", n, min(n, size))
    if n > size:
        near = f"{repeats} of {size} rows"
        record = record._replace(rows_searched=0, neighbourhoods=near)
    return candidate.kernel_at(mean[:p]), likelihood, record


def _neighbourhood(rows: Rows, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The `size` rows nearest to a row drawn at random."""
    n = len(rows.y)
    if n <= size:
        return np.arange(n)
    centroid = rows.X[rng.choice(n, p=rows.weights / rows.weights.sum())]
    distance = np.sum((rows.X - centroid) ** 2, axis=1)
    return np.sort(np.argpartition(distance, size)[:size])
