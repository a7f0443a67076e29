"""Order of functions by the data, series priors as published, effective dimension."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

from skgpx import PLSRegressor, SpectralVGPRegressor
from skgpx.bases import (
    BoostedEigenvalues,
    ExponentialEigenvalues,
    GivenEigenvalues,
    OrderedEigenvalues,
    PolynomialEigenvalues,
)
from tests.spectral_vgp.conftest import FIXED, wave

N = 61
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 1.0, N))[:, np.newaxis]
WAVES = np.sin(2.0 * np.pi * 17.0 * X[:, 0] + 1.0) + np.cos(2.0 * np.pi * 4.0 * X[:, 0])
Y = WAVES + 0.2 * RNG.standard_normal(N)
NEW = np.linspace(0.05, 0.95, 20)[:, np.newaxis]
UNIT = {"domain": (0.0, 1.0), **FIXED}


def functions(x, n_functions):
    """1, sin, cos, sin of two, ... in columns: orthonormal on the unit interval."""
    k = np.arange(1, n_functions // 2 + 1)
    angles = 2.0 * np.pi * x * k
    pairs = np.sqrt(2.0) * np.stack((np.sin(angles), np.cos(angles)), axis=2)
    return np.hstack((np.ones((len(x), 1)), pairs.reshape(len(x), -1)))[:, :n_functions]


# ---- Order by the data ---------------------------------------------------------------


def test_functions_by_their_coefficients_are_the_dense_formulas():
    # section 6.2: the first n functions by |φ_j'y| / n, eigenvalues τ j^(-1 - 2α)
    m, tau, noise_variance = 11, 2.0, 0.04
    rule = PolynomialEigenvalues(tau, paired=False)
    model = SpectralVGPRegressor(rule, n_basis=m, order="data", **UNIT).fit(X, Y)
    coefficients = functions(X, N).T @ Y / N
    order = np.argsort(-np.abs(coefficients))
    assert model.prior_.order == tuple(order.tolist())
    eigenvalues = tau * np.arange(1.0, N + 1.0) ** -2.0
    F = functions(X, N)[:, order[:m]]
    V = np.linalg.inv(np.diag(1.0 / eigenvalues[:m]) + F.T @ F / noise_variance)
    mean, std = model.predict(NEW, return_std=True, include_noise=False)
    new = functions(NEW, N)[:, order]
    assert_allclose(mean, new[:, :m] @ (V @ (F.T @ Y)) / noise_variance, atol=1e-9)
    inside = np.sum((new[:, :m] @ V) * new[:, :m], axis=1)
    listed = new[:, m:] ** 2 @ eigenvalues[m:]
    later = functions(NEW, 3001)[:, N:] ** 2 @ (
        tau * np.arange(N + 1.0, 3002.0) ** -2.0
    )
    assert_allclose(std**2, inside + listed + later + tau / 3001.0, rtol=1e-3)


def test_pairs_by_their_power_do_not_depend_on_the_origin():
    rng = np.random.default_rng(1)
    n = 80
    t = np.arange(n)[:, np.newaxis] / n
    y = np.sin(2.0 * np.pi * (23.0 * t[:, 0] + 0.1)) + 0.3 * rng.standard_normal(n)
    settings = {"n_basis": 7, "order": "data", "domain": (0.0, 1.0)}
    model, moved = (
        SpectralVGPRegressor("series", **settings).fit(t, values)
        for values in (y, np.roll(y, 9))
    )
    assert model.prior_.order[:3] == (0, 45, 46)
    assert moved.prior_.order == model.prior_.order
    assert_allclose(moved.noise_variance_, model.noise_variance_, rtol=1e-6)
    assert_allclose(moved.predict(t), np.roll(model.predict(t), 9), atol=1e-6)
    # the standard order has no such wave among its first functions
    standard = SpectralVGPRegressor("series", n_basis=7, domain=(0.0, 1.0)).fit(t, y)
    assert standard.noise_variance_ > 3.0 * model.noise_variance_


@pytest.mark.parametrize("n_targets", [None, 2])
def test_order_of_rows_in_pieces_is_that_of_all_rows(n_targets):
    y = Y if n_targets is None else np.column_stack((Y, np.sin(40.0 * X[:, 0])))
    model = SpectralVGPRegressor("series", order="data", n_basis=15, domain=(0.0, 1.0))
    whole = model.partial_fit(X, y)
    one, two = (
        SpectralVGPRegressor("series", order="data", n_basis=15, domain=(0.0, 1.0))
        for _ in range(2)
    )
    one.partial_fit(X[:20], y[:20]).partial_fit(X[20:40], y[20:40])
    merged = one + two.partial_fit(X[40:], y[40:])
    assert merged.prior_.order == whole.prior_.order
    assert len(merged.prior_.order) == N
    assert_allclose(merged.log_evidence_, whole.log_evidence_, rtol=1e-9)
    assert_allclose(merged.predict(NEW), whole.predict(NEW), atol=1e-6)
    with pytest.raises(ValueError, match="same parameters"):
        SpectralVGPRegressor("series", n_basis=15, domain=(0.0, 1.0)).partial_fit(
            X, y
        ).merge(whole)


def test_an_order_of_ones_own_is_followed_whatever_the_number_of_functions():
    # waves far beyond those that are summed for few functions
    t = np.linspace(0.0, 1.0, 3000, endpoint=False)[:, np.newaxis]
    y = np.sin(2.0 * np.pi * 700.0 * t[:, 0])
    ordered = OrderedEigenvalues(PolynomialEigenvalues(), (0, 1399, 1400))
    boosted = BoostedEigenvalues(ordered, ((5,),), 1.0)
    for rule, n_basis in ((ordered, 3), (ordered, "auto"), (boosted, "auto")):
        model = SpectralVGPRegressor(rule, n_basis=n_basis, **UNIT).fit(t, y)
        assert_allclose(model.predict(t), y, atol=0.01)


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
def test_order_of_few_rows_of_small_weight():
    for n, weight in ((2, 1.0), (5, 1e-3)):
        weights = np.full(n, weight)
        model = SpectralVGPRegressor("series", order="data", domain=(0.0, 1.0))
        model.fit(X[:n], Y[:n], weights)
        assert np.isfinite(model.predict(NEW)).all()


@pytest.mark.parametrize(
    ("kernel", "d"),
    [
        (None, 1),
        (RBF(), 1),
        (BoostedEigenvalues(PolynomialEigenvalues(), ((3,),), 1.0), 1),
        ("series", 2),
    ],
    ids=["default", "kernel", "boosted", "two columns"],
)
def test_order_by_the_data_needs_a_series_prior_of_one_column(kernel, d):
    with pytest.raises(ValueError, match='order="data" is for a series prior'):
        SpectralVGPRegressor(kernel, order="data").fit(*wave(50, d))


# ---- Series priors as published ------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        (
            PolynomialEigenvalues(0.7, 1.0, paired=False),
            0.7 * np.arange(1.0, 6000.0) ** -3.0,
        ),
        (
            ExponentialEigenvalues(0.2, 0.7, paired=False),
            0.7 * np.exp(-0.2 * np.arange(1.0, 1000.0)),
        ),
    ],
    ids=["polynomial", "exponential"],
)
def test_published_sequences_are_given_eigenvalues(rule, values):
    given = GivenEigenvalues(tuple(values))
    model, other = (
        SpectralVGPRegressor(kernel, n_basis=9, **UNIT).fit(X, Y)
        for kernel in (rule, given)
    )
    for found, expected in zip(
        model.predict(NEW, return_std=True, include_noise=False),
        other.predict(NEW, return_std=True, include_noise=False),
        strict=True,
    ):
        assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert_allclose(model.log_evidence_, other.log_evidence_, rtol=1e-6)
    assert_allclose(model.credible_ball(), other.credible_ball(), rtol=1e-6)


def test_draws_of_an_exponential_prior_have_its_covariance():
    rule = ExponentialEigenvalues(0.3, 2.0)
    settings = UNIT | {"noise_variance": 1e6}
    model = SpectralVGPRegressor(rule, n_basis=11, **settings).fit(X, 0.0 * Y)
    n_draws = 4000
    draws = model.sample_functions(n_draws, random_state=0)(NEW[:2])
    # Σ λ_j φ_j(x) φ_j(x') with pairs at their mean ranks
    j = np.r_[1.0, np.repeat(2.0 * np.arange(1.0, 100.0) + 0.5, 2)]
    eigenvalues = 2.0 * np.exp(-0.3 * j)
    features = functions(NEW[:2], len(j))
    covariance = features * eigenvalues @ features.T
    found = draws @ draws.T / n_draws
    variances = np.diag(covariance)
    errors = np.sqrt((np.outer(variances, variances) + covariance**2) / n_draws)
    assert np.abs((found - covariance) / errors).max() < 4.0


# ---- Effective dimension and inflated balls ------------------------------------------


def test_effective_dimension_is_the_sum_of_shrinkage_factors():
    # (3.1): ν_j = n λ_j / (σ² + n λ_j), on rows where functions are orthogonal
    t = np.arange(100)[:, np.newaxis] / 100.0
    y = np.sin(9.0 * t[:, 0])
    model = SpectralVGPRegressor(PolynomialEigenvalues(), n_basis=21, **UNIT).fit(t, y)
    eigenvalues = model.spectrum_[:21]
    shares = 100.0 * eigenvalues / (0.04 + 100.0 * eigenvalues)
    assert_allclose(model.effective_dimension_, shares.sum(), rtol=1e-9)
    assert isinstance(model.effective_dimension_, float)


@pytest.mark.parametrize("basis", ["inducing", "empirical"])
def test_effective_dimension_is_the_trace_of_the_smoother(basis):
    kernel = Matern(0.5, nu=1.5)
    model = SpectralVGPRegressor(kernel, basis=basis, n_basis=N, **FIXED).fit(X, Y)
    K = kernel(X)
    smoother = K @ np.linalg.inv(K + 0.04 * np.eye(N))
    assert_allclose(model.effective_dimension_, np.trace(smoother), rtol=1e-6)


def test_effective_dimension_of_each_target():
    y = np.column_stack((Y, 3.0 * np.abs(X[:, 0] - 0.5)))
    model = SpectralVGPRegressor("series", n_basis=21, domain=(0.0, 1.0)).fit(X, y)
    gram = functions(X, 21).T @ functions(X, 21)
    for t in range(2):
        roots = np.sqrt(model.spectrum_[:21, t] / model.noise_variance_[t])
        precision = np.eye(21) + gram * np.outer(roots, roots)
        dimension = 21.0 - np.trace(np.linalg.inv(precision))
        assert_allclose(model.effective_dimension_[t], dimension, rtol=1e-6)


def test_inflated_balls():
    model = SpectralVGPRegressor("series", n_basis=15, **UNIT).fit(X, Y)
    for points in (None, NEW):
        radius = model.credible_ball(0.9, points)
        assert_allclose(model.credible_ball(0.9, points, inflation=1.5), 1.5 * radius)
    for inflation in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="inflation must be positive"):
            model.credible_ball(inflation=inflation)


# ---- Inducing points -----------------------------------------------------------------


def test_given_inducing_points_are_those_of_pls():
    kernel = 1.3 * RBF(0.2) + WhiteKernel(0.04)
    Z = np.linspace(0.0, 1.0, 9)[:, np.newaxis]
    settings = {"optimizer": None, "random_state": 0}
    pls = PLSRegressor(kernel, inducing=Z, n_neighbors=0, **settings).fit(X, Y)
    mean, std = pls.predict(NEW, return_std=True)
    for inducing in (Z, lambda X, kernel, n_basis, rng: Z):
        model = SpectralVGPRegressor(
            kernel, basis="inducing", n_basis=9, inducing=inducing, **settings
        ).fit(X, Y)
        assert model.n_basis_ == 9
        found, found_std = model.predict(NEW, return_std=True)
        assert_allclose(found, mean, rtol=1e-9)
        assert_allclose(found_std, std, rtol=1e-9)


@pytest.mark.parametrize("inducing", ["greedy", "k-means++", "random", "m-dpp"])
@pytest.mark.parametrize("n_basis", [12, "auto"])
def test_named_inducing_points_are_rows(inducing, n_basis):
    settings = {"basis": "inducing", "optimizer": None, "noise_variance": 0.04}
    model, again = (
        SpectralVGPRegressor(
            RBF(0.1), n_basis=n_basis, inducing=inducing, random_state=3, **settings
        ).fit(X, Y)
        for _ in range(2)
    )
    points = model.posterior_.basis.inducing_points
    assert np.isin(points, X).all()
    assert n_basis == "auto" or len(points) == n_basis
    assert np.array_equal(points, again.posterior_.basis.inducing_points)


def test_inducing_points_of_other_features_are_refused():
    for settings in ({"basis": "fourier"}, {"basis": "empirical"}, {}):
        with pytest.raises(ValueError, match='inducing is read with basis="inducing"'):
            SpectralVGPRegressor(inducing="m-dpp", **settings).fit(X, Y)
    with pytest.raises(ValueError, match="shape"):
        SpectralVGPRegressor(basis="inducing", inducing=np.ones((3, 2))).fit(X, Y)
