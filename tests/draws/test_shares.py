"""Parts of a sum share the frequencies by the variance that data leave them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
)

from skgpx._draws._frequency_choice import (
    Conditioning,
    divided,
    leave_one_out,
    prior_shares,
    remaining_shares,
)
from skgpx._draws._prior_parts import decompose

X = np.random.default_rng(0).random((200, 1))


def shares_of(kernel, noise=1e-3, points=X):
    parts, rng = decompose(kernel, points.shape[1]), np.random.default_rng(1)
    folds = leave_one_out(kernel, Conditioning(points, noise), rng)
    return remaining_shares(parts, folds, rng)


def test_the_part_that_data_leave_gets_half():
    kernel = RBF(0.5) + 0.01 * Matern(0.02, nu=0.5)
    assert_allclose(prior_shares(decompose(kernel, 1), X), [1 / 1.01, 0.01 / 1.01])
    assert 0.45 < shares_of(kernel)[1] < 0.55
    # without information the remaining variance is the prior's
    prior = prior_shares(decompose(kernel, 1), X)
    assert_allclose(shares_of(kernel, noise=1e8), 1 / 8 + 0.75 * prior, rtol=0.01)


def test_equal_parts_get_equal_shares():
    shares = shares_of(Matern(0.3, nu=1.5) + Matern(0.3, nu=1.5))
    assert_allclose(shares, 0.5, atol=0.02)


def test_no_part_starves():
    kernel = RBF(0.5) + 1e-9 * RBF(0.2) + Matern(0.1, nu=0.5) + DotProduct()
    shares = shares_of(kernel)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[3] == 0.0
    assert min(shares[:3]) >= 0.25 / 3


@pytest.mark.parametrize(
    "kernel", [RBF(), RBF() + ConstantKernel(), RBF() + ExpSineSquared(0.8, 1.3)]
)
def test_a_single_random_part_needs_no_sharing(kernel):
    assert_allclose(shares_of(kernel)[0], 1.0)
    assert divided(shares_of(kernel), 100)[0] == 100


@pytest.mark.parametrize("share", [0.007, 0.008, 0.009])
def test_a_few_frequencies_at_least(share):
    counts = divided(np.array([1.0 - share, share]), 1000)
    assert counts == [round(1000 * (1.0 - share)), max(8, round(1000 * share))]
    assert divided(np.array([1.0 - share, share]), 4) == [4, 4]
