"""Held-out quality on the paper's data sets, beside the figures of its Tables 3 and 4.

    python -m benchmarks.bench_quality --data FOLDER [--splits 4] [--sets boston ...]

Random 80/10/10 splits (the validation part stays unused: nothing is tuned), inputs
and regression targets standardised by the training part, 100 particles. M is the number
of inducing points: the paper's √N, and the estimators' default. The paper's splits are
not published, so its figures are of other splits of the same data.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.data import CLASSIFICATION, Split, add_data_argument, load, split
from benchmarks.peers import exact_gp
from benchmarks.report import progress, report
from skgpx import PLSClassifier, PLSRegressor

REGRESSION = ("boston", "concrete", "energy_cooling", "energy_heating", "kin8nm")
REGRESSION += ("wine",)
# Table 4, Gaussian likelihood: NLL and MAE of PLS, then of SVGP.
PAPER_REGRESSION = {
    "boston": (1.075, 0.360, 1.026, 0.403),
    "concrete": (1.182, 0.620, 1.296, 0.707),
    "energy_cooling": (0.769, 0.413, 1.289, 0.777),
    "energy_heating": (0.407, 0.237, 0.253, 0.235),
    "kin8nm": (0.839, 0.423, 0.914, 0.473),
    "wine": (1.345, 0.766, 1.361, 0.782),
}
# Table 3: AUC and accuracy of PLS, then of SVGP, per cent.
PAPER_CLASSIFICATION = {
    "breast": (98.37, 94.74, 98.44, 94.74),
    "diabetes": (83.38, 76.56, 82.95, 76.46),
    "heart": (91.34, 83.35, 91.21, 83.11),
    "ionosphere": (90.94, 85.91, 92.94, 87.27),
    "rice": (94.65, 88.96, 94.04, 88.46),
    "wine_colour": (94.95, 93.98, 94.99, 85.98),
}
Scores = dict[str, float]


def regression_scores(data: Split, n_inducing: int | str, seed: int) -> Scores:
    """NLL, MAE and coverage of the 95 % interval on the test part."""
    start = time.perf_counter()
    model = PLSRegressor(n_inducing=n_inducing, random_state=seed).fit(data.X, data.y)
    seconds = time.perf_counter() - start
    low, high = model.predict_interval(data.X_test, 0.95).T
    inside = (low <= data.y_test) & (data.y_test <= high)
    error = model.predict(data.X_test) - data.y_test
    density = model.log_predictive_density(data.X_test, data.y_test)
    scores = {"NLL": -density.mean(), "MAE": np.abs(error).mean()}
    return scores | {"coverage": inside.mean(), "seconds": seconds}


def classification_scores(data: Split, n_inducing: int | str, seed: int) -> Scores:
    """AUC and accuracy in per cent, and the log loss, on the test part."""
    start = time.perf_counter()
    model = PLSClassifier(n_inducing=n_inducing, random_state=seed).fit(data.X, data.y)
    seconds = time.perf_counter() - start
    score = model.predict_proba(data.X_test)[:, 1]
    density = model.log_predictive_density(data.X_test, data.y_test)
    return {
        "AUC": 100.0 * roc_auc_score(data.y_test, score),
        "accuracy": 100.0 * np.mean(model.predict(data.X_test) == data.y_test),
        "log loss": -density.mean(),
        "seconds": seconds,
    }


def exact_scores(data: Split, seed: int) -> Scores:
    """Scores of scikit-learn's exact process, on at most 1000 rows."""
    fitted = exact_gp.regressor(data.X, data.y, data.X_test, 1000, seed)
    standard = (data.y_test - fitted.mean) / fitted.std
    nll = 0.5 * standard**2 + np.log(fitted.std) + 0.5 * np.log(2.0 * np.pi)
    return {
        "NLL": nll.mean(),
        "MAE": np.abs(data.y_test - fitted.mean).mean(),
        "coverage": np.mean(np.abs(standard) <= 1.96),
        "seconds": fitted.fit_seconds,
    }


def averages(runs: list[Scores]) -> Scores:
    """Means over the splits, and the standard deviation of the first score."""
    row = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
    first = next(iter(row))
    row[f"{first} sd"] = float(np.std([run[first] for run in runs]))
    return row


def measure(
    name: str, folder: str | None, n_splits: int, exact: bool
) -> list[dict[str, object]]:
    """One row for √N inducing points, one for the default, and scikit-learn's."""
    regression = name in REGRESSION
    scores = regression_scores if regression else classification_scores
    X, y = load(name, folder)
    splits = [split(X, y, seed, standardise_y=regression) for seed in range(n_splits)]
    root = round(np.sqrt(len(splits[0].y)))
    rows = []
    for label, n_inducing in ((f"{root}", root), ("default", "auto")):
        runs = [scores(data, n_inducing, seed) for seed, data in enumerate(splits)]
        rows.append({"data": name, "M": label} | averages(runs) | published(name))
        progress(rows[-1])
    if exact and regression:
        runs = [exact_scores(data, seed) for seed, data in enumerate(splits)]
        rows.append({"data": name, "M": "scikit-learn"} | averages(runs))
    return rows


def published(name: str) -> dict[str, float]:
    """Find the paper's figures, by column."""
    if name in PAPER_REGRESSION:
        columns = ("paper NLL", "paper MAE", "paper SVGP NLL", "paper SVGP MAE")
        return dict(zip(columns, PAPER_REGRESSION[name], strict=True))
    columns = ("paper AUC", "paper accuracy", "paper SVGP AUC", "paper SVGP accuracy")
    return dict(zip(columns, PAPER_CLASSIFICATION[name], strict=True))


def main() -> None:
    """Measure the sets asked for and report the two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--exact", action="store_true", help="scikit-learn's as well")
    parser.add_argument("--sets", nargs="+", default=(*REGRESSION, *CLASSIFICATION))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    tables: dict[str, list] = {"quality_regression": [], "quality_classification": []}
    with threadpool_limits(1):
        for name in arguments.sets:
            table = "regression" if name in REGRESSION else "classification"
            found = measure(name, arguments.data, arguments.splits, arguments.exact)
            tables[f"quality_{table}"] += found
    for name, rows in tables.items():
        if rows:
            report(name, rows, {"splits": arguments.splits, "particles": 100})


if __name__ == "__main__":
    main()
