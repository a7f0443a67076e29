"""Density of the frequencies of a stationary kernel, and its score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skgpx.kernels._expansion import expand
from skgpx.kernels._frequencies import with_one_rbf
from skgpx.kernels._records import record_of

Array = NDArray[np.float64]


def log_spectral_density(kernel: Any, omega: Array) -> Array:
    """Logarithm of the density of the frequencies, which integrates to one.

    ``k(x, y) / k(x, x) = ∫ p(ω) cos(ω·(x - y)) dω``; constant factors of the kernel do
    not change p, and that of a sum is the mixture of those of its terms, in
    proportion to their variances.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        RBF, Matern, RationalQuadratic, every type given to
        :func:`register_spectral_density`, products of these with constants, products
        and integer powers of RBFs, and sums.
    omega : ndarray of shape (R, d)
        Angular frequencies, in radians per unit of the input.

    Returns
    -------
    log_density : ndarray of shape (R,)
        In nats. Infinite at ω = 0 where the density is (RationalQuadratic with
        ``alpha <= d / 2``).

    Raises
    ------
    ValueError
        If a part of the kernel has no known density; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import log_spectral_density
    >>> log_spectral_density(3.0 * RBF(0.5), np.zeros((1, 1))).round(3)
    array([-1.612])
    """
    shares, parts = _mixture(kernel, omega.shape[1])
    logs = np.stack([_log_density(part, omega) for part in parts])
    total: Array = logsumexp(logs + np.log(shares)[:, np.newaxis], axis=0)
    return total


def spectral_score(kernel: Any, omega: Array) -> Array:
    """Gradient of :func:`log_spectral_density` in the frequencies.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        As in :func:`log_spectral_density`; your own kernels need
        :func:`register_spectral_score`, too, and in sums a spectral density.
    omega : ndarray of shape (R, d)
        Angular frequencies.

    Returns
    -------
    score : ndarray of shape (R, d)
        ``∇ log p(ω)``; for a sum the average of those of its terms, weighted by
        their parts of the density at ω.

    Raises
    ------
    ValueError
        If a part of the kernel has no known score; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import spectral_score
    >>> spectral_score(3.0 * RBF(0.5), np.array([[2.0]]))
    array([[-0.5]])
    """
    shares, parts = _mixture(kernel, omega.shape[1])
    scores = np.stack([_score(part, omega) for part in parts])
    if len(parts) == 1:
        return scores[0]
    logs = np.stack([_log_density(part, omega) for part in parts])
    logs += np.log(shares)[:, np.newaxis]
    # an infinite density has all the weight
    logs = np.minimum(logs, np.finfo(np.float64).max)
    weights = np.exp(logs - logsumexp(logs, axis=0))
    average: Array = np.einsum("kr,krd->rd", weights, scores)
    return average


def _mixture(kernel: Any, d: int) -> tuple[Array, list[Any]]:
    """Parts of the variance, and the kernel, of each term of a sum."""
    variances, parts = [], []
    for term in expand(kernel):
        factors = with_one_rbf(term.factors)
        if len(factors) != 1:
            raise _unknown(kernel, term.factors)
        part = factors[0]
        variances.append(term.coefficient * float(part.diag(np.zeros((1, d)))[0]))
        parts.append(part)
    shares = np.array(variances)
    return shares / shares.sum(), parts


def _log_density(part: Any, omega: Array) -> Array:
    """Logarithm of the normalised density of one kernel, not a sum or product."""
    record = record_of(part)
    if record.log_spectral_density is not None:
        return record.log_spectral_density(part, omega)
    density = _known(part, record.spectral_density, "density")
    d = omega.shape[1]
    # S = (2π)^d k(0) p
    variance = float(part.diag(np.zeros((1, d)))[0])
    logs: Array = np.log(density(part, omega)[0])
    return logs - d * np.log(2.0 * np.pi) - np.log(variance)


def _score(part: Any, omega: Array) -> Array:
    score: Array = _known(part, record_of(part).spectral_score, "score")(part, omega)
    return score


def _known(part: Any, rule: Any, what: str) -> Callable[..., Any]:
    if rule is None:
        name = type(part).__name__
        raise ValueError(
            f"{part!r} has no known spectral {what}. Register it with "
            f"skgpx.kernels.register_spectral_{what}({name}, {what}) if the kernel is "
            "stationary and has one."
        )
    known: Callable[..., Any] = rule
    return known


def _unknown(kernel: Any, factors: tuple[Any, ...]) -> ValueError:
    if not factors:
        return ValueError(
            f"{kernel!r} has a constant term, all of whose variance is at the "
            "frequency zero: it has no spectral density. Leave the constant out."
        )
    return ValueError(
        f"The spectral density of a product of {len(factors)} kernels, "
        f"{' * '.join(map(repr, factors))}, is a convolution and not known. Use "
        "products with constants, and products of RBFs."
    )
