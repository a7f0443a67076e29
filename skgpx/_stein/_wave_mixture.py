"""Sets of waves or pairs, maps of their inputs, and sums over rows of a posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import logsumexp

from skgpx._draws import FourierFeatures, FunctionDraws, Term, linear_draws
from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.perceptron import Perceptron
from skgpx._numerics.regression import WeightStatistics, log_evidence, posterior
from skgpx._numerics.wave_evidence import Waves
from skgpx._shell.row_statistics import add_statistics, statistics_of_all
from skgpx._shell.validation import Rows, row_blocks
from skgpx._types import Array, Attributes, Generator, Kernel
from skgpx.bases import Fourier, InputMap, WarpedInputs
from skgpx.likelihoods import Gaussian

Statistics = tuple[WeightStatistics, ...]
Basis = Fourier | WarpedInputs

# Columns from which on most frequencies see no other one, random frequencies start as
# well as quasi-random ones, and learning takes fewer steps.
WIDE = 256

# ---- In front of the waves: centring, or a network -----------------------------------


def std_of_columns(X: Array, weights: Array) -> Array:
    """Standard deviation of each column of X (n, d) with weights (n,)."""
    centred = X - np.average(X, axis=0, weights=weights)
    variance: Array = np.average(centred**2, axis=0, weights=weights)
    return np.sqrt(variance)


@dataclass(frozen=True, eq=False)
class Centring:
    """Inputs from the mean of the rows, the origin of pairs: ``h(x) = x - c``.

    Attributes
    ----------
    centre : ndarray of shape (d,)
    floats_per_row : int
        Numbers in memory while one row is mapped.
    """

    centre: Array
    floats_per_row: ClassVar[int] = 0

    def __call__(self, X: Array) -> Array:
        """Mapped rows (n, d)."""
        return X - self.centre

    def with_pullback(self, X: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Mapped rows, and a function from derivatives in these to the rows'."""
        return self(X), lambda G: G


class NetworkWarp:
    """A residual network in front of the waves: ``h(x) = x - c + ℓ g((x - c) / s)``.

    The weights of g are random, but for the last layer, which starts at zero: learning
    begins at the stationary model.

    Parameters
    ----------
    hidden : tuple of int
        Sizes of the hidden layers of g, which has as many outputs as inputs.
    X : ndarray of shape (n, d)
        Rows whose mean and standard deviation are c and s.
    weights : ndarray of shape (n,)
    unit : ndarray of shape (d,)
        ℓ, the lengthscales of the waves.
    rng : numpy.random.Generator

    Attributes
    ----------
    network : Perceptron
    parameters : ndarray
        Parameters of g; learning moves them in place.
    floats_per_row : int
        Numbers in memory while one row is mapped.
    """

    def __init__(
        self,
        hidden: tuple[int, ...],
        X: Array,
        weights: Array,
        unit: Array,
        rng: Generator,
    ):
        d = X.shape[1]
        self.network = Perceptron((d, *hidden, d))
        self.floats_per_row = 2 * sum(self.network.sizes)
        self.parameters = self.network.start(rng)
        self.network.layers(self.parameters)[-1][0][:] = 0.0
        self._centre = np.average(X, axis=0, weights=weights)
        std = std_of_columns(X, weights)
        self._std = np.where(std > 0.0, std, 1.0)
        self._unit = unit

    def __call__(self, X: Array) -> Array:
        """Mapped rows (n, d)."""
        return self.with_pullbacks(X)[0]

    def with_pullbacks(
        self,
        X: Array,
    ) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
        """Mapped rows, and what pulls derivatives back to the rows and parameters."""
        shifted = X - self._centre
        residual, pullback = self.network.with_pullback(
            self.parameters,
            shifted / self._std,
        )

        def pulled(G: Array) -> tuple[Array, Array]:
            slopes, inputs = pullback(G * self._unit)
            return G + inputs / self._std, slopes

        return shifted + self._unit * residual, pulled

    def with_pullback(self, X: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Mapped rows, and a function from derivatives in these to the rows'."""
        mapped, pulled = self.with_pullbacks(X)
        return mapped, lambda G: pulled(G)[0]

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


# ---- Sets of waves -------------------------------------------------------------------


@dataclass(frozen=True)
class FourierPairs(Fourier):
    """Features of pairs of waves: the mean of the features of both waves.

    ::

        φ(x) = a/2 [cos(ω·x) + cos(ω'·x), sin(ω·x) + sin(ω'·x)]
             = a cos(v·x) [cos(u·x), sin(u·x)],   u = (ω + ω') / 2,  v = (ω - ω') / 2

    Frequencies are of shape (R, 2, d).
    """

    @cached_property
    def waves(self) -> FourierFeatures:
        """Features of the first waves of all pairs, then of the second."""
        omega = np.concatenate(self.frequencies.swapaxes(0, 1) / self.length_scale)
        return FourierFeatures(omega, np.tile(0.5 * self.amplitudes, 2))

    def __call__(self, X: Array) -> Array:
        """Features (n, 2 R); their prior weights are N(0, I)."""
        # cosines or sines, first or second wave of the pair, pairs
        of_waves = self.waves(X).reshape(len(X), 2, 2, -1)
        return np.sum(of_waves, axis=2).reshape(len(X), -1)

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row, of both waves."""
        return 2 * super().floats_per_row

    def draw(
        self,
        weights: Array,
        rng: Generator,
        **prior: Any,
    ) -> FunctionDraws:
        """Functions ``φᵀw``, sums of single waves: those of a pair share a weight."""
        del rng, prior
        return self._sums_of_waves(weights)

    def all_features(self, X: Array) -> Array:
        """Functions that draws are combinations of: those of the basis."""
        return self(X)

    def all_terms(self, weights: Array) -> tuple[Term, ...]:
        """Terms of the functions with these weights (2 R, c, s)."""
        return self._sums_of_waves(weights).terms

    def _sums_of_waves(self, weights: Array) -> FunctionDraws:
        _, c, s = weights.shape
        shared = weights.reshape(2, 1, -1, c, s).repeat(2, axis=1)
        return linear_draws(self.waves, shared.reshape(-1, c, s))


class WaveMixture(NamedTuple):
    """Sets of waves with common amplitudes: what learning moves.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Whose spectral density is the prior of the frequencies.
    frequencies : ndarray of shape (M, R, d), or (M, R, 2, d) for pairs
        Ω, in radians per length scale.
    amplitudes : ndarray of shape (R,)
    length_scale : ndarray of shape (d,)
        ℓ, the unit of each input.
    noise_variance : float, or ndarray of shape (t,) for t targets
    warp : NetworkWarp, Centring or None
        What inputs go through before.
    """

    kernel: Kernel
    frequencies: Array
    amplitudes: Array
    length_scale: Array
    noise_variance: float | Array
    warp: NetworkWarp | Centring | None = None

    def waves(self) -> list[Waves]:
        """Each set, in radians per unit of the inputs."""
        omega = self.frequencies / self.length_scale
        return [
            Waves(frequencies, self.amplitudes, self.noise_variance)
            for frequencies in omega
        ]

    def bases(self) -> list[Basis]:
        """The basis of each component."""
        is_pairs = self.frequencies.ndim == 4
        family = FourierPairs if is_pairs else Fourier
        bases: list[Basis] = [
            family(omega, self.amplitudes, self.length_scale)
            for omega in self.frequencies
        ]
        if self.warp is None:
            return bases
        input_map = InputMap(
            self.warp,
            len(self.length_scale),
            floats_per_row=self.warp.floats_per_row,
        )
        return [WarpedInputs(basis, input_map) for basis in bases]

    def covariance(self, X: Array) -> Array:
        """Prior covariance of f at rows of X (n, d), the mean over components."""
        features = [basis(X) for basis in self.bases()]
        return np.mean([phi @ phi.T for phi in features], axis=0)

    def statistics(self, rows: Rows, n_jobs: int | None) -> Statistics:
        """Sums over rows, or rows of functionals, for each component, in blocks."""
        bases: list[Any] = self.bases()
        if rows.X.shape[1] != len(self.length_scale):
            bases = [basis.of_functionals() for basis in bases]
        return statistics_of_all(bases, rows, n_jobs)

    def posterior(
        self,
        statistics: Statistics,
        noise_variance: float | Array,
    ) -> MixtureModel:
        """Components of equal weight, given the sums over the rows; O(M m³)."""
        models = [
            LatentModel(basis, posterior(sums, noise_variance))
            for basis, sums in zip(self.bases(), statistics, strict=True)
        ]
        return MixtureModel(tuple(models), np.zeros(len(models)))

    def moments(
        self,
        statistics: Statistics,
        noise_variance: float | Array,
        X: Array,
    ) -> tuple[Array, Array]:
        """Posterior means and variances of f at rows of X (n, d), (t, n, M) each."""
        weights = [posterior(sums, noise_variance) for sums in statistics]
        mean = np.empty((weights[0].shape[1], len(X), len(weights)))
        variance = np.empty_like(mean)
        for block in row_blocks(len(X), 8 * len(self.amplitudes)):
            for m, basis in enumerate(self.bases()):
                block_mean, block_variance = weights[m].latent(basis(X[block]))
                mean[:, block, m] = block_mean[:, :, 0].T
                variance[:, block, m] = block_variance[:, :, 0].T
        return mean, variance


# ---- Sums over rows ------------------------------------------------------------------


@dataclass(frozen=True)
class SteinState:
    """Waves, and the sums of their features over all rows seen.

    Attributes
    ----------
    mixture : WaveMixture
    statistics : tuple of WeightStatistics
        Sums of the standardised y, one for each component.
    first : tuple of WeightStatistics
        Sums of the rows that chose the frequencies, which copies of a model share.
    shift, scale : float or ndarray of shape (t,)
        Standardisation of y, of these rows.
    """

    mixture: WaveMixture
    statistics: Statistics
    first: Statistics
    shift: float | Array
    scale: float | Array

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SteinState:
        """State after more rows."""
        standard = rows._replace(y=(rows.y - self.shift) / self.scale)
        sums = self.mixture.statistics(standard, n_jobs)
        return replace(self, statistics=add_statistics(self.statistics, sums))

    def merged(self, other: SteinState) -> SteinState:
        """State of the rows of both; those that chose the frequencies count once.

        Raises
        ------
        ValueError
            If they do not have the same frequencies and standardisation.
        """
        # whether frequencies, and sums of the first rows through a network, agree
        pairs = [
            (self.shift, other.shift),
            (self.scale, other.scale),
            (self.mixture.noise_variance, other.mixture.noise_variance),
            (self.mixture.frequencies, other.mixture.frequencies),
        ]
        pairs += [
            (mine.gram, theirs.gram)
            for mine, theirs in zip(self.first, other.first, strict=False)
        ]
        if not all(np.array_equal(mine, theirs) for mine, theirs in pairs):
            raise ValueError(
                "Only models with the same frequencies and one standardisation of y "
                "can be merged. Fit one model to some rows, copy it, and pass the "
                "other rows to the partial_fit of the copies."
            )
        total = add_statistics(self.statistics, other.statistics)
        return replace(self, statistics=add_statistics(total, self.first, sign=-1.0))

    def solve(self) -> Attributes:
        """Fitted attributes of the waves, and of the sums; O(M m³)."""
        mixture = self.mixture
        noise_variance = mixture.noise_variance
        model = mixture.posterior(self.statistics, noise_variance)

        # Posterior mean of a² (w² + w'²) / 2, the mean square of each wave.
        amplitudes = np.multiply.outer(mixture.amplitudes, self.scale)
        squared_weights = []
        for component in model.models:
            mean, root = component.weights.moments()
            squares = mean**2 + np.sum(root**2, axis=2).T
            squares = squares.reshape(2, *amplitudes.shape)
            squared_weights.append(np.sum(squares, axis=0))
        spectrum = 0.5 * amplitudes**2 * np.stack(squared_weights)

        # The logarithm of the mean evidence of the components, in units of y.
        log_evidences = [log_evidence(sums, noise_variance) for sums in self.statistics]
        units = self.statistics[0].weight * float(np.sum(np.log(self.scale)))
        mean_evidence = logsumexp(log_evidences) - np.log(len(log_evidences))

        noise_of_y = noise_variance * self.scale**2
        return {
            "kernel_": mixture.kernel,
            "frequencies_": mixture.frequencies / mixture.length_scale,
            "amplitudes_": amplitudes,
            "posterior_": model.affine(self.shift, self.scale),
            "noise_variance_": noise_of_y,
            "likelihood_": Gaussian(1.0).prepare([0.0]).with_noise(noise_of_y),
            "log_evidence_": float(mean_evidence - units),
            "spectrum_": spectrum,
        }
