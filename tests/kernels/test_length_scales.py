"""Lengthscales found in composite kernels, and in their theta."""

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx.kernels import (
    GREKernel,
    length_scale_entries,
    length_scales,
    longest_length_scales,
    theta_entries,
)
from skgpx.kernels._terms import scaled_parts

ARD = [0.6, 1.3, 2.0]


def test_length_scales():
    np.testing.assert_array_equal(length_scales(2.0 * RBF(ARD), 3), ARD)
    np.testing.assert_array_equal(length_scales(Matern(0.3) + RBF(), 2), [0.3, 0.3])
    np.testing.assert_array_equal(length_scales(DotProduct(), 2), [1.0, 1.0])
    gre = GREKernel(RBF(ARD), np.zeros((2, 3)))
    np.testing.assert_array_equal(length_scales(gre, 3), ARD)


def test_parts_are_found_wherever_they_are():
    a, b, c = RBF(ARD), Matern(0.3), RBF(0.2)
    inside = GREKernel(ConstantKernel(2.0) * b**2, np.zeros((2, 3)))
    kernel = 2.0 * a * DotProduct() + inside + WhiteKernel() + c
    assert [part is k for part, k in zip(scaled_parts(kernel), (a, b, c), strict=True)]
    assert list(scaled_parts(CompoundKernel([a, c]))) == [a, c]
    np.testing.assert_array_equal(longest_length_scales(kernel, 3), ARD)
    np.testing.assert_array_equal(longest_length_scales(b + c, 2), [0.3, 0.3])
    np.testing.assert_array_equal(longest_length_scales(DotProduct(), 2), [0.0, 0.0])


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
    np.testing.assert_array_equal(covered, np.arange(len(kernel.theta)))
    assert length_scale_entries(DotProduct()) == []
