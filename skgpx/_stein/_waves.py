"""Sets of waves, inputs through a network, and the sums over rows of a posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.perceptron import Perceptron
from skgpx._numerics.regression import (
    WeightStatistics,
    log_evidence,
    posterior,
)
from skgpx._numerics.wave_evidence import Waves
from skgpx._row_statistics import statistics_of_all
from skgpx._validation import Rows
from skgpx.bases import Fourier, InputMap, Warped

# ---- A network in front of the waves -------------------------------------------------


Array = NDArray[np.float64]


class NetworkWarp(NamedTuple):
    """A residual network in front of the waves: ``h(x) = x - c + ℓ g((x - c) / s)``.

    The last layer of g starts at zero: learning begins at the stationary model.

    Attributes
    ----------
    network : Perceptron
        g, with as many outputs as inputs.
    parameters : ndarray
        Of g; learning moves them in place.
    centre, std : ndarray of shape (d,)
        c and s, mean and standard deviation of the inputs.
    unit : ndarray of shape (d,)
        ℓ, the lengthscales of the waves.
    """

    network: Perceptron
    parameters: Array
    centre: Array
    std: Array
    unit: Array

    @classmethod
    def start(
        cls,
        hidden: tuple[int, ...],
        X: Array,
        weights: Array,
        unit: Array,
        rng: np.random.Generator,
    ) -> NetworkWarp:
        """Network of random weights, but for the last layer, for rows X (n, d)."""
        d = X.shape[1]
        network = Perceptron((d, *hidden, d), "tanh")
        parameters = network.start(rng)
        network.layers(parameters)[-1][0][:] = 0.0
        centre = np.average(X, axis=0, weights=weights)
        std = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
        std = np.where(std > 0.0, std, 1.0)
        return cls(network, parameters, centre, std, unit)

    def copied(self) -> NetworkWarp:
        """Return the same map, with parameters of its own."""
        return self._replace(parameters=self.parameters.copy())

    def __call__(self, X: Array) -> Array:
        """Mapped rows (n, d)."""
        shifted = X - self.centre
        residual = self.network(self.parameters, shifted / self.std)
        mapped: Array = shifted + self.unit * residual
        return mapped

    def with_parameter_pullback(
        self, X: Array
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Mapped rows, and a function from derivatives in these to the parameters'."""
        shifted = X - self.centre
        residual, pullback = self.network.with_pullback(
            self.parameters, shifted / self.std
        )
        return (
            shifted + self.unit * residual,
            lambda G: pullback(G * self.unit).parameters,
        )

    def with_pullback(self, X: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Mapped rows, and a function from derivatives in these to the rows'."""
        shifted = X - self.centre
        residual, pullback = self.network.with_pullback(
            self.parameters, shifted / self.std
        )
        return (
            shifted + self.unit * residual,
            lambda G: G + pullback(G * self.unit).inputs / self.std,
        )

    def prior_slope(self) -> Array:
        """Slope of the log prior.

        Weights are ``N(0, 1 / inputs of their layer)``, biases N(0, 1).
        """
        slope = np.empty_like(self.parameters)
        layers = zip(
            self.network.layers(self.parameters),
            self.network.layers(slope),
            strict=True,
        )
        for (weights, biases), (by_weight, by_bias) in layers:
            by_weight[:] = -len(weights) * weights
            by_bias[:] = -biases
        return slope

    def input_map(self) -> InputMap:
        """The map, as a basis takes it."""
        return InputMap(
            self, len(self.centre), floats_per_row=2 * sum(self.network.sizes)
        )


# ---- Sets of waves -------------------------------------------------------------------


class WaveMixture(NamedTuple):
    """Sets of waves with common amplitudes: what learning moves.

    Attributes
    ----------
    frequencies : ndarray of shape (M, R, d)
        Ω, in radians per length scale.
    amplitudes : ndarray of shape (R,)
    length_scale : ndarray of shape (d,)
        ℓ, the unit of each input.
    noise_variance : float
    warp : NetworkWarp or None
        What inputs go through before.
    """

    frequencies: Array
    amplitudes: Array
    length_scale: Array
    noise_variance: float
    warp: NetworkWarp | None = None

    def copied(self) -> WaveMixture:
        """Return the same mixture, with frequencies and network of its own."""
        warp = None if self.warp is None else self.warp.copied()
        return self._replace(frequencies=self.frequencies.copy(), warp=warp)

    def equals(self, other: WaveMixture) -> bool:
        """Whether the features of both are the same functions."""
        own, theirs = (
            () if mixture.warp is None else mixture.warp.parameters
            for mixture in (self, other)
        )
        pairs = zip((*self[:-1], own), (*other[:-1], theirs), strict=True)
        return all(np.array_equal(one, two) for one, two in pairs)

    def waves(self, component: int) -> Waves:
        """One set, in radians per unit of the inputs."""
        omega = self.frequencies[component] / self.length_scale
        return Waves(omega, self.amplitudes, self.noise_variance)

    def scaled(self, factor: float) -> WaveMixture:
        """Prior and noise variance times a factor: the posterior mean is the same."""
        return self._replace(
            amplitudes=self.amplitudes * np.sqrt(factor),
            noise_variance=self.noise_variance * factor,
        )


# ---- Fixed waves, and sums over rows -------------------------------------------------


class Solution(NamedTuple):
    """Posterior in the units of y.

    Attributes
    ----------
    model : MixtureModel
    noise_variance : float
    log_evidence : float
        Of the mixture: the logarithm of the mean evidence of its components.
    powers : ndarray of shape (M, R)
        Of the waves, see :func:`wave_powers`.
    """

    model: MixtureModel
    noise_variance: float
    log_evidence: float
    powers: Array


@dataclass(frozen=True)
class SteinState:
    """Waves, and the sums of their features over all rows seen.

    Attributes
    ----------
    mixture : WaveMixture
    kernel : sklearn.gaussian_process.kernels.Kernel
    statistics : tuple of WeightStatistics
        Of the standardised y, one for each component.
    first : tuple of WeightStatistics
        Of the rows that chose the frequencies, which copies of a model share.
    shift, scale : float
        Standardisation of y, of these rows.
    """

    mixture: WaveMixture
    kernel: Any
    statistics: tuple[WeightStatistics, ...]
    first: tuple[WeightStatistics, ...]
    shift: float
    scale: float

    @classmethod
    def of(
        cls,
        mixture: WaveMixture,
        kernel: Any,
        rows: Rows,
        shift: float,
        scale: float,
        n_jobs: int | None,
    ) -> SteinState:
        """Sums over rows of the standardised y."""
        sums = sums_of(mixture, rows, n_jobs)
        return cls(mixture, kernel, sums, sums, shift, scale)

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SteinState:
        """State after more rows."""
        standard = rows._replace(y=(rows.y - self.shift) / self.scale)
        more = sums_of(self.mixture, standard, n_jobs)
        return replace(self, statistics=_added(self.statistics, more))

    def merged(self, other: SteinState) -> SteinState:
        """State of the rows of both; those that chose the frequencies count once.

        Raises
        ------
        ValueError
            If they do not have the same frequencies and standardisation.
        """
        if not self._began_like(other):
            raise ValueError(
                "Only models with the same frequencies and one standardisation of y "
                "can be merged. Fit one model to some rows, copy it, and let the "
                "copies see the other rows by partial_fit."
            )
        total = _added(self.statistics, other.statistics)
        return replace(self, statistics=_added(total, self.first, -1.0))

    def _began_like(self, other: SteinState) -> bool:
        moments = zip(self.first, other.first, strict=False)
        return (
            self.mixture.equals(other.mixture)
            and (self.shift, self.scale) == (other.shift, other.scale)
            and all(np.array_equal(one.moment, two.moment) for one, two in moments)
        )

    def solve(self) -> Solution:
        """Posterior and evidence; O(M m³)."""
        noise = self.mixture.noise_variance
        models = tuple(
            LatentModel(basis, posterior(statistics, noise))
            for basis, statistics in zip(
                bases(self.mixture), self.statistics, strict=True
            )
        )
        evidence = [log_evidence(one, noise) for one in self.statistics]
        weight = self.statistics[0].weight
        k = len(models)
        return Solution(
            MixtureModel(models, np.zeros(k)).affine(self.shift, self.scale),
            noise * self.scale**2,
            float(logsumexp(evidence) - np.log(k) - weight * np.log(self.scale)),
            self.scale**2
            * np.stack([wave_powers(m, self.mixture.amplitudes) for m in models]),
        )


def wave_powers(model: LatentModel, amplitudes: Array) -> Array:
    """Posterior mean of ``a² (w² + w'²) / 2``, the mean square of each wave, (R,)."""
    mean, root = model.weights.moments()
    squares = mean[:, 0] ** 2 + np.sum(root[0] ** 2, axis=1)
    cosine, sine = np.split(squares, 2)
    power: Array = 0.5 * amplitudes**2 * (cosine + sine)
    return power


def bases(mixture: WaveMixture) -> list[Fourier | Warped]:
    """The basis of each component."""
    rest = mixture.amplitudes, mixture.length_scale
    waves = [Fourier(omega, *rest) for omega in mixture.frequencies]
    if mixture.warp is None:
        return list(waves)
    seen = mixture.warp.input_map()
    return [Warped(wave, seen) for wave in waves]


def sums_of(
    mixture: WaveMixture, rows: Rows, n_jobs: int | None
) -> tuple[WeightStatistics, ...]:
    """Sums over rows for each component, in blocks of rows."""
    return statistics_of_all(bases(mixture), rows, n_jobs)


def _added(
    one: tuple[WeightStatistics, ...],
    other: tuple[WeightStatistics, ...],
    sign: float = 1.0,
) -> tuple[WeightStatistics, ...]:
    return tuple(a.add(b, sign) for a, b in zip(one, other, strict=True))
