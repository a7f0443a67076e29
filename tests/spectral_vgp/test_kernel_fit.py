"""Regression on a basis of kernel functions: state, sums, spectrum, merging."""

import copy
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp import _kernel_fit, _settings
from skgpx._spectral_vgp._kernel_fit import SparseSettings, start_sparse
from skgpx._validation import Rows

KERNEL = 1.5 * Matern(0.7, nu=1.5)
SETTINGS = SparseSettings(
    kernel=KERNEL,
    basis="inducing",
    n_basis=12,
    inducing="greedy",
    noise_variance=0.04,
    optimizer=None,
    n_restarts=1,
    normalize_y=False,
    largest=2000,
)


def rows(n=150, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    y = np.sin(4.0 * X[:, 0]) + 0.2 * rng.normal(size=n)
    return Rows(X, y, np.ones(n))


def part(data, chosen):
    return data.take(chosen)


def start(data, **changes):
    settings = SETTINGS._replace(**changes)
    return start_sparse(data, settings, np.random.default_rng(0), None)


@pytest.mark.parametrize("basis", ["inducing", "empirical"])
def test_more_rows_are_one_state(basis):
    data = rows()
    first = start(part(data, slice(60)), basis=basis)
    rest = part(data, slice(60, None))
    one = first.with_rows(rest, None)
    two = first.with_rows(part(rest, slice(30)), None)
    two = two.with_rows(part(rest, slice(30, None)), None)
    for a, b in zip(one.statistics, two.statistics, strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    assert one.statistics.weight == 150.0
    assert_allclose(one.seen, [[data.X.min(), data.X.max()]])
    # the rows that chose the basis count once
    left = first.with_rows(part(rest, slice(30)), None)
    right = first.with_rows(part(rest, slice(30, None)), None)
    merged = left.merged(right)
    assert_allclose(merged.statistics.gram, one.statistics.gram, atol=1e-9)
    assert_allclose(merged.seen, one.seen)


def test_all_points_are_the_exact_process():
    data = rows(40)
    found = start(data, n_basis=40, inducing=data.X).solve()
    exact = GaussianProcessRegressor(KERNEL, alpha=0.04, optimizer=None)
    exact.fit(data.X, data.y)
    assert_allclose(found.log_evidence, exact.log_marginal_likelihood_value_, rtol=1e-7)
    assert found.noise_variance == 0.04
    assert found.prior is found.posterior.basis.kernel


def test_states_that_began_otherwise_do_not_merge():
    data = rows()
    state = start(data)
    for other in (
        start(data, kernel=1.5 * Matern(0.7001, nu=1.5)),
        start(data, n_basis=11),
        start(data, basis="empirical"),
        start(data, normalize_y=True),
        start(data, noise_variance=0.05),
        start(data, noise_variance=None),
        start(part(data, slice(149))),
        "state",
    ):
        with pytest.raises(ValueError, match="merged"):
            state.merged(other)
    state.merged(start(data))


# ---- Spectrum ------------------------------------------------------------------------


@pytest.mark.parametrize("basis", ["inducing", "empirical"])
@pytest.mark.parametrize("normalize_y", [True, False])
def test_the_spectrum_is_the_variance_that_the_basis_explains(basis, normalize_y):
    data = rows()
    y = 10.0 * data.y + 3.0
    model = SpectralVGPRegressor(
        KERNEL, basis=basis, n_basis=12, optimizer=None, noise_variance=1.0,
        normalize_y=normalize_y, random_state=0,
    ).fit(data.X, y)  # fmt: skip
    prior = model.posterior_.basis
    features = prior(data.X)
    unit = np.var(y) if normalize_y else 1.0
    explained = np.mean(np.sum(features**2, axis=1)) * unit
    assert len(model.spectrum_) == model.n_basis_ == 12
    assert_allclose(model.spectrum_.sum(), explained, rtol=1e-9)
    assert np.all(np.diff(model.spectrum_) <= 0.0)
    # those of the kernel matrix of the rows over their number, the leading ones
    exact = np.linalg.eigvalsh(KERNEL(data.X))[::-1][:12] / 150 * unit
    rtol = 1e-8 if basis == "empirical" else 0.2
    assert_allclose(model.spectrum_[:6], exact[:6], rtol=rtol)


@pytest.mark.parametrize("basis", ["inducing", "empirical"])
def test_the_spectrum_does_not_depend_on_the_number_of_chunks(basis):
    data = rows(600)
    model = SpectralVGPRegressor(
        KERNEL, basis=basis, n_basis=8, optimizer=None, noise_variance=0.04,
        normalize_y=False, random_state=0,
    )  # fmt: skip
    first = clone(model).partial_fit(data.X[:200], data.y[:200])
    one = copy.deepcopy(first).partial_fit(data.X[200:], data.y[200:])
    many = copy.deepcopy(first)
    for chunk in np.array_split(np.arange(200, 600), 5):
        many.partial_fit(data.X[chunk], data.y[chunk])
    assert_allclose(many.spectrum_, one.spectrum_, rtol=1e-8)
    # the same again changes nothing
    again = copy.deepcopy(first).partial_fit(data.X[:200], data.y[:200])
    assert_allclose(again.spectrum_, first.spectrum_, rtol=1e-8)


@pytest.mark.parametrize("most", [149, 150, 151])
def test_rows_that_are_decomposed_for_empirical_features(most, monkeypatch):
    monkeypatch.setattr(_kernel_fit, "MAX_EMPIRICAL_ROWS", most)
    data = rows(150)
    model = SpectralVGPRegressor(
        KERNEL, basis="empirical", n_basis=9, optimizer=None, noise_variance=0.04,
        normalize_y=False, random_state=0,
    ).fit(data.X, data.y)  # fmt: skip
    assert len(model.posterior_.basis.inducing_points) == min(most, 150)
    exact = np.linalg.eigvalsh(KERNEL(data.X))[::-1][:9] / 150
    # features of some of the rows explain a little less of all of them
    assert_allclose(model.spectrum_, exact, rtol=1e-8 if most >= 150 else 0.02)
    assert model.score(data.X, data.y) > 0.9


def test_features_of_a_few_of_many_rows_have_the_spectrum_of_all(monkeypatch):
    monkeypatch.setattr(_kernel_fit, "MAX_EMPIRICAL_ROWS", 100)
    data = rows(1000)
    model = SpectralVGPRegressor(
        RBF(0.5), basis="empirical", n_basis=6, optimizer=None, noise_variance=0.04,
        normalize_y=False, random_state=0,
    ).fit(data.X, data.y)  # fmt: skip
    exact = np.linalg.eigvalsh(RBF(0.5)(data.X))[::-1][:6] / 1000
    assert_allclose(model.spectrum_[:3], exact[:3], rtol=0.01)
    assert_allclose(model.spectrum_.sum(), 1.0, atol=0.01)


# ---- What must agree for a merge, through the public model ---------------------------


def fitted(kernel, **settings):
    data = rows()
    model = SpectralVGPRegressor(kernel, domain=(-1.0, 1.0), n_basis=15, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.partial_fit(data.X, data.y)


@pytest.mark.parametrize(
    "other",
    [
        1.0 * RBF(0.50004),
        1.0 * RBF(0.5, (1e-4, 1e4)),
        1.0 * RBF(0.5, "fixed"),
        1.00004 * RBF(0.5),
        1.0 * Matern(0.5, nu=2.5),
        1.0 * RBF(0.5) + WhiteKernel(0.1),
        None,
    ],
    ids=str,
)
def test_models_whose_kernels_differ_do_not_merge(other):
    one = fitted(1.0 * RBF(0.5), optimizer=None)
    with pytest.raises(ValueError, match="merged"):
        one + fitted(other, optimizer=None)
    # equal ones do, whatever changes no sum
    same = fitted(
        1.0 * RBF(0.5, (1e-5, np.float64(1e5))), optimizer=None, inflation=1.5,
        random_state=np.random.RandomState(0), n_jobs=1, extrapolation="error",
    )  # fmt: skip
    assert (one + same).n_basis_ == 15


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"eigenvalues": [1.0, 0.5]}, {"eigenvalues": np.array([1.0, 0.5])}, True),
        ({"eigenvalues": [1.0, 0.5]}, {"eigenvalues": (1.0, 0.50001)}, False),
        ({"eigenvalues": [1.0, 0.5]}, {"eigenvalues": "polynomial"}, False),
        ({"alpha": 1}, {"alpha": 1.0}, True),
        ({"alpha": 1.0}, {"alpha": "evidence"}, False),
        ({"tau": None}, {"tau": 1.0}, False),
        ({"n_basis": 15}, {"n_basis": "auto"}, False),
        ({"noise_variance": 0.1}, {"noise_variance": 0.1 + 1e-9}, False),
        ({"inflation": 1.0}, {"inflation": 2.0}, True),
        ({"inducing": sorted}, {"inducing": sorted}, True),
        ({"inducing": sorted}, {"inducing": "greedy"}, False),
        ({"inducing": np.ones((2, 1))}, {"inducing": np.ones((3, 1))}, False),
        ({"kernel": RBF([1.0, 2.0])}, {"kernel": RBF([1.0, 2.0])}, True),
        ({"kernel": RBF([1.0, 2.0])}, {"kernel": RBF(1.0)}, False),
    ],
    ids=str,
)
def test_parameters_are_compared_by_value(one, other, equal):
    a, b = (
        _settings.series_settings(SpectralVGPRegressor(**parameters)).given
        for parameters in (one, other)
    )
    assert (a == b) is (b == a) is equal
    assert a != "parameters"


def test_parameters_that_change_after_the_fit_do_not_count():
    kernel = 1.0 * RBF(0.5)
    one = fitted(kernel, optimizer=None)
    other = fitted(1.0 * RBF(0.5), optimizer=None)
    kernel.set_params(k2__length_scale=2.0)
    assert (one + other).n_basis_ == 15


# ---- Which basis ---------------------------------------------------------------------
