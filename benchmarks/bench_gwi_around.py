"""Uncertainty around boosting and forests: in the data, and outside of it.

    python -m benchmarks.bench_gwi_around [--data FOLDER] [--sets ...] [--rows N]
        [--random 5] [--jobs 16]

Predictions around HistGradientBoostingRegressor and RandomForestRegressor with
their default parameters, and beside them NGBoost:

gwi
    GWIRegressor around the model, default parameters.
constant
    The same mean, and the mean squared error of rows left out at random as variance.
conformal
    MAPIE's split conformal intervals: the model on four fifths of the rows, widths from
    the rest.
ngboost
    NGBRegressor, normal distribution, default parameters.

Each set is split at random (a tenth is left out), and by its first principal component:
the last, and then the first, tenth of the rows in that order is left out, so that
almost all test rows are outside of the training data. NLL and CRPS are those of the
standardised y, coverage and width (in standard deviations of y) of 95 % intervals.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from mapie.regression import SplitConformalRegressor
from ngboost import NGBRegressor
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import KFold, cross_val_predict, train_test_split

from benchmarks.data import add_data_argument, load
from benchmarks.jobs import add_jobs_arguments, each
from benchmarks.report import progress, report
from skgpx import GWIRegressor

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# The longest first: see `each`.
SETS = ("kin8nm", "power", "wine", "airfoil", "concrete", "energy_heating", "boston")
SETS += ("sklearn_diabetes",)
# Splits of `splits` that are not random.
SHIFTED = 2
MODELS = {
    "boosting": HistGradientBoostingRegressor(random_state=0),
    "forest": RandomForestRegressor(random_state=0),
}
VARIANTS: dict[str, dict[str, Any]] = {"gwi": {}}
Z95 = 1.959963984540054


def splits(X: Array, n_random: int) -> Iterator[tuple[str, Index, Index]]:
    """Kind of split, training rows and test rows."""
    n = len(X)
    held_out = n // 10
    for seed in range(n_random):
        order = np.random.default_rng(seed).permutation(n)
        yield "random", order[held_out:], order[:held_out]
    scaled = (X - X.mean(0)) / np.where(X.std(0) > 0.0, X.std(0), 1.0)
    order = np.argsort(PCA(1).fit_transform(scaled)[:, 0], kind="stable")
    yield "shifted", order[:-held_out], order[-held_out:]
    yield "shifted", order[held_out:], order[:held_out]


def normal_scores(y: Array, mean: Array, std: Array) -> dict[str, float]:
    """Scores of normal distributions."""
    z = (y - mean) / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    crps = std * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))
    nll = 0.5 * z**2 + np.log(std) + 0.5 * np.log(2.0 * np.pi)
    scores = {"NLL": float(np.mean(nll)), "CRPS": float(np.mean(crps))}
    return scores | interval_scores(y, mean - Z95 * std, mean + Z95 * std)


def interval_scores(y: Array, low: Array, high: Array) -> dict[str, float]:
    """Coverage and width."""
    covered = float(np.mean((low <= y) & (y <= high)))
    return {"coverage": covered, "width": float(np.mean(high - low))}


Part = tuple[Array, Array]


def around(model: Any, options: dict[str, Any], train: Part, test: Part) -> Any:
    """GWIRegressor; scores, and those of its mean with a constant variance."""
    fitted = GWIRegressor(model, random_state=0, **options).fit(*train)
    mean, std = fitted.predict(test[0], return_std=True)
    folds = KFold(5, shuffle=True, random_state=0)
    errors = train[1] - cross_val_predict(clone(model), *train, cv=folds)
    constant = np.sqrt(np.mean(errors**2))
    flat = normal_scores(test[1], mean, np.full(len(mean), constant))
    return normal_scores(test[1], mean, std), flat


def conformal(model: Any, train: Part, test: Part) -> dict[str, float]:
    """Split conformal intervals."""
    parts = train_test_split(*train, test_size=0.2, random_state=0)
    X, X_calibration, y, y_calibration = parts
    mapie = SplitConformalRegressor(clone(model), confidence_level=0.95, prefit=False)
    mapie.fit(X, y).conformalize(X_calibration, y_calibration)
    bounds = mapie.predict_interval(test[0])[1][:, :, 0]
    return interval_scores(test[1], *bounds.T)


def boosted_distribution(train: Part, test: Part) -> dict[str, float]:
    """Scores of NGBoost."""
    distribution = (
        NGBRegressor(random_state=0, verbose=False).fit(*train).pred_dist(test[0])
    )
    return normal_scores(test[1], distribution.loc, distribution.scale)


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Result, and CPU seconds."""
    start = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - start


def measure(
    name: str, folder: Any, n_rows: int, n_random: int, which: int, variants: list[str]
) -> list[dict[str, Any]]:
    """Rows of all methods on one split of a set."""
    X, y = load(name, folder)
    some = np.random.default_rng(0).permutation(len(y))[:n_rows]
    X, y = X[some], y[some]
    kind, train, test = list(splits(X, n_random))[which]
    centre, scale = y[train].mean(), y[train].std()
    parts = [(X[part], (y[part] - centre) / scale) for part in (train, test)]
    about = {"set": name, "split": kind, "number": which, "rows": len(train)}
    found, seconds = timed(boosted_distribution, *parts)
    rows = [about | {"mean": "", "method": "ngboost", "CPU s": seconds} | found]
    for model_name, model in MODELS.items():
        about["mean"] = model_name
        for method in variants:
            options = VARIANTS[method]
            (scores, flat), seconds = timed(around, model, options, *parts)
            rows.append(about | {"method": method, "CPU s": seconds} | scores)
            if not options:
                rows.append(about | {"method": "constant"} | flat)
        found, seconds = timed(conformal, model, *parts)
        rows.append(about | {"method": "conformal", "CPU s": seconds} | found)
    for row in rows:
        progress(row)
    return rows


def averages(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over sets and splits of each kind, and how far coverage is off."""
    table = []
    for key in dict.fromkeys((r["split"], r["mean"], r["method"]) for r in rows):
        mine = [r for r in rows if (r["split"], r["mean"], r["method"]) == key]
        row: dict[str, Any] = dict(zip(("split", "mean", "method"), key, strict=True))
        for score in ("NLL", "CRPS", "coverage", "width", "CPU s"):
            values = [r[score] for r in mine if score in r]
            row[score] = np.mean(values) if values else ""
        coverage = np.array([r["coverage"] for r in mine])
        row["median NLL"] = np.median([r.get("NLL", np.nan) for r in mine])
        row["lowest coverage"] = coverage.min()
        row["off by"] = np.mean(np.abs(coverage - 0.95))
        table.append(row | {"splits": len(mine)})
    return table


def main() -> None:
    """Measure the sets asked for and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    add_jobs_arguments(parser, "gwi_around")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--random", type=int, default=2)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    arguments = parser.parse_args()
    tasks = [
        (
            name,
            arguments.data,
            arguments.rows,
            arguments.random,
            which,
            arguments.variants,
        )
        for name in arguments.sets
        for which in range(arguments.random + SHIFTED)
    ]
    found = each(measure, tasks, arguments.jobs)
    rows = [row for split in found for row in split]
    settings = {"rows at most": arguments.rows, "processes": arguments.jobs}
    report(f"{arguments.output}_splits", rows, settings, shown=())
    report(arguments.output, averages(rows), settings)


if __name__ == "__main__":
    main()
