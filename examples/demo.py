"""What projected Langevin sampling gives, in numbers and in a picture.

    python examples/demo.py [--figure demo.png]

Part one fits `PLSRegressor` and `PLSClassifier` on data that ships with scikit-learn,
beside GaussianProcessRegressor and GaussianProcessClassifier with the same kernels,
and prints how good the held-out predictions are. Part two draws four things that those
two cannot do.
"""

import argparse
import time

import numpy as np
from figure import draw_figure
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.gaussian_process import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
)
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgpx import PLSClassifier, PLSRegressor


def load_similar_digits():
    """The digits 3, 5 and 8, images of 8 by 8 pixels."""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 5, 8))
    return X[chosen], y[chosen]


def standardised(X, y, train_size=0.75):
    """Train and test parts, columns scaled by the training part."""
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=train_size, random_state=0
    )
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


def seconds(function, *arguments):
    """Result of a call, and how long it took."""
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def gaussian_summary(model, X, y):
    """Log density and 95 % interval of a model that returns a mean and a std."""
    mean, std = model.predict(X, return_std=True)
    half = norm.ppf(0.975) * std
    return norm.logpdf(y, mean, std), np.column_stack((mean - half, mean + half))


def particle_summary(model, X, y):
    """The same from a model that knows its whole predictive distribution."""
    return model.log_predictive_density(X, y), model.predict_interval(X, 0.95)


def compare_regressors():
    """Held-out figures on scikit-learn's diabetes data."""
    X, X_test, y, y_test = standardised(*load_diabetes(return_X_y=True))
    kernel = 1.0 * RBF(np.sqrt(X.shape[1])) + WhiteKernel(0.5)
    models = {
        "GaussianProcessRegressor": (
            GaussianProcessRegressor(kernel, normalize_y=True, random_state=0),
            gaussian_summary,
        ),
        "PLSRegressor": (PLSRegressor(kernel, random_state=0), particle_summary),
    }
    print(f"\ndiabetes: {len(y)} training rows, {len(y_test)} test rows")
    print(f"{'':26}{'NLPD':>9}{'RMSE':>9}{'coverage of 95 %':>18}{'fit':>9}")
    for name, (model, summary) in models.items():
        _, duration = seconds(model.fit, X, y)
        log_density, (low, high) = (a.T for a in summary(model, X_test, y_test))
        rmse = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
        coverage = np.mean((low <= y_test) & (y_test <= high))
        print(
            f"{name:26}{-log_density.mean():9.3f}{rmse:9.2f}{coverage:18.1%}"
            f"{duration:7.2f} s"
        )


def compare_classifiers(title, data, train_size, n_inducing):
    """Held-out figures of the two classifiers on one data set."""
    X, X_test, y, y_test = standardised(*data, train_size)
    kernel = 1.0 * RBF(np.sqrt(X.shape[1]))
    models = {
        "GaussianProcessClassifier": GaussianProcessClassifier(kernel, random_state=0),
        "PLSClassifier": PLSClassifier(kernel, n_inducing=n_inducing, random_state=0),
    }
    classes = len(np.unique(y))
    print(f"\n{title}: {classes} classes, {len(y)} training, {len(y_test)} test rows")
    print(f"{'':26}{'AUC':>9}{'log loss':>10}{'accuracy':>10}{'fit':>9}")
    for name, model in models.items():
        _, duration = seconds(model.fit, X, y)
        proba = model.predict_proba(X_test)
        score = proba[:, 1] if classes == 2 else proba
        auc = roc_auc_score(y_test, score, multi_class="ovr")
        accuracy = np.mean(model.predict(X_test) == y_test)
        print(
            f"{name:26}{auc:9.4f}{log_loss(y_test, proba):10.4f}{accuracy:10.1%}"
            f"{duration:7.2f} s"
        )


def warm_up():
    """Compile on a few rows (kept on disk), so that the times below are of fitting."""
    X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    PLSRegressor(random_state=0).fit(X, X[:, 0])
    PLSClassifier(random_state=0).fit(X, X[:, 0] > 0)
    PLSClassifier(random_state=0).fit(X, np.arange(20) % 3)


def main():
    """Print the comparisons and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", default="demo.png", help="file to write")
    figure = parser.parse_args().figure
    _, duration = seconds(warm_up)
    print(f"Compiling, or loading what an earlier run compiled: {duration:.1f} s")
    compare_regressors()
    cancer = load_breast_cancer(return_X_y=True)
    compare_classifiers("breast cancer", cancer, 0.75, "auto")
    compare_classifiers("digits 3, 5 and 8", load_similar_digits(), 0.5, 50)
    _, duration = seconds(draw_figure, figure)
    print(f"\nFour posteriors and their picture, {figure}: {duration:.1f} s")


if __name__ == "__main__":
    main()
