"""Kernels taken apart: terms, lengthscales, noise, and the default kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx.kernels import (
    Columns,
    GREKernel,
    Linear,
    decaying_part,
    decays,
    default_kernel,
    expand,
    latent_kernel,
    length_scale_entries,
    length_scales,
    longest_length_scales,
    noise_variance,
    rescaled,
    split_noise,
    theta_entries,
    with_theta,
)

ARD = [0.6, 1.3, 2.0]
X = np.random.default_rng(0).normal(size=(6, 2))


@pytest.mark.parametrize(
    "kernel",
    [
        (2.0 * RBF() + DotProduct()) * (Matern() + 0.5) * 3.0,
        (RBF() + 0.5 * DotProduct()) ** 3,
        RBF() ** 1.0,
        Matern() ** 1.5 + 1.0,
    ],
    ids=str,
)
def test_terms_sum_to_the_kernel(kernel):
    total = 0.0
    for coefficient, factors in expand(kernel):
        total = total + coefficient * np.prod([k(X) for k in factors], axis=0)
    assert_allclose(total * np.ones((6, 6)), kernel(X), rtol=1e-12)


@pytest.mark.parametrize("kernel", [(RBF() + 1.0) ** 7, RBF() ** 40 * RBF() ** 40])
def test_endless_expansions_are_refused(kernel):
    with pytest.raises(ValueError, match="at most 64"):
        expand(kernel)


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * RBF(ARD[:2]),
        ConstantKernel(1.0, "fixed") * (RBF() * ConstantKernel(0.5)) + Linear(0.3),
        Columns(2.0 * RBF(), [0]) * Columns(Matern(), [1]) + ConstantKernel(2.0),
    ],
    ids=str,
)
def test_free_amplitudes_take_a_factor(kernel):
    before, one = kernel(X), rescaled(kernel, 1.7)
    assert_allclose(one(X), 1.7 * before)
    assert len(one.theta) == len(kernel.theta)
    assert_array_equal(kernel(X), before)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(),
        2.0 * RBF() + DotProduct(),
        2.0 * RBF() + Matern(),
        Linear(0.3, "fixed") + ConstantKernel(1.0),
        ConstantKernel(2.0, "fixed") * RBF(),
        (2.0 * RBF()) ** 2,
    ],
    ids=str,
)
def test_amplitudes_that_are_not_free_take_none(kernel):
    assert rescaled(kernel, 1.7) is None


def test_the_part_that_fades_with_the_distance():
    matern, season = Matern(1.0, nu=1.5), Columns(ExpSineSquared(), [0])
    across = Columns(RBF(2.0), [0]) * Columns(RBF(1.0), [1])
    for whole in (matern, 2.0 * matern + RBF(3.0), across):
        assert decaying_part(whole, 2) is whole
        assert decays(whole, 2)
    X = np.random.default_rng(0).normal(size=(9, 2))
    mixed = 0.5 * Columns(RBF(2.0), [0]) + 2.0 * matern * season + 3.0 * matern + across
    part = decaying_part(mixed, 2)
    assert_allclose(part(X), 3.0 * matern(X) + across(X))
    assert not decays(mixed, 2)
    assert decaying_part(Columns(RBF(2.0), [0]) + season, 2) is None
    # but for a trend
    trend = Columns(Linear(0.3), [1])
    assert decays(matern + trend, 2)
    assert not decays(trend, 2)


def test_parts_are_found_wherever_they_are():
    a, b, c = RBF(ARD), Matern(0.3), RBF(0.2)
    inside = GREKernel(ConstantKernel(2.0) * b**2, np.zeros((2, 3)))
    kernel = 2.0 * a * DotProduct() + inside + WhiteKernel() + c
    assert_array_equal(length_scales(CompoundKernel([c, a]), 3), np.full(3, 0.2))
    assert_array_equal(longest_length_scales(kernel, 3), ARD)
    assert_array_equal(longest_length_scales(b + c, 2), [0.3, 0.3])
    assert_array_equal(longest_length_scales(DotProduct(), 2), [0.0, 0.0])


def test_entries_of_theta():
    kernel = 2.0 * RBF(ARD) + RationalQuadratic(0.5, 0.7) + Matern(0.3, "fixed")
    entries = length_scale_entries(kernel)
    assert [kernel.theta[part].tolist() for part in entries] == [
        np.log(ARD).tolist(),
        [np.log(0.5)],
    ]
    names = dict(theta_entries(kernel))
    assert len(names) == 4
    covered = np.concatenate([np.arange(8)[part] for part in names.values()])
    assert_array_equal(covered, np.arange(len(kernel.theta)))
    assert length_scale_entries(DotProduct()) == []


NOISY = {
    "sum": RBF(0.7) + WhiteKernel(0.3),
    "two": WhiteKernel(0.2) + (RBF(0.7) + WhiteKernel(0.3)),
    "constant": 2.0 * (RBF(0.7) + WhiteKernel(0.3)) + DotProduct(),
    "product": (RBF(0.7) + WhiteKernel(0.3)) * (DotProduct(0.5) + WhiteKernel(0.2)),
    "one side": DotProduct(0.5) * (Matern() + WhiteKernel(0.2)),
    "power": (DotProduct(0.5) + WhiteKernel(0.3)) ** 2,
    "noise": WhiteKernel(0.3),
    "scaled noise": RBF(0.7) * WhiteKernel(0.3),
    "power of noise": Exponentiation(WhiteKernel(0.3), 2),
}


@pytest.mark.parametrize("kernel", NOISY.values(), ids=NOISY.keys())
def test_latent_part_and_noise_add_up(kernel):
    latent = latent_kernel(kernel)
    # two arguments are two places, even where they coincide
    assert_allclose(latent(X, X), kernel(X, X), rtol=1e-13, atol=1e-15)
    assert_allclose(latent(X), kernel(X, X), rtol=1e-13, atol=1e-15)
    noise = np.diag(noise_variance(kernel, X))
    assert_allclose(latent(X) + noise, kernel(X), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("kernel", [RBF(), 2.0 * RBF() + DotProduct() ** 2])
def test_without_noise_nothing_changes(kernel):
    assert latent_kernel(kernel) is kernel
    assert_array_equal(noise_variance(kernel, X), 0.0)


class TestDefaultKernel:
    def test_scales_follow_the_columns(self):
        X = np.random.default_rng(0).normal(size=(500, 4)) * [1e-12, 1.0, 1e12, 0.0]
        kernel = default_kernel(X + np.array([0.0, 5.0, 0.0, 3.0]))
        expected = np.append(4.0 * X[:, :3].std(axis=0), 4.0)
        assert_allclose(kernel.k2.length_scale, expected, rtol=1e-6)
        assert_allclose(
            kernel.k2.length_scale_bounds[:, 1] / kernel.k2.length_scale_bounds[:, 0],
            1e5,
        )
        assert np.all(np.isfinite(kernel.bounds))
        inside = (kernel.bounds[:, 0] < kernel.theta) & (
            kernel.theta < kernel.bounds[:, 1]
        )
        assert np.all(inside)

    def test_weights_are_repetitions(self):
        X = np.random.default_rng(0).normal(size=(20, 2))
        counts = np.arange(20) % 3
        repeated = default_kernel(np.repeat(X, counts, axis=0), None)
        weighted = default_kernel(X, counts.astype(float))
        assert_allclose(weighted.theta, repeated.theta, rtol=1e-12)

    def test_one_column_and_one_row(self):
        kernel = default_kernel(np.array([[3.0]]), None)
        assert kernel.k2.length_scale == 2.0
        assert kernel.bounds.shape == (2, 2)


class TestSplitNoise:
    def test_top_level(self):
        kernel = RBF(0.3) + WhiteKernel(0.2, (1e-3, 1.0)) + DotProduct()
        rest, level, bounds = split_noise(kernel)
        assert rest == RBF(0.3) + DotProduct()
        assert (level, bounds) == (0.2, (1e-3, 1.0))
        assert split_noise(WhiteKernel(0.2, "fixed") + RBF())[2] == "fixed"

    def test_without_noise(self):
        kernel = RBF(0.3) * 2.0
        assert split_noise(kernel) == (kernel, None, None)

    @pytest.mark.parametrize(
        ("kernel", "message"),
        [
            (2.0 * (RBF() + WhiteKernel(0.5)), r"inside .*WhiteKernel\(noise_level"),
            ((RBF() + WhiteKernel()) ** 2, "inside"),
            (GREKernel(RBF() + WhiteKernel(), np.zeros((1, 1))), "inside"),
            (RBF() + WhiteKernel() + WhiteKernel(), "at most one WhiteKernel; got 2"),
            (WhiteKernel(), "only noise"),
        ],
    )
    def test_elsewhere(self, kernel, message):
        with pytest.raises(ValueError, match=message):
            split_noise(kernel)


@pytest.mark.parametrize("weights", [None, np.arange(300) % 3 + 1.0])
@pytest.mark.parametrize("n", [300, 50_000])
def test_entries_far_outside_do_not_set_the_scale(n, weights):
    X = np.random.default_rng(0).normal(size=(n, 2))
    counts = None if weights is None else np.resize(weights, n)
    scale = default_kernel(X, counts).k2.length_scale
    assert_allclose(
        scale,
        2.0 * np.sqrt(2.0 * np.average(X**2, axis=0, weights=counts)),
        rtol=0.01,
    )
    X[::100, 0] *= 1e6
    found = default_kernel(X, counts).k2.length_scale
    assert found[1] == scale[1]
    assert scale[0] <= found[0] < 3.0 * scale[0]


# ---- Other hyperparameters -----------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(2.0),
        ConstantKernel(2.0, "fixed") * Matern(ARD, nu=0.5) + WhiteKernel(0.1),
        RBF(ARD, "fixed") * RationalQuadratic(0.3, 2.0) + Linear(ARD, centre=ARD),
        2.0 * RBF(9.0) * ExpSineSquared(0.5, 3.0) + 0.1 * DotProduct(0.2),
        Columns(RBF(0.3), [0]) * Columns(Linear(2.0), [1]) + Matern(0.4) ** 2.0,
        ConstantKernel(2.0, "fixed"),
    ],
    ids=str,
)
def test_kernels_with_other_hyperparameters_are_clones(kernel):
    before = str(kernel.get_params())
    theta = kernel.theta + np.linspace(0.1, 0.7, len(kernel.theta))
    other, expected = with_theta(kernel, theta), kernel.clone_with_theta(theta)
    assert_array_equal(other.theta, expected.theta)
    assert str(other.get_params()) == str(expected.get_params())
    assert str(kernel.get_params()) == before
    with pytest.raises(ValueError, match="entries; got"):
        with_theta(kernel, np.append(theta, 0.0))
