"""Parameters of the estimators, as the parts of a fit read them."""

from __future__ import annotations

from typing import Any, NamedTuple


class NetworkSettings(NamedTuple):
    """Parameters of means that are networks; see `GWIRegressor`."""

    hidden_layer_sizes: tuple[int, ...]
    activation: str
    n_restarts: int
    alpha: float
    learning_rate: float
    batch_size: int
    max_iter: int | str
    validation_fraction: float
    early_stopping: bool

    @classmethod
    def of(cls, estimator: Any) -> NetworkSettings:
        """Those of an estimator."""
        return cls(*(getattr(estimator, name) for name in cls._fields))


class LawSettings(NamedTuple):
    """Parameters of the prior and the covariance; see `GWIRegressor`."""

    kernel: Any
    optimizer: str | None
    noise_variance: float | None
    n_inducing: int | str
    inducing: Any
    covariance: str
    objective: str
    distance_weight: float
    prior_mean: Any
    ridge: float
    tempering: str | None
    batch_size: int

    @classmethod
    def of(cls, estimator: Any) -> LawSettings:
        """Those of an estimator."""
        return cls(*(getattr(estimator, name) for name in cls._fields))
