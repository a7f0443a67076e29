"""Parameters of the regressor, as the parts of a fit read them."""

from __future__ import annotations

from typing import Any, NamedTuple

from skgpx._numerics import radial

# Kernels between frequencies, by name; "components" compares whole sets instead.
KERNEL_CODES = {
    "rbf": radial.RBF,
    "matern12": radial.MATERN_12,
    "matern32": radial.MATERN_32,
    "matern52": radial.MATERN_52,
}
BETWEEN_COMPONENTS = "mmd"


class SteinSettings(NamedTuple):
    """Parameters of how frequencies start and move; see `SteinRFFRegressor`."""

    n_components: int
    repulsion: float
    repulsion_kernel: str
    coupling: bool
    spectral_prior: float | str
    annealing: float | None
    max_iter: int
    learning_rate: float
    early_stopping: bool
    n_hidden: tuple[int, ...]
    activation: str
    network_penalty: float
    learned_scales: str

    @classmethod
    def of(cls, estimator: Any) -> SteinSettings:
        """Those of an estimator."""
        return cls(*(getattr(estimator, name) for name in cls._fields))


class FitSettings(NamedTuple):
    """Parameters of a fit; see `SteinRFFRegressor`."""

    kernel: Any
    n_frequencies: int | str
    optimizer: str | None
    noise_variance: float | None
    held_out: float | str
    refit: bool
    n_learning_rows: int
    normalize_y: bool
    stein: SteinSettings

    @classmethod
    def of(cls, estimator: Any) -> FitSettings:
        """Those of an estimator."""
        own = (getattr(estimator, name) for name in cls._fields[:-1])
        return cls(*own, SteinSettings.of(estimator))
