"""Stein descent on the evidence (Algorithm 1): slopes, forces, and steps of Adam."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.expectations import log_density
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.svgd import (
    bandwidths,
    move,
    see_others,
    stein_force,
    svgd_step,
)
from skgpx._numerics.variance_scale import fit_scale
from skgpx._numerics.wave_evidence import (
    WaveGradient,
    Waves,
    Workspace,
    wave_gradient,
)
from skgpx._parallel import workers
from skgpx._stein._frequency_prior import FrequencyPrior
from skgpx._stein._waves import NetworkWarp, Statistics, WaveMixture
from skgpx._validation import Rows
from skgpx.kernels import additive_terms

Array = NDArray[np.float64]

# Steps of a round; after each, validation rows are scored and callbacks run.
ROUND = 10
# Columns from which on most frequencies see no other one.
_WIDE = 256


class SteinDescent:
    """A mixture that moves by the evidence of some rows.

    Parameters
    ----------
    start : WaveMixture
    rows : Rows
    settings : SteinRFFRegressor
        Its repulsion, its prior of the frequencies, and n_jobs: threads over
        components, with the same bits for every number.
    max_iter : int
    learning_rate : float

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
        settings: Any,
        max_iter: int,
        learning_rate: float,
    ):
        repulsion = settings.repulsion
        frequencies, warp = start.frequencies.copy(), copy.deepcopy(start.warp)
        self.mixture = start._replace(frequencies=frequencies, warp=warp)
        self._rows, self._max_iter = rows, max_iter
        self._repulsion = None if repulsion is None else float(repulsion)
        self._learning_rate, self._n_jobs = learning_rate, settings.n_jobs
        self.loss_curve: list[float] = []
        self.validation_curve: list[float] = []
        self.n_iter = 0
        # observations of all targets
        self._total = float(rows.weights.sum()) * (rows.y.size // len(rows.y))
        self._spaces: list[Workspace] = []
        # particles: a frequency, or both of a pair in one
        M, R, *shape = start.frequencies.shape
        d = shape[-1]
        # bandwidths, and which particles see others, where there are many columns
        self._factors = np.ones(int(np.prod(shape)))
        self._squares = self._factors.copy()
        self._seen = np.empty(0, dtype=bool)
        # running means of Adam
        self._means = np.zeros((2, M * R, len(self._factors)))
        n_network = len(warp.parameters) if isinstance(warp, NetworkWarp) else 0
        self._network_means = np.zeros((2, n_network))
        self._prior = FrequencyPrior.of(
            settings.frequency_prior,
            settings.frequency_prior_weight,
            kernel=start.kernel,
            shape=(R, *shape),
            total=self._total,
        )
        # terms of some columns have no frequencies in the others
        within = additive_terms(start.kernel, d).keys() <= {tuple(range(d))}
        moves = np.logical_or(start.frequencies != 0.0, within)
        # frequencies come in units of 1 / ℓ, and the evidence has peaks as narrow as
        # 1 / std: an input that is wide for its lengthscale gets steps in that unit
        scale, weights = start.length_scale, rows.weights
        centred = rows.X - np.average(rows.X, axis=0, weights=weights)
        std = np.sqrt(np.average(centred**2, axis=0, weights=weights))
        ratios = np.divide(scale, std, out=np.ones_like(std), where=std > 0.0)
        self._paces = (np.minimum(ratios, 1.0) * moves).reshape(M * R, -1)

    def run(
        self,
        validation: Rows | None = None,
        early_stopping: bool = False,
        stop: Callable[[SteinDescent], bool] = lambda _: False,
    ) -> SteinDescent:
        """Take the steps; `stop` is called after each round, and ends them if true."""
        mixture = self.mixture
        with workers(self._n_jobs, in_threads=True) as run:
            for step in range(self._max_iter):
                rows, warp, pullback = self._rows, mixture.warp, None
                if isinstance(warp, NetworkWarp):
                    mapped, pullback = warp.with_pullbacks(rows.X)
                    rows = rows._replace(X=mapped)
                elif warp is not None:
                    rows = rows._replace(X=warp(rows.X))
                waves, inputs = mixture.waves(), pullback is not None
                items = [(rows, one, self._spaces, inputs) for one in waves]
                found = run(_gradient, items)
                loss = -float(np.mean([gradient.value for gradient in found]))
                self.loss_curve.append(loss / self._total)
                if step % ROUND == 0:
                    stalls = self._stalls(validation) and early_stopping
                    if step and (stalls or stop(self)):
                        break
                rate = cosine_decay(step, self._max_iter, self._learning_rate)
                self._move_frequencies(found, step, rate)
                if isinstance(warp, NetworkWarp) and pullback is not None:
                    by_row = np.mean([gradient.inputs for gradient in found], axis=0)
                    # the weight of the log prior, and the rate of the network
                    slope = pullback(by_row)[1] + 0.3 * warp.prior_slope()
                    parts = warp.parameters, -slope, *self._network_means
                    adam_step(*parts, step + 1, 0.025 * rate)
                self.n_iter += 1
        return self

    def _move_frequencies(
        self,
        found: list[WaveGradient],
        step: int,
        rate: float,
    ) -> None:
        """Equation (26), in place."""
        omega, scale = self.mixture.frequencies, self.mixture.length_scale
        slopes = np.stack([g.frequencies for g in found]) / scale
        prior = self._prior
        if prior is not None:
            score = prior.score((omega / scale).reshape(-1, len(scale)))
            score = score.reshape(omega.shape) / scale
            slopes += prior.weight * np.clip(score, -prior.limit, prior.limit)
        d = len(self._factors)
        pool = omega.reshape(-1, d)
        slopes = slopes.reshape(-1, d)
        repulsion = self._repulsion
        if repulsion is not None and d < _WIDE:
            svgd_step(
                pool, slopes, self._squares, self._factors, True, repulsion, False,
                self._paces, self._means, step, rate,
            )  # fmt: skip
            return
        force = slopes
        if repulsion is not None:
            if step % ROUND == 0:
                self._squares = bandwidths(pool, self._factors)
                self._seen = see_others(pool, self._squares)
            force = self._force_of_few(pool, slopes, repulsion)
        move(pool, force, self._paces, self._means, step, rate)

    def _force_of_few(self, pool: Array, slopes: Array, repulsion: float) -> Array:
        """The force where few frequencies see others; those are found once a round.

        Waves of peaks do, which all components begin with.
        """
        few, force = pool[self._seen], slopes.copy()
        if len(few):
            own_slopes = slopes[self._seen]
            force[self._seen] = stein_force(
                few,
                few,
                own_slopes,
                self._squares,
                repulsion,
            )
        return force

    def _stalls(self, validation: Rows | None) -> bool:
        """Whether four rounds gained at most 0.01 nats an observation over all before.

        Of validation density, or without such rows of evidence.
        """
        scores = [-loss for loss in self.loss_curve[::ROUND]]
        if validation is not None:
            mixture, scores = self.mixture, self.validation_curve
            sums = mixture.statistics(self._rows, self._n_jobs)
            found = held_out_score(mixture, sums, mixture.noise_variance, validation)
            scores.append(float(np.mean(found[0])))
        before, recent = scores[:-4], scores[-4:]
        return bool(before) and max(recent) <= max(before) + 0.01


def _gradient(
    rows: Rows,
    waves: Waves,
    spaces: list[Workspace],
    inputs: bool,
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
    mixture: WaveMixture,
    statistics: Statistics,
    noise_variance: Any,
    rows: Rows,
) -> tuple[Any, Any]:
    """Log density of held-out rows, and the factor of variances that they support.

    The posterior is that of the rows of the statistics. The density is the mean in nats
    per observation at the best factor; the factor that is returned is shrunk towards
    one by its standard error. Numbers, or arrays (t,) for t targets.
    """
    moments = mixture.moments(statistics, noise_variance, rows.X)
    noises = np.broadcast_to(noise_variance, len(moments[0]))
    each = zip(np.atleast_2d(rows.y.T), *moments, noises, strict=True)
    scores, factors = np.transpose([_scored(*one, rows.weights) for one in each])
    return (scores, factors) if rows.y.ndim > 1 else (scores[0], factors[0])


def calibrated(
    mixture: WaveMixture,
    statistics: Statistics,
    noise_variance: Any,
    rows: Rows,
) -> tuple[Any, Any]:
    """Factor of variances, and noise: the one given, or the larger one of learning.

    The noise is that of the larger :func:`held_out_score`, for each target.
    """
    larger = mixture.noise_variance
    score, factor = held_out_score(mixture, statistics, noise_variance, rows)
    if np.array_equal(noise_variance, larger):
        return factor, noise_variance
    other, factors = held_out_score(mixture, statistics, larger, rows)
    better = other > score
    noise_variance = np.where(better, larger, noise_variance)[()]
    return np.where(better, factors, factor)[()], noise_variance


def _scored(
    y: Array,
    mean: Array,
    variance: Array,
    noise_variance: float,
    weights: Array,
) -> tuple[float, float]:
    """:func:`held_out_score` of one target, from moments (n, M) of the components."""
    shares, zero = np.full(mean.shape[1], 1.0 / mean.shape[1]), np.zeros(1)

    def loss(log_factor: float) -> float:
        factor = float(np.exp(log_factor))
        spread = factor * variance[:, np.newaxis]
        latent = LatentMixture(mean[:, np.newaxis], spread, shares)
        noise = np.array([[factor * noise_variance]])
        density = log_density(y, latent, zero, noise, zero)
        return -float(np.average(density, weights=weights))

    found = optimize.minimize_scalar(
        loss,
        bounds=(-14.0, 9.0),
        method="bounded",
        options={"xatol": 0.01},
    )
    within, centre = variance @ shares, mean @ shares
    # means of components differ by what no factor changes
    between = (mean - centre[:, np.newaxis]) ** 2 @ shares / np.exp(found.x)
    squares, variances = (y - centre) ** 2, within + noise_variance + between
    return -float(found.fun), fit_scale(squares, variances, weights)
