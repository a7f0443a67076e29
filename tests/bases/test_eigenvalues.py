import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
)

from skgpx.bases import (
    Box,
    GivenEigenvalues,
    KernelEigenvalues,
    PolynomialEigenvalues,
    RaisedEigenvalues,
    has_spectrum,
)

LINE = Box(np.array([-1.0]), np.array([3.0]))
PLANE = Box(np.zeros(2), np.array([3.0, 5.0]))
SPACE = Box(np.zeros(3), np.array([3.0, 5.0, 4.0]))

RULES = [
    (PolynomialEigenvalues(2.0, 1.5), LINE),
    (PolynomialEigenvalues(2.0, 1.5), PLANE),
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


@rules
@pytest.mark.parametrize("size", [30, 31])
def test_listed_eigenvalues_and_tail_are_the_same_total(rule, box, size):
    few = rule.spectrum(rule.index(box, size), box)
    many = rule.spectrum(rule.index(box, 55), box)
    between = np.sum(many.eigenvalues[size:])
    total = np.sum(many.eigenvalues) + many.tail
    assert abs(few.tail - many.tail - between) < 1e-12 * total


@rules
@pytest.mark.parametrize("size", [30, 31])
def test_slopes_by_differences(rule, box, size):
    index = rule.index(box, size)
    found = rule.spectrum(index, box)
    p = len(rule.theta)
    assert found.slopes.shape == (size, p)
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


@rules
def test_theta_is_a_round_trip(rule, box):
    again = rule.with_theta(rule.theta)
    assert np.allclose(again.theta, rule.theta, rtol=1e-14)


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
    if "Rational" in str(kernel):
        # shifted so that the variance is that of the kernel, and images fall slowly
        expected = expected - expected[0] + found[0]
        assert np.abs(found - expected).max() < 2e-2
    else:
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


def test_raised_waves_have_their_variance():
    rule = KernelEigenvalues(2.0 * RBF(0.3))
    raised = RaisedEigenvalues(rule, ((0,), (7,)), 0.5)
    index = raised.index(LINE, 21)
    s, plain = raised.spectrum(index, LINE), rule.spectrum(index, LINE)
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


def test_a_subclass_does_not_inherit_eigenvalues():
    class Other(RBF):
        pass

    assert has_spectrum(2.0 * RBF() + Matern())
    assert not has_spectrum(Other())
