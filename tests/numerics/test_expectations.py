import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from skgpx._numerics.expectations import (
    cdf,
    chebyshev_coefficients,
    chebyshev_rule,
    condense,
    condensed_sizes,
    expectation_nodes,
    line_rule,
    line_sizes,
    log_density,
    poisson_cdf,
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

ONE = np.zeros(1), np.ones((1, 1)), np.zeros(1)
TWO = np.array([0.0, 3.0]), np.array([[0.2, 0.5]]), np.log([0.7, 0.3])
ROWS = TWO[0], np.array([[0.2, 0.5], [1.0, 2.0], [9.0, 0.1]]), TWO[2]
POINT = LatentMixture(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones(1))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("noise", [ONE, TWO, ROWS])
def test_densities_and_probabilities_are_sums_over_components(rng, noise, shared):
    weights, (shift, spread, shares) = rng.random(5) + 0.1, noise
    mean = rng.standard_normal((3, 1, 5))
    variance = rng.random((3, 1, 1 if shared else 5))
    latent = LatentMixture(mean, variance, weights / weights.sum())
    y = np.array([-1.0, 0.5, 4.0])
    components = stats.norm(
        mean[:, 0, :, np.newaxis] + shift,
        np.sqrt(variance[:, 0, :, np.newaxis] + spread[:, np.newaxis]),
    )
    for found, name in ((np.exp(log_density(y, latent, *noise)), "pdf"),
                        (cdf(y, latent, *noise), "cdf")):  # fmt: skip
        values = getattr(components, name)(y[:, np.newaxis, np.newaxis])
        exact = np.einsum("nsk,s,k->n", values, latent.weights, np.exp(shares))
        np.testing.assert_allclose(found, exact, rtol=1e-12)


@pytest.mark.parametrize("df", [1.0, 4.0, 30.0])
def test_condensed_mixtures_have_the_same_probabilities(rng, df):
    """A hundred particles that lie close together need as few as eight components."""
    spreads = np.array([0.02, 0.1, 0.3, 1.0, 5.0])[:, np.newaxis, np.newaxis]
    mean = 0.3 + spreads * rng.standard_normal((5, 1, 100))
    mixture = LatentMixture(mean, 0.01 * spreads**2, np.full(100, 0.01))
    variance, shares = student_noise(df)
    noise = np.zeros(len(shares)), np.broadcast_to(variance, (5, len(shares))), shares
    sizes = condensed_sizes(mixture, *noise[1:])
    assert sizes[0] == 8
    assert sizes[-1] == 0
    for i in np.flatnonzero(sizes):
        row = mixture.rows(slice(i, i + 1))
        part, weights = condense(row, sizes[i])
        rest = noise[0], noise[1][:1], noise[2]
        for y in (-6.0, 0.0, 1.5):
            found = cdf(np.array([y]), part, *rest, weights)
            assert_allclose(found, cdf(np.array([y]), row, *rest), atol=1e-9)


@pytest.mark.parametrize("std", [0.0, 0.01, 1.0])
def test_one_rule_for_all_components(rng, std):
    """Moments of a mixture along its line; no size resolves one without a width."""
    mean = rng.standard_normal((4, 1, 30))
    mixture = LatentMixture(mean, np.full((4, 1, 1), std**2), np.full(30, 1.0 / 30.0))
    sizes = line_sizes(mixture)
    if std == 0.0:
        assert np.all(sizes == 2**30)
        return
    values, weights = line_rule(mixture, int(sizes.max()))
    exact = mixture.moments()
    found = np.sum(values[:, 0] * weights, axis=1)
    assert_allclose(found, exact[0][:, 0], atol=1e-12)
    found = np.sum((values[:, 0] - found[:, np.newaxis]) ** 2 * weights, axis=1)
    assert_allclose(found, exact[1][:, 0], rtol=1e-12)


def test_densities_do_not_underflow():
    far = log_density(np.array([1e6]), POINT, *ONE)
    assert far[0] == pytest.approx(stats.norm.logpdf(1e6), rel=1e-14)


@pytest.mark.parametrize("df", [0.3, 1.0, 4.0, 30.0, 1e4])
def test_student_noise(df):
    variance, weights = student_noise(df)
    noise = np.zeros(len(weights)), variance[np.newaxis], weights
    for z in (0.0, 1.0, 20.0, 1e4):
        found = log_density(np.array([z]), POINT, *noise)[0]
        assert found == pytest.approx(stats.t(df).logpdf(z), rel=1e-7, abs=1e-7)
    for p in (1e-6, 0.05, 0.5):
        z = stats.t(df).ppf(p)
        found = cdf(np.array([z]), POINT, *noise)[0]
        assert found == pytest.approx(stats.t(df).cdf(z), rel=3e-7)


# ---- Counts and classes --------------------------------------------------------------


@pytest.mark.parametrize("count", [-1.0, 0.0, 5.0, 64.0, 65.0, 1e3, 1e5])
def test_distribution_function_of_counts(count):
    deviations = np.linspace(-8.0, 8.0, 81) / np.sqrt(abs(count) + 1.0)
    rates = (abs(count) + 1.0) * np.maximum(1.0 + deviations, 0.0)
    rates = np.concatenate([rates, [0.0, 1e-8, 1e3, 1e9]])
    found = poisson_cdf(np.full(2, count), np.tile(rates, (2, 1)))
    exact = np.tile(stats.poisson(rates).cdf(count), (2, 1))
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
        for a, b in itertools.pairwise(cuts):
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


def test_chebyshev_nodes_keep_averages_of_polynomials(rng):
    points, weights = rng.standard_normal((3, 200)), rng.random(200)
    weights /= weights.sum()
    nodes, found = chebyshev_rule(points, weights, 12)
    for degree in range(12):
        exact = points**degree @ weights
        assert_allclose(np.sum(nodes**degree * found, axis=1), exact, rtol=1e-8)
    cubic = chebyshev_coefficients(12) @ np.cos(
        3.0 * np.pi * (np.arange(12) + 0.5) / 12.0
    )
    assert_allclose(cubic, np.arange(12) == 3, atol=1e-14)
