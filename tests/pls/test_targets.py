"""Several targets: one kernel, its points and factorisations, a noise for each."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import GWIRegressor, PLSRegressor, TemperedRegressor
from skgpx._numerics.regression import (
    TargetRegressions,
    log_evidence,
    log_evidence_gradient,
    posterior,
    weight_statistics,
)
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Gaussian, StudentT
from skgpx.metrics import (
    interval_coverage,
    log_predictive_density_scorer,
    neg_crps_scorer,
)

KERNEL = 1.5 * RBF([1.0, 2.0])
FIXED = {"kernel": KERNEL + WhiteKernel(0.1), "optimizer": None, "random_state": 0}
STD = np.array([0.05, 2.0, 1.0])


def data(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 2))
    a, b = X.T
    F = np.stack([np.sin(2.0 * a), 10.0 * np.cos(b) + 100.0, a * b / 3.0], axis=1)
    return X, F + STD * rng.standard_normal((n, 3))


X, Y = data()
ROWS, NEW = data(30, seed=1)


def predictions(model, X=ROWS, Y=NEW):
    """All predictions, with the targets on the axis after the rows."""
    mean, covariance = model.predict(X, return_cov=True)
    parts = [mean, *model.predict(X, return_std=True)]
    parts += model.predict(X, return_std=True, include_noise=False)
    parts += [model.predict_quantiles(X), model.predict_interval(X, 0.8)]
    return parts, covariance, model.log_predictive_density(X, Y)


def assert_like_single_fits(model, singles):
    several, covariance, density = predictions(model)
    total = 0.0
    for j, one in enumerate(singles):
        alone, of_one, log_density = predictions(one, ROWS, NEW[:, j])
        scale = Y[:, j].std()
        for a, b in zip(several, alone, strict=True):
            assert_allclose(a[:, j], b, atol=1e-8 * scale)
        assert_allclose(covariance[:, :, j], of_one, atol=1e-8 * scale**2)
        total = total + log_density
    assert_allclose(density, total, atol=1e-8)


@pytest.mark.parametrize("n_inducing", ["auto", 20])
def test_predictions_are_those_of_single_fits(n_inducing):
    estimator = PLSRegressor(**FIXED, n_inducing=n_inducing)
    singles = [clone(estimator).fit(X, y) for y in Y.T]
    model = estimator.fit(X, Y)
    assert_like_single_fits(model, singles)
    noises = [one.noise_variance_ for one in singles]
    assert_allclose(model.noise_variance_, noises)
    unexplained = [one.unexplained_ for one in singles]
    assert_allclose(model.unexplained_, unexplained[0])


def test_weights_known_noise_and_given_noise():
    weights = np.random.default_rng(2).integers(0, 3, len(X))
    known = np.linspace(0.1, 2.0, len(X))
    how = {"optimizer": None, "random_state": 0, "normalize_y": False}
    for likelihood, given in (
        (Gaussian(0.5), {"sample_weight": weights}),
        (None, {"noise_variance": known}),
    ):
        estimator = PLSRegressor(9.0 * RBF(2.0), likelihood=likelihood, **how)
        singles = [clone(estimator) for _ in Y.T]
        singles = [one.fit(X, y, **given) for one, y in zip(singles, Y.T, strict=True)]
        model = estimator.fit(X, Y, **given)
        assert_like_single_fits(model, singles)
        given = {"noise_variance": np.full(len(ROWS), 3.0)}
        std = model.predict(ROWS, return_std=True, **given)[1]
        alone = singles[2].predict(ROWS, return_std=True, **given)[1]
        assert_allclose(std[:, 2], alone)
    # with one unit of y for all targets
    model = PLSRegressor(KERNEL, likelihood=Gaussian(0.5), optimizer=None).fit(X, Y)
    assert_allclose(model.noise_variance_, 0.5)


def test_the_exact_process_of_scikit_learn():
    kernel, alpha = FIXED["kernel"], 0.0
    exact = GaussianProcessRegressor(
        kernel, alpha=alpha, optimizer=None, normalize_y=True
    ).fit(X, Y)
    model = PLSRegressor(**FIXED, n_inducing=len(X)).fit(X, Y)
    for a, b in zip(
        model.predict(ROWS, return_std=True),
        exact.predict(ROWS, return_std=True),
        strict=True,
    ):
        assert_allclose(a, b, atol=1e-5 * STD.max())
    covariances = [one.predict(ROWS, return_cov=True)[1] for one in (model, exact)]
    assert covariances[0].shape == covariances[1].shape
    shapes = [one.sample_y(ROWS, 4, random_state=0).shape for one in (model, exact)]
    assert shapes[0] == shapes[1] == (30, 3, 4)


def test_equal_targets_are_one():
    y = np.repeat(Y[:, :1], 3, axis=1)
    one = PLSRegressor(**FIXED).fit(X, Y[:, 0])
    model = PLSRegressor(**FIXED).fit(X, y)
    assert_allclose(model.predict(ROWS), np.tile(one.predict(ROWS), (3, 1)).T)
    learned = PLSRegressor(random_state=0).fit(X, y)
    assert_allclose(np.ptp(learned.noise_variance_), 0.0)


def test_one_column_is_one_target():
    with pytest.warns(Warning, match="column-vector"):
        model = PLSRegressor(**FIXED).fit(X, Y[:, :1])
    assert_array_equal(
        model.predict(ROWS), PLSRegressor(**FIXED).fit(X, Y[:, 0]).predict(ROWS)
    )


def test_each_target_has_its_noise():
    X, Y = data(400, seed=3)
    model = PLSRegressor(random_state=0).fit(X, Y)
    assert_allclose(np.sqrt(model.noise_variance_), STD, rtol=0.15)
    X, Y = data(400, seed=4)
    bounds = model.predict_interval(X, 0.9)
    inside = [interval_coverage(Y[:, j], bounds[:, j]) for j in range(3)]
    assert np.all(np.abs(np.subtract(inside, 0.9)) < 4.0 * np.sqrt(0.09 / 400))


def test_copies_do_not_look_like_targets_without_noise():
    model = PLSRegressor(KERNEL, likelihood=Gaussian(), random_state=0)
    noises = clone(model).fit(X, Y).noise_variance_
    copies = clone(model).fit(X, Y, sample_weight=np.full(len(X), 9.0))
    assert_allclose(copies.noise_variance_, noises)


def test_draws_have_the_moments_of_each_target():
    model = PLSRegressor(**FIXED).fit(X, Y)
    draws = model.sample_functions(400, random_state=0)
    values = draws(ROWS[:5])
    assert values.shape == (5, 3, 400)
    mean, std = model.predict(ROWS[:5], return_std=True, include_noise=False)
    z = (values.mean(axis=2) - mean) / (std / np.sqrt(400.0))
    assert np.abs(z).max() < 4.0
    assert_allclose(values.std(axis=2), std, rtol=0.2)
    y = model.sample_y(ROWS[:5], 400, random_state=0)
    assert_allclose(
        y.std(axis=2), model.predict(ROWS[:5], return_std=True)[1], rtol=0.2
    )
    distributions = model.predict_dist(ROWS[:5])
    for j, one in enumerate(distributions):
        assert_allclose(one.sample(400, 0).mean(axis=1), mean[:, j], atol=0.3 * STD[j])


def test_gradients_of_draws():
    draws = PLSRegressor(**FIXED).fit(X, Y).sample_functions(2, random_state=0)
    row, step = ROWS[:1], 1e-5
    _, gradients = draws.value_and_grad(row)
    move = np.array([[step, 0.0]])
    ahead, behind = draws(row + move), draws(row - move)
    slope = (ahead - behind) / (2.0 * step)
    assert_allclose(
        gradients[..., 0], slope, rtol=1e-4, atol=1e-6 * np.abs(slope).max()
    )


def test_the_same_bits_for_every_number_of_workers_and_order_of_rows():
    estimator = PLSRegressor(RBF(1.0), n_inducing=20, random_state=0)
    one = clone(estimator).set_params(n_jobs=1).fit(X, Y)
    two = clone(estimator).set_params(n_jobs=2)
    order = np.random.default_rng(0).permutation(len(X))
    two.fit(X[order], Y[order])
    for a, b in zip(predictions(one)[0], predictions(two)[0], strict=True):
        assert_array_equal(a, b)


def test_pipelines_searches_and_transformed_targets():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), PLSRegressor(**FIXED)),
        {"plsregressor__n_inducing": [5, 40]},
        scoring="neg_mean_squared_error",
        cv=2,
    ).fit(X, Y)
    assert search.best_params_ == {"plsregressor__n_inducing": 40}
    assert search.best_estimator_.predict(ROWS, return_std=True)[1].shape == (30, 3)
    model = PLSRegressor(**FIXED).fit(X, Y)
    each = MultiOutputRegressor(PLSRegressor(**FIXED)).fit(X, Y)
    assert_allclose(each.predict(ROWS), model.predict(ROWS))
    for scorer in (log_predictive_density_scorer, neg_crps_scorer):
        assert_allclose(scorer(model, ROWS, NEW), scorer(each, ROWS, NEW))
        assert np.all(np.isfinite(cross_val_score(model, X, Y, scoring=scorer, cv=2)))
    density = model.log_predictive_density(ROWS, NEW).mean() / 3.0
    assert_allclose(log_predictive_density_scorer(model, ROWS, NEW), density)
    around = TransformedTargetRegressor(
        PLSRegressor(**FIXED), transformer=StandardScaler()
    ).fit(X, Y)
    assert_allclose(around.predict(ROWS), model.predict(ROWS))
    held_out = skgpx.cross_val_predict_dist(PLSRegressor(**FIXED), X, Y, cv=3)
    assert [len(one) for one in held_out] == [len(X)] * 3
    assert "noise std" in repr(model.report(ROWS, NEW))


def test_what_has_one_target_says_so():
    with pytest.raises(ValueError, match=r"1d array.*MultiOutputRegressor"):
        PLSRegressor(likelihood=StudentT()).fit(X, Y)
    with pytest.raises(ValueError, match=r"1d array.*MultiOutputRegressor"):
        PLSRegressor(method="mala").fit(X, Y)
    model = PLSRegressor(**FIXED).fit(X, Y)
    with pytest.raises(ValueError, match=r"y must have shape \(30, 3\)"):
        model.log_predictive_density(ROWS, NEW[:, 0])
    missing = Y.copy()
    missing[0, 1] = np.nan
    for y, likelihood in ((missing, StudentT()), (missing[:, 1], Gaussian())):
        with pytest.raises(ValueError, match="NaN"):
            PLSRegressor(likelihood=likelihood).fit(X, y)
    missing[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN in all of them for targets \[1\]"):
        PLSRegressor().fit(X, missing)


def test_one_warning_names_the_targets_whose_residuals_are_autocorrelated():
    x = np.linspace(0.0, 1.0, 200)[:, np.newaxis]
    rough = np.sin(60.0 * x[:, 0])
    y = np.stack([x[:, 0], rough, np.cos(61.0 * x[:, 0])], axis=1)
    y += 0.01 * np.random.default_rng(0).standard_normal(y.shape)
    kernel = RBF(1.0, (0.5, 2.0))
    with pytest.warns(FitWarning, match="(?s)Target 1: Residuals.*Target 2: Residuals"):
        PLSRegressor(kernel, random_state=0).fit(x, y)


def test_evidences_of_targets():
    rng = np.random.default_rng(0)
    features, y = rng.standard_normal((20, 6)), rng.standard_normal((20, 3))
    weights, residual = rng.uniform(0.5, 2.0, 20), rng.uniform(0.0, 0.1, 20)
    noise = np.array([0.1, 0.5, 2.0])
    several = weight_statistics(features, y, weights, residual)
    each = TargetRegressions(several)
    found, evidences = each.posterior(noise), each.log_evidence(noise)
    for j, one in enumerate(several.targets()):
        alone = posterior(one, noise[j])
        assert_allclose(found.mean[:, j], alone.mean[:, 0])
        for a, b in zip(found.latent(features), alone.latent(features), strict=True):
            assert_allclose(a[:, [j]], b)
        covariance = alone.root[0] @ alone.root[0].T
        root = found.moments()[1][j]
        assert_allclose(root @ root.T, covariance, atol=1e-12)
        assert_allclose(
            found.covariance(features, j), features @ covariance @ features.T
        )
        assert_allclose(evidences[j], log_evidence(one, noise[j]))
    # one noise for all: sums over the targets
    rest = weights, residual, 0.5
    together = log_evidence_gradient(features, y, *rest)
    singles = [log_evidence_gradient(features, column, *rest) for column in y.T]
    for a, parts in zip(together, zip(*singles, strict=True), strict=True):
        assert_allclose(a, sum(parts), rtol=1e-10)


@pytest.mark.parametrize(
    "estimator",
    [
        GWIRegressor(BayesianRidge()),
        TemperedRegressor(BayesianRidge()),
    ],
)
def test_other_regressors_have_one_target(estimator):
    with pytest.raises(ValueError, match=r"one target here.*MultiOutputRegressor"):
        estimator.fit(X, Y)


def test_no_row_has_all_targets():
    """With the hyperparameters given each target is as its rows alone predict it."""
    y = Y.copy()
    y[::2, 0] = np.nan
    y[1::2, 1:] = np.nan
    learned = PLSRegressor(random_state=0).fit(X, y)
    assert np.all(np.isfinite(learned.predict(ROWS)))
    settings = FIXED | {"normalize_y": False, "likelihood": Gaussian(0.1)}
    settings["kernel"] = KERNEL
    model = PLSRegressor(**settings).fit(X, y)
    alone = PLSRegressor(**settings).fit(X[1::2], y[1::2, 0])
    assert_allclose(model.predict(ROWS)[:, 0], alone.predict(ROWS), atol=1e-6)
