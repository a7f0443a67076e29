"""Spectral variational regression: dense formulas, exact processes, sums, sets."""

import copy
import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)

from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp import _score
from skgpx._spectral_vgp._credible import domain_grid
from skgpx.bases import PolynomialEigenvalues
from skgpx.exceptions import FitWarning
from tests.spectral_vgp.conftest import FIXED, wave

X, Y = wave()
NEW = np.linspace(-0.95, 0.95, 40)[:, np.newaxis]


def exact(kernel, X, y, new):
    """Mean, covariance and log evidence of the exact process with FIXED's noise."""
    model = GaussianProcessRegressor(kernel, alpha=0.04, optimizer=None).fit(X, y)
    mean, covariance = model.predict(new, return_cov=True)
    return mean, covariance, model.log_marginal_likelihood_value_


# ---- Formulas ----------------------------------------------------------------------


def test_population_features_are_the_dense_formulas():
    # f̂ = φ'(Λ⁻¹ + G/σ²)⁻¹b/σ², and k̂ with the tail, (2.10)-(2.12)
    m, s2, tau = 21, 0.04, 0.7
    model = SpectralVGPRegressor(
        PolynomialEigenvalues(tau), n_basis=m, domain=[(-1.0, 1.0)], **FIXED
    ).fit(X, Y)  # fmt: skip

    def phi(x, J=m):
        k = np.arange(1, J // 2 + 1)
        angle = np.pi * (x + 1.0) * k
        both = np.sqrt(2.0) * np.stack((np.sin(angle), np.cos(angle)), axis=2)
        return np.hstack((np.ones((len(x), 1)), both.reshape(len(x), -1)))

    ranks = np.r_[1.0, np.repeat(np.arange(1, 40_000) * 2.0 + 0.5, 2)]
    lam = tau * ranks**-2.0
    F = phi(X)
    V = np.linalg.inv(np.diag(1.0 / lam[:m]) + F.T @ F / s2)
    mean, covariance = model.predict(NEW, return_cov=True, include_noise=False)
    assert_allclose(mean, phi(NEW) @ (V @ (F.T @ Y / s2)), atol=1e-10)
    rest = phi(NEW, 2001)[:, m:]
    tail = rest * lam[m:2001] @ rest.T
    expected = phi(NEW) @ V @ phi(NEW).T + tail
    # the variance has the whole tail, the covariance its later functions as well
    std = model.predict(NEW, return_std=True, include_noise=False)[1]
    total = np.diag(expected) + lam[2001:].sum() + tau / ranks[-1]
    assert_allclose(std**2, total, rtol=1e-6)
    expected[np.diag_indices(len(NEW))] = total
    assert_allclose(covariance, expected, atol=2e-4)


@pytest.mark.parametrize("basis", ["inducing", "empirical"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_all_rows_as_inducing_variables_are_the_exact_process(basis, d):
    X, y = wave(60, d)
    kernel = ConstantKernel(1.3) * Matern(1.0, nu=0.5)
    model = SpectralVGPRegressor(kernel, basis=basis, n_basis=60, **FIXED).fit(X, y)
    new = X[:15] + 0.01
    mean, covariance, evidence = exact(kernel, X, y, new)
    found = model.predict(new, return_cov=True, include_noise=False)
    assert_allclose(found[0], mean, atol=1e-7)
    assert_allclose(found[1], covariance, atol=1e-7)
    assert_allclose(model.log_evidence_, evidence, rtol=1e-7)
    assert model.n_basis_ == 60


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "n_basis", "in_mean", "in_std"),
    # the box of a given kernel is three times as wide as the data, to extrapolate
    [(RBF(0.5), 401, 0.01, 0.01), (Matern(0.5, nu=2.5), 1001, 0.3, 0.05)],
)
def test_stationary_kernels_against_the_exact_process(
    kernel, n_basis, in_mean, in_std, d
):
    X, y = wave(400, d)
    new = wave(100, d, seed=1)[0]
    model = SpectralVGPRegressor(kernel, n_basis=n_basis, **FIXED).fit(X, y)
    assert model.basis_ == "fourier"
    mean, covariance, evidence = exact(kernel, X, y, new)
    std = np.sqrt(np.diag(covariance))
    found, found_std = model.predict(new, return_std=True, include_noise=False)
    assert np.max(np.abs(found - mean) / std) < in_mean
    assert np.max(np.abs(found_std / std - 1.0)) < in_std
    assert model.log_evidence_ <= evidence + 0.05


def test_bound_grows_with_the_basis_to_the_evidence():
    kernel = RBF(0.3)
    evidence = exact(kernel, X, Y, NEW)[2]
    bounds = []
    for m in (5, 15, 31, 61):
        for basis in ("fourier", "empirical", "inducing"):
            model = SpectralVGPRegressor(kernel, basis=basis, n_basis=m, **FIXED)
            bounds.append(model.fit(X, Y).log_evidence_)
    bounds = np.reshape(bounds, (4, 3))
    assert np.all(np.diff(bounds, axis=0) > -1e-6)
    assert np.all(bounds <= evidence + 1e-3)
    assert_allclose(bounds[-1], evidence, atol=1e-3)


@pytest.mark.parametrize("regularity", [0.5, 2.0])
def test_hyperparameters_maximise_the_bound(regularity):
    settings = {"n_basis": 31, "domain": [(-1.0, 1.0)]}
    rule = PolynomialEigenvalues(regularity=regularity)
    best = SpectralVGPRegressor(rule, **settings).fit(X, Y)
    scale, noise = best.prior_.scale, best.noise_variance_
    settings["optimizer"] = None

    def bound(a, b):
        rule = PolynomialEigenvalues(a * scale, regularity)
        model = SpectralVGPRegressor(rule, noise_variance=b * noise, **settings)
        return model.fit(X, Y).log_evidence_

    for a, b in [(1.2, 1.0), (0.8, 1.0), (1.0, 1.2), (1.0, 0.8)]:
        assert bound(a, b) < best.log_evidence_
    assert_allclose(bound(1.0, 1.0), best.log_evidence_)


# ---- Sums ------------------------------------------------------------------------


ADDITIVE = {
    "default": {"domain": [(-1.0, 1.0)]},
    "series": {"kernel": "series", "domain": [(-1.0, 1.0)]},
    "kernel": {"kernel": RBF(0.4), "domain": [(-1.0, 1.0)], "n_basis": 31},
    "plane": {"kernel": "series", "domain": [(-1.0, 1.0)] * 2, "n_basis": 31, "d": 2},
    "inducing": {"kernel": RBF(0.4), "basis": "inducing", "n_basis": 15, **FIXED},
    "empirical": {"kernel": RBF(0.4), "basis": "empirical", "n_basis": 9, **FIXED},
}


def additive(name):
    parameters = dict(ADDITIVE[name])
    X, y = wave(1000, parameters.pop("d", 1))
    return SpectralVGPRegressor(random_state=0, **parameters), X, y + 5.0


@pytest.mark.parametrize("name", ["default", "series", "plane", "kernel"])
def test_a_hundred_chunks_are_one_fit(name):
    model, X, y = additive(name)
    one = clone(model).partial_fit(X, y)
    for chunk in np.array_split(np.arange(1000), 100):
        model.partial_fit(X[chunk], y[chunk])
    for a, b in zip(
        one.predict(X[:50], return_std=True),
        model.predict(X[:50], return_std=True),
        strict=True,
    ):
        # the search stops within its tolerance of the same maximum
        assert_allclose(a, b, rtol=1e-4)
    fixed = {"noise_variance": 0.05, "optimizer": None}
    one = clone(model).set_params(**fixed).partial_fit(X, y)
    many = clone(model).set_params(**fixed)
    for chunk in np.array_split(np.arange(1000), 100):
        many.partial_fit(X[chunk], y[chunk])
    assert_allclose(many.predict(X), one.predict(X), rtol=1e-12)
    assert_allclose(many.log_evidence_, one.log_evidence_, rtol=1e-12)


@pytest.mark.parametrize("name", ADDITIVE)
def test_models_merge(name):
    model, X, y = additive(name)
    first = clone(model).partial_fit(X[:300], y[:300])
    if name in ("inducing", "empirical"):
        # copies share the rows that chose the basis: they count once
        second = copy.deepcopy(first).partial_fit(X[300:600], y[300:600])
        third = copy.deepcopy(first).partial_fit(X[600:], y[600:])
        one = copy.deepcopy(first).partial_fit(X[300:], y[300:])
        assert_allclose((second + third).predict(X), one.predict(X), rtol=1e-6)
        assert_allclose((second + third).log_evidence_, one.log_evidence_, rtol=1e-9)
        assert_allclose((first + first).predict(X), first.predict(X), rtol=1e-6)
        for chunk in np.array_split(np.arange(300, 1000), 20):
            first.partial_fit(X[chunk], y[chunk])
        assert_allclose(first.predict(X), one.predict(X), rtol=1e-9)
        assert_allclose(first.log_evidence_, one.log_evidence_, rtol=1e-11)
        return
    second = clone(model).partial_fit(X[300:], y[300:])
    together = first + second
    one = clone(model).partial_fit(X, y)
    assert_allclose(together.predict(X), one.predict(X), rtol=1e-5)
    assert_allclose(together.log_evidence_, one.log_evidence_, rtol=1e-7)
    assert first.log_evidence_ != together.log_evidence_


@pytest.mark.parametrize("name", ADDITIVE)
def test_weights_are_repetitions(name):
    model, X, y = additive(name)
    X, y = X[:150], y[:150]
    weights = np.random.default_rng(1).integers(0, 4, 150)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = np.repeat(np.arange(150), weights)
    written = clone(model).fit(X[repeated], y[repeated])
    assert_allclose(weighted.log_evidence_, written.log_evidence_, rtol=1e-8)
    assert_allclose(weighted.predict(X), written.predict(X), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Residuals are autocorrelated")
@pytest.mark.parametrize("name", ["default", "plane", "inducing"])
def test_same_bits_for_every_number_of_workers(name, monkeypatch):
    monkeypatch.setattr(_score, "_CHUNK", 128)
    model, X, y = additive(name)
    one = clone(model).fit(X, y)
    two = clone(model).set_params(n_jobs=2).fit(X, y)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        three = clone(model).fit(X, y)
    for other in (two, three):
        assert_array_equal(one.predict(X), other.predict(X))
        assert one.log_evidence_ == other.log_evidence_


# ---- Number of functions, domain -----------------------------------------------------


def test_parameters_that_do_not_fit():
    for parameters, match in (
        ({"domain": [(1.0, -1.0)]}, "lower, upper"),
        ({"domain": [(0.0, 1.0)] * 2}, r"shape \(1, 2\)"),
        ({"basis": "fourier", "kernel": DotProduct()}, "inducing"),
        ({"basis": "fourier", "kernel": ExpSineSquared()}, "spectral density"),
        ({"basis": "waves"}, "basis"),
        ({"n_basis": 0}, "n_basis"),
        ({"kernel": "waves"}, "kernel"),
        ({"kernel": "series", "basis": "inducing"}, "Give a kernel"),
    ):
        with pytest.raises(ValueError, match=match):
            SpectralVGPRegressor(**parameters).fit(X, Y)


@pytest.mark.filterwarnings("ignore:Residuals are autocorrelated")
def test_many_inputs():
    X, y = wave(100, 5)
    with pytest.raises(ValueError, match=r"3 columns; got 5.*inducing"):
        SpectralVGPRegressor(basis="fourier").fit(X, y)
    model = SpectralVGPRegressor(random_state=0).fit(X, y)
    assert model.basis_ == "inducing"
    assert model.score(X, y) > 0.5
    other = SpectralVGPRegressor(DotProduct() + WhiteKernel(0.1)).fit(X[:, :1], y)
    assert other.basis_ == "inducing"


# ---- Credible sets -----------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"domain": [(-1.0, 1.0)]},
        {"kernel": RBF(0.3), "optimizer": None},
        {"basis": "inducing", "kernel": RBF(0.3), "optimizer": None, "n_basis": 4},
    ],
)
def test_balls_and_bands_hold_draws_at_their_level(parameters):
    model = SpectralVGPRegressor(random_state=0, **parameters).fit(X, Y)
    grid = domain_grid(model.domain_)
    n, level = 2000, 0.8
    values = model.sample_functions(n, random_state=1)(grid)
    mean = model.predict(grid)
    distance = np.sqrt(np.mean((values - mean[:, np.newaxis]) ** 2, axis=0))
    error = np.sqrt(level * (1.0 - level) / n)
    assert abs(np.mean(distance <= model.credible_ball(level)) - level) < 4.5 * error
    assert_allclose(
        model.credible_ball(0.8, X=grid), model.credible_ball(0.8), rtol=0.02
    )
    lower, upper = model.credible_band(grid, level, simultaneous=True).T[
        :, :, np.newaxis
    ]
    inside = np.mean(np.all((lower <= values) & (values <= upper), axis=0))
    # the band has the error of 20 000 draws of its own
    assert abs(inside - level) < 4.5 * np.sqrt(1.1) * error
    lower, upper = model.credible_band(grid, level).T[:, :, np.newaxis]
    pointwise = np.mean((lower <= values) & (values <= upper), axis=1)
    assert np.max(np.abs(pointwise - level)) < 5.0 * error
    with pytest.raises(ValueError, match="coverage"):
        model.credible_ball(1.0)


# ---- Difficult inputs ----------------------------------------------------------------


def test_offsets_order_and_duplicates():
    plain = SpectralVGPRegressor().fit(X, Y)
    order = np.random.default_rng(0).permutation(200)
    shuffled = SpectralVGPRegressor().fit(X[order], Y[order])
    assert_allclose(shuffled.predict(NEW), plain.predict(NEW), rtol=1e-5)
    stamped = SpectralVGPRegressor().fit(1.7e9 + 3600.0 * X, 1e9 + Y)
    assert_allclose(
        stamped.predict(1.7e9 + 3600.0 * NEW) - 1e9, plain.predict(NEW), atol=1e-5
    )
    scaled = SpectralVGPRegressor().fit(1e-9 * X, 1e12 * Y)
    assert_allclose(scaled.predict(1e-9 * NEW), 1e12 * plain.predict(NEW), rtol=1e-5)


def sine(n=300, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, (n, d))
    return X, np.sin(4.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)


WAVY = 1.0 * RBF(0.5)
NOISY = [
    {"kernel": WAVY, "basis": basis, "optimizer": optimizer, "n_basis": 20}
    for basis in ("fourier", "inducing", "empirical")
    for optimizer in ("evidence", None)
]


@pytest.mark.parametrize(
    "settings", [{}, {"kernel": "series"}, {"n_basis": 31}, *NOISY], ids=str
)
def test_a_given_noise_variance_is_kept(settings):
    X, y = sine()
    for noise in (0.003, 0.3):
        model = SpectralVGPRegressor(noise_variance=noise, **settings).fit(X, y)
        assert_allclose(model.noise_variance_, noise, rtol=1e-9)
    if settings not in NOISY:
        return
    white = settings | {"kernel": WAVY + WhiteKernel(0.1, "fixed")}
    for scale in (1.0, 10.0):
        model = SpectralVGPRegressor(**white).fit(X, scale * y)
        # in units of the standardised y
        noise = 0.1 * np.var(scale * y)
        assert_allclose(model.noise_variance_, noise, rtol=1e-9)
        if settings["optimizer"] is None:
            other = SpectralVGPRegressor(noise_variance=noise, **settings)
            expected = other.fit(X, scale * y).predict(X)
            assert_allclose(model.predict(X), expected, rtol=1e-7, atol=1e-7 * scale)


@pytest.mark.parametrize("seed", [0, 2])
def test_anisotropic_kernels_that_move_other_functions_first(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, (800, 2))
    y = np.sin(12.0 * X[:, 0]) + 0.1 * rng.standard_normal(800)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SpectralVGPRegressor(1.0 * RBF([1.0, 1.0])).fit(X, y)
    error = model.predict(X) - np.sin(12.0 * X[:, 0])
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_only_like_models_are_merged():
    X, y = sine()
    models = [
        SpectralVGPRegressor(**{"domain": (0.0, 3.0)} | settings).fit(X, y)
        for settings in (
            {},
            {"kernel": "series"},
            {"normalize_y": False},
            {"domain": (-1.0, 3.0)},
        )
    ]
    inducing = SpectralVGPRegressor(basis="inducing", n_basis=9).fit(X, y)
    for other in (*models[1:], inducing):
        with pytest.raises(ValueError, match="merged"):
            models[0].merge(other)
        with pytest.raises(ValueError, match="merged"):
            other.merge(models[0])
    with pytest.raises(TypeError):
        models[0] + 3


def test_the_search_on_inducing_points_leaves_its_findings():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(250, 2)), rng.normal(size=250)
    model = SpectralVGPRegressor(basis="inducing", random_state=0)
    with pytest.warns(FitWarning) as caught:
        model.fit(X, y)
    assert [one.category for one in caught] == [FitWarning]
    assert [one.check for one in model.findings_] == ["no signal"]
