"""A fit from rows to a latent model, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._covariance import Objective, covariance_root
from skgpx._gwi._judges import Temper, choose_judges, tempered
from skgpx._gwi._mean import FittedMean
from skgpx._gwi._network import SquaredError, TrainedNetworks, train_networks
from skgpx._gwi._prior import Prior, learn_prior
from skgpx._gwi._settings import LawSettings, NetworkSettings
from skgpx._gwi._sparse_mean import sparse_mean
from skgpx._latent import LatentModel, Mean
from skgpx._numerics.gaussian_wasserstein import projected_bures
from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._stage_clock import StageClock
from skgpx._validation import Rows
from skgpx.bases import Nystroem, select_inducing

Array = NDArray[np.float64]

# Inducing points in units of the root of the number of rows, and the least of them.
PER_ROOT, LEAST_INDUCING = 3.0, 50


class GWIFit(NamedTuple):
    """A finished fit, in units of the standardised y.

    Attributes
    ----------
    model : LatentModel
    kernel : sklearn.gaussian_process.kernels.Kernel
    noise_variance : float
    temper : Temper
    distance : float
        Wasserstein distance of the process from its prior, root mean square over the
        rows; an upper bound, see `projected_bures`.
    networks : TrainedNetworks or None
    """

    model: LatentModel
    kernel: Any
    noise_variance: float
    temper: Temper
    distance: float
    networks: TrainedNetworks | None


@dataclass
class GWIProblem:
    """Rows and settings of a fit, and the order of its stages.

    Parameters
    ----------
    rows : Rows
        With a standardised y.
    prior_mean : Mean
        m_P, of the standardised y.
    settings : LawSettings
    networks : NetworkSettings
    rng : numpy.random.Generator
    n_jobs : int or None
    clock : StageClock
    report : callable
        Asked after each round of the training of networks whether to stop, with a
        function that gives the fit if it ended now.
    """

    rows: Rows
    prior_mean: Mean
    settings: LawSettings
    networks: NetworkSettings
    rng: np.random.Generator
    n_jobs: int | None
    clock: StageClock
    report: Callable[[Callable[[], GWIFit]], bool]

    def __post_init__(self) -> None:
        self._level = self.prior_mean(self.rows.X)[:, 0]
        streams = self.rng.spawn(5)
        self._search, self._train, self._judge, self._select, self._sample = streams

    def fit(self, mean: str) -> GWIFit:
        """Fit with one of the library's own means."""
        prior = self.learned_prior(self.rows.y - self._level)
        self.clock.end_of("search")
        if mean == "svgp":
            return self._with_sparse_mean(prior)
        networks = self._trained(prior)
        self.clock.end_of("mean")
        return self.around(networks.mean, prior, networks)

    def learned_prior(self, targets: Array) -> Prior:
        """Kernel and noise of these targets (n,)."""
        s = self.settings
        how = s.kernel, s.optimizer, s.noise_variance
        rows = self.rows._replace(y=targets)
        return learn_prior(rows, *how, self._search.spawn(1)[0], self.n_jobs)

    def around(
        self, mean: FittedMean, prior: Prior, networks: TrainedNetworks | None = None
    ) -> GWIFit:
        """The law around a mean: inducing points, covariance, tempering."""
        judges = choose_judges(mean.trusted, self.settings, self._judge.spawn(1)[0])
        basis = self.basis(prior, judges)
        statistics = row_statistics(basis, self.rows, self.n_jobs)
        values = np.asarray(mean.function(self.rows.X)).reshape(-1)
        objective = self.objective(prior, statistics, values)
        law = GaussianWeights(
            np.zeros((basis.n_basis, 1)), self._root(objective, basis)[np.newaxis]
        )
        self.clock.end_of("covariance")
        found = self._tempered(mean, basis, law, prior, judges)
        function = Mean(np.zeros(1), np.ones(1), mean.function)
        model = LatentModel(basis, law, function, np.sqrt(found.factor))
        distance = _distance(objective, law)
        return GWIFit(model, prior.kernel, found.noise, found, distance, networks)

    def basis(self, prior: Prior, judges: NDArray[np.bool_]) -> Nystroem:
        """Basis at inducing points that are none of the judges."""
        s, rows = self.settings, self.rows.take(~judges)
        size = s.n_inducing
        if isinstance(size, str):
            size = max(round(PER_ROOT * np.sqrt(len(self.rows.y))), LEAST_INDUCING)
        size, rng = min(int(size), len(rows.y)), self._select.spawn(1)[0]
        how = rows.X, prior.kernel, size, rng, rows.weights
        return Nystroem.from_kernel(prior.kernel, select_inducing(s.inducing, *how))

    def objective(
        self, prior: Prior, statistics: WeightStatistics, values: Array
    ) -> Objective:
        """What the covariance minimises, given the mean at the rows (n,)."""
        gap = np.average((values - self._level) ** 2, weights=self.rows.weights)
        return self._objective(prior, statistics.gram / statistics.weight, float(gap))

    def _objective(self, prior: Prior, gram: Array, gap: float) -> Objective:
        s = self.settings
        batch = s.batch_size if s.objective == "root" else None
        n = float(self.rows.weights.sum())
        return Objective(gram, n, prior.noise_variance, s.distance_weight, batch, gap)

    def targets(self, prior: Prior) -> Array:
        """Targets t (n,) of least squares that stand for likelihood and distance.

        ``(y - m)² + κ (m - m_P)² = (1 + κ) (m - t)² + const``, ``t = (y + κ m_P) / (1 +
        κ)``. The objective with the root has κ depend on m; that of ``m = y`` is taken,
        and no covariance.
        """
        kappa = self.mean_weight(prior)
        shrunk: Array = (self.rows.y + kappa * self._level) / (1.0 + kappa)
        return shrunk

    def mean_weight(self, prior: Prior) -> float:
        """κ."""
        gap = (self.rows.y - self._level) ** 2
        mean_gap = float(np.average(gap, weights=self.rows.weights))
        return self._objective(prior, np.zeros((1, 1)), mean_gap).mean_weight()

    def _trained(self, prior: Prior) -> TrainedNetworks:
        rows = self.rows
        targets = self.targets(prior)[:, np.newaxis]
        loss = SquaredError(np.ascontiguousarray(targets), rows.weights)

        def report(trained: Callable[[], TrainedNetworks]) -> bool:
            def fit() -> GWIFit:
                now = trained()
                return self.around(now.mean, prior, now)

            return self.report(fit)

        how = self.networks, self._train, self.n_jobs, report
        return train_networks(rows.X, rows.weights, loss, 1, *how)

    def _with_sparse_mean(self, prior: Prior) -> GWIFit:
        """The mean ``m_P + k_Z(x)ᵀa`` in the basis of the covariance."""
        everywhere = np.ones(len(self.rows.y), bool)
        judges = choose_judges(everywhere, self.settings, self._judge.spawn(1)[0])
        basis = self.basis(prior, judges)
        kappa = self.mean_weight(prior)
        targets = self.rows._replace(y=self.targets(prior) - self._level)
        statistics = row_statistics(basis, targets, self.n_jobs)
        noise = self.settings.ridge * prior.noise_variance / (1.0 + kappa)
        found = sparse_mean(basis, targets, statistics, noise)
        self.clock.end_of("mean")
        objective = self.objective(prior, statistics, self._level + found.values)
        root = self._root(objective, basis)[np.newaxis]
        self.clock.end_of("covariance")
        law = GaussianWeights(np.zeros((basis.n_basis, 1)), root)
        left = (self._level + found.left_out)[:, np.newaxis]
        mean = FittedMean(_zero, left, everywhere)
        temper = self._tempered(mean, basis, law, prior, judges)
        weights = found.weights[:, np.newaxis] / np.sqrt(temper.factor)
        model = LatentModel(
            basis,
            GaussianWeights(weights, root),
            self.prior_mean,
            np.sqrt(temper.factor),
        )
        distance = _distance(objective, law)
        return GWIFit(model, prior.kernel, temper.noise, temper, distance, None)

    def _root(self, objective: Objective, basis: Nystroem) -> Array:
        s, rng = self.settings, self._sample.spawn(1)[0]
        return covariance_root(s.covariance, objective, basis, self.rows, rng)

    def _tempered(
        self,
        mean: FittedMean,
        basis: Nystroem,
        law: GaussianWeights,
        prior: Prior,
        judges: NDArray[np.bool_],
    ) -> Temper:
        rows = self.rows.take(judges)
        features = basis(rows.X)
        spread = law.latent(features)[1][:, 0, 0]
        variances = spread + basis.residual_variance(rows.X, features)
        squares = (rows.y - mean.residual_values[judges, 0]) ** 2
        how = self.settings.tempering, squares, variances, rows.weights
        clock = tempered(*how, prior.noise_variance)
        self.clock.end_of("tempering")
        return clock


def _zero(X: Array) -> Array:
    return np.zeros(len(X))


def _distance(objective: Objective, law: GaussianWeights) -> float:
    squared = projected_bures(objective.gram, law.root[0]).squared
    return float(np.sqrt(objective.means + squared))
