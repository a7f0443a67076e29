"""A fit from rows to waves and their sums, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skgpx._hyperparameters import (
    State,
    inducing_by_capacity,
    learn,
    regress_targets,
    search_findings,
    search_record,
)
from skgpx._row_budgets import NOISE_ROWS
from skgpx._shell.callbacks import StageClock
from skgpx._shell.row_statistics import row_statistics
from skgpx._shell.validation import Rows, standardisation
from skgpx._stein._descent import Settings, SteinDescent, calibrated
from skgpx._stein._start import (
    as_pairs,
    leave_one_out,
    starting_waves,
    strong_waves,
    with_waves,
    without_waves,
)
from skgpx._stein._wave_mixture import WIDE, NetworkWarp, SteinState, WaveMixture
from skgpx._types import Array, Generator
from skgpx.bases import Nystroem
from skgpx.diagnostics import CovarianceOfRows, Finding, check_residuals
from skgpx.likelihoods import Gaussian

Attributes = dict[str, Any]

Report = Callable[[Callable[[], Attributes], SteinDescent], bool]


def fit_stein(
    rows: Rows,
    settings: Settings,
    rng: Generator,
    clock: StageClock,
    report: Report,
) -> tuple[Attributes, list[Finding | None]]:
    """Learn prior, frequencies and variance scale, and solve for the weights.

    Parameters
    ----------
    rows : Rows
        In canonical order.
    settings : Settings
    rng : numpy.random.Generator
    clock : StageClock
    report : callable
        Called after each round with a function that returns the fitted attributes as if
        learning ended there, which it does if `report` returns True.

    Returns
    -------
    attributes : dict
        Fitted attributes of the estimator.
    findings : list of Finding or None
    """
    split_rng, search_rng, sample_rng, wave_rng, network_rng, pair_rng = rng.spawn(6)
    n_jobs = settings.n_jobs
    n_learning_rows = settings.n_learning_rows
    data = _standardise_and_split(rows, settings, split_rng)
    sample = np.sort(sample_rng.permutation(len(data.train.y))[:n_learning_rows])
    learning_rows = data.train.take(sample)

    # 1  Kernel, noise, and the waves where learning starts.
    start = _start(
        data,
        learning_rows,
        settings,
        search_rng=search_rng,
        wave_rng=wave_rng,
        network_rng=network_rng,
        pair_rng=pair_rng,
    )
    prior = start.prior
    findings = start.findings
    clock.end_of("search")

    def solve(
        mixture: WaveMixture,
        rows: Rows,
        descent: SteinDescent,
        variance_factor: float | Array,
    ) -> Attributes:
        """Fitted attributes of these waves, given these rows."""
        # Prior and noise variance times a factor: the posterior mean is the same.
        if prior.amplitude_is_free:
            root = np.sqrt(variance_factor)
        else:
            root = np.ones_like(variance_factor)
        sums = mixture.statistics(rows._replace(y=rows.y / root), n_jobs)
        state = SteinState(
            mixture=mixture,
            statistics=sums,
            first=sums,
            shift=data.shift,
            scale=data.scale * root,
        )
        is_of_targets = np.ndim(variance_factor) > 0
        return state.solve() | {
            "_state": state,
            "variance_scale_": (
                variance_factor if is_of_targets else float(variance_factor)
            ),
            "loss_curve_": np.array(descent.loss_curve),
            "validation_curve_": np.array(descent.validation_curve),
            "n_iter_": descent.n_iter,
        }

    # 2  Frequencies move by the evidence, and repel one another (Algorithm 1). A step
    #    moves all columns of a frequency, and a phase is the sum over them.
    columns_of_waves = np.count_nonzero(start.mixture.frequencies, axis=-1)
    n_moving_columns = int(np.max(columns_of_waves))
    max_iter = -(-settings.max_iter * WIDE // max(n_moving_columns, WIDE))
    descent = SteinDescent(
        start.mixture,
        learning_rows,
        settings,
        max_iter=max_iter,
        learning_rate=settings.learning_rate,
    )
    descent.run(
        data.validation,
        settings.early_stopping,
        lambda state: report(
            lambda: solve(state.mixture, data.train, state, variance_factor=1.0),
            state,
        ),
    )
    mixture = descent.mixture
    record = {"frequency_rows": len(learning_rows.y)}
    clock.end_of("frequencies")

    # 3  One factor of prior and noise variance, by the held-out rows.
    noise_variance = start.noise_variance
    variance_factor: float | Array = np.ones(rows.y.shape[1:])[()]
    if data.validation is not None:
        findings += _check_residuals(mixture, learning_rows, start, data)
        if prior.noise_is_free:
            variance_factor, noise_variance = calibrated(
                mixture,
                mixture.statistics(data.train, n_jobs),
                noise_variance,
                data.validation,
            )
            if not prior.amplitude_is_free:
                noise_variance = variance_factor * noise_variance
            record["calibration_rows"] = len(data.validation.y)
        if len(rows.y) <= n_learning_rows:
            # Some more steps, on all rows.
            last_steps = SteinDescent(
                mixture,
                data.rows,
                settings,
                max_iter=-(-settings.max_iter // 10),
                learning_rate=0.5 * settings.learning_rate,
            )
            mixture = last_steps.run().mixture
            record["frequency_rows"] = len(rows.y)
        clock.end_of("calibration")

    # 4  The posterior of the weights, given all rows.
    mixture = mixture._replace(noise_variance=noise_variance)
    attributes = solve(mixture, data.rows, descent, variance_factor)
    attributes["_record"] = search_record([prior], rows) | record
    clock.end_of("solution")
    return attributes, findings


class _Data(NamedTuple):
    """Rows with y standardised by the training rows, ``(y - shift) / scale``.

    Attributes
    ----------
    rows : Rows
        All of them.
    train : Rows
    validation : Rows or None
    shift, scale : float or ndarray of shape (t,)
    """

    rows: Rows
    train: Rows
    validation: Rows | None
    shift: float | Array
    scale: float | Array


def _standardise_and_split(
    rows: Rows,
    settings: Settings,
    rng: Generator,
) -> _Data:
    """Hold out validation rows, and standardise y by the others.

    At least one row is left to train. Targets of one noise have one unit.
    """
    n = len(rows.y)
    fraction = settings.validation_fraction
    if fraction != "auto":
        n_held_out = min(int(np.ceil(float(fraction) * n)), n - 1)
    elif n >= 50:
        n_held_out = min(round(0.15 * n), 2000)
    else:
        n_held_out = 0
    is_held_out = np.zeros(n, bool)
    is_held_out[rng.permutation(n)[:n_held_out]] = True

    shift: float | Array = 0.0
    scale: float | Array = np.ones(rows.y.shape[1:])[()]
    if settings.normalize_y:
        train = rows.take(~is_held_out)
        shift, scale = standardisation(train.y, train.weights)
    if settings.noise_variance is not None:
        scale = scale * 0.0 + np.sqrt(np.mean(scale**2))
    rows = rows._replace(y=(rows.y - shift) / scale)
    return _Data(
        rows=rows,
        train=rows.take(~is_held_out),
        validation=rows.take(is_held_out) if n_held_out > 0 else None,
        shift=shift,
        scale=scale,
    )


class _Start(NamedTuple):
    """Where learning starts.

    Attributes
    ----------
    prior : State
        Kernel, and normal noise.
    noise_variance : float or ndarray of shape (t,)
        In standardised units; each target has its own.
    mixture : WaveMixture
        The waves that move.
    findings : list of Finding or None
        Findings of the search for the kernel, unless waves stand out.
    """

    prior: State
    noise_variance: float | Array
    mixture: WaveMixture
    findings: list[Finding | None]


def _start(
    data: _Data,
    learning_rows: Rows,
    settings: Settings,
    search_rng: Generator,
    wave_rng: Generator,
    network_rng: Generator,
    pair_rng: Generator,
) -> _Start:
    """Kernel and noise by the evidence, and waves: quasi-random, strong, or mapped."""
    train = data.train

    def learn_kernel(rows: Rows) -> _Start:
        prior = _learn_prior(rows, data, settings, search_rng)
        noise_variance = _noise_of_targets(rows, prior, settings, search_rng)
        smallest = noise_variance
        if prior.noise_is_free:
            # A few waves cannot do with next to no noise: the evidence would be that of
            # the rows they miss most.
            smallest = np.maximum(noise_variance, 2e-4)[()]
        mixture = starting_waves(
            prior.kernel,
            smallest,
            n_components=settings.n_components,
            n_frequencies=settings.n_frequencies,
            n_columns=rows.X.shape[1],
            rng=wave_rng,
        )
        findings: list[Finding | None] = [*search_findings([prior], rows)]
        return _Start(prior, noise_variance, mixture, findings)

    start = learn_kernel(train)
    mixture = start.mixture
    if settings.hidden_layer_sizes:
        # φ(x + ℓ g(x)), a network g in front of the waves
        warp = NetworkWarp(
            settings.hidden_layer_sizes,
            train.X,
            train.weights,
            unit=mixture.length_scale,
            rng=network_rng,
        )
        start = start._replace(mixture=mixture._replace(warp=warp))
    elif settings.max_iter > 0:
        waves = strong_waves(learning_rows, mixture)
        if waves is not None:
            start = learn_kernel(without_waves(train, waves))
            start = start._replace(
                mixture=with_waves(
                    start.mixture,
                    waves,
                    start.prior.amplitude_is_free,
                ),
                findings=[],
            )
    if settings.non_stationary:
        start = start._replace(mixture=as_pairs(start.mixture, train, pair_rng))
    return start


def _learn_prior(
    rows: Rows,
    data: _Data,
    settings: Settings,
    rng: Generator,
) -> State:
    """Kernel and noise variance that maximise the evidence of some rows."""
    noise_variance = settings.noise_variance
    if noise_variance is not None:
        noise_variance = noise_variance / float(np.mean(data.scale**2))
    (prior,) = learn(
        rows,
        Gaussian(noise_variance).prepare(rows.y, rows.weights),
        rng,
        kernel=settings.kernel,
        fixed=settings.optimizer is None,
        # frequencies start from the kernel, and the evidence moves them
        rough=False,
        trend=False,
    )
    return prior


def _noise_of_targets(
    rows: Rows,
    prior: State,
    settings: Settings,
    rng: Generator,
) -> float | Array:
    """Noise variance; of several targets, by the evidence of each in one basis."""
    if rows.y.ndim == 1:
        return prior.noise_variance
    sample = rows.thinned(NOISE_ROWS)
    inducing_points, _ = inducing_by_capacity(
        sample,
        prior.kernel,
        prior.noise_variance,
        "greedy",
        rng,
        500,
    )
    basis = Nystroem.from_kernel(prior.kernel, inducing_points)
    sums = row_statistics(basis, sample, settings.n_jobs)
    is_learned = settings.optimizer is not None
    return regress_targets(sums, prior.likelihood, is_learned)[1]


def _check_residuals(
    mixture: WaveMixture,
    learning_rows: Rows,
    start: _Start,
    data: _Data,
) -> list[Finding | None]:
    """What the leave-one-out errors of the learned waves say of kernel and noise."""
    warp = mixture.warp
    mapped = learning_rows.X if warp is None else warp(learning_rows.X)
    mapped_rows = learning_rows._replace(X=mapped)
    moments = [leave_one_out(mapped_rows, waves) for waves in mixture.waves()]
    errors = np.mean([errors for errors, _ in moments], axis=0)
    variance = np.mean([variance for _, variance in moments], axis=0)
    noise_variance = start.noise_variance
    return check_residuals(
        learning_rows,
        residuals=errors,
        variance=variance,
        noise_share=noise_variance / variance,
        likelihood=start.prior.likelihood,
        noise_is_free=start.prior.noise_is_free,
        # residuals are also what so few waves cannot follow
        other_noise=False,
        prior=CovarianceOfRows(
            mixture.covariance,
            noise_variance,
            zero=-data.shift / data.scale,
        ),
    )
