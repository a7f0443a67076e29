"""A demonstration in a minute: held-out figures next to scikit-learn's, and a picture.

    python -m skgpx.demo [--figure demo.png]

Three data sets are fitted by an estimator of this library and by one of scikit-learn
with the same kernel: numbers, classes, and a curve with outliers. The picture, which
needs matplotlib, shows the last and a fit of counts.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.gaussian_process import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
)
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgpx import metrics
from skgpx._front.predict_dist import predict_dist
from skgpx._pls import PLSClassifier, PLSRegressor
from skgpx._types import Array, Generator
from skgpx.inspection import PredictiveDisplay
from skgpx.inspection._axes import axes_of
from skgpx.likelihoods import Poisson, StudentT


def fitted(
    model: ClassifierMixin | RegressorMixin,
    X: Array,
    y: Array,
) -> tuple[ClassifierMixin | RegressorMixin, float]:
    """The model after its fit, and the seconds of the fit."""
    start = time.perf_counter()
    model.fit(X, y)
    return model, time.perf_counter() - start


def regression_table(
    models: dict[str, RegressorMixin],
    data: tuple[Array, ...],
) -> str:
    """Error, coverage and log density at held-out rows, one line for each model."""
    X, X_test, y, y_test = data
    lines = [f"{'':26}{'RMSE':>9}{'95 % hold':>12}{'NLPD':>9}{'fit':>9}"]
    for name, model in models.items():
        _, seconds = fitted(model, X, y)
        distribution = predict_dist(model, X_test)
        errors = distribution.mean() - y_test
        rmse = np.sqrt(np.mean(errors**2))
        interval = distribution.interval(0.95)
        coverage = metrics.interval_coverage(y_test, interval)
        nlpd = metrics.neg_log_predictive_density(y_test, distribution)
        lines.append(f"{name:26}{rmse:9.4g}{coverage:12.0%}{nlpd:9.3f}{seconds:7.2f} s")
    return "\n".join(lines)


def diabetes() -> str:
    """Numbers under the same kernel: an exact process, and inducing points."""
    X, y = load_diabetes(return_X_y=True)
    kernel = 1.0 * RBF(0.2) + WhiteKernel(0.5)
    models = {
        "GaussianProcessRegressor": GaussianProcessRegressor(kernel, normalize_y=True),
        "PLSRegressor": PLSRegressor(kernel, random_state=0),
    }
    return regression_table(models, train_test_split(X, y, random_state=0))


def breast_cancer() -> str:
    """Two classes: accuracy and log loss at held-out rows, one line for each model."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    X, X_test, y, y_test = train_test_split(X, y, train_size=0.4, random_state=0)
    kernel = 1.0 * RBF(np.sqrt(X.shape[1]))
    lines = [f"{'':26}{'accuracy':>9}{'log loss':>12}{'':9}{'fit':>9}"]
    for model in (GaussianProcessClassifier(kernel), PLSClassifier(kernel)):
        _, seconds = fitted(model.set_params(random_state=0), X, y)
        name = type(model).__name__
        accuracy = np.mean(model.predict(X_test) == y_test)
        loss = log_loss(y_test, model.predict_proba(X_test))
        lines.append(f"{name:26}{accuracy:9.1%}{loss:12.3f}{'':9}{seconds:7.2f} s")
    return "\n".join(lines)


def outliers(rng: Generator) -> tuple[Array, Array]:
    """A curve with one wrong reading in eight."""
    x = rng.uniform(0.0, 10.0, 400)
    is_wrong = rng.random(400) < 0.125
    noise = 0.15 * rng.standard_normal(400)
    error = noise + is_wrong * rng.uniform(-4.0, 4.0, 400)
    return x[:, np.newaxis], np.sin(x) + 0.3 * x + error


def curve_with_outliers() -> str:
    """Normal noise and Student-t noise on a curve with outliers."""
    X, y = outliers(np.random.default_rng(0))
    rows = train_test_split(X, y, train_size=150, random_state=0)
    return regression_table(curve_models(), rows)


def curve_models() -> dict[str, RegressorMixin]:
    """Models of a curve, with normal and with Student-t noise."""
    kernel = 1.0 * RBF(1.0)
    process = GaussianProcessRegressor(kernel + WhiteKernel(0.5), normalize_y=True)
    robust = PLSRegressor(kernel, likelihood=StudentT(df=2.5), random_state=0)
    return {"GaussianProcessRegressor": process, "PLSRegressor, Student-t": robust}


def picture(path: str) -> str:
    """Draw both fits of the curve with outliers, and one of counts."""
    if find_spec("matplotlib") is None:
        return "There is no picture, since matplotlib is not installed."
    import_module("matplotlib").use("Agg")
    rng = np.random.default_rng(0)
    X, y = outliers(rng)
    X = X[:150]
    y = y[:150]
    counts = rng.poisson(np.exp(1.5 * np.sin(X[:, 0]))).astype(np.float64)
    panels = [(name, model, y) for name, model in curve_models().items()]
    poisson = PLSRegressor(likelihood=Poisson(), random_state=0)
    panels.append(("PLSRegressor, Poisson counts", poisson, counts))
    figure, axes = axes_of(None, len(panels))
    for ax, (name, model, values) in zip(axes, panels, strict=True):
        model.fit(X, values)
        PredictiveDisplay.from_estimator(model, X, values, ax=ax)
        ax.set_title(name)
    figure.savefig(path, dpi=120)
    return f"The picture is in {path}."


def compiled() -> str:
    """Compile on a few rows, so that the seconds below are seconds of fits."""
    X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    for likelihood in (StudentT(), Poisson()):
        PLSRegressor(likelihood=likelihood, random_state=0).fit(X, np.ones(20))
    PLSClassifier(random_state=0).fit(X, X[:, 0] > 0.0)
    return ""


def progress(done: int, of: int, doing: str) -> None:
    """A bar on stderr, if that is a terminal; it replaces the previous bar."""
    if not sys.stderr.isatty():
        return
    bar = "#" * (20 * done // of)
    print(f"[{bar:20}] {doing:54}", end="\r", file=sys.stderr, flush=True)


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--figure", default="demo.png", help="file to write")
    path = parser.parse_args().figure
    start = time.perf_counter()
    logging.getLogger("skgpx").addHandler(logging.NullHandler())  # the bar announces
    steps: dict[str, Callable[[], str]] = {
        "Compiling, once for this machine": compiled,
        "Diabetes data: 331 rows, 10 columns": diabetes,
        "Breast cancer data: 227 rows, 30 columns": breast_cancer,
        "A curve of 150 rows, some of them outliers": curve_with_outliers,
        "A picture of curves and counts": partial(picture, path),
    }
    for done, (name, step) in enumerate(steps.items()):
        progress(done, len(steps), name)
        text = step()
        if not text:
            continue
        title = name
        if sys.stdout.isatty():
            # on a terminal the title takes the place of the bar
            title = f"{name:77}"
        print(f"{title}\n{text}\n", flush=True)
    print(f"Done in {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
