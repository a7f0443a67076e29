"""What a learned scale of y, and learned tails, gain on held-out rows.

    python -m benchmarks.bench_scale_of_y [--data FOLDER] [--splits 4] [--rows 40 100]

Normal noise of y; normal noise on the scale of y that is learned, and Student's noise
where it is more probable, which is the default. Every split draws its rows of the fit,
and up to a thousand other ones that are predicted. Densities are those of y in standard
deviations of the rows of the fit. The functions of five columns that are made up, of
which three columns matter, have noise that is normal for y itself, or for its logarithm
or its square root.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import add_data_argument, load
from benchmarks.report import progress, report
from skgpx import PLSRegressor
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]
TABLES = ("airfoil", "boston", "concrete", "diabetes", "energy_cooling")
TABLES += ("energy_heating", "kin8nm", "power", "protein", "wine")
MADE_UP = ("normal", "logarithm", "square root", "noise", "skewed signal")
_N_TEST = 1000
MODELS: dict[str, dict[str, Any]] = {
    "y": {"likelihood": Gaussian()},
    "scale": {"method": "exact"},
    "default": {},
}


def made_up(name: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Three thousand rows."""
    X = rng.standard_normal((3000, 5))
    f = np.sin(1.5 * X[:, 0]) + X[:, 1] + 0.5 * X[:, 0] * X[:, 2]
    error = 0.3 * rng.standard_normal(len(X))
    if name == "normal":
        return X, f + error
    if name == "logarithm":
        return X, np.exp(f + error)
    if name == "square root":
        return X, np.maximum(f + error + 4.0, 0.1) ** 2
    if name == "noise":
        return X, rng.standard_normal(len(X))
    return X, np.exp(f) + error


def measure(
    X: Array, y: Array, X_test: Array, y_test: Array, model: PLSRegressor
) -> dict[str, float]:
    """Scores of held-out rows, in standard deviations of y."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.process_time() - start
    unit = float(y.std())
    distribution = model.predict_dist(X_test)
    low, high = distribution.interval(0.9).T
    return {
        "nlpd": float(-np.mean(distribution.log_density(y_test)) - np.log(unit)),
        "inside": float(np.mean((low <= y_test) & (y_test <= high))),
        "rmse": float(np.sqrt(np.mean((distribution.mean() - y_test) ** 2))) / unit,
        "crps": float(np.mean(distribution.crps(y_test))) / unit,
        "seconds": seconds,
    }


def main() -> None:
    """Print one line for each table and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--rows", type=int, nargs="+", default=[40, 100, 250])
    parser.add_argument("--only", nargs="+", default=[*TABLES, *MADE_UP])
    options = parser.parse_args()
    table: list[dict[str, Any]] = []
    for name in options.only:
        for n in options.rows:
            figures: dict[str, list[dict[str, float]]] = {key: [] for key in MODELS}
            powers = []
            tails = 0
            for split in range(options.splits):
                rng = np.random.default_rng(100 + split)
                if name in MADE_UP:
                    X, y = made_up(name, rng)
                else:
                    X, y = load(name, options.data)
                order = rng.permutation(len(y))
                if len(y) < n + 100:
                    break
                seen, new = order[:n], order[n : n + _N_TEST]
                for key, settings in MODELS.items():
                    model = PLSRegressor(random_state=0).set_params(**settings)
                    scores = measure(X[seen], y[seen], X[new], y[new], model)
                    figures[key].append(scores)
                powers.append(getattr(model.likelihood_, "power", 1.0))
                tails += "StudentT" in repr(model.likelihood_)
            if not powers:
                continue
            row: dict[str, Any] = {"table": name, "rows": n}
            for column in figures["y"][0]:
                for key, scores_of_splits in figures.items():
                    values = [scores[column] for scores in scores_of_splits]
                    row[f"{column} {key}"] = float(np.mean(values))
            row["powers"] = " ".join(f"{power:.2g}" for power in powers)
            row["tails"] = f"{tails} of {len(powers)}"
            table.append(row)
            progress(row)
    report("scale_of_y", table, {"splits": options.splits})


if __name__ == "__main__":
    main()
