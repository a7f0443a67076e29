"""A fit from rows to waves and their sums, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._callbacks import StageClock
from skgpx._row_budgets import NOISE_ROWS
from skgpx._row_statistics import row_statistics
from skgpx._selection import (
    Hyperparameters,
    SearchBudget,
    inducing_by_capacity,
    learn_prior,
    regress_targets,
)
from skgpx._stein._descent import SteinDescent, calibrated
from skgpx._stein._start import (
    as_pairs,
    leave_one_out,
    peaks,
    starting_waves,
    with_peaks,
    without_peaks,
)
from skgpx._stein._waves import NetworkWarp, SteinState, WaveMixture
from skgpx._validation import Rows, kernel_of, standardisation
from skgpx.bases import Nystroem
from skgpx.diagnostics import CovarianceOfRows, Finding, check_residuals
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]
Attributes = dict[str, Any]

# The kernel is where frequencies start, from which the evidence moves them: rougher
# families need no starts of their own. (With 1000 rows instead of 1500 to train it,
# a function of a hundred cycles in 2000 rows had several times the error.)
_BUDGET = SearchBudget(carried_over=True)
Report = Callable[[Callable[[], Attributes], SteinDescent], bool]


def fit_stein(
    rows: Rows,
    settings: Any,
    hidden: tuple[int, ...],
    rng: np.random.Generator,
    clock: StageClock,
    report: Report,
) -> tuple[Attributes, list[Finding | None]]:
    """Prior, frequencies, variance scale and sums: fitted attributes, and findings.

    Parameters
    ----------
    rows : Rows
        In canonical order.
    settings : SteinRFFRegressor
        Its parameters.
    hidden : tuple of int
        Sizes of the hidden layers of a network.
    rng : numpy.random.Generator
    clock : StageClock
    report : callable
        Called after each round with a function that returns the fitted attributes as if
        learning ended there, which it does if `report` returns True.
    """
    split, search, sample, start, network, pairs = rng.spawn(6)
    n_jobs, largest = settings.n_jobs, settings.n_learning_rows
    rows, train, validation, shift, scale = _split(rows, settings, split)
    chosen = np.sort(sample.permutation(len(train.y))[:largest])
    learning, streams = train.take(chosen), (search, start, network, pairs)
    given = settings, scale, hidden, streams
    prior, noise, mixture, findings = _begin(train, learning, *given)
    clock.end_of("search")

    def solved(
        mixture: WaveMixture,
        rows: Rows,
        descent: SteinDescent,
        factor: Any,
    ) -> Attributes:
        # prior and noise variance times a factor: the posterior mean is the same
        root = np.sqrt(factor) if prior.amplitude_is_free else np.ones_like(factor)
        sums = mixture.statistics(rows._replace(y=rows.y / root), n_jobs)
        state = SteinState(mixture, sums, sums, shift, scale * root)
        return state.solve() | {
            "_state": state,
            "variance_scale_": factor if np.ndim(factor) else float(factor),
            "loss_curve_": np.array(descent.loss_curve),
            "validation_curve_": np.array(descent.validation_curve),
            "n_iter_": descent.n_iter,
        }

    n_steps, rate = settings.max_iter, settings.learning_rate
    descent = SteinDescent(mixture, learning, settings, n_steps, rate).run(
        validation,
        settings.early_stopping,
        lambda now: report(lambda: solved(now.mixture, train, now, 1.0), now),
    )
    mixture, record = descent.mixture, {"frequency_rows": len(learning.y)}
    clock.end_of("frequencies")

    factor: Any = np.ones(rows.y.shape[1:])[()]
    if validation is not None:
        X = learning.X if mixture.warp is None else mixture.warp(learning.X)
        components = [
            leave_one_out(learning._replace(X=X), waves) for waves in mixture.waves()
        ]
        errors = np.mean([errors for errors, _ in components], axis=0)
        variance = np.mean([variance for _, variance in components], axis=0)
        findings += check_residuals(
            learning,
            residuals=errors,
            variance=variance,
            noise_share=noise / variance,
            likelihood=prior.likelihood,
            noise_is_free=prior.noise_is_free,
            # residuals are also what so few waves cannot follow
            other_noise=False,
            prior=CovarianceOfRows(mixture.covariance, noise, zero=-shift / scale),
        )
        if prior.noise_is_free:
            sums = mixture.statistics(train, n_jobs)
            factor, noise = calibrated(mixture, sums, noise, validation)
            if not prior.amplitude_is_free:
                noise = factor * noise
            record["calibration_rows"] = len(validation.y)
        if len(rows.y) <= largest:
            # some more steps by all rows
            last = SteinDescent(
                mixture,
                rows,
                settings,
                max_iter=-(-n_steps // 10),
                learning_rate=0.5 * rate,
            )
            mixture = last.run().mixture
            record["frequency_rows"] = len(rows.y)
        clock.end_of("calibration")
    mixture = mixture._replace(noise_variance=noise)
    attributes = solved(mixture, rows, descent, factor)
    attributes["_record"] = prior.record._replace(distinct_rows=len(rows.y), **record)
    clock.end_of("solution")
    return attributes, findings


def _split(
    rows: Rows,
    settings: Any,
    rng: np.random.Generator,
) -> tuple[Rows, Rows, Rows | None, Any, Any]:
    """All, training and validation rows; y standardised by the training rows.

    At least one row is left to train. Targets of one noise have one unit.
    """
    n, share = len(rows.y), settings.validation_fraction
    if share == "auto":
        size = min(round(0.15 * n), 2000) if n >= 50 else 0
    else:
        size = min(int(np.ceil(float(share) * n)), n - 1)
    held_out = np.zeros(n, bool)
    held_out[rng.permutation(n)[:size]] = True
    train, shift, scale = rows.take(~held_out), 0.0, np.ones(rows.y.shape[1:])[()]
    if settings.normalize_y:
        shift, scale = standardisation(train.y, train.weights)
    if settings.noise_variance is not None:
        scale = scale * 0.0 + np.sqrt(np.mean(scale**2))
    rows = rows._replace(y=(rows.y - shift) / scale)
    validation = rows.take(held_out) if held_out.any() else None
    return rows, rows.take(~held_out), validation, shift, scale


def _begin(
    train: Rows,
    learning: Rows,
    settings: Any,
    scale: Any,
    hidden: tuple[int, ...],
    streams: tuple[np.random.Generator, ...],
) -> tuple[Hyperparameters, Any, WaveMixture, list[Finding | None]]:
    """Kernel and noise, and the waves that move: quasi-random, and peaks or a network.

    Each target has the noise of its own evidence beside inducing points. Findings are
    those of the search for the kernel, unless waves stand out of it.
    """
    search, start, network, pairs = streams

    def begun(rows: Rows) -> tuple[Hyperparameters, Any, WaveMixture]:
        noise = settings.noise_variance
        noise = None if noise is None else noise / float(np.mean(scale**2))
        likelihood = Gaussian(noise).prepare(rows.y, rows.weights)
        learn, kernel = settings.optimizer is not None, kernel_of(settings)
        prior = learn_prior(
            rows,
            likelihood,
            search,
            kernel=kernel,
            learn=learn,
            budget=_BUDGET,
            trend=False,
        )
        variance: Any = float(prior.likelihood.variance(0.0))
        if rows.y.ndim > 1:
            some = rows.thinned(NOISE_ROWS)
            Z, _ = inducing_by_capacity(
                some,
                prior.kernel,
                variance,
                "greedy",
                search,
                500,
            )
            basis = Nystroem.from_kernel(prior.kernel, Z)
            sums = row_statistics(basis, some, settings.n_jobs)
            variance = regress_targets(sums, prior.likelihood, learn)[1]
        # next to no noise is more than a few waves can do, and their evidence is then
        # that of the rows they miss most
        least = np.maximum(variance, 2e-4)[()] if prior.noise_is_free else variance
        shape = settings.n_components, settings.n_frequencies, rows.X.shape[1]
        return prior, variance, starting_waves(prior.kernel, least, shape, start)

    prior, noise, mixture = begun(train)
    findings: list[Finding | None] = list(prior.findings)
    if hidden:
        unit = mixture.length_scale
        warp = NetworkWarp(hidden, train.X, train.weights, unit, network)
        mixture = mixture._replace(warp=warp)
    elif settings.max_iter > 0:
        found = peaks(learning, mixture)
        if found is not None:
            prior, noise, mixture = begun(without_peaks(train, found))
            mixture = with_peaks(mixture, found, prior.amplitude_is_free)
            findings = []
    if settings.non_stationary:
        mixture = as_pairs(mixture, train, pairs)
    return prior, noise, mixture, findings
