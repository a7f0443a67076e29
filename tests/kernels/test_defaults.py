"""Default kernels and the noise split."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel

from skgpx.kernels import GREKernel, default_kernel, split_noise


class TestDefaultKernel:
    def test_scales_follow_the_columns(self):
        X = np.random.default_rng(0).normal(size=(500, 4)) * [1e-12, 1.0, 1e12, 0.0]
        kernel = default_kernel(X + np.array([0.0, 5.0, 0.0, 3.0]))
        expected = np.append(4.0 * X[:, :3].std(axis=0), 4.0)
        np.testing.assert_allclose(kernel.k2.length_scale, expected, rtol=1e-6)
        np.testing.assert_allclose(
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
        np.testing.assert_allclose(weighted.theta, repeated.theta, rtol=1e-12)

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
    np.testing.assert_allclose(
        scale,
        2.0 * np.sqrt(2.0 * np.average(X**2, axis=0, weights=counts)),
        rtol=0.01,
    )
    X[::100, 0] *= 1e6
    found = default_kernel(X, counts).k2.length_scale
    assert found[1] == scale[1]
    assert scale[0] <= found[0] < 3.0 * scale[0]
