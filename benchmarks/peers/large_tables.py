"""Peers for tables of some ten thousand rows, each at its best known settings.

Every function takes standardised rows (labels 0 and 1 and counts as they are) and
returns the scores of the held-out ones.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import poisson, t
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge, LogisticRegressionCV
from sklearn.pipeline import make_pipeline

from benchmarks.forecasts import (
    Forecast,
    of_labels,
    of_mixture,
    of_normal,
    of_quantiles,
)

Array = NDArray[np.float64]

# Nodes of Gauss-Hermite quadrature over a latent value.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()

LIKELIHOODS = {
    "gaussian": "gaussian",
    "student t": "t",
    "heteroscedastic": "gaussian_heteroscedastic_fixed_and_random",
    "labels": "bernoulli_logit",
    "counts": "poisson",
    "negative binomial": "negative_binomial",
}


def gpboost(
    likelihood: str,
    X: Array,
    y: Array,
    X_test: Array,
    y_test: Array,
    n_neighbors: int = 20,
    n_inducing: int = 0,
) -> Forecast:
    """Matern 3/2 with one lengthscale a column, Vecchia's approximation.

    Laplace's approximation where the noise is not normal; with inducing points the
    full-scale approximation.
    """
    gpb = importlib.import_module("gpboost")
    options: dict[str, Any] = {"gp_approx": "vecchia", "num_neighbors": n_neighbors}
    if n_inducing:
        options["gp_approx"] = "full_scale_vecchia"
        options["num_ind_points"] = n_inducing
    model = gpb.GPModel(
        gp_coords=X,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        likelihood=LIKELIHOODS[likelihood],
        **options,
    )
    # fixed effects: none for standardised y, otherwise an intercept, and for a scale
    # that varies a slope a column as well
    effects: dict[str, Array] = {}
    test_effects: dict[str, Array] = {}
    if likelihood == "heteroscedastic":
        effects["X"] = np.column_stack((np.ones(len(X)), X))
        test_effects["X_pred"] = np.column_stack((np.ones(len(X_test)), X_test))
    elif likelihood not in ("gaussian", "student t"):
        effects["X"] = np.ones((len(X), 1))
        test_effects["X_pred"] = np.ones((len(X_test), 1))
    model.fit(y=y, **effects)
    of_response = likelihood in ("gaussian", "heteroscedastic")
    prediction = model.predict(
        gp_coords_pred=X_test,
        predict_var=True,
        predict_response=of_response,
        **test_effects,
    )
    mean = np.asarray(prediction["mu"])
    std = np.sqrt(np.asarray(prediction["var"]))
    if of_response:
        return of_normal(mean, std, y_test)
    latent = mean[:, np.newaxis] + std[:, np.newaxis] * _NODES
    match likelihood:
        case "labels":
            return of_labels(expit(latent) @ _WEIGHTS, y_test)
        case "student t":
            scale, df = model.get_aux_pars().to_numpy().ravel()[:2]
            return of_mixture(t(df, loc=latent, scale=scale), _WEIGHTS, y_test)
    return of_mixture(poisson(np.exp(latent)), _WEIGHTS, y_test)


def ridge(X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
    """Bayesian linear regression on 1000 features of a kernel of unit lengthscale."""
    features = Nystroem(gamma=0.5 / X.shape[1], n_components=1000, random_state=0)
    model = make_pipeline(features, BayesianRidge()).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    return of_normal(mean, std, y_test)


def logistic(X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
    """Logistic regression on the same features."""
    features = Nystroem(gamma=0.5 / X.shape[1], n_components=1000, random_state=0)
    model = make_pipeline(features, LogisticRegressionCV(max_iter=1000))
    probability = model.fit(X, y).predict_proba(X_test)[:, 1]
    return of_labels(probability, y_test)


def boosting(kind: str, X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
    """Boosted trees of scikit-learn.

    The standard deviation of normal noise is that of a fifth of the rows held out.
    """
    options = {"max_iter": 1000, "early_stopping": True, "random_state": 0}
    if kind == "labels":
        classifier = HistGradientBoostingClassifier(**options).fit(X, y)
        return of_labels(classifier.predict_proba(X_test)[:, 1], y_test)
    if kind == "counts":
        model = HistGradientBoostingRegressor(loss="poisson", **options).fit(X, y)
        rate = model.predict(X_test)[:, np.newaxis]
        return of_mixture(poisson(rate), np.ones(1), y_test)
    n = len(y) // 5
    model = HistGradientBoostingRegressor(**options).fit(X[n:], y[n:])
    std = np.std(y[:n] - model.predict(X[:n]))
    return of_normal(model.predict(X_test), np.full(len(X_test), std), y_test)


def boosted_quantiles(X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
    """Boosted trees for 19 quantiles, each level by itself, sorted."""
    levels = np.arange(1, 20) / 20.0
    quantiles = np.empty((len(X_test), len(levels)))
    for column, level in enumerate(levels):
        model = HistGradientBoostingRegressor(
            loss="quantile",
            quantile=float(level),
            max_iter=1000,
            early_stopping=True,
            random_state=0,
        )
        quantiles[:, column] = model.fit(X, y).predict(X_test)
    return of_quantiles(levels, np.sort(quantiles, axis=1), y_test)


def ngboost(kind: str, X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
    """Natural-gradient boosting, up to 2000 trees, a tenth for early stopping."""
    package = importlib.import_module("ngboost")
    distributions = importlib.import_module("ngboost.distns")
    options = {"n_estimators": 2000, "random_state": 0, "verbose": False}
    n = len(y) // 10
    validation = {"X_val": X[:n], "early_stopping_rounds": 20}
    if kind == "labels":
        model = package.NGBClassifier(**options)
        labels = y.astype(int)
        model.fit(X[n:], labels[n:], Y_val=labels[:n], **validation)
        return of_labels(model.predict_proba(X_test)[:, 1], y_test)
    if kind == "counts":
        model = package.NGBRegressor(Dist=distributions.Poisson, **options)
        counts = y.astype(int)
        model.fit(X[n:], counts[n:], Y_val=counts[:n], **validation)
        rate = model.pred_dist(X_test).params["mu"][:, np.newaxis]
        return of_mixture(poisson(rate), np.ones(1), y_test)
    model = package.NGBRegressor(Dist=distributions.Normal, **options)
    model.fit(X[n:], y[n:], Y_val=y[:n], **validation)
    parameters = model.pred_dist(X_test).params
    return of_normal(parameters["loc"], parameters["scale"], y_test)


def catboost(kind: str, X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
    """CatBoost, a tenth of the rows for early stopping; normal with uncertainty."""
    package = importlib.import_module("catboost")
    loss = {"labels": "Logloss", "counts": "Poisson"}.get(kind, "RMSEWithUncertainty")
    options = {
        "loss_function": loss,
        "iterations": 5000,
        "early_stopping_rounds": 50,
        "random_seed": 0,
        "verbose": False,
        "allow_writing_files": False,
    }
    n = len(y) // 10
    kind_of_model = "CatBoostClassifier" if kind == "labels" else "CatBoostRegressor"
    model = getattr(package, kind_of_model)(**options)
    model.fit(X[n:], y[n:], eval_set=(X[:n], y[:n]))
    if kind == "labels":
        return of_labels(model.predict_proba(X_test)[:, 1], y_test)
    if kind == "counts":
        rate = model.predict(X_test, prediction_type="Exponent")[:, np.newaxis]
        return of_mixture(poisson(rate), np.ones(1), y_test)
    # columns are mean and variance
    prediction = model.predict(X_test)
    return of_normal(prediction[:, 0], np.sqrt(prediction[:, 1]), y_test)


def svgp(X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
    """GPyTorch's sparse variational process of 1000 points, 20 epochs."""
    peer = importlib.import_module("benchmarks.peers.minibatch_svgp")
    mean, std = peer.fit_and_predict(X, y, X_test)[:2]
    return of_normal(mean, std, y_test)
