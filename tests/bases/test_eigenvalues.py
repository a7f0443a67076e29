import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
)

from skgpx.bases import (
    BoostedEigenvalues,
    Box,
    ExponentialEigenvalues,
    FourierSeries,
    GivenEigenvalues,
    KernelEigenvalues,
    OrderedEigenvalues,
    PolynomialEigenvalues,
    has_spectrum,
)
from skgpx.bases._eigenvalues import eigenvalues_and_variance
from skgpx.kernels import register_kernel, rule_of

LINE = Box(np.array([-1.0]), np.array([3.0]))
PLANE = Box(np.zeros(2), np.array([3.0, 5.0]))
SPACE = Box(np.zeros(3), np.array([3.0, 5.0, 4.0]))

RULES = [
    (PolynomialEigenvalues(2.0, 1.5), LINE),
    (PolynomialEigenvalues(2.0, 1.5), PLANE),
    (PolynomialEigenvalues(2.0, 1.5, paired=False), LINE),
    (ExponentialEigenvalues(0.1, 2.0), LINE),
    (ExponentialEigenvalues(0.1, 2.0, paired=False), LINE),
    (ExponentialEigenvalues(1.0, 2.0), PLANE),
    (OrderedEigenvalues(PolynomialEigenvalues(2.0, 1.5), (0, 79, 80, 5, 6)), LINE),
    (OrderedEigenvalues(GivenEigenvalues((3.0, 2.0, 1.0) * 9), (80, 3)), LINE),
    (GivenEigenvalues(tuple(0.9 ** np.arange(60)), 3.0), LINE),
    (KernelEigenvalues(2.0 * RBF(0.3) + ConstantKernel(0.4)), LINE),
    (KernelEigenvalues(RBF([0.3, 0.8]) * 2.0), PLANE),
    (KernelEigenvalues(2.0 * Matern([0.3, 0.8], nu=1.5)), PLANE),
    (KernelEigenvalues(Matern(0.4, nu=0.5)), LINE),
    (KernelEigenvalues(Matern(0.4, nu=np.inf) + Matern(0.2, nu=2.5)), LINE),
    (KernelEigenvalues(Matern([0.9, 0.8, 0.7], nu=2.5)), SPACE),
    (KernelEigenvalues(ConstantKernel(2.0, "fixed") * RBF(0.3, "fixed")), LINE),
]
rules = pytest.mark.parametrize(("rule", "box"), RULES, ids=lambda v: str(v)[:60])


@pytest.mark.parametrize("value", [0.0, -0.5, np.nan, np.inf, "a"])
def test_eigenvalues_without_a_finite_sum_are_refused(value):
    with pytest.raises(ValueError, match=r"rate must be a positive.*got"):
        ExponentialEigenvalues(value)
    with pytest.raises(ValueError, match=r"regularity must be a positive.*got"):
        PolynomialEigenvalues(regularity=value)


def test_places_of_an_order_are_whole_numbers():
    rule = OrderedEigenvalues(PolynomialEigenvalues(), (0, 5.5, 6))
    with pytest.raises(ValueError, match="whole numbers"):
        rule.index(Box(np.zeros(1), np.ones(1)), 5)


@rules
@pytest.mark.parametrize("size", [30, 31])
def test_listed_eigenvalues_and_tail_are_the_same_total(rule, box, size):
    few = rule.spectrum(rule.index(box, size), box)
    many = rule.spectrum(rule.index(box, 55), box)
    size = len(few.eigenvalues)
    between = np.sum(many.eigenvalues[size:])
    total = np.sum(many.eigenvalues) + many.tail
    assert abs(few.tail - many.tail - between) < 1e-12 * total


@rules
@pytest.mark.parametrize("size", [30, 31])
def test_slopes_by_differences(rule, box, size):
    assert np.allclose(rule.with_theta(rule.theta).theta, rule.theta, rtol=1e-14)
    index = rule.index(box, size)
    found = rule.spectrum(index, box)
    p = len(rule.theta)
    assert found.slopes.shape == (len(index), p)
    assert found.tail_slopes.shape == (p,)
    for j, step in enumerate(1e-5 * np.eye(p)):
        up, down = (
            rule.with_theta(rule.theta + s).spectrum(index, box) for s in (step, -step)
        )
        logs = np.log(up.eigenvalues / down.eigenvalues) / 2e-5
        assert np.allclose(found.slopes[:, j], logs, rtol=1e-6, atol=1e-6)
        slope = (up.tail - down.tail) / 2e-5
        total = found.tail + found.eigenvalues.sum()
        assert abs(found.tail_slopes[j] - slope) < 1e-7 * total


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.6),
        Matern(0.5, nu=1.5),
        Matern(0.4, nu=2.5),
    ],
    ids=str,
)
def test_covariance_is_the_sum_over_images(kernel, d):
    box = Box(np.zeros(d), np.array([4.0, 5.0, 4.5])[:d])
    rule = KernelEigenvalues(kernel)
    size = {1: 20001, 2: 20001, 3: 4001}[d]
    index = rule.index(box, size)
    spectrum = rule.spectrum(index, box)
    assert np.all(np.diff(spectrum.eigenvalues) <= 1e-15)
    cosines = ~index.sine
    X = np.random.default_rng(0).random((5, d))
    phase = 2 * np.pi * box.turns(X) @ index.waves[cosines].T
    twice = np.where(index.waves[cosines].any(axis=1), 2.0, 1.0)
    found = np.cos(phase) @ (twice * spectrum.eigenvalues[cosines])
    axes = [np.arange(-3, 4)] * d
    images = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    expected = sum(kernel(X, (i * box.period)[np.newaxis])[:, 0] for i in images)
    # what is not listed: |Σ λ cos| <= tail
    assert np.abs(found - expected).max() < 1e-10 + spectrum.tail


def test_index_of_a_kernel_has_the_largest_eigenvalues():
    rule = KernelEigenvalues(RBF([0.2, 2.0]) + 0.1 * Matern([3.0, 0.1], nu=0.5))
    index = rule.index(PLANE, 301)
    assert len(index) == 301
    least = rule.spectrum(index, PLANE).eigenvalues[-1]
    wide = rule.index(PLANE, 2001)
    others = rule.spectrum(wide, PLANE).eigenvalues
    assert np.sum(others > least) <= 301 <= np.sum(others >= least)


def test_published_polynomial_prior():
    rule = PolynomialEigenvalues(1.0, 0.5)
    s = rule.spectrum(rule.index(LINE, 301), LINE)
    published = np.arange(1.0, 302.0) ** -2.0
    assert np.allclose(s.eigenvalues[101:301], published[101:301], rtol=0.02)
    # pairs r from 151 on have the eigenvalue (2r + 1/2)^-2 twice
    r = np.arange(151.0, 2e6)
    assert s.tail == pytest.approx(2.0 * np.sum((2.0 * r + 0.5) ** -2.0), rel=1e-3)


UNPAIRED = [
    (PolynomialEigenvalues(2.0, 1.0, paired=False), lambda j: 2.0 * j**-3.0),
    (ExponentialEigenvalues(0.05, 2.0, False), lambda j: 2.0 * np.exp(-0.05 * j)),
]


@pytest.mark.parametrize(("rule", "sequence"), UNPAIRED, ids=["polynomial", "exp"])
def test_published_priors_are_sequences_of_given_eigenvalues(rule, sequence):
    values = sequence(np.arange(1.0, 4000.0))
    given = GivenEigenvalues(tuple(values))
    index = rule.index(LINE, 40)
    found, expected = (one.spectrum(index, LINE) for one in (rule, given))
    assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-13)
    assert_allclose(found.tail, expected.tail, rtol=1e-3)
    # the residual variance of few functions, which depends on x
    X = np.linspace(-1.0, 2.0, 9)[:, np.newaxis]
    ours, theirs = (FourierSeries.from_rule(r, LINE, 6) for r in (rule, given))
    variances = [basis.residual_variance(X, basis(X)) for basis in (ours, theirs)]
    assert_allclose(*variances, rtol=2e-3)
    assert np.ptp(variances[0]) > 0.02 * variances[0].mean()


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("paired", [True, False])
def test_exponential_eigenvalues_sum_to_their_total(d, paired):
    j = np.arange(1.0, 3e5)
    if paired:
        j[1:] = 2.0 * (j[1:] // 2.0) + 0.5
    box = {1: LINE, 2: PLANE, 3: SPACE}[d]
    for rate in (0.6, 2.0, 400.0):
        rule = ExponentialEigenvalues(rate, paired=paired)
        spectrum = rule.spectrum(rule.index(box, 5), box)
        total = spectrum.eigenvalues.sum() + spectrum.tail
        assert_allclose(total, np.exp(-rate * j ** (1.0 / d)).sum(), rtol=1e-8)


def test_an_order_gives_the_eigenvalues_to_other_functions():
    rule = PolynomialEigenvalues(paired=False)
    ordered = OrderedEigenvalues(rule, (9, 0, 4))
    index = ordered.index(LINE, 6)
    # sine 5, constant, cosine 2, and then as they come: sine 1, cosine 1, sine 2
    assert index.waves.ravel().tolist() == [5, 0, 2, 1, 1, 2]
    assert index.sine.tolist() == [True, False, False, True, False, True]
    values = ordered.spectrum(index, LINE).eigenvalues
    assert_allclose(values, np.arange(1.0, 7.0) ** -2.0)
    standard = OrderedEigenvalues(rule, tuple(range(50)))
    for size in (4, 80):
        found, expected = (one.index(LINE, size) for one in (standard, rule))
        assert np.array_equal(found.waves, expected.waves)
        assert np.array_equal(found.ranks, expected.ranks)


@pytest.mark.parametrize("order", [(0, 1, 3), (1, 2, 0), (0, -1), (0, 1, 2, 1)])
def test_orders_that_are_none(order):
    with pytest.raises(ValueError, match="order"):
        OrderedEigenvalues(PolynomialEigenvalues(), order).index(LINE, 9)


def test_boosted_waves_have_their_variance():
    rule = KernelEigenvalues(2.0 * RBF(0.3))
    boosted = BoostedEigenvalues(rule, ((0,), (7,)), 0.5)
    index = boosted.index(LINE, 21)
    s, plain = boosted.spectrum(index, LINE), rule.spectrum(index, LINE)
    assert index.waves[:3, 0].tolist() == [0, 7, 7]
    assert np.array_equal(s.eigenvalues[1:3], [0.5, 0.5])
    assert s.eigenvalues[0] == max(0.5, plain.eigenvalues[0])
    assert np.array_equal(s.eigenvalues[3:], plain.eigenvalues[3:])
    assert s.tail == plain.tail
    assert not s.slopes[1:3].any()


@pytest.mark.parametrize("kernel", [DotProduct(), RBF() * RBF(), RBF() + DotProduct()])
def test_kernels_without_eigenvalues_are_refused(kernel):
    assert not has_spectrum(kernel)
    with pytest.raises(ValueError, match=r"no known eigenvalues.*inducing"):
        KernelEigenvalues(kernel).index(LINE, 5)


# ---- Variances of periodic kernels against brute force -------------------------------

DENSITY = rule_of(RBF(), "spectral_density")
PERIODS = np.array([1.0, 1.3, 0.8])
RATIOS = 10.0 ** np.arange(-3.0, 3.5, 1.0)


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


MATERN = [(1, nu, ratio) for nu in (0.5, 1.5, 2.5, 0.9, 7.0) for ratio in RATIOS]
MATERN += [
    (d, nu, ratio)
    for d in (2, 3)
    for nu in (0.5, 1.5, 2.5)
    for ratio in (1e-3, 0.3, 1.0, 1e3)
]


@pytest.mark.parametrize(("d", "nu", "ratio"), MATERN)
def test_matern(d, nu, ratio):
    kernel = Matern(ratio, nu=nu)
    if ratio < (30.0 if d == 1 else 2.0):
        reach = 2000 if d == 1 else 30 if ratio == 1.0 else 10
        expected = images(kernel, d, reach)
    else:
        expected = waves(kernel, d, {1: 100_000, 2: 200, 3: 30}[d])
    assert total(kernel, d)[0] == pytest.approx(expected, rel=1e-8)
    if (d, nu) == (1, 0.5):
        # Σ exp(-|n|/ℓ)
        closed = 1.0 / np.tanh(0.5 / ratio)
        assert total(kernel, 1)[0] == pytest.approx(closed, rel=1e-13)


@pytest.mark.parametrize("ratio", [1e-3, 0.3, 3.0, 1e3])
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


@pytest.mark.parametrize("nu", [0.5, np.inf])
@pytest.mark.parametrize("scale", [1e-300, 1e-120, 1e119])
def test_extreme_lengthscales_have_a_variance_without_a_warning(nu, scale):
    box = Box(np.zeros(1), np.ones(1))
    rule = KernelEigenvalues(2.0 * Matern(scale, nu=nu))
    spectrum = rule.spectrum(rule.index(box, 11), box)
    assert_allclose(spectrum.tail, 0.0 if scale > 1.0 else 2.0)
    assert np.all(np.isfinite(spectrum.slopes))
