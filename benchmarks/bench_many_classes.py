"""Three and ten classes of many rows: densities and CPU seconds beside peers.

    python -m benchmarks.bench_many_classes --data FOLDER [--sets NAME ...]
                                            [--rows N ...] [--models NAME ...]

Sets: "smooth3" and "smooth10", classes with the softmax probabilities of draws from a
process of eight columns (RBF, one lengthscale a column, standard deviation 2.5);
"rough3", the same of three columns (Matern 3/2, lengthscale 0.7); "clusters3" and
"clusters10", ``make_classification`` with ten columns, eight of which say something;
"protein3", thirds of the target of protein; "digits10", turned, shifted and noisy
copies of scikit-learn's digits, of which 450 are held out with all of their copies.
Each has 2000 held-out rows. "nlpd" is the negative log probability of their classes in
nats, "divergence" that of the predicted from the true probabilities, and "truth" the
nlpd of these.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from benchmarks.data import add_data_argument, load
from benchmarks.report import progress, report

Array = NDArray[np.float64]

SETS = ("smooth3", "smooth10", "rough3", "clusters3", "clusters10", "protein3")
SETS += ("digits10",)
_HELD_OUT = 2000
_DIGITS_HELD_OUT = 450


class Classes(NamedTuple):
    """Rows for training, then held-out rows.

    Attributes
    ----------
    X : ndarray of shape (n + 2000, d)
    y : ndarray of shape (n + 2000,)
    probabilities : ndarray of shape (n + 2000, c) or None
        Where they are known.
    """

    X: Array
    y: NDArray[Any]
    probabilities: Array | None = None


# ---- Sets ----------------------------------------------------------------------------


def read(name: str, n: int) -> Classes:
    """Make or read a set of n training rows, standardised by these."""
    rng = np.random.default_rng(0)
    n_rows = n + _HELD_OUT
    n_classes = int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
    if name.startswith("digits"):
        return _digits(rng, n)
    if name.startswith("protein"):
        X, target = load("protein")
        chosen = rng.permutation(len(target))[:n_rows]
        X = X[chosen]
        target = target[chosen]
        cuts = np.quantile(target, np.arange(1, n_classes) / n_classes)
        classes = Classes(X, np.searchsorted(cuts, target))
    elif name.startswith("clusters"):
        X, y = make_classification(
            n_rows,
            n_features=10,
            n_informative=6,
            n_redundant=2,
            n_classes=n_classes,
            n_clusters_per_class=2,
            class_sep=1.0,
            flip_y=0.02,
            random_state=0,
        )
        classes = Classes(X, y)
    else:
        classes = _softmax(rng, n_rows, n_classes, is_rough=name.startswith("rough"))
    X = classes.X
    scale = X[:n].std(axis=0)
    X = (X - X[:n].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
    return classes._replace(X=X)


def _softmax(
    rng: np.random.Generator,
    n: int,
    n_classes: int,
    is_rough: bool,
) -> Classes:
    """Classes whose log odds are draws from a process, by its frequencies."""
    n_waves = 2000
    lengthscales = np.array([1.5, 2.0, 2.0, 3.0, 3.0, 4.0, 6.0, 20.0])
    if is_rough:
        lengthscales = np.full(3, 0.7)
    d = len(lengthscales)
    frequencies = rng.standard_normal((d, n_waves)) / lengthscales[:, np.newaxis]
    if is_rough:
        frequencies /= np.sqrt(rng.gamma(1.5, 1.0 / 1.5, size=n_waves))
    phases = rng.uniform(0.0, 2.0 * np.pi, n_waves)
    weights = rng.standard_normal((n_waves, n_classes)) * np.sqrt(2.0 / n_waves)
    X = rng.standard_normal((n, d))
    blocks = [
        np.cos(block @ frequencies + phases) @ weights
        for block in np.array_split(X, 50)
    ]
    log_odds = 2.5 * np.concatenate(blocks)
    # the largest of log odds with Gumbel's noise has their softmax probabilities
    y = np.argmax(log_odds + rng.gumbel(size=log_odds.shape), axis=1)
    return Classes(X, y, softmax(log_odds, axis=1))


def _digits(rng: np.random.Generator, n: int) -> Classes:
    """Copies of digits; those of training rows and held-out rows differ."""
    pixels, labels = load_digits(return_X_y=True)
    images = pixels.reshape(-1, 8, 8)
    order = rng.permutation(len(labels))

    def copies(digits: NDArray[np.intp], number: int) -> tuple[Array, NDArray[Any]]:
        chosen = []
        rows = []
        for digit in rng.choice(digits, number):
            angle = np.deg2rad(rng.normal(0.0, 8.0))
            sine, cosine = np.sin(angle), np.cos(angle)
            turn = np.array([[cosine, -sine], [sine, cosine]])
            shift = 3.5 - turn @ [3.5, 3.5] + rng.normal(0.0, 0.5, 2)
            turned = ndimage.affine_transform(images[digit], turn, shift, order=1)
            rows.append(turned + rng.normal(0.0, 1.0, (8, 8)))
            chosen.append(digit)
        return np.array(rows).reshape(number, -1), labels[chosen]

    X, y = copies(order[:-_DIGITS_HELD_OUT], n)
    X_test, y_test = copies(order[-_DIGITS_HELD_OUT:], _HELD_OUT)
    return Classes(np.concatenate((X, X_test)), np.concatenate((y, y_test)))


# ---- Models --------------------------------------------------------------------------


def _logistic(n_columns: int) -> ClassifierMixin:
    """Logistic regression on 500 Nystroem features."""
    features = Nystroem(gamma=0.5 / n_columns, n_components=500, random_state=0)
    regression = LogisticRegressionCV(
        Cs=5,
        cv=3,
        scoring="neg_log_loss",
        max_iter=300,
    )
    return make_pipeline(StandardScaler(), features, regression)


MODELS: dict[str, Callable[[int], Any]] = {
    "PLSClassifier": lambda _d: skgpx.PLSClassifier(random_state=0),
    "PLSClassifier, no neighbours": lambda _d: skgpx.PLSClassifier(
        n_neighbors=0,
        random_state=0,
    ),
    "boosted trees": lambda _d: HistGradientBoostingClassifier(
        early_stopping=True,
        random_state=0,
    ),
    "Nystroem and LogisticRegressionCV": _logistic,
}


def measure(name: str, n: int, model_name: str) -> dict[str, Any]:
    """Fit once."""
    classes = read(name, n)
    model = MODELS[model_name](classes.X.shape[1])
    skgpx.compile_kernels()
    cpu = time.process_time()
    model.fit(classes.X[:n], classes.y[:n])
    cpu_seconds = time.process_time() - cpu
    predicted = model.predict_proba(classes.X[n:])
    held_out = classes.y[n:]
    rows = np.arange(len(held_out))
    row: dict[str, Any] = {"data": name, "rows": n, "model": model_name}
    row["nlpd"] = -float(np.mean(np.log(predicted[rows, held_out])))
    row["accuracy"] = float(np.mean(np.argmax(predicted, axis=1) == held_out))
    if classes.probabilities is not None:
        P = classes.probabilities[n:]
        row["divergence"] = float(np.mean(np.sum(P * np.log(P / predicted), axis=1)))
        row["truth"] = -float(np.mean(np.log(P[rows, held_out])))
    row["CPU s"] = cpu_seconds
    return row


def main() -> None:
    """Measure every model on every set and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--rows", type=int, nargs="+", default=[6000])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    arguments = parser.parse_args()
    if arguments.data is not None:
        os.environ["SKGPX_BENCH_DATA"] = str(Path(arguments.data).resolve())
    warnings.simplefilter("ignore")
    rows = []
    for name in arguments.sets:
        for n in arguments.rows:
            for model in arguments.models:
                row = measure(name, n, model)
                rows.append(row)
                progress(row)
    report("many_classes", rows, {"held out": _HELD_OUT})


if __name__ == "__main__":
    main()
