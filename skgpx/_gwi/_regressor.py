"""Regression by Gaussian Wasserstein inference."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._base import LatentRegressor
from skgpx._callbacks import CallbackSupportMixin, RoundReporter, with_callbacks
from skgpx._gwi._fit import GWIFit, GWIProblem
from skgpx._gwi._settings import LawSettings, NetworkSettings
from skgpx._latent import Mean
from skgpx._stage_clock import StageClock
from skgpx._validation import (
    Interval,
    StrOptions,
    canonical_rows,
    check_kernel,
    check_rows,
    fit_context,
    generator,
    standardisation,
)
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]


class GWIRegressor(CallbackSupportMixin, LatentRegressor):
    """Gaussian-process uncertainty around a mean function.

    Parameters
    ----------
    mean : {"net", "svgp"}, default="net"
    kernel : Kernel or None, default=None
    """

    _documentation_page: ClassVar[str] = "gwi.md"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "mean": [StrOptions({"net", "svgp"})],
        "kernel": [Kernel, None],
        "covariance": [StrOptions({"closed_form", "svgp", "bures", "empirical"})],
        "objective": [StrOptions({"paper", "root"})],
        "distance_weight": [Interval(Real, 0.0, None, closed="left")],
        "prior_mean": [Real, callable, None],
        "tempering": [StrOptions({"auto", "factor", "affine"}), None],
        "n_inducing": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "inducing": [
            StrOptions({"greedy", "k-means++", "random"}),
            "array-like",
            callable,
        ],
        "optimizer": [StrOptions({"evidence"}), None],
        "noise_variance": [Interval(Real, 0.0, None, closed="neither"), None],
        "ridge": [Interval(Real, 0.0, None, closed="neither")],
        "hidden_layer_sizes": ["array-like"],
        "activation": [StrOptions({"tanh", "relu"})],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0.0, None, closed="left")],
        "learning_rate": [Interval(Real, 0.0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "validation_fraction": [Interval(Real, 0.0, 0.5, closed="both")],
        "early_stopping": ["boolean"],
        "normalize_y": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        mean: Any = "net",
        kernel: Any = None,
        *,
        covariance: str = "closed_form",
        objective: str = "paper",
        distance_weight: float = 1.0,
        prior_mean: Any = None,
        tempering: str | None = "auto",
        n_inducing: int | str = "auto",
        inducing: Any = "greedy",
        optimizer: str | None = "evidence",
        noise_variance: float | None = None,
        ridge: float = 1.0,
        hidden_layer_sizes: Any = (10, 10),
        activation: str = "tanh",
        n_restarts: int = 5,
        alpha: float = 1e-4,
        learning_rate: float = 0.01,
        batch_size: int = 100,
        max_iter: int | str = "auto",
        validation_fraction: float = 0.1,
        early_stopping: bool = True,
        normalize_y: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.mean = mean
        self.kernel = kernel
        self.covariance = covariance
        self.objective = objective
        self.distance_weight = distance_weight
        self.prior_mean = prior_mean
        self.tempering = tempering
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.optimizer = optimizer
        self.noise_variance = noise_variance
        self.ridge = ridge
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.n_restarts = n_restarts
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.normalize_y = normalize_y
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit."""
        reporter = RoundReporter(self, X, y, sample_weight)
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=True)
        check_kernel(self.kernel, X)
        rows = canonical_rows(X, y, weights)
        shift, scale = 0.0, 1.0
        if self.normalize_y:
            shift, scale = standardisation(rows.y, rows.weights)
        level = shift if self.prior_mean is None else self.prior_mean
        prior_mean = Mean.of(level, 1).affine(-shift / scale, 1.0 / scale)

        def report(fit: Callable[[], GWIFit]) -> bool:
            return reporter.round(lambda: self._attributes(fit(), shift, scale))

        clock = StageClock()
        problem = GWIProblem(
            rows._replace(y=(rows.y - shift) / scale),
            prior_mean,
            self._law_settings(scale),
            NetworkSettings.of(self),
            generator(self.random_state),
            self.n_jobs,
            clock,
            report,
        )
        vars(self).update(self._attributes(problem.fit(self.mean), shift, scale))
        self.stage_seconds_ = clock.seconds
        reporter.finish()
        return self

    def _law_settings(self, scale: float) -> LawSettings:
        settings = LawSettings.of(self)
        noise = settings.noise_variance
        standard = None if noise is None else noise / scale**2
        return settings._replace(noise_variance=standard)

    def _attributes(self, found: GWIFit, shift: float, scale: float) -> dict[str, Any]:
        noise = found.temper.noise * scale**2
        attributes = {
            "posterior_": found.model.affine(shift, scale),
            "likelihood_": Gaussian(noise).prepare([0.0]),
            "noise_variance_": noise,
            "kernel_": found.kernel,
            "temper_": found.temper,
            "inducing_points_": found.model.basis.inducing_points,
            "wasserstein_distance_": found.distance * scale,
        }
        if found.networks is not None:
            attributes |= {
                "loss_curve_": found.networks.loss_curve,
                "held_out_curve_": found.networks.held_out_curve,
                "n_iter_": found.networks.n_iter,
            }
        return attributes
