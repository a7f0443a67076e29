"""Classification: log loss of the default kernel, of one lengthscale, of one a column.

    python -m benchmarks.bench_classes --data FOLDER [--splits 4] [--sets breast ...]

Random 80/20 splits; columns are standardised with the training rows. "default" chooses
between the two others by itself. Processor seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import roc_auc_score

from benchmarks.data import CLASSIFICATION, Split, add_data_argument, load, split
from benchmarks.report import progress, report
from skgpx import PLSClassifier

SMALLEST = 1e-12


def contenders(d: int) -> dict[str, Any]:
    """Kernels by name; the amplitudes have the bounds of the default kernel."""
    amplitude, scale = ConstantKernel(1.0, (1e-3, 6.0)), 2.0 * np.sqrt(d)
    return {
        "default": None,
        "isotropic": amplitude * RBF(scale, (1e-3, 1e3)),
        "one a column": amplitude * RBF(np.full(d, scale), (1e-3, 1e3)),
    }


def joined(data: Split) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Validation and test rows."""
    X = np.concatenate((data.X_validation, data.X_test))
    return X, np.concatenate((data.y_validation, data.y_test))


def measure(name: str, X: Any, y: Any, seed: int) -> list[dict[str, object]]:
    """Log loss, AUC of two classes, processor seconds and warnings of each kernel."""
    data = split(X, y, seed, standardise_y=False)
    X_test, y_test = joined(data)
    rows: list[dict[str, object]] = []
    for kind, kernel in contenders(X.shape[1]).items():
        start = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = PLSClassifier(kernel, random_state=seed).fit(data.X, data.y)
        seconds = time.process_time() - start
        p = model.predict_proba(X_test)
        own = p[np.arange(len(p)), np.searchsorted(model.classes_, y_test)]
        row: dict[str, object] = {"set": name, "split": seed, "kernel": kind}
        row["log loss"] = float(-np.mean(np.log(np.maximum(own, SMALLEST))))
        two = len(model.classes_) == 2
        row["AUC"] = float(roc_auc_score(y_test, p[:, 1])) if two else np.nan
        row |= {"cpu s": seconds, "steps": model.n_iter_, "warnings": len(caught)}
        rows.append(row)
        progress(row)
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, object]]:
    """Means over splits, and the default's loss over that of the better of the two."""
    table: list[dict[str, object]] = []
    for name in dict.fromkeys(row["set"] for row in rows):
        line: dict[str, object] = {"set": name}
        for kind in dict.fromkeys(row["kernel"] for row in rows):
            of = [r for r in rows if (r["set"], r["kernel"]) == (name, kind)]
            line[kind] = float(np.mean([row["log loss"] for row in of]))
            if kind == "default":
                line["AUC"] = float(np.mean([row["AUC"] for row in of]))
                line["cpu s"] = float(np.mean([row["cpu s"] for row in of]))
                line["warnings"] = sum(row["warnings"] for row in of)
        better = min(float(line["isotropic"]), float(line["one a column"]))  # type: ignore[arg-type]
        line["excess"] = float(line["default"]) - better  # type: ignore[arg-type]
        table.append(line)
    return table


def main() -> None:
    """Measure every set and split, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--sets", nargs="+", default=list(CLASSIFICATION))
    arguments = parser.parse_args()
    rows = []
    for name in arguments.sets:
        X, y = load(name, arguments.data)
        for seed in range(arguments.splits):
            rows += measure(name, X, y, seed)
    report("classes", summary(rows), settings={"rows": rows})


if __name__ == "__main__":
    main()
