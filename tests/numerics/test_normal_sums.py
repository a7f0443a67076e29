import numpy as np
import pytest
from scipy import integrate, optimize, stats

from skgpx._numerics.normal_sums import (
    Noise,
    cdf,
    log_density,
    noise_around,
    noise_for_level,
    quantile,
)

ONE = Noise(np.zeros(1), np.ones(1), np.ones(1))
TWO = Noise(np.array([0.0, 3.0]), np.array([0.2, 0.5]), np.array([0.7, 0.3]))


def mixture(rng, n=3, s=5, shared=False):
    weights = rng.random(s) + 0.1
    variance = rng.random((n, 1 if shared else s))
    return rng.standard_normal((n, s)), variance, weights / weights.sum()


def direct(y, mean, variance, weights, noise, function):
    """Sum of a function of normal laws over all components."""
    law = stats.norm(
        mean[:, :, np.newaxis] + noise.shift,
        np.sqrt(variance[:, :, np.newaxis] + noise.variance),
    )
    values = getattr(law, function)(y[:, np.newaxis, np.newaxis])
    return np.einsum("nsk,s,k->n", values, weights, noise.weights)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("noise", [ONE, TWO])
def test_densities_and_probabilities_are_sums_over_components(rng, noise, shared):
    parts = mixture(rng, shared=shared)
    y, first = np.array([-1.0, 0.5, 4.0]), np.zeros(3, np.int64)
    np.testing.assert_allclose(
        log_density(y, *parts, noise, first),
        np.log(direct(y, *parts, noise, "pdf")),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        cdf(y, *parts, noise), direct(y, *parts, noise, "cdf"), rtol=1e-12
    )


def test_densities_do_not_underflow():
    far = log_density(
        np.array([1e6]), np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1), ONE,
        np.zeros(1, np.int64),
    )  # fmt: skip
    assert far[0] == pytest.approx(stats.norm.logpdf(1e6), rel=1e-14)


@pytest.mark.parametrize("p", [1e-9, 0.01, 0.3, 0.5, 0.95, 1.0 - 1e-6])
@pytest.mark.parametrize("noise", [ONE, TWO])
@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0])
def test_quantiles_against_bisection(rng, p, noise, spread):
    mean, variance, weights = mixture(rng)
    mean = spread * mean
    found = quantile(p, mean, variance, weights, noise, float(stats.norm.ppf(p)))
    std = np.sqrt((mean**2 + variance) @ weights + 4.0)
    # tails in all digits: in the mirror image for p > 1/2
    sign = 1.0 if p < 0.5 else -1.0
    mirrored = Noise(sign * noise.shift, noise.variance, noise.weights)
    for i in range(3):
        row = sign * mean[i : i + 1], variance[i : i + 1], weights, mirrored

        def gap(y, row=row):
            return cdf(np.array([y]), *row)[0] - min(p, 1.0 - p)

        reach = 60.0 * std[i]
        exact = sign * optimize.brentq(gap, -reach, reach, xtol=1e-13 * std[i])
        assert abs(found[i] - exact) < 1e-8 * std[i]


def test_a_gap_between_components_is_bisected():
    # half of the mass on each side: any point of the gap is a median
    mean = np.array([[-1e4, 1e4]])
    half = np.full(2, 0.5)
    for p, expected in ((0.25, -1e4), (0.75, 1e4)):
        found = quantile(p, mean, np.ones((1, 1)), half, ONE, 0.0)
        assert found[0] == pytest.approx(expected, abs=1e-3)
    median = quantile(0.5, mean, np.ones((1, 1)), half, ONE, 0.0)
    assert abs(median[0]) < 1e4


@pytest.mark.parametrize("df", [0.5, 1.0, 4.0, 30.0, 1e4])
@pytest.mark.parametrize("z", [0.0, 1.0, 20.0, 1e4])
def test_student_is_a_mixture_of_normals(df, z):
    noise, first = noise_around(df, 2.0, np.array([(2.0 * z) ** 2]))
    found = log_density(
        np.array([2.0 * z]), np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1), noise,
        first,
    )  # fmt: skip
    exact = stats.t(df, scale=2.0).logpdf(2.0 * z)
    assert found[0] == pytest.approx(exact, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("df", [0.5, 1.0, 4.0, 300.0])
@pytest.mark.parametrize("p", [1e-6, 0.05, 0.5])
def test_student_probabilities(df, p):
    z = stats.t(df).ppf(p)
    # quantiles of older versions of SciPy are off by 6e-9 of the probability
    p = stats.t(df).cdf(z)
    noise = noise_for_level(df, 1.0, p)
    found = cdf(np.array([z]), np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1), noise)
    assert found[0] == pytest.approx(p, rel=2e-9)


@pytest.mark.parametrize("ratio", 10.0 ** np.arange(-4.0, 5.0, 2.0))
def test_a_normal_and_a_student_variable(ratio):
    # over the mixing precision, whose integrand is smooth at every ratio
    df, y = 3.0, 1.7 * np.hypot(1.0, ratio)

    def integrand(x):
        g = np.exp(x)
        law = stats.norm(0.0, np.sqrt(ratio**2 + 1.0 / g))
        return law.pdf(y) * stats.gamma(0.5 * df, scale=2.0 / df).pdf(g) * g

    exact = integrate.quad(integrand, -60.0, 5.0, epsabs=0.0, limit=400)[0]
    noise, first = noise_around(df, 1.0, np.array([y**2 + ratio**2]))
    found = log_density(
        np.array([y]), np.zeros((1, 1)), np.full((1, 1), ratio**2), np.ones(1), noise,
        first,
    )  # fmt: skip
    assert found[0] == pytest.approx(np.log(exact), rel=1e-8, abs=1e-8)
