"""Predictive distributions at rows of dask arrays and data frames."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from skgpx._cells._cells import CellModel
from skgpx._cells._distributed import delayed_call, delayed_value, parts_of
from skgpx._numerics.mixture import LatentMixture
from skgpx._shell.validation import check_coverage, check_levels, check_X
from skgpx._types import Array, ArrayLike, Index


class LazyDistribution:
    """Distribution of y at each row of a dask array or data frame.

    Its methods return dask arrays, in the order of the rows. Every part of the rows is
    sent to the cells of its rows where the model has cells, and predicted there.

    Parameters
    ----------
    estimator : LatentEstimator
        Fitted.
    X : dask array or data frame
    **quantities : dask array or series, float or None
        Quantities of rows, by name.
    """

    def __init__(self, estimator: Any, X: Any, **quantities: Any):
        self.likelihood = estimator.likelihood_
        self.n_targets = estimator.posterior_.n_outputs // self.likelihood.n_outputs_
        self._targets = () if self.n_targets == 1 else (self.n_targets,)
        self._target: int | None = None
        self._estimator = estimator
        self._X = X
        self._quantities = {
            name: values for name, values in quantities.items() if values is not None
        }

    # ---- Methods of a predictive distribution ------------------------------------

    def mean(self) -> Any:
        """``E[y]``, shape (n_rows,), or (n_rows, t) for t targets."""
        return self._rowwise("mean", shape=self._targets)

    def variance(self, include_noise: bool = True) -> Any:
        """``Var[y]``, of the shape of the mean."""
        return self._rowwise("variance", include_noise, shape=self._targets)

    def std(self, include_noise: bool = True) -> Any:
        """Square root of :meth:`variance`, in the units of y."""
        return self._rowwise("std", include_noise, shape=self._targets)

    def moments(self, include_noise: bool = True) -> tuple[Any, Any]:
        """Mean and variance, computed together."""
        moments = self._rowwise("moments", include_noise, shape=(2, *self._targets))
        return moments[:, 0], moments[:, 1]

    def quantile(self, q: ArrayLike) -> Any:
        """Quantiles of y, (n_rows,), or (n_rows, k) for several levels."""
        levels = check_levels(q, "q")
        shape = (*self._targets, *levels.shape)
        return self._rowwise("quantile", levels, shape=shape)

    def interval(self, coverage: float = 0.9) -> Any:
        """Central interval of y, (n_rows, 2)."""
        shape = (*self._targets, 2)
        return self._rowwise("interval", check_coverage(coverage), shape=shape)

    def stream(self, function: Callable[[Any, LatentMixture], Array]) -> Any:
        """Values (n_rows, k) of a function of the likelihood and the latent values."""
        c = self._estimator.posterior_.n_outputs
        prior = LatentMixture(np.zeros((1, c, 1)), np.ones((1, c, 1)), np.ones(1))
        shape = function(self.likelihood, prior).shape[1:]
        return self._rowwise("stream", function, shape=shape)

    def cdf(self, y: Any) -> Any:
        """``P(Y <= y)`` at each row, for a dask array or series y (n_rows,)."""
        return self._rowwise("cdf", targets=y)

    def log_density(self, y: Any) -> Any:
        """Log density at each row in nats, for a dask array or series y (n_rows,)."""
        return self._rowwise("log_density", targets=y)

    def crps(self, y: Any) -> Any:
        """Continuous ranked probability score, for a dask array or series y."""
        return self._rowwise("crps", targets=y)

    def covariance(self, include_noise: bool = True) -> Any:
        """Refuse: a covariance between all rows is not row by row."""
        del include_noise
        raise ValueError(_JOINT)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Refuse: joint samples of all rows are not row by row."""
        del n_samples, random_state
        raise ValueError(_JOINT)

    def __len__(self) -> int:
        raise ValueError(
            "Rows of dask are counted when they are computed. For densities use "
            "predict_dist(X).log_density(y), which is lazy."
        )

    # ---- Parts of the rows, and the cells of each part ----------------------------

    def _of_targets(self) -> list[LazyDistribution]:
        """Distribution of each target alone."""
        distributions = []
        for target in range(self.n_targets):
            distribution = copy.copy(self)
            distribution.n_targets = 1
            distribution._targets = ()
            distribution._target = target
            distributions.append(distribution)
        return distributions

    def _rowwise(
        self,
        method: str,
        *arguments: Any,
        targets: Any = None,
        shape: tuple[int, ...] = (),
    ) -> Any:
        """Dask array of values, of this shape, of a method at each row."""
        columns = {"X": self._X}
        if targets is not None:
            columns["targets"] = targets
        constants = {}
        for name, values in self._quantities.items():
            if np.ndim(values) > 0:
                columns[name] = values
            else:
                constants[name] = values
        call = Call(method, arguments, constants, self._target)
        parts = parts_of(columns)
        model = self._estimator.posterior_
        tables = model.cells.tables if isinstance(model, CellModel) else []
        if any(hasattr(table, "__dask_graph__") for table in tables):
            values = self._in_cells(parts, call, tables)
        else:
            estimator = delayed_value(self._estimator)
            values = [
                delayed_call(_in_part, estimator, part, call, shape) for part in parts
            ]
        # one dask array of the values of all parts
        array = importlib.import_module("dask.array")
        lengths = [np.nan] * len(values)
        if hasattr(self._X, "chunks"):
            lengths = self._X.chunks[0]
        arrays = [
            array.from_delayed(value, (length, *shape), np.float64)
            for value, length in zip(values, lengths, strict=True)
        ]
        return array.concatenate(arrays, allow_unknown_chunksizes=True)

    def _in_cells(
        self,
        parts: list[Any],
        call: Call,
        tables: list[Any],
    ) -> list[Any]:
        """Values at the rows of each part, each computed where its cell is."""
        n_cells = len(tables)
        estimator = copy.copy(self._estimator)
        estimator.posterior_ = estimator.posterior_.without_rows()
        shared = delayed_value(estimator)
        values = []
        for part in parts:
            pieces = delayed_call(_route, shared, part, nout=n_cells + 1)
            in_cells = [
                delayed_call(_in_cell, shared, table, pieces[k], call)
                for k, table in enumerate(tables)
            ]
            values.append(delayed_call(_in_order, pieces[n_cells], in_cells))
        return values


class Call(NamedTuple):
    """Call of a method of the predictive distribution.

    Attributes
    ----------
    method : str
    arguments : tuple
    constants : dict
        Quantities that all rows share.
    target : int or None
        One of several targets; None for all of them.
    """

    method: str
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    target: int | None = None

    def at(self, estimator: Any, columns: dict[str, Any]) -> Array:
        """Values at some rows, (p, ...)."""
        quantities = dict(columns)
        X = quantities.pop("X")
        targets = quantities.pop("targets", None)
        distribution = estimator._distribution(X, **quantities, **self.constants)
        if self.target is not None:
            distribution = distribution._of_targets()[self.target]
        method = getattr(distribution, self.method)
        if targets is None:
            values = method(*self.arguments)
        else:
            values = method(np.asarray(targets), *self.arguments)
        if isinstance(values, tuple):
            return np.stack(values, axis=1)
        return np.asarray(values)


def _in_part(
    estimator: Any,
    columns: dict[str, Any],
    call: Call,
    shape: tuple[int, ...],
) -> Array:
    """Values at the rows of a part."""
    if not len(columns["X"]):
        return np.empty((0, *shape))
    return call.at(estimator, columns)


def _route(estimator: BaseEstimator, columns: dict[str, Any]) -> list[Any]:
    """Rows of a part in each cell, and last their positions."""
    model = estimator.posterior_
    n_cells = model.division.tree.n_cells
    if not len(columns["X"]):
        return [None] * n_cells + [[]]
    X = check_X(estimator, columns["X"])
    positions = model.positions(X)
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    arrays["X"] = X
    pieces: list[Any] = [None] * n_cells
    for k, rows in positions.items():
        pieces[k] = {name: values[rows] for name, values in arrays.items()}
    return [*pieces, list(positions.values())]


def _in_cell(
    estimator: BaseEstimator,
    table: Array,
    columns: dict[str, Any] | None,
    call: Call,
) -> Array | None:
    """Values at the rows of a part that lie in one cell."""
    if columns is None:
        return None
    local = copy.copy(estimator)
    local.posterior_ = estimator.posterior_.near(table, columns["X"])
    # the columns are checked, and have no names here
    for name in ("feature_names_in_", "categories_"):
        vars(local).pop(name, None)
    return call.at(local, columns)


def _in_order(positions: list[Index], values: list[Array | None]) -> Array:
    """Values of a part in the order of its rows."""
    present = [value for value in values if value is not None]
    order = np.argsort(np.concatenate(positions))
    return np.concatenate(present)[order]


_JOINT = (
    "Rows of dask are predicted row by row, without covariances and joint samples: "
    "these need arrays, as of X.compute()."
)
