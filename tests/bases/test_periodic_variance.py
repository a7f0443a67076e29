"""Variances of periodic kernels against brute force, from short to long lengths."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx.bases import Box, KernelEigenvalues
from skgpx.bases._eigenvalues import eigenvalues_and_variance
from skgpx.kernels import register_kernel, rule_of

DENSITY = rule_of(RBF(), "spectral_density")
PERIODS = np.array([1.0, 1.3, 0.8])
RATIOS = 10.0 ** np.arange(-3.0, 3.5, 0.5)


def total(kernel, d, periods=PERIODS):
    box = Box(np.zeros(d), periods[:d])
    values, gradients = eigenvalues_and_variance(kernel, np.zeros((0, d)), box)
    return values[-1], gradients[-1]


def lattice(reach, d):
    axes = np.meshgrid(*[np.arange(-reach, reach + 1)] * d, indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, d)


def images(kernel, d, reach):
    steps = lattice(reach, d) * PERIODS[:d]
    return kernel(np.zeros((1, d)), steps).sum()


def waves(kernel, d, reach):
    omega = 2 * np.pi * lattice(reach, d) / PERIODS[:d]
    return DENSITY(kernel, omega)[0].sum() / np.prod(PERIODS[:d])


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("ratio", RATIOS)
def test_rbf(d, ratio):
    expected = images(RBF(ratio), d, 5) if ratio < 0.4 else waves(RBF(ratio), d, 5)
    assert total(RBF(ratio), d)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 0.9, 7.0])
@pytest.mark.parametrize("ratio", RATIOS)
def test_matern_of_one_input(nu, ratio):
    kernel = Matern(ratio, nu=nu)
    if ratio < 30.0:
        expected = images(kernel, 1, 2000)
    else:
        expected = waves(kernel, 1, 100_000)
    assert total(kernel, 1)[0] == pytest.approx(expected, rel=1e-8)
    if nu == 0.5:
        # Σ exp(-|n|/ℓ)
        closed = 1.0 / np.tanh(0.5 / ratio)
        assert total(kernel, 1)[0] == pytest.approx(closed, rel=1e-13)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("ratio", [1e-3, 0.01, 0.1, 0.3, 1.0, 50.0, 1e3])
@pytest.mark.parametrize("d", [2, 3])
def test_matern_of_more(nu, ratio, d):
    kernel = Matern(ratio, nu=nu)
    if ratio <= 1.0:
        expected = images(kernel, d, 30 if ratio == 1.0 else 10)
    else:
        expected = waves(kernel, d, {2: 200, 3: 30}[d])
    assert total(kernel, d)[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("ratio", [1e-3, 0.1, 0.3, 1.0, 3.0, 100.0, 1e3])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", ["rbf", "matern", "long and short"])
def test_gradients_by_differences(kind, d, ratio):
    scales = ratio * np.array([1.0, 1.5, 0.7])[:d]
    if kind == "rbf":
        kernel = RBF(scales, (1e-9, 1e9))
    elif kind == "matern":
        kernel = Matern(scales, (1e-9, 1e9), nu=1.5)
    else:
        scales[0] = 1.0 / ratio
        kernel = 2.0 * Matern(scales, (1e-9, 1e9), nu=0.5)
    value, gradient = total(kernel, d)
    for j, step in enumerate(1e-5 * np.eye(len(kernel.theta))):
        up, down = (
            total(kernel.clone_with_theta(kernel.theta + s), d)[0]
            for s in (step, -step)
        )
        assert gradient[j] == pytest.approx((up - down) / 2e-5, abs=3e-9 * value)


@pytest.mark.parametrize("nu", [0.5, 1.5, np.inf])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_listed_eigenvalues_never_exceed_the_total(nu, ratio, d):
    rule = KernelEigenvalues(Matern(ratio, nu=nu))
    box = Box(np.zeros(d), PERIODS[:d])
    spectrum = rule.spectrum(rule.index(box, 501), box)
    listed = spectrum.eigenvalues.sum()
    value = total(rule.kernel, d)[0]
    assert listed <= value * (1.0 + 1e-13)
    assert spectrum.tail == pytest.approx(value - listed, abs=2e-14 * value)


class Private(Matern):
    """A kernel that the package does not know."""


register_kernel(Private, spectral_density=DENSITY)


@pytest.mark.parametrize("ratio", [1e-2, 0.1, 0.3, 3.0, 30.0])
@pytest.mark.parametrize(
    ("d", "nu", "accuracy"), [(1, 0.5, 1e-3), (1, 1.5, 1e-7), (2, 2.5, 1e-6),
                              (3, 1.5, 1e-3)],
)  # fmt: skip
def test_registered_densities(d, nu, ratio, accuracy):
    value, gradient = total(Private(ratio, (1e-9, 1e9), nu=nu), d)
    exact, slope = total(Matern(ratio, (1e-9, 1e9), nu=nu), d)
    assert value == pytest.approx(exact, rel=accuracy)
    assert gradient == pytest.approx(slope, abs=10 * accuracy * exact)
