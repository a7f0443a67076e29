"""A fit of classes, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._callbacks import StageClock
from skgpx._gwi._around import CrossFittedMean
from skgpx._gwi._checks import MIN_CLASS_ROWS, NeighbourLosses
from skgpx._gwi._class_scores import (
    ClassifierMean,
    ClassScale,
    ClassScores,
    FadingScores,
    ValidationRows,
    best_mixture,
    fading_edge,
    fit_class_scale,
    has_probabilities,
    latent_scores,
    log_losses,
    stratified_folds,
)
from skgpx._gwi._covariance import Objective, covariance_root
from skgpx._gwi._network import FittedMean, TrainedNetworks, train_networks
from skgpx._gwi._settings import NetworkSettings
from skgpx._latent import LatentModel, Mean
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.robust_max import probability_and_slopes
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._selection import PriorSettings, SearchRecord, fit_prior
from skgpx._validation import Rows
from skgpx.bases import Nystroem, Warped, select_inducing
from skgpx.likelihoods import Bernoulli, Categorical, Likelihood, RobustMax

# ---- What networks of classes minimise: expected log likelihood and distance ---------


Array = NDArray[np.float64]
Index = NDArray[np.intp]


class ClassLoss(NamedTuple):
    """``Σ w (E[-log p(y | f)] + κ |m - m_P|²) / Σ w`` over the rows of a batch.

    The expectation is over ``f ~ N(m, r)`` at each row: eqs. (69) and (70) of the paper
    for RobustMax, otherwise by a rule of a dozen nodes, or two for each output.

    Attributes
    ----------
    likelihood : Likelihood
        Prepared.
    codes : ndarray of shape (n,)
        Numbers of the classes.
    weights : ndarray of shape (n,)
    variance : ndarray of shape (n,)
        r, the same for all outputs.
    distance_weight : float
        κ: one over the number of rows, times the weight of the distances.
    """

    likelihood: Likelihood
    codes: Array
    weights: Array
    variance: Array
    distance_weight: float

    def __call__(self, outputs: Array, rows: Index) -> tuple[float, Array]:
        """Value, and its derivative in the outputs (len(rows), c) of these rows."""
        expected = robust_max if isinstance(self.likelihood, RobustMax) else by_nodes
        y, r = self.codes[rows], self.variance[rows]
        nll, slope = expected(self.likelihood, y, outputs, r)
        gap = outputs - self.likelihood.base_latent_
        nll = nll + self.distance_weight * np.sum(gap**2, axis=1)
        slope = slope + 2.0 * self.distance_weight * gap
        share = self.weights[rows] / self.weights[rows].sum()
        return float(share @ nll), share[:, np.newaxis] * slope


def robust_max(
    likelihood: RobustMax, y: Array, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """Expected nll (n,), and its derivative in the means (n, c)."""
    right = np.log1p(-likelihood.epsilon)
    wrong = np.log(likelihood.epsilon / (mean.shape[1] - 1.0))
    S, slope, _ = probability_and_slopes(y, mean, variance[:, np.newaxis])
    return -right * S - wrong * (1.0 - S), (wrong - right) * slope


def by_nodes(
    likelihood: Likelihood, y: Array, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """The same for a smooth likelihood: derivatives of the rule."""
    nodes, weights = expectation_nodes(mean.shape[1])
    std = np.sqrt(variance)[:, np.newaxis, np.newaxis]
    f = mean[:, :, np.newaxis] + std * nodes.T
    return likelihood.row_nll(y, f) @ weights, likelihood.row_gradient(y, f) @ weights


# ---- A fit of classes, from rows to a latent model, top to bottom --------------------


# Inducing points in units of the root of the number of rows, and the least of them.
PER_ROOT, LEAST_INDUCING = 3.0, 50
# Number of folds, and largest and smallest number of validation rows.
_FOLDS, MAX_VALIDATION, MIN_VALIDATION = 5, 1000, 10


class ClassSettings(NamedTuple):
    """Parameters of the process around the scores; see `GWIClassifier`."""

    kernel: Any
    optimizer: str | None
    n_inducing: int | str
    inducing: Any
    covariance: str
    distance_weight: float
    tempering: bool
    fading: bool
    n_jobs: int | None

    @classmethod
    def of(cls, estimator: Any) -> ClassSettings:
        """Those of an estimator."""
        return cls(*(getattr(estimator, name) for name in cls._fields))


class ClassFit(NamedTuple):
    """A finished fit.

    Attributes
    ----------
    model : LatentModel
    likelihood : Likelihood
    kernel : sklearn.gaussian_process.kernels.Kernel
    scale : ClassScale
    inducing_points : ndarray of shape (m, d)
        In the input space of the kernel.
    networks : TrainedNetworks or None
    record : SearchRecord
        Rows used for the kernel and for the scales of scores and variances.
    compared : NeighbourLosses or None
        Networks against neighbours, after training and with enough held-out rows.
    """

    model: LatentModel
    likelihood: Likelihood
    kernel: Any
    scale: ClassScale
    inducing_points: Array
    networks: TrainedNetworks | None
    record: SearchRecord
    compared: NeighbourLosses | None = None


@dataclass
class ClassProblem:
    """Rows and settings of a fit, and the order of its stages.

    Parameters
    ----------
    rows : Rows
        y holds the numbers of the classes.
    classes : ndarray of shape (K,)
        Their labels.
    likelihood : Likelihood
        Prepared.
    settings : ClassSettings
    networks : NetworkSettings
    rng : numpy.random.Generator
    clock : StageClock
    report : callable
        Called after each round of training with a function that returns the current
        fit; training stops if it returns True.
    """

    rows: Rows
    classes: NDArray[Any]
    likelihood: Likelihood
    settings: ClassSettings
    networks: NetworkSettings
    rng: np.random.Generator
    clock: StageClock
    report: Callable[[Callable[[], ClassFit]], bool]
    _validation: tuple[Index, Array] = field(init=False)

    def fit(self, cross_fitted: CrossFittedMean | None = None) -> ClassFit:
        """Fit around a cross-fitted classifier, or around networks."""
        search, train, self._select, self._validation_rng = self.rng.spawn(4)
        self.kernel, self._record = self._learned_kernel(search)
        self.clock.end_of("search")
        self._prepared = self.likelihood
        self.likelihood = self._centred(1.0)
        how = self.settings.covariance
        self.basis, self.posterior = self._posterior_at(self.rows, how)
        self._validation = self._variances_held_out()
        self.clock.end_of("covariance")
        if cross_fitted is None:
            return self._around_networks(train)
        return self._around_classifier(cross_fitted)

    @property
    def _w(self) -> Array:
        return self.rows.weights

    def _centred(self, variance_factor: float) -> Likelihood:
        """Likelihood whose prior of variance ``b k`` expects the class frequencies."""
        prior = np.average(self.kernel.diag(self.rows.X), weights=self._w)
        return self._prepared.centred(variance_factor * float(prior))

    def _learned_kernel(self, rng: np.random.Generator) -> tuple[Any, SearchRecord]:
        """Kernel by Laplace's approximation of the evidence, without a mean."""
        s, two = self.settings, len(self.classes) == 2
        smooth = (Bernoulli() if two else Categorical()).prepare(self.rows.y, self._w)
        m = self._n_inducing(len(self.rows.y))
        how = PriorSettings(s.kernel, "gp", s.optimizer, 1, s.inducing, m, s.n_jobs)
        found = fit_prior(self.rows, smooth, how, rng)
        return found.kernel, found.record

    def _n_inducing(self, n: int) -> int:
        size = self.settings.n_inducing
        if isinstance(size, str):
            size = max(round(PER_ROOT * np.sqrt(len(self.rows.y))), LEAST_INDUCING)
        return min(int(size), n)

    def _posterior_at(
        self, rows: Rows, covariance: str
    ) -> tuple[Nystroem, GaussianWeights]:
        """Basis and posterior of the weights, the same for all outputs, around zero."""
        s, m, rng = self.settings, self._n_inducing(len(rows.y)), self._select
        which = rows.X, self.kernel, m, rng.spawn(1)[0], rows.weights
        basis = Nystroem.from_kernel(self.kernel, select_inducing(s.inducing, *which))
        statistics = row_statistics(basis, rows, s.n_jobs)
        objective = Objective(
            statistics.gram / statistics.weight,
            float(rows.weights.sum()),
            1.0 / self._curvature(),
            s.distance_weight,
            None,
            0.0,
        )
        root = covariance_root(covariance, objective, basis, rows, rng.spawn(1)[0])
        zero = np.zeros((basis.n_basis, self.likelihood.n_outputs_))
        return basis, GaussianWeights(zero, root[np.newaxis])

    def _curvature(self) -> float:
        """Mean ``p (1 - p)`` of the classes at their frequencies.

        The second derivative of the nll of a softmax, which stands for one over the
        noise variance of regression.
        """
        counts = np.bincount(self.rows.y.astype(np.intp), weights=self._w) + 0.5
        share = counts / counts.sum()
        return float(np.mean(share * (1.0 - share)))

    def _variances_held_out(self) -> tuple[Index, Array]:
        """Validation rows, and r at them given the other rows."""
        n = len(self.rows.y)
        order = self._validation_rng.spawn(1)[0].permutation(n)
        folds = np.full(n, -1)
        folds[order] = stratified_folds(self.rows.y[order], _FOLDS)
        # the steps of the estimator do not lead far from where they start
        how = self.settings.covariance
        how = "svgp" if how == "empirical" else how
        variance = np.full(n, np.nan)
        for fold in range(folds.max() + 1):
            room = MAX_VALIDATION - int(np.sum(~np.isnan(variance)))
            if room <= 0:
                break
            part = order[folds[order] == fold][:room]
            basis, posterior = self._posterior_at(self.rows.take(folds != fold), how)
            variance[part] = basis.marginals(posterior)(self.rows.X[part])[1][:, 0, 0]
        validation = np.flatnonzero(~np.isnan(variance))
        return validation, variance[validation]

    # ---- Means -----------------------------------------------------------------------

    def _around_networks(self, rng: np.random.Generator) -> ClassFit:
        """Networks trained by expected log likelihood and distance."""
        rows, likelihood = self.rows, self.likelihood
        r = self.basis.marginals(self.posterior)(rows.X)[1][:, 0, 0]
        kappa = self.settings.distance_weight / float(self._w.sum())
        loss = ClassLoss(likelihood, rows.y, self._w, r, kappa)

        def report(trained: Callable[[], TrainedNetworks]) -> bool:
            def fit() -> ClassFit:
                now = trained()
                return self._around(now.mean, None, None, now)

            return self.report(fit)

        how = self.networks, rng, self.settings.n_jobs, report
        found = train_networks(rows.X, self._w, loss, likelihood.n_outputs_, *how)
        self.clock.end_of("mean")
        fitted = self._around(found.mean, None, None, found)
        compared = self._compared(found.mean, fitted.scale)
        self.clock.end_of("tempering")
        return fitted._replace(compared=compared)

    def _compared(self, mean: FittedMean, found: ClassScale) -> NeighbourLosses | None:
        """Scaled networks against neighbours, neither of which is overconfident."""
        chosen, validation = self._validation_rows(mean)
        if len(chosen) < MIN_CLASS_ROWS:
            return None
        if not self.settings.tempering:
            found = fit_class_scale(validation, self.likelihood, found.edge)
        losses = log_losses(validation, self.likelihood, found)
        own = self._validation_rng.spawn(1)[0]
        return NeighbourLosses.of(self.rows, chosen, losses, own)

    def _around_classifier(self, cross_fitted: CrossFittedMean) -> ClassFit:
        """A classifier of scikit-learn, with out-of-fold scores."""
        found, held_out = cross_fitted.cross_fit, cross_fitted.cross_fit.held_out
        mixed = None
        if has_probabilities(found.estimator):
            validation = (
                held_out if self.settings.tempering else np.zeros_like(held_out)
            )
            part = self.rows.take(validation)
            mixed = best_mixture(found.predictions[validation], part.y, part.weights)
        c = self.likelihood.n_outputs_
        predict = ClassScores(self.classes)
        function = ClassifierMean(found.estimator, cross_fitted.form, predict, mixed, c)
        scores = latent_scores(found.predictions, mixed, c)
        out_of_fold = FittedMean(function, scores, held_out)
        return self._around(out_of_fold, mixed, cross_fitted, None)

    def _around(
        self,
        mean: FittedMean,
        mixed: float | None,
        cross_fitted: CrossFittedMean | None,
        networks: TrainedNetworks | None,
    ) -> ClassFit:
        """The process around scores, calibrated."""
        found, validation = self._fit_scale(mean)
        found = found._replace(mixed=mixed)
        likelihood = self._centred(found.variance_factor)
        base = likelihood.base_latent_
        seen_as = None if cross_fitted is None else cross_fitted.map
        scores = FadingScores(
            mean.function, found.score_factor, base,
            found.edge, self.basis, self.posterior, seen_as,
        )  # fmt: skip
        function = Mean(base, np.ones(len(base)), scores)
        basis = self.basis if seen_as is None else Warped(self.basis, seen_as)
        scale = np.sqrt(found.variance_factor)
        model = LatentModel(basis, self.posterior, function, scale)
        self.clock.end_of("tempering")
        points = self.basis.inducing_points
        record = self._record._replace(errors_that_tempered=validation)
        fitted = model, likelihood, self.kernel, found, points
        return ClassFit(*fitted, networks, record)

    def _fit_scale(self, mean: FittedMean) -> tuple[ClassScale, int]:
        """Calibration on held-out rows, and their number."""
        chosen, validation = self._validation_rows(mean)
        edge = fading_edge(validation) if self.settings.fading else None
        if not self.settings.tempering or len(chosen) < MIN_VALIDATION:
            return ClassScale(edge=edge), 0
        return fit_class_scale(validation, self.likelihood, edge), len(chosen)

    def _validation_rows(self, mean: FittedMean) -> tuple[Index, ValidationRows]:
        """Positions of the validation rows, and their predictions."""
        chosen, variance = self._validation
        held_out = mean.held_out[chosen]
        chosen, variance = chosen[held_out], variance[held_out]
        prior = self.kernel.diag(self.rows.X[chosen])
        validation = ValidationRows(
            self.rows.y[chosen],
            self._w[chosen],
            mean.residual_values[chosen],
            variance,
            np.minimum(variance / prior, 1.0),
        )
        return chosen, validation
