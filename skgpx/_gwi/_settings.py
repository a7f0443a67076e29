"""From parameters to the settings of a fit, and its streams of random numbers."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from skgpx._latent import Mean
from skgpx._validation import Rows, standardisation

# ---- Streams of random numbers that can be replayed ----------------------------------


def replay_rng(rng: np.random.Generator) -> np.random.Generator:
    """The same stream at every call, as a callback may request a fit of any round.

    Rebuilt from its seed: a copy in NumPy 1 loses the seed, and would spawn other
    children.
    """
    source = rng.bit_generator
    known: Any = source.seed_seq
    seed = np.random.SeedSequence(
        known.entropy, spawn_key=known.spawn_key, pool_size=known.pool_size
    )
    return np.random.Generator(type(source)(seed))


# ---- Parameters of the estimators, as the parts of a fit read them -------------------


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
        """Those of an estimator.

        Raises
        ------
        ValueError
            If the sizes of layers are not positive integers.
        """
        own = cls(*(getattr(estimator, name) for name in cls._fields))
        sizes = tuple(np.atleast_1d(np.asarray(own.hidden_layer_sizes, dtype=object)))
        if not all(isinstance(size, Integral) and size > 0 for size in sizes):
            raise ValueError(
                "hidden_layer_sizes must be positive integers, one for each hidden "
                f"layer, such as (10, 10); got {own.hidden_layer_sizes!r}."
            )
        return own._replace(hidden_layer_sizes=tuple(int(size) for size in sizes))


class ProcessSettings(NamedTuple):
    """Parameters of the prior and the covariance; see `GWIRegressor`."""

    kernel: Any
    optimizer: str | None
    noise_variance: float | None
    n_inducing: int | str
    inducing: Any
    covariance: str
    objective: str
    distance_weight: float
    ridge: float
    tempering: str | None
    batch_size: int

    @classmethod
    def of(cls, estimator: Any, scale: float) -> ProcessSettings:
        """Those of an estimator, for ``y / scale``."""
        own = cls(*(getattr(estimator, name) for name in cls._fields))
        noise = own.noise_variance
        return own._replace(noise_variance=None if noise is None else noise / scale**2)


class Units(NamedTuple):
    """Rows with a standardised y, and what y was standardised by.

    Attributes
    ----------
    rows : Rows
        Whose y is ``(y - shift) / scale``.
    shift, scale : float
    """

    rows: Rows
    shift: float
    scale: float

    @classmethod
    def of(cls, rows: Rows, normalize_y: bool) -> Units:
        """Of rows in the units of y."""
        shift, scale = 0.0, 1.0
        if normalize_y:
            shift, scale = standardisation(rows.y, rows.weights)
        return cls(rows._replace(y=(rows.y - shift) / scale), shift, scale)

    def prior_mean(self, given: float | Callable[..., Any] | None) -> Mean:
        """Mean of the prior process, of the standardised y.

        Raises
        ------
        ValueError
            If it is not finite at the rows, or has another shape.
        """
        level = Mean.of(self.shift if given is None else given, 1)
        if not np.all(np.isfinite(level(self.rows.X))):
            raise ValueError(
                "prior_mean must be finite, or a function whose values at the rows of "
                f"X are; got {given!r}."
            )
        return level.affine(-self.shift / self.scale, 1.0 / self.scale)
