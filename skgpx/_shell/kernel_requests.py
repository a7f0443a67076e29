"""Kernels that estimators are asked for: of columns by name, and the default one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import RBF

from skgpx._types import Kernel
from skgpx.kernels import (
    CategoricalKernel,
    Columns,
    parts_with,
    with_resolved_columns,
)

# A column by its number or name, a list or a slice of columns, or a function that
# chooses columns of a data frame.
ColumnChoice: TypeAlias = int | str | list[Any] | slice | Callable[..., Any]

# The most columns that interact, by name.
ORDERS = {"no_interactions": 1, "pairwise": 2}


class DefaultKernel(Columns):
    """Stands for the default kernel of the other columns, times this one.

    With the `interaction_cst` of an estimator, groups of which are kernels of theirs.
    """

    def __init__(
        self,
        kernel: Kernel,
        columns: Any,
        interactions: str | Sequence[Columns] = (),
    ) -> None:
        super().__init__(kernel, columns)
        self.interactions = interactions

    def interacting(self, n_columns: int) -> tuple[list[list[int]], int]:
        """Groups of columns that interact, and how many of a group do at most.

        The function is a sum of functions of so many columns of one group each. Columns
        that are not named are one group.

        Raises
        ------
        ValueError
            If there are not so many columns.
        """
        everything = frozenset(range(n_columns))
        if isinstance(self.interactions, str):
            order = min(ORDERS[self.interactions], n_columns)
            return [sorted(everything)], order
        groups = {
            frozenset(group.indices(n_columns).tolist()) for group in self.interactions
        }
        groups.add(everything.difference(*groups))
        largest = [group for group in groups if not any(group < g for g in groups)]
        return sorted(map(sorted, largest)), max(map(len, largest))


# The default kernel of columns of numbers, all of which interact.
EVERYTHING = DefaultKernel(CategoricalKernel(np.empty(0)), np.empty(0, dtype=int))


def kernel_of(estimator: BaseEstimator, kernel: Kernel | None = None) -> Any:
    """The kernel of an estimator, or another one, with numbers for names of columns.

    Raises
    ------
    ValueError
        If X had no column of such a name, or interactions are stated beside a kernel.
    """
    numbers = partial(_column_numbers, estimator)
    if kernel is None:
        kernel = getattr(estimator, "kernel", None)
    interactions = getattr(estimator, "interaction_cst", None) or ()
    if interactions and kernel is not None:
        raise ValueError(
            "interaction_cst says which columns of the default kernel interact; got it "
            f"together with kernel={kernel!r}. Leave the kernel None, or write it as a "
            "sum of kernels of some columns: skgpx.kernels.Columns, or Additive."
        )
    if not isinstance(interactions, str):
        groups = [list(g) if isinstance(g, set) else g for g in interactions]
        interactions = [
            with_resolved_columns(Columns(RBF(), group), numbers) for group in groups
        ]
    if isinstance(kernel, Kernel):
        kernel = with_resolved_columns(clone(kernel), numbers)
    # a kernel with the numbers of categories of its columns of categories
    sizes = getattr(estimator, "_n_categories", {})
    if kernel is None and (sizes or interactions):
        factor = CategoricalKernel(
            np.full(len(sizes), 0.5), n_categories=max(sizes.values(), default=None)
        )
        return DefaultKernel(factor, np.array(list(sizes), dtype=int), interactions)
    if not sizes:
        return kernel
    all_columns = np.arange(estimator.n_features_in_)
    for part, columns in parts_with("n_categories", kernel, all_columns):
        if part.n_categories is None and sizes.keys() >= set(columns.tolist()):
            part.n_categories = max(sizes[column] for column in columns)
    numeric_columns = {
        int(column)
        for name in ("length_scale", "slope", "sigma_0", "directions")
        for _, columns in parts_with(name, kernel, all_columns)
        for column in columns
    }
    if not isinstance(kernel, Kernel) or sizes.keys() & numeric_columns:
        raise ValueError(
            f"Columns {list(estimator.categories_)} of X hold categories, which "
            f"kernel={kernel!r} takes for numbers. Give them a kernel of their own, as "
            "in Columns(RBF(), ...) * Columns(CategoricalKernel(), ...), leave the "
            "kernel None, or encode them by OneHotEncoder."
        )
    return kernel


def _column_numbers(
    estimator: BaseEstimator,
    columns: ColumnChoice,
) -> ColumnChoice:
    """Numbers of the columns that a kernel names; numbers and slices are returned."""
    seen_names = getattr(estimator, "feature_names_in_", None)
    if callable(columns) and seen_names is not None:
        if getattr(estimator, "_no_rows", None) is None:
            raise ValueError(
                "The kernel chooses columns by their types, which X has to have: "
                "expected a DataFrame as in the first call; got an array."
            )
        columns = columns(estimator._no_rows)
    if isinstance(columns, slice):
        return columns
    requested: Any = columns
    if isinstance(columns, str) or callable(columns):
        requested = [columns]
    if not any(isinstance(c, str) or callable(c) for c in np.ravel(requested)):
        return columns
    names = [] if seen_names is None else list(seen_names)
    missing = [c for c in requested if c not in names]
    if missing:
        table = "which has no names of columns"
        if names:
            table = f"which are {names}"
        raise ValueError(
            f"The kernel names columns {missing}, which are not among those of X, "
            f"{table}. Fit a DataFrame with these columns, or give numbers."
        )
    return [names.index(c) for c in requested]
