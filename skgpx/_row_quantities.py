"""The door for what is known of each row beside X: its exposure, or its noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.spread import LARGEST
from skgpx.kernels import split_noise
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._rows import KnownNoise, NoiseOfRows

Array = NDArray[np.float64]

_FOR = {
    "exposure": "counts, likelihood=Poisson()",
    "noise_variance": "normal and Student noise, Gaussian() and StudentT()",
}


def row_quantity(likelihood: Likelihood, n_rows: int, **given: Any) -> Array | None:
    """What is given of the rows, as an array (n,); None if nothing is.

    Parameters
    ----------
    likelihood : Likelihood
    n_rows : int
    **given : array-like of shape (n,), float or None
        By name. A number stands for all rows.

    Raises
    ------
    ValueError
        If the likelihood has no such quantity, if the shape is wrong, or if a number is
        not positive and finite.
    """
    names = [name for name, values in given.items() if values is not None]
    if not names:
        return None
    wrong = [name for name in names if name != likelihood.row_quantity]
    if wrong:
        raise ValueError(
            f"{wrong[0]} of rows is for {_FOR[wrong[0]]}; got {likelihood!r}."
        )
    return _checked(names[0], given[names[0]], n_rows)


def _checked(name: str, values: Any, n_rows: int) -> Array:
    if np.asarray(values).dtype == np.bool_:
        raise ValueError(
            f"{name} must be numbers; got booleans. To ask for it by metadata routing, "
            f"call set_fit_request({name}=True)."
        )
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers; got {error}.") from error
    if array.shape not in ((), (n_rows,)):
        raise ValueError(
            f"{name} must be a number or have shape ({n_rows},), one for each row of "
            f"X; got {array.shape}."
        )
    if not np.all((array >= 1.0 / LARGEST) & (array <= LARGEST)):
        raise ValueError(
            f"{name} must be positive and finite, between {1.0 / LARGEST:g} and "
            f"{LARGEST:g}; got numbers between {np.min(array):g} and "
            f"{np.max(array):g}. Leave out rows of which nothing is known."
        )
    return np.ascontiguousarray(np.broadcast_to(array, (n_rows,)))


def known_noise(
    noise_variance: Array | None, weights: Array, parameter: Any, kernel: Any
) -> KnownNoise | None:
    """Noise variances of rows (n,), where nothing else is said of the noise.

    Parameters
    ----------
    noise_variance : ndarray of shape (n,) or None
    weights : ndarray of shape (n,)
    parameter : float or None
        What the estimator says of the noise.
    kernel : sklearn.gaussian_process.kernels.Kernel or None

    Raises
    ------
    ValueError
        If the estimator has a noise of its own.
    """
    if noise_variance is None:
        return None
    white = kernel is not None and split_noise(kernel)[1] is not None
    if parameter is not None or white:
        other = "a WhiteKernel" if white else f"a noise of its own ({parameter:g})"
        raise ValueError(
            f"fit was given the noise_variance of each row, and the model has {other}: "
            "give only one of them. The variances of the rows are all their noise."
        )
    return KnownNoise.of(noise_variance, weights)


def relative(likelihood: Likelihood, known: Array | None) -> Array | None:
    """Noise variances in units of the likelihood's own; exposures as they are."""
    if known is None or not isinstance(likelihood, NoiseOfRows):
        return known
    assert likelihood.noise_parameter is not None
    return known / likelihood.noise_parameter
