"""A fit from rows to a latent model, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._averaging import share_of_error
from skgpx._gwi._covariance import Objective, covariance_root
from skgpx._gwi._judges import Temper, choose_judges, tempered
from skgpx._gwi._mean import FittedMean
from skgpx._gwi._mean_check import (
    MeanErrors,
    networks_serve,
    warn_if_process_is_better,
)
from skgpx._gwi._network import SquaredError, TrainedNetworks, train_networks
from skgpx._gwi._prior import Prior, learn_prior, warn_if_periodic
from skgpx._gwi._settings import LawSettings, NetworkSettings
from skgpx._gwi._sparse_mean import SparseFit
from skgpx._hyperparameters import SearchRecord
from skgpx._latent import LatentModel, Mean
from skgpx._numerics.gaussian_wasserstein import projected_bures
from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._stage_clock import StageClock
from skgpx._validation import Rows
from skgpx.bases import Nystroem, select_inducing, select_until

Array = NDArray[np.float64]

# Inducing points in units of the root of the number of rows, and the least of them.
PER_ROOT, LEAST_INDUCING = 3.0, 50
# Where points leave more nats a row than this to the noise, as many as leave no more
# than that, or the most, are the basis of a mean whose error falls to this share.
_WORTH_GROWING, _ENOUGH, _MOST_INDUCING, _GAIN = 0.1, 0.01, 500, 0.8


class GWIFit(NamedTuple):
    """A finished fit, in units of the standardised y.

    Attributes
    ----------
    model : LatentModel
    prior : Prior
        Kernel, and the noise variance before it was tempered.
    temper : Temper
    distance : float
        Wasserstein distance of the process from its prior, root mean square over the
        rows; an upper bound, see `projected_bures`.
    networks : TrainedNetworks or None
    record : SearchRecord
        Which rows chose hyperparameters and the size of variances.
    mean : {"net", "svgp"} or None
        Which of the library's own means it is.
    """

    model: LatentModel
    prior: Prior
    temper: Temper
    distance: float
    networks: TrainedNetworks | None
    record: SearchRecord
    mean: str | None = None

    @property
    def inducing_points(self) -> Array:
        """Inducing points (m, q), of what the kernel sees."""
        basis = self.model.basis
        points: Array = getattr(basis, "basis", basis).inducing_points
        return points


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
    """

    rows: Rows
    prior_mean: Mean
    settings: LawSettings
    networks: NetworkSettings
    rng: np.random.Generator
    n_jobs: int | None

    def __post_init__(self) -> None:
        self.level = self.prior_mean(self.rows.X)[:, 0]
        streams = self.rng.spawn(5)
        self._search, self._train, self._judge, self._select, self._sample = streams

    def fit(
        self,
        mean: str,
        clock: StageClock,
        report: Callable[[Callable[[], GWIFit]], bool],
    ) -> GWIFit:
        """Fit with one of the library's own means.

        Parameters
        ----------
        mean : {"auto", "net", "svgp"}
        clock : StageClock
        report : callable
            Asked after each round of the training of networks whether to stop, with a
            function that gives the fit if it ended now.
        """
        prior = self.learned_prior(self.rows.y - self.level, mean != "svgp")
        clock.end_of("search")
        networks, chosen = None, mean
        if mean != "svgp":
            networks = self.trained(prior, report)
            chosen = self._chosen(mean, prior, networks)
            clock.end_of("mean")
        if networks is None or chosen == "svgp":
            found = self.with_sparse_mean(prior)._replace(networks=networks)
        else:
            warn_if_periodic(prior.kernel)
            found = self.around(networks.mean, prior, networks)
        clock.end_of("law")
        return found._replace(mean=chosen)

    def _chosen(self, mean: str, prior: Prior, networks: TrainedNetworks) -> str:
        """The kind of mean, by rows that neither has seen where that is asked for."""
        share = self._share_of_error(networks.mean)
        errors = MeanErrors.of(self.rows, self.level, prior, networks.mean, share)
        if mean == "auto":
            return "net" if networks_serve(errors) else "svgp"
        warn_if_process_is_better(errors)
        return mean

    def learned_prior(self, targets: Array, thinned: bool = True) -> Prior:
        """Kernel and noise of these targets (n,); see `learn_prior`."""
        s, rows = self.settings, self.rows._replace(y=targets)
        how = s.kernel, s.optimizer, s.noise_variance
        return learn_prior(rows, *how, _again(self._search), self.n_jobs, thinned)

    def around(
        self, mean: FittedMean, prior: Prior, networks: TrainedNetworks | None = None
    ) -> GWIFit:
        """The law around a mean: inducing points, covariance, tempering."""
        judges = self._judges(mean.trusted)
        basis = self.basis(prior, judges)
        statistics = row_statistics(basis, self.rows, self.n_jobs)
        values = np.asarray(mean.function(self.rows.X)).reshape(-1)
        objective = self.objective_of(prior, statistics, values)
        law = self.law(objective, basis)
        left_out = mean.residual_values[:, 0]
        share = self._share_of_error(mean)
        temper = self._tempered(left_out, basis, law, prior, judges, share)
        function = Mean(np.zeros(1), np.ones(1), mean.function)
        model = LatentModel(basis, law, function, np.sqrt(temper.factor))
        record = prior.record._replace(errors_that_tempered=int(judges.sum()))
        distance = distance_of(objective, law)
        return GWIFit(model, prior, temper, distance, networks, record)

    def with_sparse_mean(self, prior: Prior) -> GWIFit:
        """The mean ``m_P + k_Z(x)ᵀa`` in the basis of the covariance."""
        judges = self._judges(np.ones(len(self.rows.y), bool))
        kappa = self._mean_weight(prior)
        rows = self.rows._replace(y=self._targets(kappa) - self.level)
        noise = self.settings.ridge * prior.noise_variance / (1.0 + kappa)
        basis = self.basis(prior, judges)
        best = SparseFit.of(basis, rows, noise, self.n_jobs)
        if self._may_grow(basis) and best.unexplained > _WORTH_GROWING:
            basis = self._grown(prior, judges)
            wider = SparseFit.of(basis, rows, noise, self.n_jobs)
            best = wider if wider.error < _GAIN * best.error else best
        basis, statistics, found, _, _ = best
        objective = self.objective_of(prior, statistics, self.level + found.values)
        law = self.law(objective, basis)
        left_out = self.level + found.left_out
        temper = self._tempered(left_out, basis, law, prior, judges)
        root = np.sqrt(temper.factor)
        scaled = law._replace(mean=found.weights[:, np.newaxis] / root)
        model = LatentModel(basis, scaled, self.prior_mean, root)
        record = prior.record._replace(errors_that_tempered=int(judges.sum()))
        distance = distance_of(objective, law)
        return GWIFit(model, prior, temper, distance, None, record)

    def _may_grow(self, basis: Nystroem) -> bool:
        """Whether the number of inducing points is free, and more are allowed."""
        s, m = self.settings, len(basis.inducing_points)
        free = s.n_inducing == "auto" and isinstance(s.inducing, str)
        return free and m < _MOST_INDUCING

    def _grown(self, prior: Prior, judges: NDArray[np.bool_]) -> Nystroem:
        """Basis of as many points as follow the prior, within a limit."""
        rows, rng = self.rows.take(~judges), _again(self._select)
        most = min(_MOST_INDUCING, len(rows.y))
        left = 2.0 * _ENOUGH * prior.noise_variance
        how = rows.X, prior.kernel, most
        Z = select_until(*how, left, rng, rows.weights)
        if Z is None:
            Z = select_inducing(self.settings.inducing, *how, rng, rows.weights)
        return Nystroem.from_kernel(prior.kernel, Z)

    def trained(
        self, prior: Prior, report: Callable[[Callable[[], GWIFit]], bool]
    ) -> TrainedNetworks:
        """Networks of one output, by the least squares of the objective."""
        rows = self.rows
        targets = self._targets(self._mean_weight(prior))
        loss = SquaredError(targets[:, np.newaxis].copy(), rows.weights)

        def told(trained: Callable[[], TrainedNetworks]) -> bool:
            def fit() -> GWIFit:
                now = trained()
                return self.around(now.mean, prior, now)

            return report(fit)

        how = self.networks, _again(self._train), self.n_jobs, told
        return train_networks(rows.X, rows.weights, loss, 1, *how)

    # ---- Parts of a law ----------------------------------------------------------

    def _judges(self, trusted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return choose_judges(trusted, self.settings.tempering, _again(self._judge))

    def basis(self, prior: Prior, judges: NDArray[np.bool_]) -> Nystroem:
        """Basis at inducing points that are none of the judges."""
        s, rows = self.settings, self.rows.take(~judges)
        size = s.n_inducing
        if isinstance(size, str):
            size = max(round(PER_ROOT * np.sqrt(len(self.rows.y))), LEAST_INDUCING)
        size = min(int(size), len(rows.y))
        how = rows.X, prior.kernel, size, _again(self._select), rows.weights
        return Nystroem.from_kernel(prior.kernel, select_inducing(s.inducing, *how))

    def objective_of(
        self, prior: Prior, statistics: WeightStatistics, values: Array
    ) -> Objective:
        """What the covariance minimises, given the mean at the rows (n,)."""
        gap = np.average((values - self.level) ** 2, weights=self.rows.weights)
        return self._objective(prior, statistics.gram / statistics.weight, float(gap))

    def _objective(self, prior: Prior, gram: Array, gap: float) -> Objective:
        s = self.settings
        batch = s.batch_size if s.objective == "root" else None
        n = float(self.rows.weights.sum())
        return Objective(gram, n, prior.noise_variance, s.distance_weight, batch, gap)

    def _mean_weight(self, prior: Prior) -> float:
        """Weight κ of ``(m - m_P)²`` beside ``(y - m)²``.

        The objective with the root has it depend on m: that of ``m = y`` is taken.
        """
        squares = (self.rows.y - self.level) ** 2
        gap = float(np.average(squares, weights=self.rows.weights))
        return self._objective(prior, np.zeros((1, 1)), gap).mean_weight()

    def _targets(self, kappa: float) -> Array:
        """Targets t (n,) of least squares that stand for likelihood and distance.

        ``(y - m)² + κ (m - m_P)² = (1 + κ) (m - t)² + constant``.
        """
        shrunk: Array = (self.rows.y + kappa * self.level) / (1.0 + kappa)
        return shrunk

    def law(self, objective: Objective, basis: Nystroem) -> GaussianWeights:
        """Law of the weights, with mean zero."""
        how, rng = self.settings.covariance, _again(self._sample)
        root = covariance_root(how, objective, basis, self.rows, rng)
        return GaussianWeights(np.zeros((basis.n_basis, 1)), root[np.newaxis])

    def _share_of_error(self, mean: FittedMean) -> float:
        """What to take of squared errors of single networks for those of their average.

        The root of the share: rows held out also stop the training, so that errors
        there are a little small, and their tails are longer than those of a normal law.
        """
        if mean.seen is None or not np.any(mean.trusted):
            return 1.0
        rows, held_out = self.rows.take(mean.trusted), mean.residual_values[:, 0]
        seen = mean.seen.take(mean.trusted)
        told = rows.y, held_out[mean.trusted], seen, rows.weights
        return float(np.sqrt(share_of_error(*told)))

    def _tempered(
        self,
        left_out: Array,
        basis: Nystroem,
        law: GaussianWeights,
        prior: Prior,
        judges: NDArray[np.bool_],
        share: float = 1.0,
    ) -> Temper:
        """Noise and factor by values (n,) of the mean at rows that it did not see.

        `share` is that of the squared errors there which the mean has elsewhere.
        """
        rows = self.rows.take(judges)
        features = basis(rows.X)
        spread = law.latent(features)[1][:, 0, 0]
        r = spread + basis.residual_variance(rows.X, features)
        squares = share * (rows.y - left_out[judges]) ** 2
        how = self.settings.tempering
        return tempered(how, squares, r, rows.weights, prior.noise_variance)


def _again(rng: np.random.Generator) -> np.random.Generator:
    """The same stream at every call, as a callback may ask for a fit of any round.

    From its seed: a copy in NumPy 1 forgets that, and its children would be any.
    """
    source = rng.bit_generator
    known: Any = source.seed_seq
    seed = np.random.SeedSequence(
        known.entropy, spawn_key=known.spawn_key, pool_size=known.pool_size
    )
    return np.random.Generator(type(source)(seed))


def distance_of(objective: Objective, law: GaussianWeights) -> float:
    """Distance of the process from its prior; see `GWIFit`."""
    squared = projected_bures(objective.gram, law.root[0]).squared
    return float(np.sqrt(objective.means + squared))
