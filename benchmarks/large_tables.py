"""Tables of some ten thousand rows or more, split and standardised.

The sets "labels" and "counts" are drawn from kin40k, with log odds ``3 y`` and rates
``exp(1 + 0.7 y)``. "diamonds" are 53 940 prices in plotnine, whose logarithm is
predicted; "visits" are 20 190 numbers of visits to a doctor, the data set randhie of
statsmodels. A number is the name of a made-up table of so many training rows.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.data import load

Array = NDArray[np.float64]

SETS = ("kin40k", "protein", "diamonds", "labels", "counts", "visits")
KINDS = {"labels": "labels", "counts": "counts", "visits": "counts"}


class Table(NamedTuple):
    """Rows for training and held-out rows.

    Attributes
    ----------
    X, y, X_test, y_test : ndarray
    means : ndarray of shape (n_test,)
        Probabilities or rates of the held-out rows, where they are known.
    kind : {"continuous", "labels", "counts"}
    """

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    means: Array | None
    kind: str


def read(name: str, split: int = 0, first: int | None = None) -> Table:
    """Read or make a table by its name; a number is one of so many made-up rows.

    Parameters
    ----------
    name : str
    split : int, default=0
        Seed of the order of the rows.
    first : int, optional
        Number of training rows, if not all.
    """
    kind = KINDS.get(name, "continuous")
    if name.isdigit():
        X, y = make_data("gaussian", int(name) + 2000)
        order = np.arange(len(y))
        held = 2000
    else:
        X, y = _loaded(name)
        order = np.random.default_rng(split).permutation(len(y))
        held = len(y) // 10
    X = X[order]
    y = y[order]
    X = (X - X[held:].mean(axis=0)) / X[held:].std(axis=0)
    means = None
    if name != "visits":
        y = (y - y[held:].mean()) / y[held:].std()
    if name in ("labels", "counts"):
        y, means = _drawn(name, y)
        means = means[:held]
    end = len(y) if first is None else held + first
    return Table(
        X=np.ascontiguousarray(X[held:end]),
        y=y[held:end].copy(),
        X_test=np.ascontiguousarray(X[:held]),
        y_test=y[:held].copy(),
        means=means,
        kind=kind,
    )


def _loaded(name: str) -> tuple[Array, Array]:
    """Columns and target as numbers."""
    if name == "diamonds":
        return _diamonds()
    if name == "visits":
        randhie = importlib.import_module("statsmodels.datasets").randhie
        frame = randhie.load_pandas().data
        columns = frame.drop(columns="mdvis")
        return columns.to_numpy(float), frame["mdvis"].to_numpy(float)
    return load(name if name in ("kin40k", "protein") else "kin40k")


def _diamonds() -> tuple[Array, Array]:
    """Nine columns, grades as their ranks, and the logarithm of the price."""
    pandas = importlib.import_module("pandas")
    package = importlib.util.find_spec("plotnine")
    folder = Path(str(package.submodule_search_locations[0]))  # type: ignore[union-attr,index]
    frame = pandas.read_csv(folder / "data" / "diamonds.csv")
    grades = {
        "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
        "color": list("JIHGFED"),
        "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
    }
    for column, order in grades.items():
        frame[column] = frame[column].map(order.index)
    price = frame.pop("price").to_numpy(float)
    return frame.to_numpy(float), np.log(price)


def _drawn(name: str, f: Array) -> tuple[Array, Array]:
    """Labels or counts, and their probabilities or rates."""
    rng = np.random.default_rng(1)
    if name == "labels":
        mean = expit(3.0 * f)
        return (rng.random(len(f)) < mean).astype(float), mean
    mean = np.exp(1.0 + 0.7 * f)
    return rng.poisson(mean).astype(float), mean


def make_data(likelihood: str, n: int) -> tuple[Array, Array]:
    """Rows (n, 8) and targets of a smooth function of five of the inputs."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8))
    f = np.sin(X[:, 0] * X[:, 1]) + 0.5 * X[:, 2] ** 2 + X[:, 3] + np.sin(2 * X[:, 4])
    match likelihood:
        case "gaussian":
            return X, f + 0.2 * rng.standard_normal(n)
        case "student_t":
            return X, f + 0.2 * rng.standard_t(4, n)
    return X, (f + rng.logistic(size=n) > 0.5).astype(float)
