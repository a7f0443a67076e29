"""Hyperparameters that predictions average, as named numbers with weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    ExpSineSquared,
    Product,
    Sum,
)

from skgpx._latent import MixtureModel
from skgpx._numerics.rows import weighted_quantiles
from skgpx._types import Array, Index, Kernel
from skgpx.bases import WarpedInputs
from skgpx.kernels import (
    Columns,
    Directions,
    columns_of_entry,
    parts_with,
    summands,
    theta_entries,
)
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._warped import normal_noise

# Parameters of kernels by the names that are shown.
_KINDS = {
    "constant_value": "amplitude",
    "length_scale": "lengthscale",
    "periodicity": "period",
    "slope": "slope_std",
    # of sums of functions of one column, of two, and so on
    "variances": "amplitude",
}
# Those that are variances of a function.
_VARIANCES = ("constant_value", "variances")


class Hyperparameter(NamedTuple):
    """What a number of a state is.

    Attributes
    ----------
    kind : str
        Such as "lengthscale".
    columns : tuple of int
        Those it belongs to; empty if these are all columns.
    number : int
        From 1, among those of the same kind and columns.
    """

    kind: str
    columns: tuple[int, ...] = ()
    number: int = 1

    def label(self, column_names: list[str]) -> str:
        """Its name, such as ``lengthscale[x0]``."""
        label = self.kind
        if self.number > 1:
            label = f"{label}_{self.number}"
        if self.columns:
            columns = ", ".join(column_names[column] for column in self.columns)
            label = f"{label}[{columns}]"
        return label


class AveragedHyperparameters(NamedTuple):
    """Values of all hyperparameters in the states that predictions average.

    Attributes
    ----------
    values : dict of Hyperparameter to ndarray of shape (n_states,)
        Amplitudes (standard deviations), slopes and scales in the units of the latent
        function, which are those of y for Gaussian noise; lengthscales and periods in
        the units of their column. NaN in states whose kernel has no such
        hyperparameter. Those of one kind are in the order of their columns.
    weights : ndarray of shape (n_states,)
    families : tuple of str
        Family of the kernel of each state.
    column_names : list of str
        Names of the inputs of the kernel: the columns of X, or ``z0``, ``z1``, ...
        where the kernel has others, such as Directions.
    column_std : ndarray of shape (q,)
        Standard deviations of the inducing points; 1 for constant columns.
    column_order : ndarray of shape (q,)
        Columns from the one with the shortest lengthscale, by its median in units of
        `column_std`.
    """

    values: dict[Hyperparameter, Array]
    weights: Array
    families: tuple[str, ...]
    column_names: list[str]
    column_std: Array
    column_order: Index

    @classmethod
    def of(cls, model: Any) -> AveragedHyperparameters | None:
        """Those of a fitted model; None if it has chosen its hyperparameters."""
        states = getattr(model, "hyperparameter_states_", ())
        if not states:
            return None
        # 1 numbers of each state; NaN in those that lack one
        posterior = model.posterior_
        if isinstance(posterior, MixtureModel):
            posterior = posterior.models[0]
        scale = float(np.ravel(posterior.scale)[0])
        inputs, column_names = _inputs(model, states[0].kernel, posterior.basis)
        d = inputs.shape[1]
        values: dict[Hyperparameter, Array] = {}
        for i, state in enumerate(states):
            of_state = _of_likelihood(state.likelihood)
            of_state.update(_of_kernel(state.kernel, d, scale))
            for hyperparameter, number in of_state.items():
                missing = np.full(len(states), np.nan)
                values.setdefault(hyperparameter, missing)[i] = number
        # 2 columns in the order of their lengthscales
        weights = np.array([state.weight for state in states])
        column_std = np.std(inputs, axis=0)
        column_std[column_std == 0.0] = 1.0
        shortest = np.full(d, np.inf)
        for hyperparameter, numbers in values.items():
            columns = list(hyperparameter.columns) or slice(None)
            if hyperparameter.kind == "lengthscale":
                median = quantiles(numbers, weights, [0.5])[0]
                scaled = median / column_std[columns]
            elif hyperparameter.kind == "correlation":
                # that of an RBF with this correlation, ρ = exp(-1 / ℓ²)
                median = quantiles(numbers, weights, [0.5])[0]
                scaled = 1.0 / np.sqrt(max(-np.log(median), 1e-300))
            else:
                continue
            shortest[columns] = np.fmin(shortest[columns], scaled)
        column_order = np.argsort(shortest, kind="stable")
        # 3 kinds as they come, each in that order
        kinds = list(dict.fromkeys(hyperparameter.kind for hyperparameter in values))
        ranks = np.argsort(column_order)

        def position(hyperparameter: Hyperparameter) -> tuple[int, int, int]:
            rank = min((ranks[j] for j in hyperparameter.columns), default=-1)
            return kinds.index(hyperparameter.kind), rank, hyperparameter.number

        return cls(
            values={key: values[key] for key in sorted(values, key=position)},
            weights=weights,
            families=tuple(state.name for state in states),
            column_names=column_names,
            column_std=column_std,
            column_order=column_order,
        )

    def of_columns(self, n_columns: int) -> dict[Hyperparameter, Array]:
        """Values without those of columns that are not among the first in order."""
        columns = set(self.column_order[:n_columns].tolist())
        return {
            hyperparameter: values
            for hyperparameter, values in self.values.items()
            if not hyperparameter.columns or columns & set(hyperparameter.columns)
        }

    def family_weights(self) -> dict[str, float]:
        """Posterior probability of each family, from the largest."""
        sums: dict[str, float] = {}
        for family, weight in zip(self.families, self.weights, strict=True):
            sums[family] = sums.get(family, 0.0) + float(weight)
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


def quantiles(values: Array, weights: Array, levels: list[float]) -> Array:
    """Weighted quantiles over the states that have a hyperparameter."""
    has_value = np.isfinite(values)
    return weighted_quantiles(values[has_value], weights[has_value], levels)


def _inputs(model: Any, kernel: Kernel, basis: Any) -> tuple[Array, list[str]]:
    """Inducing points as the kernel sees them, and names of its inputs."""
    points = model.inducing_points_
    names = getattr(model, "feature_names_in_", None)
    has_directions = type(kernel) is Directions
    if has_directions:
        points = kernel.part(points)
    if has_directions or isinstance(basis, WarpedInputs):
        names = [f"z{j}" for j in range(points.shape[1])]
    if names is None:
        names = [f"x{j}" for j in range(points.shape[1])]
    return points, list(names)


# ---- Numbers of one state ------------------------------------------------------------


def _of_kernel(
    kernel: Kernel,
    n_features: int,
    scale: float,
) -> dict[Hyperparameter, float]:
    """Free hyperparameters of a kernel, whose function is in units of `scale`."""
    numbers: dict[Hyperparameter, float] = {}
    for position, term in enumerate(summands(kernel)):
        role = ""
        if any(parts_with("periodicity", term, np.arange(n_features))):
            role = "season_"
        elif (
            position > 0
            and n_features == 1
            and type(term) is Product
            and getattr(term.k2, "nu", None) == 0.5
        ):
            role = "autoregression_"
        for name, entries in theta_entries(term):
            kind = role + _kind(term, name)
            values = np.exp(term.theta[entries])
            kinds = [kind] * len(values)
            if name.endswith("variances"):
                kinds = [f"{kind}_{order}" for order in range(1, len(values) + 1)]
            if name.endswith(_VARIANCES):
                # a variance, as a standard deviation
                values = scale * np.sqrt(values)
            elif name.endswith("slope"):
                values = scale * values
            columns_of_values = _columns_of_values(term, name, len(values), n_features)
            for kind, columns, value in zip(
                kinds, columns_of_values, values, strict=True
            ):
                hyperparameter = Hyperparameter(kind, columns)
                while hyperparameter in numbers:
                    hyperparameter = hyperparameter._replace(
                        number=hyperparameter.number + 1
                    )
                numbers[hyperparameter] = float(value)
    return numbers


def _kind(term: Kernel, name: str) -> str:
    """What a hyperparameter of a summand is."""
    owner_name, _, parameter = name.rpartition("__")
    owner = term.get_params().get(owner_name, term)
    kind = _KINDS.get(parameter, parameter)
    if owner is term and type(term) is ConstantKernel:
        kind = "offset_std"
    if type(owner) is ExpSineSquared and parameter == "length_scale":
        kind = "cycle_lengthscale"
    return kind


def _columns_of_values(
    term: Kernel,
    name: str,
    n_values: int,
    n_features: int,
) -> list[tuple[int, ...]]:
    """Columns of each value of a hyperparameter of a summand; none if it is of all."""
    columns = columns_of_entry(term, name, n_features).tolist()
    if name.endswith(_VARIANCES):
        columns = sorted(_columns_seen(term, n_features))
    elif n_values == len(columns):
        return [(column,) for column in columns]
    if len(columns) == n_features:
        columns = []
    return [tuple(columns)] * n_values


def _columns_seen(kernel: Kernel, n_features: int) -> set[int]:
    """Columns that a kernel depends on."""
    if type(kernel) is ConstantKernel:
        return set()
    if type(kernel) in (Sum, Product):
        first = _columns_seen(kernel.k1, n_features)
        return first | _columns_seen(kernel.k2, n_features)
    if type(kernel) is Columns:
        return set(kernel.indices(n_features).tolist())
    return set(range(n_features))


def _of_likelihood(likelihood: Likelihood) -> dict[Hyperparameter, float]:
    """Scales of a likelihood; a variance of the noise as a standard deviation."""
    numbers = {}
    likelihood = normal_noise(likelihood)
    for name in likelihood.scale_names:
        value = float(getattr(likelihood, name))
        if name == "noise_variance":
            numbers[Hyperparameter("noise_std")] = float(np.sqrt(value))
        else:
            numbers[Hyperparameter(name)] = value
    return numbers
