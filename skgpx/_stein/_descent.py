"""Stein descent on the evidence (Algorithm 1): slopes, forces, and steps of Adam."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._latent import MixtureModel
from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.svgd import bandwidths, stein_force
from skgpx._numerics.variance_scale import fit_scale
from skgpx._numerics.wave_evidence import (
    WaveGradient,
    Waves,
    Workspace,
    wave_gradient,
)
from skgpx._parallel import workers
from skgpx._stein._waves import WaveMixture
from skgpx._validation import Rows, row_blocks
from skgpx.kernels import spectral_score
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Steps of a round; after each, validation rows are scored and callbacks run.
ROUND = 10


class SteinDescent:
    """A mixture that moves by the evidence of some rows.

    Parameters
    ----------
    start : WaveMixture
    rows : Rows
    repulsion : float or None
    max_iter : int
    learning_rate : float
    n_jobs : int or None
        Threads over components; the same bits for every number.

    Attributes
    ----------
    mixture : WaveMixture
        As it is; its frequencies and its network are moved in place.
    loss_curve : list of float
        Mean negative log evidence of the components, in nats per observation, before
        each step.
    validation_curve : list of float
        Mean log density of validation rows at the beginning of each round.
    n_iter : int
        Steps that led to the mixture.

    Notes
    -----
    A step costs ``3 n m² + m³`` operations a component and ``(M R)² d`` for the force.
    """

    def __init__(
        self,
        start: WaveMixture,
        rows: Rows,
        repulsion: float | None,
        max_iter: int,
        learning_rate: float,
        n_jobs: int | None,
    ):
        self.mixture, self._rows = start.copied(), rows
        self._repulsion, self._max_iter = repulsion, max_iter
        self._learning_rate, self._n_jobs = learning_rate, n_jobs
        self.loss_curve: list[float] = []
        self.validation_curve: list[float] = []
        self.n_iter = 0
        self._total = float(rows.weights.sum())
        self._prior_weight = prior_weight(start, self._total)
        self._paces = paces(start.length_scale, rows)
        self._spaces: list[Workspace] = []
        # running means of Adam
        self._means = np.zeros((2, *start.frequencies.shape))
        n_network = 0 if start.warp is None else len(start.warp.parameters)
        self._network_means = np.zeros((2, n_network))

    def run(
        self,
        validation: Rows | None = None,
        early_stopping: bool = False,
        stop: Callable[[SteinDescent], bool] = lambda _: False,
    ) -> SteinDescent:
        """Take the steps; `stop` is called after each round, and ends them if true."""
        with workers(self._n_jobs, in_threads=True) as run:
            for step in range(self._max_iter):
                rows, warp, pullback = self._rows, self.mixture.warp, None
                if warp is not None:
                    mapped, pullback = warp.with_pullbacks(rows.X)
                    rows = rows._replace(X=mapped)
                waves = self.mixture.waves()
                items = [(rows, one, self._spaces, warp is not None) for one in waves]
                found = run(_gradient, items)
                loss = -float(np.mean([gradient.value for gradient in found]))
                self.loss_curve.append(loss / self._total)
                if step % ROUND == 0:
                    if validation is not None:
                        density = self._validation_density(validation)
                        self.validation_curve.append(density)
                    if step and ((early_stopping and self._stalls()) or stop(self)):
                        break
                self._move_frequencies(found, step)
                if warp is not None and pullback is not None:
                    inputs = np.mean([gradient.inputs for gradient in found], axis=0)
                    # the weight of the log prior, and the rate of the network
                    slope = pullback(inputs)[1] + 0.3 * warp.prior_slope()
                    means = self._network_means
                    self._adam(warp.parameters, slope, means, step, 0.025)
                self.n_iter += 1
        return self

    def _move_frequencies(self, found: list[WaveGradient], step: int) -> None:
        """Equation (26), in place."""
        mixture, omega = self.mixture, self.mixture.frequencies
        slopes = np.stack([g.frequencies for g in found]) / mixture.length_scale
        if self._prior_weight > 0.0:
            slopes += self._prior_weight * prior_slope(mixture)
        force, d = slopes, omega.shape[-1]
        if self._repulsion is not None:
            pool, slopes = omega.reshape(-1, d), slopes.reshape(-1, d)
            how = bandwidths(pool), self._repulsion
            force = stein_force(pool, pool, slopes, *how) / len(omega)
        slow = omega / self._paces
        self._adam(slow, force.reshape(omega.shape), self._means, step)
        np.multiply(slow, self._paces, out=omega)

    def _adam(
        self, values: Array, force: Array, means: Array, step: int, rate: float = 1.0
    ) -> None:
        """Move some values along a force, in place."""
        rate *= cosine_decay(step, self._max_iter, self._learning_rate)
        adam_step(values, -force, means[0], means[1], step + 1, rate)

    def _validation_density(self, validation: Rows) -> float:
        mixture = self.mixture
        sums = mixture.statistics(self._rows, self._n_jobs)
        model = mixture.posterior(sums, mixture.noise_variance)
        return held_out_score(model, mixture.noise_variance, validation)[0]

    def _stalls(self) -> bool:
        """Four rounds gained at most 0.01 nats an observation over all before.

        Of validation density, or without such rows of evidence.
        """
        scores = self.validation_curve or [-loss for loss in self.loss_curve[::ROUND]]
        before, recent = scores[:-4], scores[-4:]
        return bool(before) and max(recent) <= max(before) + 0.01


def _gradient(
    rows: Rows, waves: Waves, spaces: list[Workspace], inputs: bool
) -> WaveGradient:
    """Gradient of a component, in memory that threads take and give back."""
    try:
        # the last one that was used is the one in the cache
        space = spaces.pop()
    except IndexError:
        space = waves.workspace(len(rows.y))
    found = wave_gradient(rows.X, rows.y, rows.weights, waves, space, inputs)
    spaces.append(space)
    return found


def held_out_score(
    model: MixtureModel, noise_variance: float, rows: Rows
) -> tuple[float, float]:
    """Log density of held-out rows, and the factor of variances that they support.

    The density is the mean in nats per observation at the best factor; the factor that
    is returned is shrunk towards one by its standard error.
    """
    blocks = row_blocks(len(rows.y), model.floats_per_row)
    parts = [model.marginals(rows.X[block]) for block in blocks]
    mean = np.concatenate([part.mean for part in parts])
    variance = np.concatenate([part.variance for part in parts])
    shares = parts[0].weights

    def loss(log_factor: float) -> float:
        factor = float(np.exp(log_factor))
        mixture = LatentMixture(mean, factor * variance, shares)
        likelihood = Gaussian(factor * noise_variance).prepare([0.0])
        density = likelihood.predictive_log_density(rows.y, mixture)
        return -float(np.average(density, weights=rows.weights))

    found = optimize.minimize_scalar(
        loss, bounds=(-14.0, 9.0), method="bounded", options={"xatol": 0.01}
    )
    within, centre = variance[:, 0] @ shares, mean[:, 0] @ shares
    # means of components differ by what no factor changes
    between = (mean[:, 0] - centre[:, np.newaxis]) ** 2 @ shares / np.exp(found.x)
    squares, variances = (rows.y - centre) ** 2, within + noise_variance + between
    return -float(found.fun), fit_scale(squares, variances, rows.weights)


# ---- The prior of the frequencies, and the units of their steps ----------------------


def prior_weight(start: WaveMixture, n_rows: float) -> float:
    """Weight of the log spectral density beside the log evidence.

    ``R d / (R d + n)`` is the share of the frequencies of a component among these and
    the rows: few rows cannot identify many frequencies. Zero for kernels without a
    known score, such as periodic ones.
    """
    _, R, d = start.frequencies.shape
    try:
        spectral_score(start.kernel, np.ones((1, d)))
    except ValueError:
        return 0.0
    return R * d / (R * d + n_rows)


def prior_slope(mixture: WaveMixture) -> Array:
    """Slope of the log spectral density in Ω, (M, R, d).

    At most 5 in units of lengthscales: a wave that the data support stays.
    """
    shape, scale = mixture.frequencies.shape, mixture.length_scale
    omega = (mixture.frequencies / scale).reshape(-1, shape[-1])
    slope = spectral_score(mixture.kernel, omega).reshape(shape) / scale
    return np.clip(slope, -5.0, 5.0)


def paces(length_scale: Array, rows: Rows) -> Array:
    """Rates of the frequencies of each input, in the learning rate, (d,).

    Frequencies come in units of ``1 / ℓ``, and the evidence has peaks as narrow as
    ``1 / std``: an input that is wide for its lengthscale gets steps in that unit.
    """
    centred = rows.X - np.average(rows.X, axis=0, weights=rows.weights)
    std = np.sqrt(np.average(centred**2, axis=0, weights=rows.weights))
    ratios = np.divide(length_scale, std, out=np.ones_like(std), where=std > 0.0)
    return np.minimum(ratios, 1.0)
