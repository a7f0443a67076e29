"""Spectral densities and scores: normalised, smooth, and those of the samples."""

import numpy as np
import pytest
from scipy.integrate import quad
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx.kernels import (
    log_spectral_density,
    register_kernel,
    sample_frequencies,
    spectral_score,
)

KERNELS = {
    "rbf": lambda ls: RBF(ls),
    "matern-.5": lambda ls: Matern(ls, nu=0.5),
    "matern-.8": lambda ls: Matern(ls, nu=0.8),
    "matern-2.5": lambda ls: Matern(ls, nu=2.5),
    "matern-200": lambda ls: Matern(ls, nu=200.0),
    "matern-inf": lambda ls: Matern(ls, nu=np.inf),
    "scaled": lambda ls: ConstantKernel(3.0) * RBF(ls),
    "rbfs": lambda ls: RBF(ls) ** 2 * RBF(1.3),
    "sum": lambda ls: 2.0 * RBF(ls) + Matern(0.3, nu=1.5) * 0.5,
}
ISOTROPIC = {
    "rational-.3": RationalQuadratic(0.8, 0.3),
    "rational-.5": RationalQuadratic(0.8, 0.5),
    "rational-1": RationalQuadratic(0.8, 1.0),
    "rational-2.7": RationalQuadratic(0.8, 2.7),
    "rational-99.9": RationalQuadratic(0.8, 99.9),
    "rational-101": RationalQuadratic(0.8, 101.0),
    "rational-1e4": RationalQuadratic(0.8, 1e4),
    "rational-sum": RationalQuadratic(0.8, 1.5) + 0.1 * RBF(3.0),
}
CASES = [
    pytest.param(make(0.7), d, id=f"{name}-{d}")
    for name, make in KERNELS.items()
    for d in (1, 2, 5)
]
CASES += [
    pytest.param(make([0.7, 1.6, 0.4]), 3, id=f"{name}-ard")
    for name, make in KERNELS.items()
]
CASES += [
    pytest.param(kernel, d, id=f"{name}-{d}")
    for name, kernel in ISOTROPIC.items()
    for d in (1, 2, 5)
]
# those without a singularity at zero, in one and in two dimensions
SMOOTH = KERNELS | {"rational-2.7": lambda ls: RationalQuadratic(ls, 2.7)}


@pytest.mark.parametrize(("kernel", "d"), CASES)
def test_score_is_the_slope_of_the_density(kernel, d):
    rng = np.random.default_rng(0)
    omega = rng.normal(size=(40, d)) * np.geomspace(0.03, 30.0, 40)[:, np.newaxis]
    score = spectral_score(kernel, omega)
    assert score.shape == (40, d)
    for k, direction in enumerate(np.eye(d)):
        h = 1e-5 * (1e-2 + np.abs(omega[:, [k]]))
        up, down = (
            log_spectral_density(kernel, omega + s * h * direction) for s in (1, -1)
        )
        slope = (up - down) / (2.0 * h[:, 0])
        # rounding of logarithms of size v log v
        size = np.abs(up) + 3e3 * (kernel == ISOTROPIC["rational-1e4"])
        noise = 1e-15 * (1.0 + size) / h[:, 0]
        error = np.abs(score[:, k] - slope)
        assert np.all(error < 1e-6 * (1.0 + np.abs(slope)) + 10.0 * noise)


@pytest.mark.parametrize("kernel", [make(0.7) for make in SMOOTH.values()], ids=SMOOTH)
class TestNormalisation:
    def density(self, kernel, *omega):
        return np.exp(log_spectral_density(kernel, np.array([omega]))[0])

    def test_on_the_line(self, kernel):
        half = quad(lambda w: self.density(kernel, w), 0.0, np.inf, epsabs=1e-10)[0]
        assert 2.0 * half == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("name", sorted(SMOOTH.keys() - {"sum"}))
def test_samples_have_the_density(name, d):
    kernel = SMOOTH[name](0.7)
    n = 20_000
    sample = sample_frequencies(kernel, n, d, np.random.default_rng(0), method="mc")
    radius = np.linalg.norm(sample.frequencies, axis=1)
    surface = (lambda r: 2.0) if d == 1 else (lambda r: 2.0 * np.pi * r)

    def shell(r):
        omega = np.zeros((1, d))
        omega[0, 0] = r
        return surface(r) * np.exp(log_spectral_density(kernel, omega)[0])

    for limit in np.quantile(radius, [0.1, 0.5, 0.9, 0.99]):
        expected = quad(shell, 0.0, limit)[0]
        error = np.sqrt(expected * (1.0 - expected) / n)
        assert abs(np.mean(radius < limit) - expected) < 4.5 * error


def test_a_rational_quadratic_of_large_alpha_is_an_rbf():
    omega = np.random.default_rng(0).normal(size=(20, 3))
    found = log_spectral_density(RationalQuadratic(0.7, 1e5), omega)
    np.testing.assert_allclose(
        found, log_spectral_density(RBF(0.7), omega), atol=20.0 / 1e5
    )


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (ExpSineSquared(), "ExpSineSquared.*spectral_density="),
        (RBF() + DotProduct(), "DotProduct.*spectral_density="),
        (RBF() + WhiteKernel(), "WhiteKernel"),
        (RBF() + ConstantKernel(2.0), "frequency zero"),
        (RBF() * Matern(), "convolution"),
        (Matern() ** 2, "convolution"),
    ],
    ids=str,
)
def test_what_has_no_density_is_named(kernel, named):
    with pytest.raises(ValueError, match=named):
        log_spectral_density(kernel, np.ones((2, 1)))


def test_a_users_kernel():
    class Bell(RBF):
        """An RBF of variance three."""

        def diag(self, X):
            return np.full(len(X), 3.0)

    def density(kernel, omega):
        S = 3.0 * np.sqrt(2.0 * np.pi) * np.exp(-0.5 * omega[:, 0] ** 2)
        return S, np.empty((len(S), 0))

    omega = np.linspace(-2.0, 2.0, 5)[:, np.newaxis]
    register_kernel(Bell, spectral_density=density)
    found = log_spectral_density(Bell(), omega)
    np.testing.assert_allclose(found, log_spectral_density(RBF(), omega))
    with pytest.raises(ValueError, match=r"register_kernel\(Bell, spectral_score"):
        spectral_score(Bell(), omega)
    register_kernel(Bell, spectral_score=lambda kernel, omega: -omega)
    mixed = spectral_score(Bell() + RBF(0.5), omega)
    expected = spectral_score(3.0 * RBF() + RBF(0.5), omega)
    np.testing.assert_allclose(mixed, expected)
