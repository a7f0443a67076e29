"""Stein descent on the evidence (Algorithm 1): slopes, forces, and steps of Adam."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
from scipy import optimize

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.expectations import log_density
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.regression import log_evidence_gradient
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
from skgpx._shell.parallel import workers
from skgpx._shell.validation import Rows
from skgpx._stein._frequency_prior import FrequencyPrior, FrequencyPriorLike
from skgpx._stein._wave_mixture import (
    WIDE,
    NetworkWarp,
    Statistics,
    WaveMixture,
    std_of_columns,
)
from skgpx._types import Array
from skgpx.kernels import VALUE, Additive, FunctionalRows, additive_terms, summands

# Steps of a round; after each, validation rows are scored and callbacks run.
ROUND = 10


class SteinDescent:
    """A mixture that moves by the evidence of some rows.

    Parameters
    ----------
    start : WaveMixture
    rows : Rows
    max_iter : int
    learning_rate : float
    repulsion, frequency_prior, frequency_prior_weight
        As those of the estimator.
    n_jobs : int or None
        Threads over components, with the same bits for every number.

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
        *,
        max_iter: int,
        learning_rate: float,
        repulsion: float | None,
        frequency_prior: FrequencyPriorLike,
        frequency_prior_weight: float | str,
        n_jobs: int | None,
    ):
        self.mixture = start._replace(
            frequencies=start.frequencies.copy(),
            warp=copy.deepcopy(start.warp),
        )
        self.loss_curve: list[float] = []
        self.validation_curve: list[float] = []
        self.n_iter = 0
        self._rows = rows
        self._max_iter = max_iter
        self._learning_rate = learning_rate
        self._n_jobs = n_jobs
        self._repulsion = None if repulsion is None else float(repulsion)
        self._workspaces: list[Workspace] = []
        n_targets = rows.y.size // len(rows.y)
        self._n_observations = float(rows.weights.sum()) * n_targets

        # A particle is a frequency (d,), or a pair of frequencies (2, d).
        n_components, n_frequencies, *particle_shape = start.frequencies.shape
        n_coordinates = int(np.prod(particle_shape))
        # Where there are many columns: the bandwidths, and which particles see others.
        self._bandwidth_factors = np.ones(n_coordinates)
        self._squared_bandwidths = self._bandwidth_factors.copy()
        self._sees_others = np.empty(0, dtype=bool)
        # Running means of Adam, for frequencies and for the network.
        n_particles = n_components * n_frequencies
        self._means = np.zeros((2, n_particles, n_coordinates))
        n_parameters = len(getattr(self.mixture.warp, "parameters", ()))
        self._network_means = np.zeros((2, n_parameters))
        self._prior = FrequencyPrior.of(
            frequency_prior,
            frequency_prior_weight,
            kernel=start.kernel,
            shape=(n_frequencies, *particle_shape),
            total=self._n_observations,
        )
        # step sizes of the coordinates, of the shape of the frequencies
        d = len(start.length_scale)
        std = std_of_columns(rows.X[:, :d], rows.weights)
        ratios = np.divide(
            start.length_scale,
            std,
            out=np.ones_like(std),
            where=std > 0.0,
        )
        # Terms of some columns have no frequencies in the others, which stay zero.
        has_all_columns = additive_terms(start.kernel, d).keys() <= {tuple(range(d))}
        is_sum = any(type(part) is Additive for part in summands(start.kernel))
        moves = np.logical_or(start.frequencies != 0.0, has_all_columns and not is_sum)
        self._paces = (np.minimum(ratios, 1.0) * moves).reshape(n_particles, -1)

    def run(
        self,
        validation: Rows | None = None,
        early_stopping: bool = False,
        stop: Callable[[SteinDescent], bool] = lambda _: False,
    ) -> SteinDescent:
        """Take the steps; `stop` is called after each round, and ends them if true."""
        warp = self.mixture.warp
        with workers(self._n_jobs, in_threads=True) as run:
            for step in range(self._max_iter):
                # The evidence of each component, with slopes in its frequencies.
                rows = self._rows
                network_pullback = None
                if isinstance(warp, NetworkWarp):
                    mapped, network_pullback = warp.with_pullbacks(rows.X)
                    rows = rows._replace(X=mapped)
                elif warp is not None:
                    rows = rows._replace(X=warp(rows.X))
                gradients = run(
                    _gradient,
                    [
                        (rows, waves, self._workspaces, network_pullback is not None)
                        for waves in self.mixture.waves()
                    ],
                )
                loss = -float(np.mean([gradient.value for gradient in gradients]))
                self.loss_curve.append(loss / self._n_observations)
                if step % ROUND == 0:
                    stalls = self._stalls(validation) and early_stopping
                    if step > 0 and (stalls or stop(self)):
                        break

                rate = cosine_decay(step, self._max_iter, self._learning_rate)
                self._move_frequencies(gradients, step, rate)
                if isinstance(warp, NetworkWarp) and network_pullback is not None:
                    by_row = np.mean([g.inputs for g in gradients], axis=0)
                    _, evidence_slope = network_pullback(by_row)
                    # the prior of a network has a part of its weight
                    prior_weight = 0.3
                    slope = evidence_slope + prior_weight * warp.prior_slope()
                    # and its parameters move less than the frequencies
                    network_rate = 0.025 * rate
                    adam_step(
                        warp.parameters,
                        -slope,
                        *self._network_means,
                        step + 1,
                        network_rate,
                    )
                self.n_iter += 1
        return self

    def _move_frequencies(
        self,
        gradients: list[WaveGradient],
        step: int,
        rate: float,
    ) -> None:
        """Equation (26), in place."""
        omega = self.mixture.frequencies
        length_scale = self.mixture.length_scale
        slopes = np.stack([g.frequencies for g in gradients])
        slopes /= length_scale
        prior = self._prior
        if prior is not None:
            score = prior.score((omega / length_scale).reshape(-1, len(length_scale)))
            score = score.reshape(omega.shape) / length_scale
            slopes += prior.weight * np.clip(score, -prior.limit, prior.limit)
        n_coordinates = len(self._bandwidth_factors)
        particles = omega.reshape(-1, n_coordinates)
        slopes = slopes.reshape(-1, n_coordinates)
        repulsion = self._repulsion
        if repulsion is not None and n_coordinates < WIDE:
            svgd_step(
                particles, slopes, self._squared_bandwidths, self._bandwidth_factors,
                True, repulsion, False, self._paces, self._means, step, rate,
            )  # fmt: skip
            return
        force = slopes
        if repulsion is not None:
            if step % ROUND == 0:
                factors = self._bandwidth_factors
                self._sees_others = see_others(particles, factors)
                if self._sees_others.any():
                    self._squared_bandwidths = bandwidths(particles, factors)
            force = self._sparse_force(particles, slopes, repulsion)
        move(particles, force, self._paces, self._means, step, rate)

    def _sparse_force(self, particles: Array, slopes: Array, repulsion: float) -> Array:
        """The force where few particles see others; these are found once a round.

        Strong waves do, which all components begin with.
        """
        crowd = particles[self._sees_others]
        if len(crowd) == 0:
            return slopes
        force = slopes.copy()
        force[self._sees_others] = stein_force(
            crowd,
            crowd,
            slopes[self._sees_others],
            self._squared_bandwidths,
            repulsion,
        )
        return force

    def _stalls(self, validation: Rows | None) -> bool:
        """Whether four rounds gained at most 0.01 nats an observation over all before.

        Nats of validation density, or without such rows of evidence.
        """
        if validation is None:
            scores = [-loss for loss in self.loss_curve[::ROUND]]
        else:
            scores = self.validation_curve
            sums = self.mixture.statistics(self._rows, self._n_jobs)
            noise_variance = self.mixture.noise_variance
            score, _ = held_out_score(self.mixture, sums, noise_variance, validation)
            scores.append(float(np.mean(score)))
        before = scores[:-4]
        return bool(before) and max(scores[-4:]) <= max(before) + 0.01


def _gradient(
    rows: Rows,
    waves: Waves,
    workspaces: list[Workspace],
    with_inputs: bool,
) -> WaveGradient:
    """Gradient of a component, in memory that threads take and give back."""
    if rows.X.shape[1] != waves.frequencies.shape[-1]:
        return gradient_of_slopes(rows, waves)
    try:
        # the last one that was used is the one in the cache
        workspace = workspaces.pop()
    except IndexError:
        workspace = waves.workspace(len(rows.y))
    gradient = wave_gradient(
        rows.X,
        rows.y,
        rows.weights,
        waves,
        workspace,
        with_inputs,
    )
    workspaces.append(workspace)
    return gradient


def gradient_of_slopes(rows: Rows, waves: Waves) -> WaveGradient:
    """Evidence of rows that see values and slopes, and its gradient in frequencies.

    A slope along column j has the features ``ω_j a [-sin ω·x, cos ω·x]``: their
    derivative in ω is that of the phase, and in ``ω_j`` that of the factor as well.
    """
    omega = waves.frequencies
    seen = FunctionalRows.of(rows.X, omega.shape[1])
    cosine, sine = np.vsplit(waves.features(seen.X), 2)
    factor = omega[:, seen.derivative]
    is_value = seen.derivative == VALUE
    features = np.where(
        np.tile(is_value, (2 * len(omega), 1)),
        np.vstack((cosine, sine)),
        np.vstack((-factor * sine, factor * cosine)),
    )
    evidence = log_evidence_gradient(
        features.T,
        rows.y,
        rows.weights,
        np.zeros(len(rows.y)),
        float(waves.noise_variance),
    )
    by_cosine, by_sine = np.vsplit(evidence.features.T, 2)
    turned = by_sine * cosine - by_cosine * sine
    scaled = -factor * (by_cosine * cosine + by_sine * sine)
    slopes = np.where(is_value, turned, scaled) @ seen.X
    # the factor ω_j
    columns = np.arange(omega.shape[1])
    slopes += turned @ (seen.derivative[:, np.newaxis] == columns)
    return WaveGradient(evidence.value, slopes)


def held_out_score(
    mixture: WaveMixture,
    statistics: Statistics,
    noise_variance: float | Array,
    rows: Rows,
) -> tuple[float | Array, float | Array]:
    """Score held-out rows under the posterior of the rows of the statistics.

    Returns
    -------
    score : float, or ndarray of shape (t,) for t targets
        Mean log density, in nats per observation, at the best factor of variances.
    factor : float, or ndarray of shape (t,)
        The factor of variances that the rows support, shrunk towards one by its
        standard error.
    """
    means, variances = mixture.moments(statistics, noise_variance, rows.X)
    noise_variances = np.broadcast_to(noise_variance, len(means))
    results = [
        _score_of_target(y, mean, variance, noise, rows.weights)
        for y, mean, variance, noise in zip(
            np.atleast_2d(rows.y.T),
            means,
            variances,
            noise_variances,
            strict=True,
        )
    ]
    scores, factors = np.transpose(results)
    if rows.y.ndim > 1:
        return scores, factors
    return scores[0], factors[0]


def calibrated(
    mixture: WaveMixture,
    statistics: Statistics,
    noise_variance: float | Array,
    rows: Rows,
) -> tuple[float | Array, float | Array]:
    """Calibrate variances and noise on held-out rows, for each target.

    Returns
    -------
    factor : float or ndarray of shape (t,)
        Factor of all variances.
    noise_variance : float or ndarray of shape (t,)
        The one given or that of the mixture, whichever has the larger
        :func:`held_out_score`.
    """
    learning_noise = mixture.noise_variance
    score, factor = held_out_score(mixture, statistics, noise_variance, rows)
    other_score, other_factor = held_out_score(
        mixture,
        statistics,
        learning_noise,
        rows,
    )
    is_better = other_score > score
    best_factor = np.where(is_better, other_factor, factor)[()]
    return best_factor, np.where(is_better, learning_noise, noise_variance)[()]


def _score_of_target(
    y: Array,
    mean: Array,
    variance: Array,
    noise_variance: float,
    weights: Array,
) -> tuple[float, float]:
    """:func:`held_out_score` of one target, from moments (n, M) of the components."""
    n_components = mean.shape[1]
    shares = np.full(n_components, 1.0 / n_components)
    zero = np.zeros(1)

    def loss(log_factor: float) -> float:
        factor = float(np.exp(log_factor))
        latent = LatentMixture(
            mean[:, np.newaxis],
            factor * variance[:, np.newaxis],
            shares,
        )
        noise = np.array([[factor * noise_variance]])
        density = log_density(y, latent, zero, noise, zero)
        return -float(np.average(density, weights=weights))

    optimum = optimize.minimize_scalar(
        loss,
        bounds=(-14.0, 9.0),
        method="bounded",
        options={"xatol": 0.01},
    )
    # Var[y] = E[variance of a component] + noise + Var[mean of a component]; no factor
    # changes the last.
    within = variance @ shares
    centre = mean @ shares
    between = (mean - centre[:, np.newaxis]) ** 2 @ shares / np.exp(optimum.x)
    squared_errors = (y - centre) ** 2
    total = within + noise_variance + between
    return -float(optimum.fun), fit_scale(squared_errors, total, weights)
