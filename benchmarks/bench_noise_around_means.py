"""Noise around boosting: heavy tails, and a scale that varies, beside simple recipes.

    python -m benchmarks.bench_noise_around_means [--splits 4] [--only engel ...]

Every method predicts with the same boosting (HistGradientBoostingRegressor with its
defaults), but for "process", whose mean is that of the process itself. A fifth of the
rows is held out; X and y are standardised by the others. Recipes use five-fold errors
of the boosting: "constant normal" is their root mean square, "constant t" Student's
distribution fitted to them, and "two boosters, t" divides them by the root of a second
boosting of their squares (gamma loss, 40 rounds) before. The columns are the mean
negative log density in nats, the coverage of 90 % intervals, CPU seconds, and the
standard deviation of the function ten ranges away, in units of that of y.

engel, star98, randhie and statecrime are of statsmodels; concrete, airfoil and kin8nm
are files (see benchmarks.data). At most 950 rows of each are used.
"""

from __future__ import annotations

import argparse
import importlib
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict

from benchmarks.data import add_data_argument, load
from benchmarks.report import progress, report
from skgpx import GWIRegressor

Array = Any
N_ROWS = 950
STATSMODELS = ("engel", "star98", "randhie", "statecrime")
FILES = ("concrete", "airfoil", "kin8nm")


class Answer(NamedTuple):
    """Log density and interval of each held-out row, and the std far away."""

    density: Array
    lower: Array
    upper: Array
    far: float


# ---- Data ----------------------------------------------------------------------------


def rows_of(name: str, folder: Any) -> tuple[Array, Array]:
    """X and y of a data set, at most N_ROWS rows."""
    if name in STATSMODELS:
        datasets = importlib.import_module("statsmodels.datasets")
        table = getattr(datasets, name).load_pandas()
        X = table.exog.to_numpy(float)
        y = table.endog.to_numpy(float)
        if name == "star98":
            # share of the pupils above the median
            y = y[:, 0] / y.sum(axis=1)
    else:
        X, y = load(name, folder)
    order = np.random.default_rng(0).permutation(len(y))[:N_ROWS]
    return X[order], y[order]


# ---- Methods -------------------------------------------------------------------------


def boosting(**options: Any) -> HistGradientBoostingRegressor:
    """The mean of all methods, or a booster of errors."""
    return HistGradientBoostingRegressor(random_state=0, **options)


def ours(mean: Any = None, **noise: Any) -> Callable[..., Answer]:
    """Process around boosting, or around its own mean."""

    def fitted(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
        model = GWIRegressor(mean or boosting(), random_state=0, **noise).fit(X, y)
        far = model.predict(new + 10.0 * np.ptp(X, axis=0), True, include_noise=False)
        lower, upper = model.predict_interval(new, 0.9).T
        density = model.log_predictive_density(new, held_out)
        return Answer(density, lower, upper, float(np.mean(far[1])))

    return fitted


def out_of_fold_errors(X: Array, y: Array) -> Array:
    """Errors of boosting fitted to four fifths of the rows, (n,)."""
    folds = KFold(5, shuffle=True, random_state=0)
    return y - cross_val_predict(boosting(), X, y, cv=folds)


def constant_normal(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Normal errors whose standard deviation is that of five-fold errors."""
    std = np.sqrt(np.mean(out_of_fold_errors(X, y) ** 2))
    mean = boosting().fit(X, y).predict(new)
    return answer(stats.norm(mean, std), held_out)


def constant_t(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Student's distribution of five-fold errors."""
    df, _, scale = stats.t.fit(out_of_fold_errors(X, y), floc=0.0)
    mean = boosting().fit(X, y).predict(new)
    return answer(stats.t(df, mean, scale), held_out)


def two_boosters(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Student's distribution of errors over the root of boosted squares."""
    squares = out_of_fold_errors(X, y) ** 2
    squares = np.maximum(squares, 1e-8 * np.mean(squares))
    second = boosting(loss="gamma", max_iter=40)
    folds = KFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(second, X, squares, cv=folds)
    df, _, scale = stats.t.fit(np.sqrt(squares / predicted), floc=0.0)
    mean = boosting().fit(X, y).predict(new)
    scales = scale * np.sqrt(second.fit(X, squares).predict(new))
    return answer(stats.t(df, mean, scales), held_out)


def answer(distribution: Any, y: Array) -> Answer:
    """Density and interval of a distribution of scipy.stats."""
    return Answer(distribution.logpdf(y), *distribution.interval(0.9), np.nan)


BOTH = {"likelihood": "student_t", "noise_model": "boosting"}
METHODS: dict[str, Callable[..., Answer]] = {
    "boosting, constant normal": constant_normal,
    "boosting, constant t": constant_t,
    "two boosters, t": two_boosters,
    "GWI": ours(),
    "GWI, student_t": ours(likelihood="student_t"),
    "GWI, noise_model": ours(noise_model="boosting"),
    "GWI, both": ours(**BOTH),
    "GWI, student_t and boosting()": ours(**BOTH | {"noise_model": boosting()}),
    "process": ours("svgp"),
    "process, both": ours("svgp", **BOTH),
}


# ---- Table ---------------------------------------------------------------------------


def one_split(X: Array, y: Array, seed: int, method: Callable[..., Answer]) -> Array:
    """NLPD, coverage of 90 % intervals, CPU seconds and std far away."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [round(0.8 * len(y))])
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    y = (y - y[train].mean()) / y[train].std()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = method(X[train], y[train], X[test], y[test])
    seconds = time.process_time() - start
    inside = np.mean((result.lower <= y[test]) & (y[test] <= result.upper))
    return np.array([-np.mean(result.density), inside, seconds, result.far])


def main() -> None:
    """Print one line for each data set and method, and the means over data sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--only", nargs="+", default=[*STATSMODELS, *FILES])
    add_data_argument(parser)
    options, table = parser.parse_args(), []
    columns = ("nlpd", "inside 90 %", "CPU s", "far std")
    for name in options.only:
        try:
            X, y = rows_of(name, options.data)
        except (FileNotFoundError, ModuleNotFoundError) as missing:
            progress({"data": name, "left out": missing})
            continue
        for method, function in METHODS.items():
            splits = [one_split(X, y, seed, function) for seed in range(options.splits)]
            row = {"data": name, "rows": len(y), "method": method}
            row |= dict(zip(columns, np.mean(splits, axis=0).tolist(), strict=True))
            row["splits"] = [round(float(split[0]), 4) for split in splits]
            table.append(row)
            progress(row)
    for method in METHODS:
        rows = [row for row in table if row["method"] == method]
        means = {c: float(np.mean([row[c] for row in rows])) for c in columns}
        table.append({"data": "mean", "method": method, **means})
    settings = {"splits": options.splits, "rows at most": N_ROWS}
    report("noise_around_means", table, settings, ("data", "method", *columns))


if __name__ == "__main__":
    main()
