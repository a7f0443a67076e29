"""Projected Langevin sampling: Gaussian-process posteriors under any likelihood."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.multiclass import check_classification_targets

from skgpx._base import LatentClassifier, LatentEstimator, LatentRegressor
from skgpx._callbacks import CallbackSupportMixin, RoundReporter, with_callbacks
from skgpx._inference import Inference, InferenceSettings, infer
from skgpx._latent import LatentModel
from skgpx._prior import Hyperparameters, PriorSettings, fit_prior
from skgpx._sampling import Sample
from skgpx._validation import (
    Interval,
    Rows,
    StrOptions,
    canonical_rows,
    check_rows,
    fit_context,
    generator,
    standardisation,
)
from skgpx.bases import Nystroem, select_inducing
from skgpx.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood

Array = NDArray[np.float64]


class _ProjectedLangevin(CallbackSupportMixin, LatentEstimator):
    """What regression and classification share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [Kernel, None],
        "likelihood": [Likelihood, None],
        "prior": [StrOptions({"gre", "gp"})],
        "n_inducing": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "inducing": [
            StrOptions({"greedy", "k-means++", "random"}),
            "array-like",
            callable,
        ],
        "optimizer": [StrOptions({"evidence", "neighbourhoods"}), None],
        "n_restarts_optimizer": [Interval(Integral, 1, None, closed="left")],
        "method": [StrOptions({"auto", "exact", "ou_mala", "mala", "ula", "smc"})],
        "potential": [StrOptions({"projected", "optimal"})],
        "n_particles": [Interval(Integral, 1, None, closed="left")],
        "step_size": [Interval(Real, 0.0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def _fit_rows(self, rows: Rows, likelihood: Likelihood) -> None:
        """The method in four steps; see docs/pls.md."""
        search, select, sample = generator(self.random_state).spawn(3)
        likelihood = likelihood.prepare(rows.y, rows.weights)
        m = self._count_inducing(rows)
        earlier = self._earlier_fit()
        # 1 the prior kernel and the likelihood, hyperparameters from the data
        found = fit_prior(rows, likelihood, self._prior_settings(m), search, *earlier)
        # 2 inducing inputs under the fitted lengthscales, and the basis they span
        Z = select_inducing(
            self.inducing, rows.X, found.kernel, m, select, rows.weights
        )
        basis = Nystroem.from_kernel(found.kernel, Z)
        # 3 mode, Hessian, chains; 4 the law of the weights
        previous = self._earlier_particles(len(Z), found.likelihood)
        reporter = self._reporter(rows, found)
        result = infer(
            basis, rows, found.likelihood, self._inference_settings(), sample,
            previous, reporter,
        )  # fmt: skip
        self._set(self._fitted_attributes(found, result))
        reporter.finish(result.sample, result.posterior)

    def _count_inducing(self, rows: Rows) -> int:
        n = len(rows.y)
        if self.n_inducing == "auto":
            return min(n, max(int(np.ceil(np.sqrt(n))), 100))
        return min(n, int(self.n_inducing))

    def _prior_settings(self, n_inducing: int) -> PriorSettings:
        return PriorSettings(
            self.kernel,
            self.prior,
            self.optimizer,
            self.n_restarts_optimizer,
            self.inducing,
            n_inducing,
        )

    def _inference_settings(self) -> InferenceSettings:
        return InferenceSettings(
            self.method,
            self.potential,
            self.n_particles,
            self.step_size,
            self.max_iter,
            self.tol,
            self.n_jobs,
        )

    def _earlier_fit(self) -> tuple[Any, ...]:
        """Prior kernel of an earlier fit on as many columns, for a warm start."""
        if not (self.warm_start and hasattr(self, "kernel_")):
            return ()
        same = self.inducing_points_.shape[1] == self.n_features_in_
        return (self.kernel_,) if same else ()

    def _earlier_particles(self, m: int, likelihood: Likelihood) -> Array | None:
        """Particles of an earlier fit of the same shape, for a warm start."""
        if not (self.warm_start and hasattr(self, "particles_")):
            return None
        shape = (m, likelihood.n_outputs_, self.n_particles)
        return self.particles_ if self.particles_.shape == shape else None

    def _reporter(self, rows: Rows, found: Hyperparameters) -> RoundReporter:
        return RoundReporter(
            self,
            rows.X,
            rows.y,
            lambda sample, model: self._fitted_attributes(
                found, Inference(model, model.law[0], sample)
            ),
        )

    def _fitted_attributes(
        self, found: Hyperparameters, result: Inference
    ) -> dict[str, Any]:
        model: LatentModel = result.posterior
        sample: Sample = result.sample
        return {
            "kernel_": found.kernel,
            "likelihood_": found.likelihood.scaled(self._scale),
            "log_evidence_": found.log_evidence,
            "inducing_points_": model.basis.inducing_points,
            "posterior_": model,
            "particles_": result.particles,
            "acceptance_": sample.acceptance,
            "rhat_": sample.r_hat,
            "ess_": sample.ess,
            "energy_curve_": sample.energy_curve,
            "n_iter_": sample.n_iter,
            "_shift": self._shift,
            "_scale": self._scale,
        }

    def _set(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)


class PLSRegressor(LatentRegressor, _ProjectedLangevin):
    """Gaussian-process regression with any likelihood, by projected Langevin sampling.

    PARAMETERS

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Covariance k of the latent function, with the bounds of its hyperparameters; a
        WhiteKernel added to it is the noise of a Gaussian likelihood. None stands for
        a constant times an RBF with one lengthscale per column.
    likelihood : Likelihood or None, default=None
        Law of y given the latent value, from :mod:`skgpx.likelihoods` or your own;
        None means ``Gaussian()``. Scales left None are estimated.
    normalize_y : bool, default=True
        Centre and scale y before fitting, for likelihoods where this only moves the
        latent function (Gaussian, StudentT, ShiftedMixture). Kernel hyperparameters,
        white noise and bounds then refer to the standardised y; the scales of the
        likelihood are always in the units of y.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_ProjectedLangevin._parameter_constraints,
        "normalize_y": ["boolean"],
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: Likelihood | None = None,
        prior: str = "gre",
        n_inducing: int | str = "auto",
        inducing: Any = "greedy",
        optimizer: str | None = "evidence",
        n_restarts_optimizer: int = 1,
        method: str = "auto",
        potential: str = "projected",
        n_particles: int = 100,
        step_size: float | None = None,
        max_iter: int | None = None,
        tol: float = 1.05,
        normalize_y: bool = True,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.prior = prior
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.method = method
        self.potential = potential
        self.n_particles = n_particles
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.normalize_y = normalize_y
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> PLSRegressor:
        """Fit the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out.

        Returns
        -------
        self : PLSRegressor

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, targets outside the
            support of the likelihood, or parameters that do not fit together.
        """
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=True)
        likelihood = Gaussian() if self.likelihood is None else self.likelihood
        rows = canonical_rows(X, y, weights)
        self._shift, self._scale = 0.0, 1.0
        if self.normalize_y and likelihood.location_scale:
            self._shift, self._scale = standardisation(rows.y, rows.weights)
        standard = rows._replace(y=(rows.y - self._shift) / self._scale)
        self._fit_rows(standard, likelihood.scaled(1.0 / self._scale))
        return self


class PLSClassifier(LatentClassifier, _ProjectedLangevin):
    """Gaussian-process classification by projected Langevin sampling.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Covariance of the latent function (of each of them, for several classes).
    likelihood : Bernoulli, Categorical or None, default=None
        None means ``Bernoulli()`` for two classes, ``Categorical()`` for more.
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: Likelihood | None = None,
        prior: str = "gre",
        n_inducing: int | str = "auto",
        inducing: Any = "greedy",
        optimizer: str | None = "evidence",
        n_restarts_optimizer: int = 1,
        method: str = "auto",
        potential: str = "projected",
        n_particles: int = 100,
        step_size: float | None = None,
        max_iter: int | None = None,
        tol: float = 1.05,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.prior = prior
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.method = method
        self.potential = potential
        self.n_particles = n_particles
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> PLSClassifier:
        """Fit the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of any type, at least two different ones.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out.

        Returns
        -------
        self : PLSClassifier

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, for fewer than two
            classes among the rows of positive weight, or for a likelihood that is not
            one of classes.
        """
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=False)
        check_classification_targets(y)
        kept = weights > 0.0
        self.classes_, codes = np.unique(y[kept], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "PLSClassifier needs at least two classes in y; got one class, "
                f"{self.classes_[0]!r}."
            )
        rows = canonical_rows(X[kept], codes.astype(np.float64), weights[kept])
        self._shift, self._scale = 0.0, 1.0
        self._fit_rows(rows, self._class_likelihood())
        return self

    def _class_likelihood(self) -> Likelihood:
        two = len(self.classes_) == 2
        if self.likelihood is None:
            return Bernoulli() if two else Categorical()
        if isinstance(self.likelihood, Categorical) or (
            two and isinstance(self.likelihood, Bernoulli)
        ):
            return self.likelihood
        raise ValueError(
            f"PLSClassifier with {len(self.classes_)} classes expects a likelihood of "
            f"classes (Categorical{', Bernoulli' if two else ''}); got "
            f"{self.likelihood!r}."
        )
