"""Classes by Gaussian Wasserstein inference: accuracy, log loss, calibration, outliers.

    python -m benchmarks.bench_gwi_classes --data FOLDER [--splits 2] [--rows 600]
        [--jobs 16]

Scikit-learn's digits, trained on 0 to 7, with 8 and 9 as outliers, and the six sets of
two classes, with outliers that are the test rows four times as far from the mean of the
training rows. At most `--rows` rows train; columns are standardised with them (digits:
divided by 16). "net" and "net, robust max" are GWIClassifier by default and with the
paper's likelihood; GPC is GaussianProcessClassifier with a learned amplitude and one
learned lengthscale; MLP has the same 32 hidden units and its temperature is learned in
five folds. Around other classifiers: as they are ("bare"), with a temperature learned
in five folds, and with the distribution around them. Scores of outliers are entropies.
The prior kernel is searched once a split, by "net", whose seed makes it that of all.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier

from benchmarks.data import CLASSIFICATION, add_data_argument, load
from benchmarks.jobs import add_jobs_arguments, each
from benchmarks.report import progress, report
from skgpx import GWIClassifier
from skgpx.likelihoods import RobustMax

Array = NDArray[np.float64]
SMALLEST, BINS, STRETCH, MOST_TESTED = 1e-12, 15, 4.0, 1500


class Problem(NamedTuple):
    """Rows that train and test, and outliers."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    outliers: Array


def problem(name: str, folder: Any, seed: int, n_rows: int) -> Problem:
    """One split of a set."""
    rng = np.random.default_rng(seed)
    if name == "digits":
        X, y = load("sklearn_digits")
        X, known = X / 16.0, y < 8
        order = rng.permutation(np.flatnonzero(known))
        train, test = order[:n_rows], order[n_rows:]
        return Problem(X[train], y[train], X[test], y[test], X[~known])
    X, y = load(name, folder)
    order = rng.permutation(len(y))
    n = min(n_rows, round(0.8 * len(y)))
    train, test = order[:n], order[n : n + MOST_TESTED]
    scale = X[train].std(0)
    X = (X - X[train].mean(0)) / np.where(scale > 0.0, scale, 1.0)
    return Problem(X[train], y[train], X[test], y[test], STRETCH * X[test])


def heated(classifier: Any) -> Any:
    """With a temperature learned in five folds."""
    return CalibratedClassifierCV(classifier, method="temperature", ensemble=False)


def contenders(data: Problem, seed: int) -> Iterator[tuple[str, Any]]:
    """Names and models, the first of which finds the kernel of some others."""
    net = GWIClassifier(random_state=seed)
    yield "net", net
    gwi = {"kernel": net.kernel_, "optimizer": None, "random_state": seed}
    yield "net, robust max", GWIClassifier(likelihood=RobustMax(), **gwi)
    mlp = MLPClassifier((32,), activation="tanh", max_iter=300, random_state=seed)
    yield "MLP, temperature", heated(mlp)
    start = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.sqrt(data.X.var(0).sum()))
    yield "GPC", GaussianProcessClassifier(start, random_state=seed)
    others = {
        "logistic": LogisticRegression(max_iter=1000),
        "forest": RandomForestClassifier(random_state=seed),
        "boosting": HistGradientBoostingClassifier(random_state=seed),
    }
    for name, classifier in others.items():
        yield f"{name}: bare", classifier
        yield f"{name}: temperature", heated(classifier)
        yield f"{name}: GWI", GWIClassifier(classifier, **gwi)


def entropy(p: Array) -> Array:
    """Of each row, in nats."""
    return -np.sum(p * np.log(np.maximum(p, SMALLEST)), axis=1)


def calibration_error(p: Array, right: NDArray[np.bool_]) -> float:
    """Expected calibration error of the largest probability, 15 bins of equal width."""
    top = p.max(axis=1)
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right - top, minlength=BINS)
    return float(np.abs(gaps).sum() / len(p))


def scores(model: Any, data: Problem) -> dict[str, float]:
    """What is reported of a fitted model."""
    p = model.predict_proba(data.X_test)
    codes = np.searchsorted(model.classes_, data.y_test)
    own = p[np.arange(len(p)), codes]
    H, out = entropy(p), entropy(model.predict_proba(data.outliers))
    truth = np.concatenate([np.zeros(len(H)), np.ones(len(out))])
    return {
        "accuracy": float(np.mean(p.argmax(1) == codes)),
        "log loss": float(-np.mean(np.log(np.maximum(own, SMALLEST)))),
        "ECE": calibration_error(p, p.argmax(1) == codes),
        "outlier AUC": float(roc_auc_score(truth, np.concatenate([H, out]))),
        "outlier entropy": float(out.mean() / np.log(p.shape[1])),
    }


def measure(name: str, data: Problem, seed: int) -> list[dict[str, Any]]:
    """All contenders on one split."""
    rows = []
    for kind, model in contenders(data, seed):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data.X, data.y)
        seconds = time.process_time() - start
        row = {"set": name, "split": seed, "model": kind}
        row |= scores(model, data) | {"cpu s": seconds}
        rows.append(row)
        progress(row)
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the splits."""
    figures = [k for k in rows[0] if k not in ("set", "split", "model")]
    table = []
    for name in dict.fromkeys(row["set"] for row in rows):
        for kind in dict.fromkeys(row["model"] for row in rows):
            of = [r for r in rows if (r["set"], r["model"]) == (name, kind)]
            line = {"set": name, "model": kind, "splits": len(of)}
            for figure in figures:
                values = np.array([r[figure] for r in of])
                line[figure] = float(values.mean())
                if len(of) > 1:
                    error = values.std(ddof=1) / np.sqrt(len(of))
                    line[f"{figure} s.e."] = float(error)
            table.append(line)
    return table


def measure_split(
    name: str, seed: int, folder: Any, n_rows: int
) -> list[dict[str, Any]]:
    """All contenders on one split of a set."""
    return measure(name, problem(name, folder, seed, n_rows), seed)


def main() -> None:
    """Measure every set and split, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    add_jobs_arguments(parser, "gwi_classes")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--sets", nargs="+", default=["digits", *CLASSIFICATION])
    arguments = parser.parse_args()
    tasks = [
        (name, seed, arguments.data, arguments.rows)
        for name in arguments.sets
        for seed in range(arguments.splits)
    ]
    found = each(measure_split, tasks, arguments.jobs)
    rows = [row for split in found for row in split]
    settings = {"rows": rows, "training rows": arguments.rows}
    settings |= {"processes": arguments.jobs}
    table = summary(rows)
    shown = [key for key in table[0] if "s.e." not in key]
    report(arguments.output, table, settings, shown)


if __name__ == "__main__":
    main()
