"""From the parameters of the estimator to what the fits want to know."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel

from skgpx._spectral_vgp._kernel_fit import SparseSettings
from skgpx._spectral_vgp._series_search import SeriesSettings
from skgpx._validation import check_points
from skgpx.bases import (
    ExponentialEigenvalues,
    GivenEigenvalues,
    KernelEigenvalues,
    PolynomialEigenvalues,
    has_spectrum,
)
from skgpx.kernels import split_noise
from skgpx.likelihoods._rows import KnownNoise

Array = NDArray[np.float64]

# Inputs up to which Fourier functions are used.
_MAX_FOURIER_INPUTS = 3
# Parameters of Fourier functions alone.
_OF_FUNCTIONS = (
    "basis", "n_basis", "eigenvalues", "alpha", "tau", "ordering", "domain",
    "extrapolation",
)  # fmt: skip
# Parameters that change no sum over rows, nor what is solved from it; the domain is
# compared as it was resolved.
_APART = {"domain", "extrapolation", "inflation", "n_jobs", "random_state"}


@dataclass(frozen=True, eq=False)
class GivenParameters:
    """Parameters that models must share to be merged, compared by value.

    Attributes
    ----------
    values : dict of str to object
    """

    values: dict[str, Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GivenParameters):
            return NotImplemented
        one, two = self.values, other.values
        return one.keys() == two.keys() and all(
            _same_value(one[name], two[name]) for name in one
        )

    __hash__ = None  # type: ignore[assignment]


def _same_value(one: Any, two: Any) -> bool:
    if isinstance(one, Kernel) or isinstance(two, Kernel):
        return _same_kernel(one, two)
    if isinstance(one, str) or isinstance(two, str) or callable(one) or callable(two):
        return type(one) is type(two) and bool(one == two)
    if one is None or two is None:
        return one is two
    return np.array_equal(np.asarray(one), np.asarray(two))


def _same_kernel(one: Any, two: Any) -> bool:
    """Whether kernels have the same types, parameters and bounds, in the same order."""
    if type(one) is not type(two):
        return False
    a, b = one.get_params(deep=False), two.get_params(deep=False)
    return a.keys() == b.keys() and all(_same_value(a[name], b[name]) for name in a)


def resolved_basis(model: BaseEstimator, say_little: bool = False) -> str:
    """Kind of inducing variables for the columns that were seen.

    A process where functions may be chosen, but rows are too few to learn from, or
    repetitions of few.

    Raises
    ------
    ValueError
        If the one asked for is not possible.
    """
    basis = _possible_basis(model)
    if say_little:
        basis = "inducing"
    if model.n_basis == "rate" and basis != "fourier":
        raise ValueError(
            'n_basis="rate" is for Fourier functions, of up to three inputs; got '
            f"basis={basis!r}. Give a number or 'auto'."
        )
    return basis


def _possible_basis(model: BaseEstimator) -> str:
    kernel = None if model.kernel is None else split_noise(model.kernel)[0]
    few = model.n_features_in_ <= _MAX_FOURIER_INPUTS
    known = kernel is None or has_spectrum(kernel)
    if model.basis == "auto":
        return "fourier" if few and known else "inducing"
    if model.basis == "fourier" and not few:
        raise ValueError(
            f'basis="fourier" is for up to {_MAX_FOURIER_INPUTS} columns; got '
            f'{model.n_features_in_}. Use basis="inducing" or "empirical".'
        )
    if model.basis == "fourier" and not known:
        raise ValueError(
            f"{kernel!r} has no known spectral density: it is not stationary, or "
            'not of a known kind. Use basis="inducing" or "empirical".'
        )
    return str(model.basis)


def says_nothing_of_functions(model: BaseEstimator, *more: str) -> bool:
    """Whether no parameter speaks of Fourier functions, so that others may serve.

    `more` are names of further parameters that must have their defaults.
    """
    default, names = type(model)(), (*_OF_FUNCTIONS, *more)
    same = all(_same_value(getattr(model, k), getattr(default, k)) for k in names)
    return same and model.optimizer is not None


def given_domain(model: BaseEstimator) -> Array | None:
    """The parameter `domain` as an array (d, 2).

    Raises
    ------
    ValueError
        If it has another shape, or bounds that are not in order.
    """
    if model.domain is None:
        return None
    d = model.n_features_in_
    domain = np.asarray(model.domain, dtype=np.float64)
    if d == 1 and domain.shape == (2,):
        domain = domain[np.newaxis]
    domain = check_points("domain", domain, (d, 2))
    if not np.all(domain[:, 0] < domain[:, 1]):
        raise ValueError(
            f"Each row of domain must be (lower, upper); got {domain.tolist()}."
        )
    return domain


def sparse_settings(
    model: BaseEstimator, noise: KnownNoise | None = None
) -> SparseSettings:
    """Parameters of a fit on kernel functions; `noise` is that of its rows."""
    return SparseSettings(
        kernel=model.kernel,
        basis=model.basis_,
        n_basis=model.n_basis,
        inducing=model.inducing,
        noise_variance=model.noise_variance if noise is None else noise.reference,
        optimizer=model.optimizer,
        n_restarts=model.n_restarts_optimizer,
        normalize_y=model.normalize_y,
        largest=int(model.max_basis),
    )


def _shared(model: BaseEstimator) -> GivenParameters:
    """Parameters that models must share to be merged."""
    given = model.get_params(deep=False)
    shared = {k: v for k, v in given.items() if k not in _APART}
    return GivenParameters(copy.deepcopy(shared))


def series_settings(
    model: BaseEstimator, noise: KnownNoise | None = None
) -> SeriesSettings:
    """Parameters of a fit on Fourier functions; `noise` is that of its rows."""
    rule, white_noise = _rule(model)
    return SeriesSettings(
        rule=rule,
        scale_is_free=model.tau is None,
        n_basis=model.n_basis,
        regularity=0.5 if model.alpha == "evidence" else float(model.alpha),
        noise_variance=model.noise_variance if noise is None else noise.reference,
        optimizer=model.optimizer,
        ordering=model.ordering,
        largest=int(model.max_basis),
        normalize_y=model.normalize_y,
        white_noise_variance=white_noise,
        given=_shared(model),
        domain_is_given=model.domain is not None,
    )


def _rule(model: BaseEstimator) -> tuple[Any, float | None]:
    """Eigenvalue rule with its parameters as given, and a fixed noise variance."""
    if model.kernel is not None:
        kernel, noise, bounds = split_noise(model.kernel)
        fixed = noise is not None and (
            model.optimizer is None or isinstance(bounds, str)
        )
        return KernelEigenvalues(kernel), noise if fixed else None
    scale = 1.0 if model.tau is None else float(model.tau)
    free = model.alpha == "evidence"
    alpha = 0.5 if free else float(model.alpha)
    paired = model.ordering != "coefficients"
    if not isinstance(model.eigenvalues, str):
        values = check_points("eigenvalues", model.eigenvalues, (None,))
        if np.any(values < 0.0) or not np.any(values > 0.0):
            raise ValueError(
                "eigenvalues must not be negative, and not all zero; got values "
                f"between {values.min():g} and {values.max():g}."
            )
        return GivenEigenvalues(tuple(values.tolist()), scale), None
    if model.eigenvalues == "exponential":
        return ExponentialEigenvalues(scale, alpha, paired, free), None
    return PolynomialEigenvalues(scale, alpha, paired, free), None
