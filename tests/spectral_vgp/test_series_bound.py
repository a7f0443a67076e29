"""The bound of a series prior, its search, and the number of functions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx._numerics.fourier_index import Box
from skgpx._spectral_vgp._series_choice import (
    MOST_REFINED,
    FunctionOrder,
    considered,
    elbow,
    enough,
    filled_part,
    summable,
)
from skgpx._spectral_vgp._series_search import (
    Search,
    SeriesBound,
    StandardSums,
    maximise_bound,
    row_sums,
)
from skgpx._validation import Rows
from skgpx.bases import FourierSeries, KernelEigenvalues, PolynomialEigenvalues

DOMAIN = np.array([[0.0, 1.0]])
BOX = Box(np.zeros(1), np.array([1.7]))
NOISE = 0.05
RULES = [
    PolynomialEigenvalues(0.7, free_regularity=True),
    PolynomialEigenvalues(0.7, paired=False),
    KernelEigenvalues(1.3 * Matern(0.3, nu=0.5)),
]


def sums_of(n=60, seed=0, noise=0.2, signal=1.0):
    rng = np.random.default_rng(seed)
    X, weights = rng.random((n, 1)), np.ones(n)
    y = signal * np.sin(7.0 * X[:, 0]) + noise * rng.standard_normal(n)
    rows = Rows(X, y, weights)
    statistics = row_sums(rows, DOMAIN, BOX, 0.0, np.array([9000]), None)
    return X, y, StandardSums.of(statistics, True)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("ordering", ["prior", "power", "coefficients"])
@pytest.mark.parametrize("size", [12, 13])
def test_value_is_the_dense_bound(rule, ordering, size):
    if isinstance(rule, PolynomialEigenvalues):
        # ranks of single functions are for rules that count them
        rule = replace(rule, paired=ordering != "coefficients")
    X, y, sums = sums_of()
    functions, m = considered(sums.statistics, rule, FunctionOrder(ordering, 301), size)
    bound = SeriesBound(sums, functions, m)
    basis = FourierSeries.from_rule(rule, BOX, m, functions, n_residual=len(functions))
    phi = basis(X)
    # Σ λ φ² of those left out; what follows the list is constant
    s = rule.spectrum(functions, BOX)
    everything = FourierSeries(BOX, functions, s.eigenvalues, len(functions))(X)
    residual = np.sum(everything[:, m:] ** 2) + 60 * s.tail
    z = (y - y.mean()) / np.std(y)
    dense = multivariate_normal(cov=phi @ phi.T + NOISE * np.eye(60)).logpdf(z)
    found = bound.at(rule, NOISE)
    assert found.value == pytest.approx(dense - residual / (2 * NOISE), rel=1e-9)
    value, _ = bound.profile(rule).value_and_gradient(NOISE, 1.0)
    assert value == pytest.approx(found.value, rel=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("size", [12, 13])
def test_gradient_by_differences(rule, size):
    sums = sums_of()[2]
    functions, m = considered(
        sums.statistics, rule, FunctionOrder("coefficients", 301), size
    )
    bound = SeriesBound(sums, functions, m)
    gradient = bound.at(rule, NOISE).parameters
    for j, step in enumerate(1e-5 * np.eye(len(rule.theta))):
        up, down = (
            bound.at(rule.with_theta(rule.theta + s), NOISE).value
            for s in (step, -step)
        )
        assert gradient[j] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-4)


def search_of(rule, free, **data):
    sums = sums_of(**data)[2]
    functions, m = considered(sums.statistics, rule, FunctionOrder("prior", 301), 61)
    return Search(SeriesBound(sums, functions, m), np.array(free), None)


@pytest.mark.parametrize(
    ("rule", "free"),
    [
        (PolynomialEigenvalues(), [True]),
        (PolynomialEigenvalues(), [False]),
        (PolynomialEigenvalues(free_regularity=True), [True, True]),
        (KernelEigenvalues(1.0 * RBF(1.0)), [True, True]),
        (KernelEigenvalues(1.0 * RBF(0.3)), [False, False]),
    ],
)
def test_the_value_returned_is_that_of_the_objective_at_its_maximum(rule, free):
    search = search_of(rule, free)
    best, only_noise = maximise_bound(search, rule, None)
    e = search.bound.at(best.rule, best.noise_variance)
    assert not only_noise
    assert best.log_evidence == pytest.approx(e.value, rel=1e-9)
    assert abs(e.noise) < 0.02
    assert np.abs(e.parameters[np.array(free)]).max(initial=0.0) < 0.02
    again, _ = maximise_bound(search, best.rule, best.noise_variance)
    assert again.log_evidence >= best.log_evidence - 1e-6


@pytest.mark.parametrize(
    ("rule", "free"),
    [
        (PolynomialEigenvalues(), [True]),
        (KernelEigenvalues(1.0 * Matern(0.3, nu=0.5)), [True, True]),
        (KernelEigenvalues(RBF(0.3)), [True]),
    ],
)
def test_noise_alone_is_a_candidate(rule, free):
    search = search_of(rule, free, signal=0.0, n=200, seed=1)
    best, only_noise = maximise_bound(search, rule, None)
    assert only_noise == isinstance(rule, KernelEigenvalues)
    assert best.log_evidence == pytest.approx(search.bound.of_noise(None), abs=1e-4)
    assert best.noise_variance == pytest.approx(1.0, rel=1e-5)


def test_a_constant_y_has_no_best_noise():
    search = search_of(PolynomialEigenvalues(), [True], signal=0.0, noise=0.0)
    assert search.bound.of_noise(None) == -np.inf
    assert not maximise_bound(search, PolynomialEigenvalues(), None)[1]


# ---- How many functions --------------------------------------------------------------


def test_elbow_has_whole_pairs():
    values = np.array([4.0, 2.0, 2.0, 1.0, 1.0, 0.5, 0.5])
    assert [elbow(values, 10.0, v) for v in (50.0, 20.0, 10.0, 6.0)] == [1, 3, 5, 5]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("weight", [30.0, 1e3, 1e5])
def test_enough_is_the_least_number_that_adds_two_per_cent(rule, weight):
    filled, most = np.array([0.9]), 2000
    m = enough(rule, BOX, filled, weight, NOISE, most)
    values = rule.spectrum(rule.index(BOX, 40_001), BOX).eigenvalues
    known = values / (1.0 + weight * 1.7 / 0.9 / NOISE * values)

    def added(size):
        return (values - known)[size:].sum() / known.sum()

    if m < MOST_REFINED:
        assert added(m) <= 0.0201
    # the elbow, and what makes the bound tight, are always in
    assert m >= elbow(values[:most], weight, NOISE)
    assert m % 2 == 1 or m == most
    if m > 201:
        assert added(m - 4) > 0.019 or m == elbow(values, weight, NOISE)


def test_the_part_with_data_is_never_nothing():
    seen, domain = np.array([[0.5, 0.5], [0.0, 2.0]]), np.array([[0.0, 1.0], [0, 4.0]])
    assert np.allclose(filled_part(seen, domain), [0.1, 2.0])


@pytest.mark.parametrize("ordering", ["prior", "power", "coefficients"])
def test_functions_beyond_the_sums_are_left_to_the_residual(ordering):
    X, y, _ = sums_of()
    rows = Rows(X, y, np.ones(60))
    statistics = row_sums(rows, DOMAIN, BOX, 0.0, np.array([40]), None)
    reach = int(statistics.reach()[0])
    for rule in RULES[:1] + RULES[2:]:
        size = 2 * reach + 11
        order = FunctionOrder(ordering, size)
        functions, m = considered(statistics, rule, order, size)
        assert m == 2 * reach + 1
        assert m == summable(statistics, rule, order, size)
        assert np.all(np.abs(functions.waves[:m]) <= reach)
        statistics.normal_equations(functions.part(slice(m)))
