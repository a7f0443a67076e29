"""Samples of spectral densities: right on average, even, bounded and by exact type."""

import numpy as np
import pytest
from scipy.stats import f, kstest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx.bases import sample_frequencies
from skgpx.kernels import register_kernel
from skgpx.kernels._spectral_distributions import (
    EllipticalDistribution,
    GammaMixtureRadius,
    GaussianRadius,
    StudentRadius,
)

SHAPES = {
    "rbf": lambda ls: RBF(ls),
    "matern-.5": lambda ls: Matern(ls, nu=0.5),
    "matern-.8": lambda ls: Matern(ls, nu=0.8),
    "matern-2.5": lambda ls: Matern(ls, nu=2.5),
    "matern-3.5": lambda ls: Matern(ls, nu=3.5),
    "matern-inf": lambda ls: Matern(ls, nu=np.inf),
    "product": lambda ls: RBF(ls) * Matern(1.5, nu=1.5),
    "rbfs": lambda ls: 2.0 * RBF(ls) * RBF(0.9),
    "power": lambda ls: Matern(ls, nu=1.5) ** 2,
    "power-rbf": lambda ls: (0.5 * RBF(ls)) ** 3,
    "rational-product": lambda ls: RationalQuadratic(1.3, 0.8) * RBF(ls),
}
ISOTROPIC = {
    "rational-.3": RationalQuadratic(0.8, 0.3),
    "rational-2": RationalQuadratic(0.8, 2.0),
    "rational-1e4": RationalQuadratic(0.8, 1e4),
}
PERIODIC = {
    "periodic-rbf": ExpSineSquared(0.8, 1.3) * RBF(2.0),
    "periodic-twice": ExpSineSquared(0.8, 1.3) * ExpSineSquared(0.5, 0.7),
    "periodic-power": ExpSineSquared(0.8, 1.3) ** 2,
}
CASES = [
    pytest.param(make(0.7), d, id=f"{name}-{d}")
    for name, make in SHAPES.items()
    for d in ((1, 2, 3, 5) if name in ("rbf", "matern-.8") else (1, 3))
]
CASES += [
    pytest.param(make([0.7, 1.6, 0.4]), 3, id=f"{name}-ard")
    for name, make in SHAPES.items()
]
CASES += [
    pytest.param(kernel, d, id=f"{name}-{d}")
    for name, kernel in ISOTROPIC.items()
    for d in (1, 3)
]
CASES += [pytest.param(kernel, 1, id=name) for name, kernel in PERIODIC.items()]


def correlations(sample, X):
    """``Σ a² cos(ω·(x - x₀))`` for the rows of X."""
    return np.cos((X - X[0]) @ sample.frequencies.T) @ sample.amplitudes**2


def exact_correlations(kernel, X):
    return kernel(X, X[:1])[:, 0] / kernel(X[:1], X[:1])[0, 0]


@pytest.mark.parametrize(("kernel", "d"), CASES)
@pytest.mark.parametrize(
    "how",
    [
        ("qmc", 1.0),
        ("qmc", 3.0),
        ("mc", 1.0),
        ("mc", 2.0),
        ("halton", 1.0),
        ("orthogonal", 1.0),
    ],
)
def test_they_reproduce_the_kernel(kernel, d, how):
    features, power = how
    X = np.random.default_rng(1).normal(size=(15, d))
    rng = np.random.default_rng(0)
    samples = [
        sample_frequencies(kernel, 256, d, rng, features, power) for _ in range(60)
    ]
    runs = np.array([correlations(sample, X) for sample in samples])
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    # weights divided by their sum: a bias of the order of one over the number
    bias = 0.0 if power == 1.0 else power**2 / 256
    difference = np.abs(runs.mean(axis=0) - exact_correlations(kernel, X))
    assert np.all(difference < 4.5 * error + bias + 1e-12)


@pytest.mark.parametrize("power", [1.5, 3.0, 7.0])
def test_importance_weights_are_bounded_and_of_mean_one(power):
    # over the net, κ v^(κ - 1) sums to nearly n: normalising changes next to nothing
    sample = sample_frequencies(
        RBF(), 1024, 2, np.random.default_rng(0), tail_power=power
    )
    weights = 1024 * sample.amplitudes**2
    assert np.max(weights) < power * (1.0 + power / 1024)
    assert np.max(weights) > 0.98 * power
    # many more of the highest frequencies, which count less
    radius = np.linalg.norm(sample.frequencies, axis=1)
    plain = sample_frequencies(RBF(), 1024, 2, np.random.default_rng(0))
    top = np.quantile(np.linalg.norm(plain.frequencies, axis=1), 0.9)
    expected = 1024 * 0.1 ** (1.0 / power)
    assert abs(np.sum(radius > top) - expected) < 4.5 * np.sqrt(expected)
    assert np.all(np.diff(weights[np.argsort(radius)]) <= 1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("radius", "mixing"),
    [
        (GaussianRadius(), lambda rng: np.ones(20_000)),
        (StudentRadius(0.8), lambda rng: 0.8 / rng.gamma(0.8, size=20_000)),
        (GammaMixtureRadius(0.1), lambda rng: rng.gamma(0.1, size=20_000) / 0.1),
        (GammaMixtureRadius(1.7), lambda rng: rng.gamma(1.7, size=20_000) / 1.7),
        (GammaMixtureRadius(5e3), lambda rng: rng.gamma(5e3, size=20_000) / 5e3),
    ],
    ids=["normal", "student", "mixture-.1", "mixture-1.7", "mixture-5e3"],
)
def test_quantiles_of_the_radius(radius, mixing, d):
    rng = np.random.default_rng(2)
    r = np.sqrt(rng.chisquare(d, 20_000) * mixing(rng))
    uniform = rng.random(20_000)
    # the probability integral transform, by a two-sample comparison of logs
    drawn = np.log(np.maximum(radius(uniform, d), 1e-100))
    assert kstest(drawn, np.log(np.maximum(r, 1e-100))).pvalue > 1e-5
    tails = np.geomspace(1e-80, 1.0 - 1e-9, 200)
    assert np.all(np.diff(radius(tails, d)) <= 0.0)
    assert np.all(np.isfinite(radius(tails, d)))


@pytest.mark.parametrize("length_scale", [0.05, 0.3, 1.0, 3.0, 50.0])
def test_a_periodic_kernel_is_a_finite_series(length_scale):
    kernel = ExpSineSquared(length_scale, 1.7)
    X = np.linspace(-4.0, 5.0, 100)[:, np.newaxis]
    for scaled in (kernel, 3.0 * kernel):
        sample = sample_frequencies(scaled, 4, 1, np.random.default_rng(0))
        np.testing.assert_allclose(
            correlations(sample, X), exact_correlations(kernel, X), atol=1e-11
        )


class Odd(Matern):
    """A subclass, which must not inherit the density of its parent."""


@pytest.mark.parametrize(
    ("kernel", "d", "named"),
    [
        (Odd(), 2, "Odd"),
        (RBF() * Odd(), 2, "Odd"),
        (PairwiseKernel(), 2, "PairwiseKernel"),
        (RBF() * WhiteKernel(), 2, "WhiteKernel"),
        (RBF() * PairwiseKernel(gamma=0.7), 1, "PairwiseKernel.gamma=0.7"),
        (RBF() ** 1.5, 1, r"RBF\(length_scale=1\) \*\* 1.5"),
        (ExpSineSquared(), 2, "ExpSineSquared.* 2 input columns"),
        (RBF() * DotProduct(), 1, "DotProduct"),
    ],
    ids=str,
)
def test_a_kernel_without_density_is_named(kernel, d, named):
    with pytest.raises(ValueError, match=named) as caught:
        sample_frequencies(kernel, 4, d, np.random.default_rng(0))
    assert "spectral_sampler=" in str(caught.value)
    assert 'prior="exact"' in str(caught.value)


def test_sums_are_refused():
    with pytest.raises(ValueError, match="2 terms one by one"):
        sample_frequencies(RBF() + Matern(), 4, 2, np.random.default_rng(0))


def test_constants_have_frequency_zero():
    sample = sample_frequencies(ConstantKernel(3.0), 4, 2, np.random.default_rng(0))
    np.testing.assert_array_equal(sample.frequencies, np.zeros((4, 2)))


class TestRegistration:
    class Waves(RBF):
        """``cos(3 (x - y))``."""

        def __call__(self, X, Y=None, eval_gradient=False):
            return np.cos(
                3.0 * np.subtract.outer(X[:, 0], (X if Y is None else Y)[:, 0])
            )

    def test_alone_and_in_a_product(self):
        register_kernel(
            self.Waves, spectral_sampler=lambda kernel, n, d, rng: np.full((n, d), 3.0)
        )
        X = np.random.default_rng(1).normal(size=(15, 1))
        for kernel in (self.Waves(), 2.0 * self.Waves() * RBF(0.7)):
            sample = sample_frequencies(kernel, 1024, 1, np.random.default_rng(0))
            error = correlations(sample, X) - exact_correlations(kernel, X)
            # a cosine has a variance of at most one
            assert np.max(np.abs(error)) < 4.5 / np.sqrt(1024)

    @pytest.mark.parametrize("answer", [np.ones((3, 2)), np.full((4, 2), np.nan)])
    def test_what_it_returns_is_checked(self, answer):
        class Broken(RBF):
            pass

        register_kernel(Broken, spectral_sampler=lambda kernel, n, d, rng: answer)
        with pytest.raises(ValueError, match=r"Broken must return finite .*\(4, 2\)"):
            sample_frequencies(Broken(), 4, 2, np.random.default_rng(0))


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_orthogonal_directions(d):
    sample = sample_frequencies(
        Matern(0.5), 2 * d + 1, d, np.random.default_rng(0), "orthogonal"
    )
    for block in (sample.frequencies[:d], sample.frequencies[d : 2 * d]):
        gram = block @ block.T
        norms = np.sqrt(np.diagonal(gram))
        np.testing.assert_allclose(gram / np.outer(norms, norms), np.eye(d), atol=1e-12)


class TestMapsOfEllipticalDistributions:
    LAW = EllipticalDistribution(StudentRadius(1.5), np.array([0.5, 2.0, 1.0]), 3)

    def test_normal_points_have_the_distribution(self):
        z = np.random.default_rng(0).normal(size=(4000, 3))
        scaled = self.LAW.from_normal(z) * self.LAW.length_scale
        square = np.sum(scaled**2, axis=1) / 3.0
        # the squared radius of a t distribution with 2ν degrees of freedom is F(d, 2ν)
        assert kstest(square, f(3, 3.0).cdf).pvalue > 1e-3
        np.testing.assert_allclose(
            scaled / np.linalg.norm(scaled, axis=1, keepdims=True),
            z / np.linalg.norm(z, axis=1, keepdims=True),
        )
        np.testing.assert_array_equal(
            self.LAW.from_normal(-z), -self.LAW.from_normal(z)
        )

    def test_even_radii_are_quantiles_in_order(self):
        omega = np.random.default_rng(0).normal(size=(9, 3))
        found = self.LAW.with_even_radii(omega) * self.LAW.length_scale
        before = np.linalg.norm(omega * self.LAW.length_scale, axis=1)
        after = np.linalg.norm(found, axis=1)
        np.testing.assert_array_equal(np.argsort(before), np.argsort(after))
        tail = f(3, 3.0).sf(np.sort(after)[::-1] ** 2 / 3.0)
        np.testing.assert_allclose(tail, (np.arange(9) + 0.5) / 9.0, rtol=1e-6)
