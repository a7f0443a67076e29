"""Hyperparameters of a series prior, by maximising the bound of its evidence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._hyperparameters import stretched
from skgpx._numerics.fourier_index import Box, FourierIndex
from skgpx._numerics.series_evidence import ScaleProfile, series_evidence
from skgpx._numerics.series_statistics import NormalEquations
from skgpx.bases import KernelEigenvalues

Array = NDArray[np.float64]

# Search interval of the noise variance, in units of the variance of y; that of the
# scale of a series prior, and of the logarithm of its shape.
_NOISE_BOUNDS = (1e-8, 10.0)
_SCALE_BOUNDS = (1e-8, 1e8)
_SHAPE_BOUNDS = (-3.0, 3.0)
# Shares of the variance of y that are noise, in the first guesses.
_SHARES = (0.01, 0.1, 0.5, 0.9)
_MAX_ITER = 100
# Share of the variance that is noise at which another start is tried.
_ALL_NOISE = 0.9


class SeriesSettings(NamedTuple):
    """Parameters that decide about the prior; see `SpectralVGPRegressor`.

    Attributes
    ----------
    rule : EigenvalueRule
        Start of the search, for the standardised y.
    scale_is_free : bool
        Whether the scale of a series prior is searched for.
    n_basis : int, "auto" or "rate"
    regularity : float
        ``α`` of the rate.
    noise_variance : float or None
        In squared units of y; None searches for it.
    optimizer : "evidence" or None
    ordering : {"prior", "power", "coefficients"}
    largest : int
        Most functions.
    normalize_y, quiet : bool
        Whether y is standardised; whether warnings are left out.
    white_noise_variance : float or None
        Fixed variance of the WhiteKernel, for the standardised y.
    given : object
        Parameters that models must share to be merged, comparable by value.
    start_noise : float or None
        Noise variance of a search on fewer rows, for the standardised y.
    """

    rule: Any
    scale_is_free: bool
    n_basis: int | str
    regularity: float
    noise_variance: float | None
    optimizer: str | None
    ordering: str
    largest: int
    normalize_y: bool
    white_noise_variance: float | None = None
    given: Any = None
    quiet: bool = False
    start_noise: float | None = None

    def free(self) -> NDArray[np.bool_]:
        """Which parameters of the rule are searched for."""
        free = np.full(len(self.rule.theta), self.optimizer == "evidence")
        if not isinstance(self.rule, KernelEigenvalues):
            free[0] &= self.scale_is_free
        return free

    def learns(self) -> bool:
        """Whether any parameter of the rule is searched for."""
        return bool(np.any(self.free()))


def maximise_series_evidence(
    equations: NormalEquations,
    functions: FourierIndex,
    box: Box,
    rule: Any,
    noise: float | None,
    settings: SeriesSettings,
    fixed_noise: float | None,
) -> tuple[Any, float]:
    """Rule and noise variance (standardised) with the largest bound.

    Parameters
    ----------
    equations : NormalEquations
        Of the functions, for the standardised y.
    functions : FourierIndex
    box : Box
    rule : EigenvalueRule
        Start.
    noise : float or None
        Noise variance to start from; None tries several.
    settings : SeriesSettings
    fixed_noise : float or None
        Noise variance that is not to be searched for.
    """
    is_kernel = isinstance(rule, KernelEigenvalues)
    free = settings.free()
    if fixed_noise is not None and not np.any(free):
        return rule, fixed_noise
    variance = _variance(equations)
    starts = (
        [(rule, noise)]
        if noise is not None
        else _starts(rule, is_kernel, free, variance)
    )
    if fixed_noise is not None:
        starts = [(start, fixed_noise) for start, _ in starts]
    if not is_kernel and not np.any(free[1:]):
        found = _scale_search(equations, functions, box, starts, free, fixed_noise)
    else:
        found = _full_search(equations, functions, box, starts, free, fixed_noise)
    return found


def _variance(equations: NormalEquations) -> float:
    """Variance of y; 1 where there is none, so that logarithms exist."""
    return equations.square / equations.weight or 1.0


def _starts(
    rule: Any, is_kernel: bool, free: Array, variance: float
) -> list[tuple[Any, float]]:
    """Guesses: a kernel with other lengthscales, a series with other scales."""
    if is_kernel:
        kernels = [rule.kernel]
        if np.any(free):
            kernels += [stretched(rule.kernel, np.log(f)) for f in (0.2, 0.04, 4.0)]
        return [(KernelEigenvalues(k), 0.1 * variance) for k in kernels]
    return [(rule, share * variance) for share in _SHARES]


def _scale_search(
    equations: NormalEquations,
    functions: FourierIndex,
    box: Box,
    starts: list[tuple[Any, float]],
    free: Array,
    fixed_noise: float | None,
) -> tuple[Any, float]:
    """Search over noise and scale: O(m) for each value after one decomposition."""
    rule = starts[0][0]
    spectrum = rule.spectrum(functions, box)
    profile = ScaleProfile.of(equations, spectrum)
    variance = _variance(equations)
    total = float(np.sum(spectrum.eigenvalues)) + spectrum.tail
    mask = np.array([fixed_noise is None, bool(len(free)) and bool(free[0])])

    def negative(values: Array, whole: Array) -> tuple[float, Array]:
        point = whole.copy()
        point[mask] = values
        value, gradient = profile.value_and_gradient(*np.exp(point))
        return -value, -gradient[mask]

    guesses = []
    for _, noise in starts:
        share = max(variance - noise, 0.1 * variance)
        scale = share / total if mask[1] and len(starts) > 1 else 1.0
        guesses.append(np.log([noise, scale]))
    whole = min(guesses, key=lambda g: negative(g[mask], g)[0])
    if np.any(mask):
        bounds = np.log(
            [np.multiply(_NOISE_BOUNDS, variance), np.array(_SCALE_BOUNDS) / total]
        )
        found = optimize.minimize(
            negative, np.clip(whole, *bounds.T)[mask], args=(whole,), jac=True,
            method="L-BFGS-B", bounds=bounds[mask], options={"maxiter": _MAX_ITER},
        )  # fmt: skip
        whole[mask] = found.x
    theta = rule.theta
    if mask[1]:
        theta = theta.copy()
        theta[0] += whole[1]
    return (rule.with_theta(theta) if mask[1] else rule), float(np.exp(whole[0]))


def _full_search(
    equations: NormalEquations,
    functions: FourierIndex,
    box: Box,
    starts: list[tuple[Any, float]],
    free: Array,
    fixed_noise: float | None,
) -> tuple[Any, float]:
    """Search over noise and all free parameters of the rule, O(m^3) for each."""
    variance = _variance(equations)
    rule = starts[0][0]
    noise_bounds = np.log(np.multiply(_NOISE_BOUNDS, variance))
    bounds = np.vstack((noise_bounds, _theta_bounds(rule)))
    mask = np.r_[fixed_noise is None, free].astype(bool)

    def negative(values: Array, whole: Array) -> tuple[float, Array]:
        point = whole.copy()
        point[mask] = values
        candidate = rule.with_theta(point[1:])
        spectrum = candidate.spectrum(functions, box)
        e = series_evidence(equations, spectrum, float(np.exp(point[0])))
        return -e.value, -np.r_[e.noise, e.parameters][mask]

    def climb(whole: Array) -> tuple[float, Array]:
        found = optimize.minimize(
            negative, np.clip(whole, *bounds.T)[mask], args=(whole,), jac=True,
            method="L-BFGS-B", bounds=bounds[mask], options={"maxiter": _MAX_ITER},
        )  # fmt: skip
        whole = whole.copy()
        whole[mask] = found.x
        return float(found.fun), whole

    guesses = [np.r_[np.log(noise), start.theta] for start, noise in starts]
    if not np.any(mask):
        return rule, float(np.exp(guesses[0][0]))
    guesses.sort(key=lambda g: negative(g[mask], g)[0])
    tried = []
    for guess in guesses:
        tried.append(climb(guess))
        # a search that ends with nothing but noise went astray
        if np.exp(tried[-1][1][0]) < _ALL_NOISE * variance:
            break
    _, whole = min(tried, key=lambda one: one[0])
    return rule.with_theta(whole[1:]), float(np.exp(whole[0]))


def _theta_bounds(rule: Any) -> Array:
    if isinstance(rule, KernelEigenvalues):
        bounds: Array = rule.kernel.bounds.reshape(-1, 2)
        return bounds
    shape = np.tile(_SHAPE_BOUNDS, (len(rule.theta) - 1, 1))
    return np.vstack((np.log(_SCALE_BOUNDS), shape))
