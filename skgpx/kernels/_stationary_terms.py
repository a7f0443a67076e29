"""A stationary kernel as a sum of variances times correlations."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skgpx.kernels._records import record_of
from skgpx.kernels._spectral import with_one_rbf
from skgpx.kernels._terms import expand, latent_kernel


class StationaryTerm(NamedTuple):
    """A summand of a stationary kernel.

    Attributes
    ----------
    variance : float
        Its value at equal inputs.
    factors : tuple of Kernel
        Kernels whose product it is in proportion to, RBFs merged into one; none for a
        constant.
    """

    variance: float
    factors: tuple[Any, ...]


def stationary_terms(kernel: Any, d: int) -> list[StationaryTerm]:
    """Terms of a kernel whose frequencies are known, without its white noise.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Sums, products and powers of kernels with a spectral law or score.
    d : int
        Number of input columns.

    Raises
    ------
    ValueError
        If nothing is known of the frequencies of a part, which is named; if a term has
        a negative variance; if there is nothing but noise.
    """
    terms = []
    for monomial in expand(latent_kernel(kernel)):
        variance, factors = monomial.coefficient, with_one_rbf(monomial.factors)
        for factor in factors:
            _check_known(factor, kernel)
            variance *= float(factor.diag(np.zeros((1, d)))[0])
        if variance < 0.0:
            raise ValueError(
                f"A term of the kernel has a negative variance, {variance:g}; those of "
                "a covariance are positive. Check its constants."
            )
        if variance > 0.0:
            terms.append(StationaryTerm(variance, factors))
    if not terms:
        raise ValueError(
            f"{kernel!r} has nothing but white noise, which has no features. Add "
            "another kernel, for example RBF()."
        )
    return terms


def _check_known(part: Any, whole: Any) -> None:
    record = record_of(part)
    if record.spectral_law is None and record.spectral_score is None:
        name = type(part).__name__
        where = "" if part is whole else f", a part of {whole!r}"
        raise ValueError(
            f"The frequencies of {part!r}{where} are not known. If it is stationary, "
            f"call skgpx.kernels.register_kernel({name}, spectral_score=...) with the "
            "gradient of the logarithm of its spectral density, for Stein frequencies, "
            "or with spectral_sampler=... for random ones."
        )
