"""Quantiles of weighted sums of chi-squares against exact ones and simulation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

from skgpx._spectral_vgp._credible import chi_square_sum_quantile

LEVELS = [1e-3, 0.05, 0.5, 0.6, 0.9, 0.95, 0.999, 1.0 - 1e-6]


@pytest.mark.parametrize("df", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("level", LEVELS)
def test_equal_weights_are_a_chi_square(df, level):
    quantile = chi_square_sum_quantile(np.full(df, 1.7), level)
    assert_allclose(quantile, 1.7 * chi2.ppf(level, df), rtol=1e-8)


@pytest.mark.parametrize("level", LEVELS)
def test_pairs_of_equal_weights_are_exponentials(level):
    # P(Q > x) = Σ c_j exp(-x / 2w_j), c_j = Π w_j / (w_j - w_i), for weights in pairs
    w = np.array([1.0, 0.5, 0.2])
    c = [np.prod([a / (a - b) for b in w if b != a]) for a in w]
    x = chi_square_sum_quantile(np.repeat(w, 2), level)
    survival = sum(cj * np.exp(-x / (2.0 * a)) for cj, a in zip(c, w, strict=True))
    assert_allclose(survival, 1.0 - level, rtol=1e-6)


@pytest.mark.parametrize("decay", [2.0, 4.0])
@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_simulated_frequency(decay, level, rng):
    w = np.arange(1.0, 201.0) ** -decay
    x = chi_square_sum_quantile(w, level, constant=0.3)
    n = 40_000
    sums = 0.3 + rng.standard_normal((n, len(w))) ** 2 @ w
    z = (np.mean(sums <= x) - level) / np.sqrt(level * (1.0 - level) / n)
    assert abs(z) < 4.5


def test_many_small_weights_beside_a_large_one():
    # the small ones are nearly the constant that is their sum
    w = np.r_[1.0, np.full(5000, 1e-10)]
    assert_allclose(
        chi_square_sum_quantile(w, 0.95), chi2.ppf(0.95, 1) + 5e-7, rtol=1e-8
    )


def test_nothing_random():
    assert chi_square_sum_quantile(np.zeros(3), 0.9, constant=2.0) == 2.0
    assert chi_square_sum_quantile(np.empty(0), 0.9) == 0.0


def test_units():
    w = np.array([3.0, 1.0, 0.1])
    for scale in (1e-200, 1e200):
        quantile = chi_square_sum_quantile(scale * w, 0.9)
        assert_allclose(quantile / scale, chi_square_sum_quantile(w, 0.9), rtol=1e-12)
