import itertools
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from skgpx._numerics.expectations import (
    Noise,
    cdf,
    expectation_nodes,
    log_density,
    logistic_noise,
    poisson_cdf,
    quantile,
    softmax_probabilities,
    student_noise,
)
from skgpx._numerics.mixture import LatentMixture

# ---- Gauss-Hermite -------------------------------------------------------------------


def normal_moment(power):
    """``E[ξ^power]``: the double factorial of power - 1."""
    return 0.0 if power % 2 else float(math.prod(range(power - 1, 0, -2)))


@pytest.mark.parametrize("n_nodes", [1, 5, 12, 20])
def test_one_output_is_exact_for_polynomials(n_nodes):
    nodes, weights = expectation_nodes(1, n_nodes)
    for power in range(2 * n_nodes):
        estimate = weights @ nodes[:, 0] ** power
        size = weights @ np.abs(nodes[:, 0]) ** power
        assert abs(estimate - normal_moment(power)) <= 1e-11 * max(size, 1.0)


@pytest.mark.parametrize("c", [2, 3, 7])
def test_several_outputs_are_exact_up_to_degree_three(c):
    nodes, weights = expectation_nodes(c)
    for degree in range(4):
        for which in itertools.combinations_with_replacement(range(c), degree):
            powers = np.bincount(np.array(which, dtype=np.intp), minlength=c)
            expected = np.prod([normal_moment(int(p)) for p in powers])
            estimate = weights @ np.prod(nodes**powers, axis=1)
            assert estimate == pytest.approx(expected, abs=1e-12)


# ---- Normal mixtures plus noise ------------------------------------------------------

ONE = Noise(np.zeros(1), np.ones(1), np.zeros(1))
TWO = Noise(np.array([0.0, 3.0]), np.array([0.2, 0.5]), np.log([0.7, 0.3]))
POINT = np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1)


def mixture(rng, n=3, s=5, shared=False):
    weights = rng.random(s) + 0.1
    variance = rng.random((n, 1 if shared else s))
    return rng.standard_normal((n, s)), variance, weights / weights.sum()


def direct(y, mean, variance, weights, noise, function):
    """Sum of a function of normal distributions over all components."""
    components = stats.norm(
        mean[:, :, np.newaxis] + noise.shift,
        np.sqrt(variance[:, :, np.newaxis] + noise.variance),
    )
    values = getattr(components, function)(y[:, np.newaxis, np.newaxis])
    return np.einsum("nsk,s,k->n", values, weights, np.exp(noise.log_weights))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("noise", [ONE, TWO])
def test_densities_and_probabilities_are_sums_over_components(rng, noise, shared):
    parts, y = mixture(rng, shared=shared), np.array([-1.0, 0.5, 4.0])
    density, below = (direct(y, *parts, noise, name) for name in ("pdf", "cdf"))
    np.testing.assert_allclose(
        log_density(y, *parts, noise), np.log(density), rtol=1e-12
    )
    np.testing.assert_allclose(cdf(y, *parts, noise), below, rtol=1e-12)


def test_densities_do_not_underflow():
    far = log_density(np.array([1e6]), *POINT, ONE)
    assert far[0] == pytest.approx(stats.norm.logpdf(1e6), rel=1e-14)


@pytest.mark.parametrize("p", [1e-9, 0.01, 0.3, 0.5, 0.95, 1.0 - 1e-6])
@pytest.mark.parametrize("noise", [ONE, TWO])
@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0])
def test_quantiles_against_bisection(rng, p, noise, spread):
    mean, variance, weights = mixture(rng)
    mean = spread * mean
    found = quantile(p, mean, variance, weights, noise)
    std = np.sqrt((mean**2 + variance) @ weights + 4.0)
    # tails in all digits: in the mirror image for p > 1/2
    sign = 1.0 if p < 0.5 else -1.0
    mirrored = noise._replace(shift=sign * noise.shift)
    for i in range(3):
        row = sign * mean[i : i + 1], variance[i : i + 1], weights, mirrored

        def gap(y, row=row):
            return cdf(np.array([y]), *row)[0] - min(p, 1.0 - p)

        reach = 60.0 * std[i]
        exact = sign * optimize.brentq(gap, -reach, reach, xtol=1e-13 * std[i])
        assert abs(found[i] - exact) < 1e-8 * std[i]


def test_a_gap_between_components_is_bisected():
    # half of the mass on each side: any point of the gap is a median
    mean, half = np.array([[-1e4, 1e4]]), np.full(2, 0.5)
    for p, expected in ((0.25, -1e4), (0.75, 1e4)):
        found = quantile(p, mean, np.ones((1, 1)), half, ONE)
        assert found[0] == pytest.approx(expected, abs=1e-3)
    assert abs(quantile(0.5, mean, np.ones((1, 1)), half, ONE)[0]) < 1e4


# ---- Student's and logistic noise ----------------------------------------------------


@pytest.mark.parametrize("df", [0.3, 1.0, 4.0, 30.0, 1e4])
@pytest.mark.parametrize("z", [0.0, 1.0, 20.0, 1e4])
def test_student_densities(df, z):
    found = log_density(np.array([z]), *POINT, student_noise(df))
    assert found[0] == pytest.approx(stats.t(df).logpdf(z), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("df", [0.5, 1.0, 4.0, 300.0])
@pytest.mark.parametrize("p", [1e-6, 0.05, 0.5])
def test_student_probabilities(df, p):
    z = stats.t(df).ppf(p)
    noise = student_noise(df)
    # quantiles of older versions of SciPy are off by 6e-9 of the probability
    found = cdf(np.array([z]), *POINT, noise)
    assert found[0] == pytest.approx(stats.t(df).cdf(z), rel=5e-9)
    assert quantile(p, *POINT, noise)[0] == pytest.approx(z, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("mean", [-30.0, 0.4, 5.0])
@pytest.mark.parametrize("std", [4.0, 100.0])
def test_wide_normals_by_the_logistic_atoms(mean, std):
    def integrand(x):
        return special.expit(mean + std * x) * stats.norm.pdf(x)

    kink = -mean / std
    edges = [-12.0, kink - 10.0 / std, kink, kink + 10.0 / std, 12.0]
    exact = sum(
        integrate.quad(integrand, a, b, epsabs=0.0, epsrel=1e-12)[0]
        for a, b in pairwise(edges)
    )
    wide = np.array([[-mean]]), np.array([[std**2]]), np.ones(1)
    found = cdf(np.zeros(1), *wide, logistic_noise())
    assert found[0] == pytest.approx(exact, rel=1e-7)


# ---- Counts and classes --------------------------------------------------------------


@pytest.mark.parametrize("count", [-1.0, 0.0, 5.0, 64.0, 65.0, 1e3, 1e5])
def test_distribution_function_of_counts(count):
    deviations = np.linspace(-8.0, 8.0, 81) / np.sqrt(abs(count) + 1.0)
    rates = (abs(count) + 1.0) * np.maximum(1.0 + deviations, 0.0)
    rates = np.concatenate([rates, [0.0, 1e-8, 1e3, 1e9]])
    found = poisson_cdf(np.full(len(rates), count), rates[:, np.newaxis], np.ones(1))
    exact = stats.poisson(rates).cdf(count)
    np.testing.assert_allclose(found, exact, rtol=0.0, atol=2e-13)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("std", [0.0, 0.1, 0.69, 0.71, 3.0, 30.0])
def test_probabilities_of_two_classes_by_quadrature(rng, std, shared):
    mean = 2.0 * rng.standard_normal((1, 2, 3))
    widths = std * np.ones((1, 1, 1) if shared else (1, 2, 3))
    distribution = LatentMixture(mean, widths**2, np.array([0.2, 0.3, 0.5]))
    exact, spread = 0.0, max(math.sqrt(2.0) * std, 1e-9)
    for weight, gap in zip(distribution.weights, mean[0, 1] - mean[0, 0], strict=True):
        cuts = np.clip([-9.0, *(-gap + np.array([-9, 0, 9.0])) / spread, 9.0], -9, 9)
        for a, b in pairwise(cuts):
            exact += (
                weight
                * integrate.quad(
                    lambda x, g=gap: special.expit(g + spread * x) * stats.norm.pdf(x),
                    a,
                    b,
                )[0]
            )
    found = softmax_probabilities(distribution)[0]
    assert found.sum() == pytest.approx(1.0)
    assert found[1] == pytest.approx(exact, abs=3e-5)


@pytest.mark.parametrize("std", [0.3, 1.0, 5.0])
def test_probabilities_of_ten_classes_by_simulation(rng, std):
    mean = rng.standard_normal((1, 10, 1))
    distribution = LatentMixture(mean, np.full((1, 1, 1), std**2), np.ones(1))
    f = mean[0] + std * rng.standard_normal((10, 100_000))
    p = special.softmax(f, axis=0)
    gap = np.abs(softmax_probabilities(distribution)[0] - p.mean(axis=1))
    assert np.all(gap < 4.5 * p.std(axis=1) / np.sqrt(1e5) + 3e-5)
