"""A fit from rows to a latent model, top to bottom."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._callbacks import StageClock
from skgpx._gwi._checks import (
    MeanErrors,
    cross_validated_errors,
    may_overfit,
    networks_suffice,
    variance_of,
    warn_if_autocorrelated,
    warn_if_constant_is_better,
    warn_if_process_is_better,
)
from skgpx._gwi._covariance import Objective, covariance_root, distance_of
from skgpx._gwi._kernel_mean import KernelMean, fit_kernel_mean, refine_kernel
from skgpx._gwi._network import (
    FittedMean,
    SquaredError,
    TrainedNetworks,
    share_of_error,
    train_networks,
)
from skgpx._gwi._prior import SEARCH_ROWS, Prior, learn_prior, warn_if_periodic
from skgpx._gwi._settings import NetworkSettings, ProcessSettings, replay_rng
from skgpx._gwi._variance_scale import (
    VarianceScale,
    choose_validation_rows,
    fit_variance_scale,
)
from skgpx._latent import LatentModel, Mean
from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._selection import WORTH_LOOKING, LeftOver, SearchRecord
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
        Kernel, and the noise variance before calibration.
    variance_scale : Temper
    distance : float
        Wasserstein distance of the process from its prior, root mean square over the
        rows; an upper bound, see `projected_bures`.
    networks : TrainedNetworks or None
    record : SearchRecord
        Rows used for hyperparameters and for the variance scale.
    mean : {"net", "svgp"} or None
        Which of the library's own means it is.
    """

    model: LatentModel
    prior: Prior
    variance_scale: VarianceScale
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
    settings : ProcessSettings
    networks : NetworkSettings
    rng : numpy.random.Generator
    n_jobs : int or None
    """

    rows: Rows
    prior_mean: Mean
    settings: ProcessSettings
    networks: NetworkSettings
    rng: np.random.Generator
    n_jobs: int | None

    def __post_init__(self) -> None:
        self.level = self.prior_mean(self.rows.X)[:, 0]
        self.variance = variance_of(self.rows)
        streams = self.rng.spawn(6)
        self._search, self._train, self._validation_rng, self._select = streams[:4]
        self._sample, self._refinement = streams[4:]

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
            Called after each round of training with a function that returns the current
            fit; training stops if it returns True.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            prior = self.learned_prior(self.rows.y - self.level, mean != "svgp")
        clock.end_of("search")
        if mean == "svgp":
            kernel_mean = refine_kernel(self, fit_kernel_mean(self, prior))
            found = self._checked_kernel_mean(kernel_mean, False)
        else:
            networks = self.trained(prior, report)
            kernel_mean = self._choose_mean(mean, prior, networks)
            clock.end_of("mean")
            if kernel_mean is None:
                warn_if_periodic(prior.kernel)
                found = self.around(networks.mean, prior, networks)
            else:
                found = self._checked_kernel_mean(kernel_mean, True, networks)
        clock.end_of("law")
        if found.prior is prior:
            # warnings about a discarded kernel do not concern the fit
            for one in caught:
                warn(str(one.message), one.category)
        return found

    def _choose_mean(
        self, mean: str, prior: Prior, networks: TrainedNetworks
    ) -> KernelMean | None:
        """Kernel features if they are the better mean at held-out rows, else None."""
        share = self._share_of_error(networks.mean)
        errors = MeanErrors.of(self.rows, self.level, prior, networks.mean, share)
        held_out = networks.mean.held_out
        misses = self.rows.y[held_out] - networks.mean.residual_values[held_out, 0]
        left = LeftOver.of(self.rows.X[held_out], misses, self.variance)
        if mean == "auto" and not networks_suffice(errors):
            how = self._learner(), self.rows, self.level, prior, networks.mean, share
            errors = cross_validated_errors(errors, *how)
        if mean == "net":
            if not warn_if_process_is_better(errors):
                warn_if_autocorrelated(left)
            return None
        if not networks_suffice(errors):
            return refine_kernel(self, fit_kernel_mean(self, prior))
        worth_it = left is not None and left.share >= WORTH_LOOKING
        if len(self.rows.y) > SEARCH_ROWS and worth_it:
            # a process of all rows may explain what one of a subset does not
            kernel_mean = refine_kernel(self, fit_kernel_mean(self, prior))
            square = float(np.average(misses**2, weights=self.rows.weights[held_out]))
            if share * square > errors.as_good * kernel_mean.validated.error:
                return kernel_mean
        if not warn_if_autocorrelated(left):
            warn_if_constant_is_better(errors)
        return None

    def _checked_kernel_mean(
        self, found: KernelMean, chosen: bool, networks: TrainedNetworks | None = None
    ) -> GWIFit:
        """The process around a kernel mean; warns if residuals are autocorrelated."""
        # residuals are expected where the prior dominates
        free = self.variance > 0.0 and self.mean_weight(found.prior) < 1.0
        if free and not warn_if_autocorrelated(found.residual_autocorrelation(self)):
            error, n = found.fit.error / self.variance, len(self.rows.y)
            errors = MeanErrors(error, error, n - 1, n) if chosen else None
            warn_if_constant_is_better(errors)
        return self.around_kernel_mean(found)._replace(networks=networks)

    def learned_prior(self, targets: Array, thinned: bool = True) -> Prior:
        """Kernel and noise of these targets (n,); see `learn_prior`."""
        s, rows = self.settings, self.rows._replace(y=targets)
        how = s.kernel, s.optimizer, s.noise_variance
        return learn_prior(rows, *how, replay_rng(self._search), self.n_jobs, thinned)

    def _learner(self) -> Callable[[NDArray[np.bool_]], Prior]:
        """Learns a prior from some of the rows."""
        s, rows = self.settings, self.rows._replace(y=self.rows.y - self.level)
        how = (
            s.kernel,
            s.optimizer,
            s.noise_variance,
            replay_rng(self._search),
            self.n_jobs,
        )
        return lambda kept: learn_prior(rows.take(kept), *how, True)

    def around(
        self, mean: FittedMean, prior: Prior, networks: TrainedNetworks | None = None
    ) -> GWIFit:
        """The process around a mean: inducing points, covariance, variance scale."""
        validation = self.validation_rows(mean.held_out)
        basis = self.basis(prior, validation)
        statistics = row_statistics(basis, self.rows, self.n_jobs)
        values = np.asarray(mean.function(self.rows.X)).reshape(-1)
        objective = self.objective_of(prior, statistics, values)
        posterior = self.posterior(objective, basis)
        leave_one_out = mean.residual_values[:, 0]
        share = self._share_of_error(mean)
        variance_scale = self._fit_variance_scale(
            leave_one_out, basis, posterior, prior, validation, share
        )
        function = Mean(np.zeros(1), np.ones(1), mean.function)
        model = LatentModel(basis, posterior, function, np.sqrt(variance_scale.factor))
        record = prior.record._replace(errors_that_tempered=int(validation.sum()))
        distance = distance_of(objective, posterior)
        return GWIFit(model, prior, variance_scale, distance, networks, record)

    def around_kernel_mean(self, found: KernelMean) -> GWIFit:
        """The mean ``m_P + k_Z(x)ᵀa``, and the process in its basis."""
        prior, (basis, statistics, mean, _, _) = found.prior, found.fit
        objective = self.objective_of(prior, statistics, self.level + mean.values)
        posterior = self.posterior(objective, basis)
        variance_scale = self._fit_kernel_mean_scale(found, posterior)
        root = np.sqrt(variance_scale.factor)
        scaled = posterior._replace(mean=mean.weights[:, np.newaxis] / root)
        model = LatentModel(basis, scaled, self.prior_mean, root)
        record = prior.record._replace(errors_that_tempered=int(found.validation.sum()))
        distance = distance_of(objective, posterior)
        return GWIFit(model, prior, variance_scale, distance, None, record, "svgp")

    def _fit_kernel_mean_scale(
        self, found: KernelMean, posterior: GaussianWeights
    ) -> VarianceScale:
        """Variance scale by leave-one-out errors.

        Where all rows may be inducing points, r vanishes at the rows. The leave-one-out
        variance, in closed form for sparse regression, does not, but is too small where
        the kernel overfits the rows.
        """
        prior, validation, fit = found.prior, found.validation, found.fit
        if fit is found.validated:
            leave_one_out = self.level + fit.mean.leave_one_out
            return self._fit_variance_scale(
                leave_one_out, fit.basis, posterior, prior, validation
            )
        refinement_rng = not may_overfit(prior.kernel, len(self.rows.y))
        if self.settings.covariance == "svgp" and refinement_rng:
            leave_one_out = self.level + fit.mean.leave_one_out
            every = np.ones_like(validation) if np.any(validation) else validation
            return self._fit_variance_scale(
                leave_one_out, fit.basis, posterior, prior, every, known=True
            )
        fit = found.validated
        values = self.level + fit.mean.values
        objective = self.objective_of(prior, fit.statistics, values)
        posterior, leave_one_out = (
            self.posterior(objective, fit.basis),
            self.level + fit.mean.leave_one_out,
        )
        return self._fit_variance_scale(
            leave_one_out, fit.basis, posterior, prior, validation
        )

    def trained(
        self, prior: Prior, report: Callable[[Callable[[], GWIFit]], bool]
    ) -> TrainedNetworks:
        """Networks of one output, by the least squares of the objective."""
        rows = self.rows
        targets = self.targets(self.mean_weight(prior))
        loss = SquaredError(targets[:, np.newaxis].copy(), rows.weights)

        def on_round(trained: Callable[[], TrainedNetworks]) -> bool:
            def fit() -> GWIFit:
                now = trained()
                return self.around(now.mean, prior, now)

            return report(fit)

        how = self.networks, replay_rng(self._train), self.n_jobs, on_round
        return train_networks(rows.X, rows.weights, loss, 1, *how)

    # ---- Parts of a process ----------------------------------------------------------

    def validation_rows(self, held_out: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return choose_validation_rows(
            held_out, self.settings.tempering, replay_rng(self._validation_rng)
        )

    def selection_rng(self) -> np.random.Generator:
        """The stream that selects inducing points, at its start."""
        return replay_rng(self._select)

    def refinement_rng(self) -> np.random.Generator:
        """The stream of the rows of kernel refinements, at its start."""
        return replay_rng(self._refinement)

    def basis(self, prior: Prior, validation: NDArray[np.bool_]) -> Nystroem:
        """Basis at inducing points, none of them a validation row."""
        s, rows = self.settings, self.rows.take(~validation)
        size = s.n_inducing
        if isinstance(size, str):
            size = max(round(PER_ROOT * np.sqrt(len(self.rows.y))), LEAST_INDUCING)
        size = min(int(size), len(rows.y))
        how = rows.X, prior.kernel, size, replay_rng(self._select), rows.weights
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

    def posterior(self, objective: Objective, basis: Nystroem) -> GaussianWeights:
        """Posterior of the weights, with mean zero."""
        how, rng = self.settings.covariance, replay_rng(self._sample)
        root = covariance_root(how, objective, basis, self.rows, rng)
        return GaussianWeights(np.zeros((basis.n_basis, 1)), root[np.newaxis])

    def _share_of_error(self, mean: FittedMean) -> float:
        """Factor from squared errors of single networks to those of their average.

        The root of the share: held-out rows also stop the training, so that errors
        there are slightly small, and their tails are longer than those of a normal
        distribution.
        """
        if mean.in_sample is None or not np.any(mean.held_out):
            return 1.0
        rows, values = self.rows.take(mean.held_out), mean.residual_values[:, 0]
        in_sample = mean.in_sample.take(mean.held_out)
        how = rows.y, values[mean.held_out], in_sample, rows.weights
        return float(np.sqrt(share_of_error(*how)))

    def _fit_variance_scale(
        self,
        leave_one_out: Array,
        basis: Nystroem,
        posterior: GaussianWeights,
        prior: Prior,
        validation: NDArray[np.bool_],
        share: float = 1.0,
        known: bool = False,
    ) -> VarianceScale:
        """Variance scale by held-out values (n,) of the mean.

        `share` multiplies the squared errors. If the posterior was fitted to these rows
        (`known`), the variance v at each is replaced by its leave-one-out value ``v /
        (1 - ω v / σ²)``.
        """
        rows = self.rows.take(validation)
        features = basis(rows.X)
        variance = posterior.latent(features)[1][:, 0, 0]
        if known:
            leverage = rows.weights * variance / prior.noise_variance
            variance = variance / np.maximum(1.0 - leverage, _LEAST_FREE)
        r = variance + basis.residual_variance(rows.X, features)
        squares = share * (rows.y - leave_one_out[validation]) ** 2
        how = self.settings.tempering
        return fit_variance_scale(how, squares, r, rows.weights, prior.noise_variance)
