"""Repetitions of one y at one input say nothing of the noise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import (
    DecoupledSampler,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx._selection._search_rows import sampled
from skgpx._selection._sparse_learner import _Sample
from skgpx._validation import Rows
from skgpx.likelihoods import Likelihood, Poisson, ShiftedMixture, StudentT


def _wave(seed, n=150, d=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    f = np.sin(6.0 * X[:, 0])
    return X, f, f + 0.2 * rng.standard_normal(n), rng


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("d", [1, 2])
def test_weights_of_ten_leave_the_noise(seed, d):
    X, _, y, _ = _wave(seed, d=d)
    model = PLSRegressor(random_state=0).fit(X, y, sample_weight=np.full(150, 10.0))
    # the noise was 1e-9 of the variance of y, and the error up to 11
    assert 0.13 < np.sqrt(model.noise_variance_) < 0.27
    inside = np.linspace(0.05, 0.95, 50)[:, np.newaxis] * np.ones(d)
    error = model.predict(inside) - np.sin(6.0 * inside[:, 0])
    assert np.sqrt(np.mean(error**2)) < 0.12


def test_unequal_weights_and_heavy_tails():
    X, _, y, rng = _wave(2, d=2)
    weights = rng.integers(5, 15, 150).astype(float)
    model = PLSRegressor(likelihood=StudentT(), random_state=0)
    model.fit(X, y, sample_weight=weights)
    assert 0.1 < model.likelihood_.scale < 0.27


@pytest.mark.parametrize(
    "model",
    [
        GWIRegressor(mean="svgp", random_state=0),
        SteinRFFRegressor(
            n_components=2, n_frequencies=20, max_iter=20, validation_fraction=0.0
        ),
    ],
    ids=["gwi", "stein"],
)
def test_other_estimators(model):
    X, _, y, _ = _wave(3)
    model.fit(X, y, sample_weight=np.full(150, 10.0))
    assert 0.1 < np.sqrt(model.noise_variance_) < 0.3


def test_repeated_rows_are_weights():
    X, _, y, _ = _wave(4, n=60)
    weights = np.full(60, 4.0)
    weights[:20] = 1.0
    counts = weights.astype(int)
    one = PLSRegressor(random_state=0).fit(X, y, sample_weight=weights)
    two = PLSRegressor(random_state=0).fit(
        np.repeat(X, counts, 0), np.repeat(y, counts)
    )
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert np.sqrt(one.noise_variance_) > 0.1
    repeated = np.repeat(X, counts, 0), np.repeat(y, counts)
    drawn = DecoupledSampler(random_state=0).fit(*repeated)
    assert np.sqrt(np.exp(drawn.kernel_.theta[-1])) > 0.1


def test_which_weights_a_search_reads():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [1.0, 1.0], [2.0, 0.0]])
    rows = Rows(X, np.arange(5.0), np.array([3.0, 2.0, 9.0, 0.5, 1.0]))
    # two targets at one input: their frequencies are information
    found = sampled(rows, np.arange(5)).weights
    np.testing.assert_array_equal(found, [3.0, 2.0, 1.0, 0.5, 1.0])
    np.testing.assert_array_equal(sampled(rows, np.array([0, 2])).weights, [1.0, 1.0])


def test_frequencies_of_whole_numbers_are_kept():
    """Counts of ratings at each of five inputs: their mean is the weighted one."""
    X = np.repeat(np.arange(5.0), 3)[:, np.newaxis]
    y = np.tile([1.0, 2.0, 3.0], 5) + 2.0 * X[:, 0]
    weights = np.tile([1.0, 1.0, 48.0], 5)
    model = PLSRegressor(random_state=0).fit(X, y, sample_weight=weights)
    expected = 2.94 + 2.0 * X[::3, 0]
    np.testing.assert_allclose(model.predict(X[::3]), expected, atol=0.1)


@pytest.mark.parametrize("weight", [1.01, 1.49, 1.5, 1.51])
def test_repetitions_of_a_continuous_target_count_once(weight):
    X, _, y, _ = _wave(5, n=20)
    found = sampled(Rows(X, y, np.full(20, weight)), np.arange(20)).weights
    np.testing.assert_array_equal(found, np.ones(20))


@pytest.mark.parametrize(("weight", "read"), [(1.49, 1.49), (1.5, 1.5), (1.51, 1.0)])
def test_how_many_repetitions_of_a_grade_count(weight, read):
    X, _, _, rng = _wave(5, n=40)
    y = rng.permutation(np.repeat([3.0, 4.0, 5.0, 6.0], 10))
    found = sampled(Rows(X, y, np.full(40, weight)), np.arange(40)).weights
    np.testing.assert_array_equal(found, np.full(40, read))
    # nine of a value are no grades
    y[y == 6.0] = np.append(np.repeat(6.0, 9), 7.0)
    found = sampled(Rows(X, y, np.full(40, weight)), np.arange(40)).weights
    np.testing.assert_array_equal(found, np.ones(40))


class _Noise(Likelihood):
    """Normal noise as a user may write it, without a `noise_parameter`."""

    location_scale = True
    scale_names = ("sigma",)

    def __init__(self, sigma=None):
        self.sigma = sigma

    def starting_scales(self, y, weights):
        return {"sigma": (0.3, 1e-6, 10.0)}

    def scaled(self, factor):
        return self.rescaled(sigma=factor)

    def nll(self, y, f):
        z = np.subtract(y, f) / self.sigma
        return 0.5 * z**2 + np.log(self.sigma) + 0.5 * np.log(2.0 * np.pi)

    def gradient(self, y, f):
        return np.subtract(f, y) / self.sigma**2

    def mean(self, f):
        return np.asarray(f, dtype=float)

    def variance(self, f):
        return np.full(np.shape(f), self.sigma**2)

    def sample(self, f, rng):
        return f + self.sigma * rng.standard_normal(np.shape(f))


@pytest.mark.parametrize(
    "likelihood",
    [None, ShiftedMixture(3.0, 0.05), _Noise()],
    ids=["gaussian", "shifted", "own"],
)
def test_a_bootstrap_of_half_as_many_rows(likelihood):
    errors, noise = [], []
    for seed in range(3):
        X, f, y, rng = _wave(seed, n=60, d=2)
        chosen = rng.integers(0, 60, 30)
        how = {"n_particles": 8, "tol": 3.0, "random_state": 0}
        model = PLSRegressor(likelihood=likelihood, **how).fit(X[chosen], y[chosen])
        law = model.likelihood_
        noise.append(getattr(law, "sigma", None) or np.sqrt(law.noise_variance))
        errors.append(np.sqrt(np.mean((model.predict(X) - f) ** 2)))
    # the least noise was .002
    assert min(noise) > 0.05
    assert np.mean(errors) < 0.25


@pytest.mark.parametrize("likelihood", [Poisson(), StudentT()])
def test_equal_counts_are_evidence(likelihood):
    X = np.arange(6.0)[:, np.newaxis]
    rows = Rows(X, np.array([0.0, 5.0, 0.0, 5.0, 0.0, 5.0]), np.full(6, 20.0))
    chosen = likelihood.prepare(rows.y, rows.weights)
    some = _Sample.of(rows, 2000, chosen, np.random.default_rng(0)).some
    np.testing.assert_array_equal(
        some.weights, np.full(6, 20.0 if likelihood.discrete else 1.0)
    )


def test_equal_classes_are_evidence():
    X = np.repeat(np.arange(8.0), 25)[:, np.newaxis]
    model = PLSClassifier(random_state=0).fit(X, X[:, 0] % 4 < 2)
    odds = model.predict_proba(X[::25])[:, 1]
    assert np.all(np.abs(odds - (np.arange(8) % 4 < 2)) < 0.1)


@pytest.mark.parametrize(
    "model",
    [
        PLSRegressor(n_inducing=100, random_state=0),
        PLSRegressor(n_inducing=149, random_state=0),
        PLSRegressor(
            ConstantKernel(1.0) * RBF([1.0, 1.0]),
            likelihood=StudentT(),
            n_particles=20,
            random_state=0,
        ),
        SpectralVGPRegressor(basis="inducing", n_basis=60, random_state=0),
    ],
    ids=["bound", "all but one", "own kernel", "spectral"],
)
def test_where_a_sparse_evidence_searches_last(model):
    X, f, y, _ = _wave(5, d=2)
    model.fit(X, y, sample_weight=np.full(150, 10.0))
    # errors were .14 to .38
    assert np.sqrt(np.mean((model.predict(X) - f) ** 2)) < 0.1
    assert "once" in model.report()["search"]["copies"]
