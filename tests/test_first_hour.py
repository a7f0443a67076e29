"""Errors and names that a newcomer meets in the first hour."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import GWIClassifier, GWIRegressor, PLSClassifier, PLSRegressor
from skgpx.likelihoods import Gaussian
from skgpx.metrics import neg_crps_scorer

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 2))
Y = 100.0 * (np.sin(X[:, 0]) + 0.1 * rng.standard_normal(60))
PAIR = np.column_stack((Y, X[:, 1] + 0.1 * rng.standard_normal(60)))


def test_an_unknown_argument_is_one_of_the_public_class():
    with pytest.raises(TypeError, match=r"PLSClassifier.*'class_weight'"):
        PLSClassifier(class_weight="balanced")


@pytest.mark.parametrize(
    "model",
    [
        PLSRegressor(RBF() + WhiteKernel(), likelihood=Gaussian(250.0)),
        skgpx.SpectralVGPRegressor(kernel=RBF() + WhiteKernel(), noise_variance=250.0),
        skgpx.SteinRFFRegressor(RBF() + WhiteKernel(), noise_variance=250.0),
        GWIRegressor(kernel=RBF() + WhiteKernel(), noise_variance=250.0),
        GWIRegressor(Ridge(), kernel=RBF() + WhiteKernel(), noise_variance=250.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_noise_that_is_given_twice_is_in_the_units_of_y(model):
    with pytest.raises(ValueError, match=r"noise_variance=250.*WhiteKernel"):
        model.fit(X, Y)


class Unregistered(RBF):
    """A kernel of which the library knows its matrix only."""


def test_optima_of_draws_say_what_to_register():
    draws = PLSRegressor(Unregistered(), optimizer=None).fit(X, Y).sample_functions(2)
    with pytest.raises(ValueError, match=r"spectral_sampler.*Extending"):
        draws.minimize([[-1.0, 1.0]] * 2, n_mesh=64)


def test_several_targets_have_one_distribution_each():
    model = make_pipeline(StandardScaler(), MultiOutputRegressor(BayesianRidge())).fit(
        X, PAIR
    )
    laws = skgpx.predict_dist(model, X)
    means = np.column_stack([law.mean() for law in laws])
    np.testing.assert_allclose(means, model.predict(X))
    assert all(law.interval(0.9).shape == (60, 2) for law in laws)
    scores = [-np.mean(law.crps(PAIR[:, j])) for j, law in enumerate(laws)]
    np.testing.assert_allclose(neg_crps_scorer(model, X, PAIR), np.mean(scores))
    assert cross_val_score(model, X, PAIR, scoring=neg_crps_scorer, cv=2).max() < 0.0
    left_out = skgpx.cross_val_predict_dist(model, X, PAIR, cv=3)
    assert [law.mean().shape for law in left_out] == [(60,), (60,)]


@pytest.mark.parametrize("around", [GWIRegressor, skgpx.TemperedRegressor])
def test_prefit_is_one_word_for_a_fitted_regressor(around):
    inner = BayesianRidge()
    with pytest.raises(NotFittedError):
        around(inner, cv="prefit").fit(X, Y)
    inner.fit(X[:30], Y[:30])
    model = around(inner, cv="prefit").fit(X[30:], Y[30:])
    np.testing.assert_allclose(model.predict(X), inner.predict(X))


def test_prefit_classifiers_and_pipelines_are_used_as_they_are():
    labels = X[:, 0] > 0.0
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    inner.fit(X[:30], labels[:30])
    model = GWIClassifier(inner, cv="prefit", random_state=0).fit(X[30:], labels[30:])
    np.testing.assert_array_equal(model.predict(X), inner.predict(X))
    trees = HistGradientBoostingRegressor().fit(X[:30], Y[:30])
    model = GWIRegressor(trees, cv="prefit").fit(X[30:], Y[30:])
    np.testing.assert_allclose(model.predict(X), trees.predict(X))


def test_one_lengthscale_is_reported_as_one():
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((40, 4))
    y = np.sin(columns.sum(axis=1) / 2.0) + 0.1 * rng.standard_normal(40)
    rows = columns * [1.0, 10.0, 100.0, 1.0]
    for model in (PLSRegressor(), PLSRegressor(prior="gre"), GWIRegressor(mean="svgp")):
        fitted = model.fit(rows, y)
        kernel = getattr(fitted.kernel_, "kernel", fitted.kernel_)
        said = fitted.report()["search"]["lengthscales"]
        one = kernel.k2.length_scale / rows.std(axis=0)
        np.testing.assert_allclose(one, one[0], rtol=1e-6)
        assert said == f"one, {one[0]:.3g} standard deviations of each column"
    separate = PLSRegressor(RBF(np.ones(4))).fit(columns, y).report()["search"]
    assert "lengthscales" not in separate
