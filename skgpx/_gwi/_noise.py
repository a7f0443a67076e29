"""Noise around a mean that is not normal, or not the same everywhere.

Errors e at held-out rows, where the process has the variance r, are taken to be

    e = g + s(x) ε,   g ~ N(0, r),   log s(x) = a + b h(x),

with ε normal or Student, and h a regression of log |e|. Its out-of-fold predictions
determine a, b and the degrees of freedom, so that a regression that has found nothing
has no weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor

from skgpx._gwi._base_models import PredictionsAtRows, TableForm, predictions_of
from skgpx._numerics.mixture import LatentMixture
from skgpx._shell.cross_fitting import cross_fit, seeded
from skgpx._shell.tables import Training, take_rows
from skgpx._types import AnyArray, Array, Generator
from skgpx.likelihoods import Gaussian, StudentT


class NoiseRows(NamedTuple):
    """Held-out rows from which the noise is learned.

    Attributes
    ----------
    errors : ndarray of shape (p,)
        Errors of the mean, not fitted to these rows.
    variance : ndarray of shape (p,)
        r, of the process given the other rows.
    weights : ndarray of shape (p,)
        Frequency weights.
    rows : ndarray of shape (p, d)
        As the latent model has them.
    form : TableForm
        Form of the table that the regression of the scale is given.
    groups : ndarray of shape (p,) or None
        Rows that are held out together.
    """

    errors: Array
    variance: Array
    weights: Array
    rows: AnyArray
    form: TableForm
    groups: AnyArray | None


@dataclass(frozen=True)
class NoiseScale:
    """Squared scale of the noise at rows, ``s² = exp(2 (a + b h(x)))``.

    Parameters
    ----------
    log_scale : callable or None
        h: maps rows to (n, 1). None is zero.
    lowest, highest : float
        Range of h at the rows of the fit, which h does not leave elsewhere.
    intercept, slope : float
        a and b.
    """

    log_scale: Callable[[AnyArray], Array] | None = None
    lowest: float = 0.0
    highest: float = 0.0
    intercept: float = 0.0
    slope: float = 0.0

    def __call__(self, rows: AnyArray) -> Array:
        """Squared scales (n,)."""
        if self.log_scale is None:
            return np.full(len(rows), np.exp(2.0 * self.intercept))
        return self.squares(self.log_scale(rows)[:, 0])

    def squares(self, h: Array) -> Array:
        """Squared scales (n,) for values of h."""
        clipped = np.clip(h, self.lowest, self.highest)
        return np.exp(2.0 * (self.intercept + self.slope * clipped))

    def scaled(self, factor: float) -> NoiseScale:
        """Those of y in units that are smaller by a factor."""
        return replace(self, intercept=self.intercept + float(np.log(factor)))


class LearnedNoise(NamedTuple):
    """Noise around the mean.

    Attributes
    ----------
    likelihood : Gaussian or StudentT
        Prepared; its scale is the root mean square of those of the held-out rows.
    scale : NoiseScale
    regressor : estimator or None
        Regression of the log scale, fitted to all held-out rows.
    """

    likelihood: Gaussian | StudentT
    scale: NoiseScale
    regressor: BaseEstimator | None


def likelihood_of_errors(
    likelihood: Gaussian | StudentT | str | None,
) -> Gaussian | StudentT:
    """Likelihood of a name; None is normal noise. ``df=None`` is learned."""
    if isinstance(likelihood, str) and likelihood == "student_t":
        return StudentT(df=None)  # type: ignore[arg-type]
    if likelihood is None or isinstance(likelihood, str):
        return Gaussian()
    return likelihood


def learn_noise(
    rows: NoiseRows,
    likelihood: Gaussian | StudentT,
    noise_model: BaseEstimator | str | None,
    rng: Generator,
    n_jobs: int | None,
) -> LearnedNoise:
    """Scale and degrees of freedom of the noise, from errors at held-out rows.

    Parameters
    ----------
    rows : NoiseRows
    likelihood : Gaussian or StudentT
        In the units of the errors; a scale that is None is learned, and ``df=None``
        too.
    noise_model : regressor, "boosting" or None
        Model of log |e|; None for one scale, which fewer than ten rows always have.
    rng : numpy.random.Generator
        Seeds the regressor.
    n_jobs : int or None
        Threads over folds.
    """
    if isinstance(noise_model, str):
        # boosting of |e| by the deviance of the gamma distribution, as a model of log
        # |e|
        boosting = HistGradientBoostingRegressor(
            loss="gamma",
            max_iter=40,
            max_leaf_nodes=6,
        )
        noise_model = TransformedTargetRegressor(
            boosting,
            func=np.exp,
            inverse_func=np.log,
            check_inverse=False,
        )
    # fewer held-out rows do not determine how noise varies
    if noise_model is None or len(rows.errors) < 10:
        return _parameters(rows, likelihood, np.zeros(len(rows.errors)), NoiseScale())
    # 1  h: regression of log |e|, and its out-of-fold predictions.
    size = np.abs(rows.errors)
    # errors below this part of their root mean square count as that large: the
    # logarithm of an error near zero says little about the scale
    smallest = 1e-3 * np.sqrt(np.average(size**2, weights=rows.weights))
    target = np.log(np.maximum(size, max(smallest, 1e-12)))
    training = Training(rows.form.table(rows.rows), target, rows.weights)
    fits = cross_fit(
        seeded(noise_model, rng),
        training,
        predictions_of,
        groups=rows.groups,
        n_jobs=n_jobs,
    )
    log_scale = PredictionsAtRows(fits.estimator, rows.form, predictions_of)
    # 2  a, b and the degrees of freedom.
    h = log_scale(rows.rows)[:, 0]
    held_out = np.flatnonzero(fits.held_out)
    positions = fits.positions[held_out]
    held_out_rows = NoiseRows(
        errors=rows.errors[positions],
        variance=rows.variance[positions],
        weights=fits.weights[held_out],
        rows=take_rows(rows.rows, positions),
        form=rows.form,
        groups=None,
    )
    learned = _parameters(
        held_out_rows,
        likelihood,
        h=fits.predictions[held_out, 0],
        scale=NoiseScale(log_scale, lowest=float(h.min()), highest=float(h.max())),
    )
    return learned._replace(regressor=fits.estimator)


def _start_and_bounds(
    likelihood: Gaussian | StudentT,
    scale: NoiseScale,
    mean_square: float,
) -> tuple[Array, Array]:
    """Start (3,) and bounds (3, 2) of ``u = (a + b mean(h), b, log ν)``.

    The bounds of a parameter that is given are equal.
    """
    log_size = 0.5 * np.log(max(mean_square, 1e-24))
    start = np.array([log_size - 0.25, 0.7, np.log(4.0)])
    # with more than 2.5 degrees of freedom the standard deviation is 2.2 scales at most
    bounds = np.array(
        [
            (log_size - 8.0, log_size + 2.0),
            (0.0, 2.0),
            (np.log(2.5), np.log(100.0)),
        ]
    )
    if likelihood.noise_parameter is not None:
        start[0] = 0.5 * np.log(likelihood.noise_parameter)
        bounds[0] = start[0]
    if scale.log_scale is None:
        start[1] = 0.0
        bounds[1] = 0.0
    if not likelihood.heavy_tailed:
        start[2] = 0.0
        bounds[2] = 0.0
    elif likelihood.df is not None:
        start[2] = np.log(likelihood.df)
        bounds[2] = start[2]
    return start, bounds


def _parameters(
    rows: NoiseRows,
    likelihood: Gaussian | StudentT,
    h: Array,
    scale: NoiseScale,
) -> LearnedNoise:
    """Maximise ``Σ w log p(e | r, s)`` in a, b and the degrees of freedom ν.

    The degrees of freedom have the prior Gamma(2, 0.1) of [1]_.

    References
    ----------
    .. [1] Juárez and Steel, "Model-based clustering of non-Gaussian panel data based on
       skew-t distributions", Journal of Business & Economic Statistics 28, 2010.
    """
    h = np.clip(h, scale.lowest, scale.highest)
    mean_h = float(np.average(h, weights=rows.weights))
    # held-out rows that determine the parameters of the noise: three numbers need no
    # more
    step = -(-len(h) // 4000)
    errors = rows.errors[::step]
    weights = rows.weights[::step]
    centred_h = h[::step] - mean_h
    latent = LatentMixture(
        np.zeros((len(errors), 1, 1)),
        rows.variance[::step, None, None],
        np.ones(1),
    )
    mean_square = float(np.average(errors**2, weights=weights))
    start, bounds = _start_and_bounds(likelihood, scale, mean_square)
    is_free = bounds[:, 0] < bounds[:, 1]

    def noise(u: Array) -> Gaussian | StudentT:
        if likelihood.heavy_tailed:
            return StudentT(df=float(np.exp(u[2])), scale=1.0)
        return Gaussian(1.0)

    def with_free(free_values: Array) -> Array:
        u = start.copy()
        u[is_free] = free_values
        return u

    def loss(free_values: Array) -> float:
        u = with_free(free_values)
        squared_scales = np.exp(2.0 * (u[0] + u[1] * centred_h))
        noise_of_rows = noise(u).prepare(errors).at_rows(squared_scales)
        log_density = noise_of_rows.predictive_log_density(errors, latent)
        total = float(weights @ log_density)
        log_prior = 0.0
        if is_free[2]:
            # p(ν) = ν exp(-ν / 10), up to a factor
            log_prior = u[2] - 0.1 * np.exp(u[2])
        return -(total + float(log_prior)) / float(weights.sum())

    u = start
    if is_free.any() and np.any(errors != 0.0):
        optimum = minimize(
            loss,
            start[is_free],
            method="L-BFGS-B",
            bounds=bounds[is_free],
            # beyond the error of the quadrature for Student's distribution
            options={"eps": 1e-4},
        )
        u = with_free(optimum.x)
    scale = replace(
        scale,
        intercept=float(u[0] - u[1] * mean_h),
        slope=float(u[1]),
    )
    mean_squared_scale = float(np.average(scale.squares(h), weights=rows.weights))
    return LearnedNoise(
        likelihood=noise(u).prepare(rows.errors).with_noise(mean_squared_scale),
        scale=scale,
        regressor=None,
    )
