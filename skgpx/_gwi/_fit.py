"""A fit from rows to a latent model, top to bottom."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._checks import (
    MeanErrors,
    confirmed,
    may_overfit,
    networks_serve,
    variance_of,
    warn_if_constant_is_better,
    warn_if_process_is_better,
    warn_of_missed,
)
from skgpx._gwi._covariance import Objective, covariance_root, distance_of
from skgpx._gwi._judges import Temper, choose_judges, tempered
from skgpx._gwi._network import (
    FittedMean,
    SquaredError,
    TrainedNetworks,
    share_of_error,
    train_networks,
)
from skgpx._gwi._prior import SEARCH_ROWS, Prior, learn_prior, warn_if_periodic
from skgpx._gwi._sections import Sections, closer_look, sections_of
from skgpx._gwi._settings import LawSettings, NetworkSettings, again
from skgpx._hyperparameters import WORTH_LOOKING, LeftOver, SearchRecord
from skgpx._latent import LatentModel, Mean
from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._stage_clock import StageClock
from skgpx._validation import Rows, warn
from skgpx.bases import Nystroem, select_inducing

Array = NDArray[np.float64]

# Least share of a leverage that is not one.
_LEAST_FREE = 1e-9

# Inducing points in units of the root of the number of rows, and the least of them.
PER_ROOT, LEAST_INDUCING = 3.0, 50


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
        self.spread = variance_of(self.rows)
        streams = self.rng.spawn(6)
        self._search, self._train, self._judge, self._select = streams[:4]
        self._sample, self._close = streams[4:]

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
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            prior = self.learned_prior(self.rows.y - self.level, mean != "svgp")
        clock.end_of("search")
        if mean == "svgp":
            sections = closer_look(self, sections_of(self, prior))
            found = self._around_sections(sections, False)
        else:
            networks = self.trained(prior, report)
            sections = self._better(mean, prior, networks)
            clock.end_of("mean")
            if sections is None:
                warn_if_periodic(prior.kernel)
                found = self.around(networks.mean, prior, networks)
            else:
                found = self._around_sections(sections, True, networks)
        clock.end_of("law")
        if found.prior is prior:
            # of another kernel, it is not true
            for one in said:
                warn(str(one.message), one.category)
        return found

    def _better(
        self, mean: str, prior: Prior, networks: TrainedNetworks
    ) -> Sections | None:
        """Kernel sections if they are the better mean, by rows that neither saw."""
        share = self._share_of_error(networks.mean)
        errors = MeanErrors.of(self.rows, self.level, prior, networks.mean, share)
        seen = networks.mean.trusted
        misses = self.rows.y[seen] - networks.mean.residual_values[seen, 0]
        left = LeftOver.of(self.rows.X[seen], misses, self.spread)
        if mean == "auto" and not networks_serve(errors):
            how = self._learner(), self.rows, self.level, prior, networks.mean, share
            errors = confirmed(errors, *how)
        if mean == "net":
            if not warn_if_process_is_better(errors):
                warn_of_missed(left)
            return None
        if not networks_serve(errors):
            return closer_look(self, sections_of(self, prior))
        worth_it = left is not None and left.share >= WORTH_LOOKING
        if len(self.rows.y) > SEARCH_ROWS and worth_it:
            # the process of all rows may find what that of some does not
            sections = closer_look(self, sections_of(self, prior))
            square = float(np.average(misses**2, weights=self.rows.weights[seen]))
            if share * square > errors.as_good * sections.judged.error:
                return sections
        if not warn_of_missed(left):
            warn_if_constant_is_better(errors)
        return None

    def _around_sections(
        self, found: Sections, chosen: bool, networks: TrainedNetworks | None = None
    ) -> GWIFit:
        """The law around sections, and a word if they miss what may be found."""
        # where the prior is to decide, rows may be missed
        free = self.spread > 0.0 and self.mean_weight(found.prior) < 1.0
        if free and not warn_of_missed(found.left_over(self)):
            error, n = found.fit.error / self.spread, len(self.rows.y)
            told = MeanErrors(error, error, n - 1, n) if chosen else None
            warn_if_constant_is_better(told)
        return self.with_sections(found)._replace(networks=networks)

    def learned_prior(self, targets: Array, thinned: bool = True) -> Prior:
        """Kernel and noise of these targets (n,); see `learn_prior`."""
        s, rows = self.settings, self.rows._replace(y=targets)
        how = s.kernel, s.optimizer, s.noise_variance
        return learn_prior(rows, *how, again(self._search), self.n_jobs, thinned)

    def _learner(self) -> Callable[[NDArray[np.bool_]], Prior]:
        """Learns a prior from some of the rows."""
        s, rows = self.settings, self.rows._replace(y=self.rows.y - self.level)
        how = s.kernel, s.optimizer, s.noise_variance, again(self._search), self.n_jobs
        return lambda kept: learn_prior(rows.take(kept), *how, True)

    def around(
        self, mean: FittedMean, prior: Prior, networks: TrainedNetworks | None = None
    ) -> GWIFit:
        """The law around a mean: inducing points, covariance, tempering."""
        judges = self.judges(mean.trusted)
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

    def with_sections(self, found: Sections) -> GWIFit:
        """The mean ``m_P + k_Z(x)ᵀa``, and the law in the basis of it."""
        prior, (basis, statistics, mean, _, _) = found.prior, found.fit
        objective = self.objective_of(prior, statistics, self.level + mean.values)
        law = self.law(objective, basis)
        temper = self._tempered_sections(found, law)
        root = np.sqrt(temper.factor)
        scaled = law._replace(mean=mean.weights[:, np.newaxis] / root)
        model = LatentModel(basis, scaled, self.prior_mean, root)
        record = prior.record._replace(errors_that_tempered=int(found.judges.sum()))
        distance = distance_of(objective, law)
        return GWIFit(model, prior, temper, distance, None, record, "svgp")

    def _tempered_sections(self, found: Sections, law: GaussianWeights) -> Temper:
        """Noise and factor by rows left out one by one.

        Where all rows may be points, r at a row vanishes, unless it is that of the law
        without the row, which that of sparse regression has in closed form: too small
        where the kernel knows the rows too well.
        """
        prior, judges, fit = found.prior, found.judges, found.fit
        if fit is found.judged:
            left_out = self.level + fit.mean.left_out
            return self._tempered(left_out, fit.basis, law, prior, judges)
        close = not may_overfit(prior.kernel, len(self.rows.y))
        if self.settings.covariance == "svgp" and close:
            left_out = self.level + fit.mean.left_out
            every = np.ones_like(judges) if np.any(judges) else judges
            return self._tempered(left_out, fit.basis, law, prior, every, known=True)
        fit = found.judged
        values = self.level + fit.mean.values
        objective = self.objective_of(prior, fit.statistics, values)
        law, left_out = self.law(objective, fit.basis), self.level + fit.mean.left_out
        return self._tempered(left_out, fit.basis, law, prior, judges)

    def trained(
        self, prior: Prior, report: Callable[[Callable[[], GWIFit]], bool]
    ) -> TrainedNetworks:
        """Networks of one output, by the least squares of the objective."""
        rows = self.rows
        targets = self.targets(self.mean_weight(prior))
        loss = SquaredError(targets[:, np.newaxis].copy(), rows.weights)

        def told(trained: Callable[[], TrainedNetworks]) -> bool:
            def fit() -> GWIFit:
                now = trained()
                return self.around(now.mean, prior, now)

            return report(fit)

        how = self.networks, again(self._train), self.n_jobs, told
        return train_networks(rows.X, rows.weights, loss, 1, *how)

    # ---- Parts of a law ----------------------------------------------------------

    def judges(self, trusted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return choose_judges(trusted, self.settings.tempering, again(self._judge))

    def selection(self) -> np.random.Generator:
        """The stream that selects inducing points, at its start."""
        return again(self._select)

    def close(self) -> np.random.Generator:
        """The stream of the rows of closer looks, at its start."""
        return again(self._close)

    def basis(self, prior: Prior, judges: NDArray[np.bool_]) -> Nystroem:
        """Basis at inducing points that are none of the judges."""
        s, rows = self.settings, self.rows.take(~judges)
        size = s.n_inducing
        if isinstance(size, str):
            size = max(round(PER_ROOT * np.sqrt(len(self.rows.y))), LEAST_INDUCING)
        size = min(int(size), len(rows.y))
        how = rows.X, prior.kernel, size, again(self._select), rows.weights
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

    def mean_weight(self, prior: Prior) -> float:
        """Weight κ of ``(m - m_P)²`` beside ``(y - m)²``.

        The objective with the root has it depend on m: that of ``m = y`` is taken.
        """
        squares = (self.rows.y - self.level) ** 2
        gap = float(np.average(squares, weights=self.rows.weights))
        return self._objective(prior, np.zeros((1, 1)), gap).mean_weight()

    def targets(self, kappa: float) -> Array:
        """Targets t (n,) of least squares that stand for likelihood and distance.

        ``(y - m)² + κ (m - m_P)² = (1 + κ) (m - t)² + constant``.
        """
        shrunk: Array = (self.rows.y + kappa * self.level) / (1.0 + kappa)
        return shrunk

    def law(self, objective: Objective, basis: Nystroem) -> GaussianWeights:
        """Law of the weights, with mean zero."""
        how, rng = self.settings.covariance, again(self._sample)
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
        known: bool = False,
    ) -> Temper:
        """Noise and factor by values (n,) of the mean at rows that it did not see.

        `share` is that of the squared errors there which the mean has elsewhere. Of
        rows that the law of sparse regression has `known`, of variance v then, each is
        taken back: ``v / (1 - ω v / σ²)``.
        """
        rows = self.rows.take(judges)
        features = basis(rows.X)
        spread = law.latent(features)[1][:, 0, 0]
        if known:
            leverage = rows.weights * spread / prior.noise_variance
            spread = spread / np.maximum(1.0 - leverage, _LEAST_FREE)
        r = spread + basis.residual_variance(rows.X, features)
        squares = share * (rows.y - left_out[judges]) ** 2
        how = self.settings.tempering
        return tempered(how, squares, r, rows.weights, prior.noise_variance)
