"""Data sets of the benchmarks: csv files in a folder, and those of scikit-learn.

The folder is named by ``--data`` or by the environment variable SKGPX_BENCH_DATA.
It holds ``NAME.csv`` or ``NAME.csv.gz`` with one header line, numeric columns and the
target in the last one. Two targets, heating_load and cooling_load, stand at the end of
``energy.csv``; the names here are ``energy_heating`` and ``energy_cooling``.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

REGRESSION = ("boston", "concrete", "energy_cooling", "energy_heating", "kin8nm")
REGRESSION += ("wine", "airfoil", "power", "protein", "kin40k")
CLASSIFICATION = ("breast", "diabetes", "heart", "ionosphere", "rice", "wine_colour")
BUNDLED = {
    "sklearn_diabetes": datasets.load_diabetes,
    "sklearn_breast_cancer": datasets.load_breast_cancer,
    "sklearn_iris": datasets.load_iris,
    "sklearn_wine": datasets.load_wine,
    "sklearn_digits": datasets.load_digits,
}
# Columns of energy.csv that are targets, and which of them a name means.
ENERGY_TARGETS = {"energy_heating": -2, "energy_cooling": -1}


class Split(NamedTuple):
    """Training, validation and test rows, standardised with the training rows."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    X_validation: NDArray[np.float64]
    y_validation: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.float64]


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    """Give a command the option ``--data``."""
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("SKGPX_BENCH_DATA"),
        help="folder of csv files; default: the environment's SKGPX_BENCH_DATA",
    )


def load(
    name: str, folder: Path | str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read inputs (n, d) and targets (n,) of one data set.

    Rows with a missing value are left out.

    Raises
    ------
    FileNotFoundError
        When the set is not bundled with scikit-learn and no folder holds it.
    """
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
        return X.astype(float), y.astype(float)
    table = np.genfromtxt(file_of(name, folder), delimiter=",", skip_header=1)
    table = table[~np.isnan(table).any(axis=1)]
    if name in ENERGY_TARGETS:
        return table[:, :-2], table[:, ENERGY_TARGETS[name]]
    return table[:, :-1], table[:, -1]


def file_of(name: str, folder: Path | str | None) -> Path:
    """Path of one data set's file."""
    folder = folder or os.environ.get("SKGPX_BENCH_DATA")
    if folder is None:
        raise FileNotFoundError(
            f"{name} is read from a folder of csv files: name it with --data or "
            "SKGPX_BENCH_DATA."
        )
    stem = "energy" if name in ENERGY_TARGETS else name
    found = [
        p for p in Path(folder).glob(f"{stem}.csv*") if p.suffix in {".csv", ".gz"}
    ]
    if not found:
        raise FileNotFoundError(f"No {stem}.csv or {stem}.csv.gz in {folder}.")
    return found[0]


def split(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    seed: int,
    standardise_y: bool,
) -> Split:
    """Random 80/10/10 split; every figure of the scaling comes from the 80.

    Columns that are constant in the training rows become zero.
    """
    order = np.random.default_rng(seed).permutation(len(y))
    n_train, n_validation = round(0.8 * len(y)), round(0.1 * len(y))
    parts = np.split(order, [n_train, n_train + n_validation])
    X = _standardise(X, X[parts[0]])
    if standardise_y:
        y = _standardise(y, y[parts[0]])
    return Split(*(array[part] for part in parts for array in (X, y)))


def _standardise(
    values: NDArray[np.float64], train: NDArray[np.float64]
) -> NDArray[np.float64]:
    scale = train.std(0)
    return (values - train.mean(0)) / np.where(scale > 0, scale, 1.0)
