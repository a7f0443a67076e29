"""What may be tried: the range, the levels or the choices of each input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import qmc

from skgpx._shell.validation import check_points
from skgpx._types import Array, Mask

# Points of a Sobol net among which those that a constraint admits are looked for.
_NET_BITS = 14
# Names of inputs of which a point, by name, does not depend.
Inactive: TypeAlias = Callable[[dict[str, Any]], Iterable[str]]


@dataclass(frozen=True)
class Dimension:
    """One input.

    Parameters
    ----------
    low, high : float
        Bounds, or the first and last number of a choice.
    step : float, default=0
        Distance between levels, counted from `low`; 0 for a continuous input.
    is_log : bool, default=False
        Whether the model sees the logarithm.
    choices : tuple, default=()
        Values that stand for the numbers 0, 1, ...
    is_ordered : bool, default=False
        Whether neighbouring choices are alike: numbers in ascending order are.
    """

    low: float
    high: float
    step: float = 0.0
    is_log: bool = False
    choices: tuple[Any, ...] = ()
    is_ordered: bool = False

    @classmethod
    def of_choices(cls, values: Iterable[Any]) -> Dimension:
        """Choices, which are ordered if they are three ascending numbers or more."""
        choices = tuple(values)
        is_ordered = len(choices) > 2 and all(map(_is_number, choices))
        is_ordered = is_ordered and bool(np.all(np.diff(choices) > 0))
        return cls(0.0, len(choices) - 1.0, 1.0, False, choices, is_ordered)

    @property
    def n_coordinates(self) -> int:
        """Columns of the model: one for each of several choices without an order."""
        if self.is_ordered or len(self.choices) < 3:
            return 1
        return len(self.choices)

    @property
    def is_integer(self) -> bool:
        """Whether all levels are integers."""
        has_levels = self.step > 0.0 and self.step.is_integer()
        return has_levels and self.low.is_integer()

    def contains(self, value: Any) -> bool:
        """Whether a value is one of the choices."""
        return any(_is_same(choice, value) for choice in self.choices)

    def to_unit(self, x: Array) -> Array:
        """Coordinates (n, k) in [0, 1] of numbers (n,); a fixed input has 0."""
        if self.n_coordinates > 1:
            return (x[:, np.newaxis] == np.arange(len(self.choices))).astype(np.float64)
        low, high = self._ends()
        if self.is_log:
            x = np.log(x)
        return ((x - low) / (high - low if low < high else 1.0))[:, np.newaxis]

    def from_unit(self, coordinates: Array) -> Array:
        """Numbers (n,) within the bounds and on the levels, from coordinates (n, k)."""
        if self.n_coordinates > 1:
            return np.argmax(coordinates, axis=1).astype(np.float64)
        low, high = self._ends()
        x = low + coordinates[:, 0] * (high - low)
        if self.is_log:
            # the bounds without rounding
            x = np.where(coordinates[:, 0] >= 1.0, self.high, np.exp(x))
        if self.step > 0.0:
            level = np.round((x - self.low) / self.step)
            x = self.low + np.minimum(level, self._n_steps) * self.step
        return np.clip(x, self.low, self.high)

    def from_design(self, u: Array) -> Array:
        """Numbers (n,) from uniform ones: each choice has the same share."""
        if self.choices:
            return np.minimum(np.floor(u * len(self.choices)), self.high)
        return self.from_unit(u[:, np.newaxis])

    def levels(self, most: int) -> Array | None:
        """All numbers, if there are at most so many; None for a continuous input."""
        if self.low == self.high:
            return np.array([self.low])
        if self.step == 0.0 or (self.high - self.low) / self.step >= most:
            return None
        return self.low + self.step * np.arange(self._n_steps + 1.0)

    def value(self, x: float) -> Any:
        """What the user sees: the choice, an integer, or a float."""
        if self.choices:
            return self.choices[int(x)]
        if self.is_integer:
            return int(x)
        return float(x)

    def number(self, name: str, value: Any) -> float:
        """The number of a value of the user.

        Raises
        ------
        ValueError
            If it is none of the choices, or not finite.
        """
        if isinstance(value, np.generic):
            value = value.item()
        for k, choice in enumerate(self.choices):
            if _is_same(choice, value):
                return float(k)
        if self.choices:
            raise ValueError(
                f"{name!r} must be one of {list(self.choices)}; got {value!r}."
            )
        number = float(check_points(repr(name), [value], (1,))[0])
        if self.is_log and number <= 0.0:
            raise ValueError(
                f"{name!r} must be positive, as its scale is logarithmic; got {value}."
            )
        if self.is_integer and not number.is_integer():
            raise ValueError(f"{name!r} must be an integer; got {value}.")
        return number

    @property
    def _n_steps(self) -> float:
        """Steps from the first level to the last."""
        return np.floor((self.high - self.low) / self.step * (1.0 + 1e-12))

    def _ends(self) -> tuple[float, float]:
        if self.is_log:
            return float(np.log(self.low)), float(np.log(self.high))
        return self.low, self.high


class Space:
    """Inputs of an experiment, and the columns that a model sees of them.

    Parameters
    ----------
    dimensions : sequence of Dimension
    names : list of str or None
        Names of the inputs, if trials are dictionaries.
    allowed : callable or None
        From a trial to whether it may be proposed.
    inactive : callable or None
        From a trial, a dictionary, to the names of inputs that have no effect there.
    fidelity : int or None
        Number of the input whose largest value is the experiment.
    """

    def __init__(
        self,
        dimensions: Sequence[Dimension],
        names: list[str] | None,
        allowed: Callable[[Any], bool] | None,
        inactive: Inactive | None,
        fidelity: int | None,
    ):
        self.dimensions = tuple(dimensions)
        self.names = names
        self.allowed = allowed
        self.inactive = inactive
        self.fidelity = fidelity
        widths = [dimension.n_coordinates for dimension in self.dimensions]
        self.splits = np.cumsum(widths)[:-1]
        # (0, 1), and (0, 0) for a fixed input
        self.box = np.concatenate(
            [
                np.tile([0.0, float(dimension.low < dimension.high)], (width, 1))
                for dimension, width in zip(self.dimensions, widths, strict=True)
            ]
        )
        # proposals are searched for at the experiment
        self.fidelity_coordinate = 0
        if fidelity is not None:
            dimension = self.dimensions[fidelity]
            self.experiment = float(dimension.from_unit(np.ones((1, 1)))[0])
            self.fidelity_coordinate = int(np.sum(widths[:fidelity]))
            self.box[self.fidelity_coordinate] = 1.0
        # of each coordinate
        is_continuous = [dimension.step == 0.0 for dimension in self.dimensions]
        self.is_continuous = np.repeat(is_continuous, widths)
        is_choice = [bool(dimension.choices) for dimension in self.dimensions]
        self.is_choice = np.repeat(is_choice, widths)

    def __len__(self) -> int:
        return len(self.dimensions)

    @property
    def has_levels(self) -> bool:
        """Whether an input has levels, or loses its effect."""
        return self.inactive is not None or not bool(np.all(self.is_continuous))

    # ---- Numbers and coordinates -----------------------------------------------------

    def to_unit(self, X: Array) -> Array:
        """Coordinates (n, D) of rows of numbers (n, d)."""
        parts = [
            dimension.to_unit(x)
            for dimension, x in zip(self.dimensions, X.T, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def from_unit(self, points: Array) -> Array:
        """Rows of numbers (n, d), on their levels, from coordinates (n, D)."""
        parts = np.split(points, self.splits, axis=1)
        columns = [
            dimension.from_unit(part)
            for dimension, part in zip(self.dimensions, parts, strict=True)
        ]
        return self._with_inactive(np.column_stack(columns))

    def from_design(self, points: Array) -> Array:
        """Rows of numbers (n, d) from uniform ones (n, d)."""
        columns = [
            dimension.from_design(u)
            for dimension, u in zip(self.dimensions, points.T, strict=True)
        ]
        return self._with_inactive(np.column_stack(columns))

    def _with_inactive(self, X: Array) -> Array:
        """Rows in which inputs without an effect have their first value."""
        if self.inactive is None:
            return X
        assert self.names is not None
        X = X.copy()
        for row, trial in zip(X, self.write(X), strict=True):
            for name in self._inactive_names(trial):
                column = self.names.index(name)
                row[column] = self.dimensions[column].low
        return X

    def _inactive_names(self, trial: dict[str, Any]) -> set[str]:
        """Names of the inputs that have no effect in a trial."""
        if self.inactive is None:
            return set()
        names = self.inactive(trial)
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ValueError(f"inactive must return a list of names; got {names!r}.")
        names = set(names)
        unknown = sorted(names - set(self.names or []), key=str)
        if unknown:
            raise ValueError(
                f"inactive returned unknown inputs {unknown}; the inputs are "
                f"{self.names}."
            )
        return names

    def is_allowed(self, X: Array) -> Mask:
        """Whether each row of numbers (n, d) may be proposed."""
        if self.allowed is None:
            return np.ones(len(X), dtype=bool)
        return np.array([bool(self.allowed(trial)) for trial in self.write(X)])

    # ---- Fidelities ------------------------------------------------------------------

    def is_experiment(self, X: Array) -> Mask:
        """Whether rows of numbers (n, d) have the largest fidelity."""
        if self.fidelity is None:
            return np.ones(len(X), dtype=bool)
        return np.asarray(X[:, self.fidelity] == self.experiment)

    def as_experiments(self, X: Array) -> Array:
        """Rows of numbers (n, d) with the largest fidelity in place of theirs."""
        if self.fidelity is None:
            return X
        X = X.copy()
        X[:, self.fidelity] = self.experiment
        return X

    def at_fidelities(self, row: Array) -> Array:
        """A row of numbers (d,) at each fidelity from the smallest to the largest."""
        assert self.fidelity is not None
        dimension = self.dimensions[self.fidelity]
        # levels of a continuous fidelity, or of one that has many
        n_levels = 6
        if dimension.step > 0.0:
            n_steps = int((dimension.high - dimension.low) / dimension.step)
            n_levels = min(n_levels, 1 + n_steps)
        shares = np.linspace(0.0, 1.0, n_levels)
        X = np.tile(row, (n_levels, 1))
        X[:, self.fidelity] = dimension.from_unit(shares[:, np.newaxis])
        is_possible = self.is_allowed(X)
        is_possible[-1] = True
        return X[is_possible]

    # ---- Designs ---------------------------------------------------------------------

    def net(self, n: int, rng: np.random.Generator) -> Array:
        """The first n allowed rows (n, d) of a scrambled Sobol sequence.

        Raises
        ------
        ValueError
            If hardly any row is allowed.
        """
        sequence = qmc.Sobol(len(self), seed=rng)
        # the sequence is balanced over its first 2^k points: draw such a number
        n_bits = max(n - 1, 0).bit_length()
        if self.allowed is not None:
            n_bits = max(n_bits, _NET_BITS)
        X = self.from_design(sequence.random_base2(n_bits))
        if self.allowed is None:
            return X[:n]
        rows: list[Array] = []
        for row in X:
            if len(rows) == n:
                break
            if self.is_allowed(row[np.newaxis])[0]:
                rows.append(row)
        if len(rows) < n:
            raise ValueError(
                f"allowed admits only {len(rows)} of {len(X)} points of the space: "
                f"{n} are needed. Write the constraint into the bounds, or lower "
                "n_initial."
            )
        return np.array(rows).reshape(-1, len(self))

    # ---- What the user sees ----------------------------------------------------------

    def all_rows(self, most: int) -> Array | None:
        """All rows (n, d), if there are at most so many; None otherwise."""
        columns = []
        n_rows = 1
        for dimension in self.dimensions:
            levels = dimension.levels(most)
            if levels is None or n_rows * len(levels) > most:
                return None
            n_rows *= len(levels)
            columns.append(levels)
        grids = np.meshgrid(*columns, indexing="ij")
        return self._with_inactive(np.stack(grids, axis=-1).reshape(-1, len(self)))

    def write(self, X: Array) -> list[Any]:
        """Trials of rows of numbers: the rows, or a list of dictionaries."""
        if self.names is None:
            return list(X)
        return [
            {
                name: dimension.value(x)
                for name, dimension, x in zip(
                    self.names, self.dimensions, row, strict=True
                )
            }
            for row in X
        ]

    def shown(self, X: Array) -> Any:
        """Trials of rows of numbers, without the inputs that have no effect there."""
        if self.names is None:
            return X
        trials = self.write(X)
        for trial in trials:
            for name in self._inactive_names(trial):
                del trial[name]
        return trials

    def read(self, trials: Any) -> Array:
        """Rows of numbers (n, d) of a table, of dictionaries, or of an array.

        Raises
        ------
        ValueError
            For unknown or missing names, unknown choices, and numbers that are not
            finite.
        """
        if self.names is None:
            return check_points("X", trials, (None, len(self)))
        if hasattr(trials, "to_dict") and hasattr(trials, "columns"):
            # a frame of pandas
            trials = trials.to_dict("records")
        if isinstance(trials, Mapping):
            trials = [trials]
        if not len(trials) or not all(isinstance(trial, Mapping) for trial in trials):
            raise ValueError(
                "X must be a dictionary, a list of dictionaries or a frame, since the "
                f"inputs have the names {self.names}; got {type(trials).__name__}."
            )
        return np.array([self._numbers(dict(trial)) for trial in trials])

    def _numbers(self, trial: dict[str, Any]) -> list[float]:
        assert self.names is not None
        unknown = sorted(set(trial) - set(self.names), key=str)
        if unknown:
            raise ValueError(
                f"X has unknown inputs {unknown}; the inputs are {self.names}."
            )
        for name, dimension in zip(self.names, self.dimensions, strict=True):
            is_lost = _is_missing(trial.get(name)) and not dimension.contains(np.nan)
            if is_lost and dimension.contains(None):
                # frames have NaN for None
                trial = {**trial, name: None}
            elif is_lost:
                # and for what was left out
                trial = {key: trial[key] for key in trial if key != name}
        given = set(trial)
        # an input that has no effect may be left out
        filled = {
            name: trial[name] if name in given else dimension.value(dimension.low)
            for name, dimension in zip(self.names, self.dimensions, strict=True)
        }
        dropped = self._inactive_names(filled)
        missing = [name for name in self.names if name not in given | dropped]
        if missing:
            raise ValueError(f"X lacks the inputs {missing} in {trial}.")
        numbers = []
        for name, dimension in zip(self.names, self.dimensions, strict=True):
            if name in dropped:
                numbers.append(dimension.low)
            else:
                numbers.append(dimension.number(name, filled[name]))
        return numbers


def _is_missing(value: Any) -> bool:
    """Whether a value is NaN, as frames have it where an input was left out."""
    return isinstance(value, float) and np.isnan(value)


def _is_same(choice: Any, value: Any) -> bool:
    """Whether a value is a choice: True is not 1, NaN is NaN, arrays have entries."""
    if choice is value or (_is_missing(choice) and _is_missing(value)):
        return True
    if isinstance(choice, bool) != isinstance(value, bool):
        return False
    try:
        return bool(np.all(choice == value)) and np.shape(choice) == np.shape(value)
    except (TypeError, ValueError):
        return False


# ---- Reading a space -----------------------------------------------------------------


def as_space(
    bounds: Any,
    steps: ArrayLike | None,
    allowed: Callable[[Any], bool] | None,
    inactive: Inactive | None,
    fidelity: str | int | None,
) -> Space:
    """Space of bounds (d, 2), or of a dictionary of inputs by name.

    Raises
    ------
    ValueError
        For bounds that are not in order, and for what is no range and no choice.
    """
    for name, function in (("allowed", allowed), ("inactive", inactive)):
        if function is not None and not callable(function):
            raise ValueError(f"{name} must be callable; got {function!r}.")
    if isinstance(bounds, Mapping):
        if steps is not None:
            raise ValueError(
                "steps goes with an array of bounds; among named inputs write "
                "scipy.stats.randint(low, high) or a list of the levels."
            )
        dimensions = [as_dimension(str(name), bounds[name]) for name in bounds]
        if not dimensions:
            raise ValueError("bounds must name at least one input; got {}.")
        names = [str(name) for name in bounds]
        return Space(
            dimensions,
            names,
            allowed,
            inactive,
            _checked_fidelity(fidelity, dimensions, names),
        )
    if inactive is not None:
        raise ValueError("inactive speaks of names: pass bounds as a dictionary.")
    box = check_points("bounds", bounds, (None, 2))
    if not np.all(box[:, 0] <= box[:, 1]):
        raise ValueError(
            "Each row of bounds must hold a lower bound and an upper one that is "
            f"not below it; got {box.tolist()}."
        )
    levels = np.zeros(len(box))
    if steps is not None:
        levels = check_points("steps", steps, (len(box),))
    if np.any(levels < 0.0):
        raise ValueError(
            "steps must hold the distance between the levels of each input, 0 for "
            f"one that is continuous; got {levels.tolist()}."
        )
    dimensions = [
        Dimension(float(low), float(high), float(step))
        for (low, high), step in zip(box, levels, strict=True)
    ]
    return Space(
        dimensions,
        None,
        allowed,
        None,
        _checked_fidelity(fidelity, dimensions, list(range(len(dimensions)))),
    )


def _checked_fidelity(
    fidelity: str | int | None,
    dimensions: Sequence[Dimension],
    names: Sequence[str | int],
) -> int | None:
    """Number of the input that is the fidelity."""
    if fidelity is None:
        return None
    if fidelity not in names:
        raise ValueError(f"fidelity must be one of {list(names)}; got {fidelity!r}.")
    if len(names) == 1:
        raise ValueError("fidelity needs another input, which it is the fidelity of.")
    number = names.index(fidelity)
    dimension = dimensions[number]
    is_named = bool(dimension.choices) and not dimension.is_ordered
    if dimension.low == dimension.high or is_named:
        raise ValueError(
            f"fidelity {fidelity!r} must be a range of numbers, or three or more "
            "ascending ones; its largest value is the experiment."
        )
    return number


def as_dimension(name: str, value: Any) -> Dimension:
    """One input: a pair of numbers, a distribution of SciPy, or a list of choices.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(value, Dimension):
        return value
    if hasattr(value, "dist") and hasattr(value, "support"):
        return _dimension_of_distribution(name, value)
    is_pair = isinstance(value, tuple) and len(value) == 2
    if is_pair and all(_is_number(bound) for bound in value):
        low, high = check_points(repr(name), value, (2,)).tolist()
        if low > high:
            raise ValueError(f"{name!r} must be (lower, upper); got {value}.")
        return Dimension(low, high)
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ValueError(
            f"{name!r} must be a pair of numbers (lower, upper), a list of choices or "
            "one of scipy.stats' uniform, loguniform and randint; got "
            f"{value!r}."
        )
    dimension = Dimension.of_choices(value)
    if not dimension.choices:
        raise ValueError(f"{name!r} must have at least one choice; got {value!r}.")
    return dimension


def _dimension_of_distribution(name: str, distribution: Any) -> Dimension:
    """Range of a frozen distribution: uniform, of the logarithm, or of integers."""
    low, high = (float(bound) for bound in distribution.support())
    if not np.isfinite(low) or not np.isfinite(high):
        raise ValueError(
            f"{name!r} must have a bounded range; got scipy.stats."
            f"{distribution.dist.name} on ({low}, {high})."
        )
    family = distribution.dist.name
    if family in ("loguniform", "reciprocal"):
        if low <= 0.0:
            raise ValueError(f"{name!r} must be positive throughout; got from {low}.")
        return Dimension(low, high, is_log=True)
    if family == "randint":
        return Dimension(low, high, step=1.0)
    if family == "uniform":
        return Dimension(low, high)
    raise ValueError(
        f"{name!r} must be uniform, loguniform or randint of scipy.stats, as only the "
        f"range counts; got {family}."
    )


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.number)
    return is_number and not isinstance(value, bool)
