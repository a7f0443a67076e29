"""Densities, scores and samples of frequencies, and what users register of them."""

import pickle

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, kve
from scipy.stats import f, kstest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx.bases import has_spectrum
from skgpx.kernels import (
    check_spectral_score,
    log_spectral_density,
    register_kernel,
    rule_of,
    sample_frequencies,
    sample_spectra,
    spectral_score,
    spectrum_of,
)

ARD = [0.7, 1.6, 0.4]
# those with a density
KERNELS = {
    "rbf": RBF(0.7),
    "rbf-ard": RBF(ARD),
    "matern-.5": Matern(0.7, nu=0.5),
    "matern-.8": Matern(0.7, nu=0.8),
    "matern-2.5-ard": Matern(ARD, nu=2.5),
    "matern-7": Matern(0.7, nu=7.0),
    "matern-inf": Matern(0.7, nu=np.inf),
    "scaled rbfs": 2.0 * RBF(0.7) ** 2 * RBF(1.3),
    "rational-.8": RationalQuadratic(0.8, 0.8),
    "rational-2.7": RationalQuadratic(0.8, 2.7),
    "rational-1e4": RationalQuadratic(0.8, 1e4),
    "sum": 2.0 * RBF(0.7) + Matern(0.3, nu=1.5) * 0.5,
    "rational-sum": RationalQuadratic(0.8, 1.5) + 0.1 * RBF(3.0),
}
# those without
OTHERS = {
    "product": RBF(0.7) * Matern(1.5, nu=1.5),
    "power": Matern(ARD, nu=1.5) ** 2,
    "rational-product": RationalQuadratic(1.3, 0.8) * RBF(0.7),
    "rational-.3": RationalQuadratic(0.8, 0.3),
}
PERIODIC = {
    "periodic-rbf": ExpSineSquared(0.8, 1.3) * RBF(2.0),
    "periodic-twice": ExpSineSquared(0.8, 1.3) * ExpSineSquared(0.5, 0.7),
    "periodic-power": ExpSineSquared(0.8, 1.3) ** 2,
}
PRODUCTS = {name: k for name, k in KERNELS.items() if "sum" not in name}


def cases(kernels):
    for name, kernel in kernels.items():
        anisotropic = name.endswith("ard") or name == "power"
        for d in (3,) if anisotropic else (1,) if name in PERIODIC else (1, 2, 5):
            yield pytest.param(kernel, d, id=f"{name}-{d}")


def correlations(sample, X):
    """``Σ a² cos(ω·(x - x₀))`` for the rows of X."""
    frequencies, amplitudes = sample
    return np.cos((X - X[0]) @ frequencies.T) @ amplitudes**2


def exact_correlations(kernel, X):
    return kernel(X, X[:1])[:, 0] / kernel(X[:1], X[:1])[0, 0]


def is_unbiased(draw, kernel, d, bias=0.0):
    X = np.random.default_rng(1).normal(size=(15, d))
    runs = np.array([correlations(draw(), X) for _ in range(60)])
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    difference = np.abs(runs.mean(axis=0) - exact_correlations(kernel, X))
    return np.all(difference < 4.5 * error + bias + 1e-12)


# ---- Densities and scores ------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "d"), list(cases(KERNELS)))
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
        noise = 1e-14 * (1.0 + np.abs(up)) / h[:, 0]
        error = np.abs(score[:, k] - slope)
        assert np.all(error < 1e-6 * (1.0 + np.abs(slope)) + noise)


@pytest.mark.parametrize("name", sorted(KERNELS.keys() - {"rbf-ard", "matern-2.5-ard"}))
def test_density_integrates_to_the_kernel(name):
    """``∫ p(ω) cos(ωr) dω = k(r) / k(0)`` on the line."""
    kernel = KERNELS[name]

    def density(w):
        return np.exp(log_spectral_density(kernel, np.array([[w]]))[0])

    assert 2.0 * quad(density, 0.0, np.inf)[0] == pytest.approx(1.0, abs=1e-7)
    for r in (0.3, 1.1):
        half = quad(density, 0.0, np.inf, weight="cos", wvar=r)[0]
        exact = exact_correlations(kernel, np.array([[0.0], [r]]))[1]
        assert 2.0 * half == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("alpha", [0.3, 2.7, 40.0])
def test_rational_quadratic_against_bessel_functions(alpha, d):
    # 2 (2π)^(-d/2) αᵅ / Γ(α) (t / 2α)ᵛ K_v(t), v = α - d/2, t = √(2α) |ℓω|
    omega = np.geomspace(1e-3, 10.0, 50)[:, np.newaxis] * np.eye(1, d)
    v, t = alpha - 0.5 * d, np.sqrt(2.0 * alpha) * 0.8 * omega[:, 0]
    logs = np.log(2.0) - 0.5 * d * np.log(2.0 * np.pi) + d * np.log(0.8)
    logs = logs + alpha * np.log(alpha) - gammaln(alpha) - v * np.log(2.0 * alpha)
    logs += v * np.log(t) + np.log(kve(v, t)) - t
    found = log_spectral_density(RationalQuadratic(0.8, alpha), omega)
    np.testing.assert_allclose(found, logs, atol=1e-7)


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (ExpSineSquared(), "ExpSineSquared.*spectral_density="),
        (RBF() + DotProduct(), "DotProduct.*spectral_density="),
        (RBF() + WhiteKernel(), "WhiteKernel"),
        (RBF() + ConstantKernel(2.0), "frequency zero"),
        (RBF() * Matern(), "convolution"),
    ],
    ids=str,
)
def test_what_has_no_density_is_named(kernel, named):
    with pytest.raises(ValueError, match=named):
        log_spectral_density(kernel, np.ones((2, 1)))


# ---- Samples -------------------------------------------------------------------------


# Points of every method are those that each kernel takes to its frequencies.
@pytest.mark.parametrize(
    ("method", "kernel", "d"),
    [
        pytest.param(method, *one.values, id=f"{method}-{one.id}")
        for method in ("sobol", "mc", "halton", "orthogonal")
        for one in cases(
            PRODUCTS | OTHERS | PERIODIC
            if method in ("sobol", "orthogonal")
            else {"rbf": RBF(0.7)} | OTHERS | PERIODIC
        )
    ],
)
def test_they_reproduce_the_kernel(method, kernel, d):
    rng = np.random.default_rng(0)
    assert is_unbiased(
        lambda: sample_frequencies(kernel, 256, d, rng, method), kernel, d
    )


@pytest.mark.parametrize("power", [1.5, 3.0, 7.0])
def test_importance_weights_are_bounded_and_of_mean_one(power):
    spectrum, rng = [spectrum_of(RBF(), 2)], np.random.default_rng(0)
    # weights divided by their sum: a bias of the order of one over the number
    assert is_unbiased(
        lambda: sample_spectra(spectrum, 256, 2, rng, tail_power=power), RBF(), 2,
        power**2 / 256,
    )  # fmt: skip
    # over the net, κ v^(κ - 1) sums to nearly n: normalising changes next to nothing
    frequencies, amplitudes = sample_spectra(spectrum, 1024, 2, rng, tail_power=power)
    weights = 1024 * amplitudes**2
    assert 0.98 * power < np.max(weights) < power * (1.0 + power / 1024)
    # many more of the highest frequencies, which count less: P(|ω|² > q) = exp(-q/2)
    radius = np.linalg.norm(frequencies, axis=1)
    expected = 1024 * 0.1 ** (1.0 / power)
    above = np.sum(radius**2 > -2.0 * np.log(0.1))
    assert abs(above - expected) < 4.5 * np.sqrt(expected)
    assert np.all(np.diff(weights[np.argsort(radius)]) <= 1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("kernel", "mixing"),
    [
        (RBF(), lambda rng: np.ones(20_000)),
        (Matern(nu=0.8), lambda rng: 0.8 / rng.gamma(0.8, size=20_000)),
        (RationalQuadratic(1.0, 0.1), lambda rng: rng.gamma(0.1, size=20_000) / 0.1),
        (RationalQuadratic(1.0, 5e3), lambda rng: rng.gamma(5e3, size=20_000) / 5e3),
    ],
    ids=["rbf", "matern", "rational", "rational-5e3"],
)
def test_quantiles_of_the_radius(kernel, mixing, d):
    rng, spectrum = np.random.default_rng(2), spectrum_of(kernel, d)
    r = np.sqrt(rng.chisquare(d, 20_000) * mixing(rng))
    axis = np.eye(1, d)
    drawn = spectrum.scale_directions(axis, rng.random(20_000))[:, 0]
    # the probability integral transform, by a two-sample comparison of logs
    logs = (np.log(np.clip(x, 1e-100, 1e6)) for x in (drawn, r))
    assert kstest(*logs).pvalue > 1e-5
    far = spectrum.scale_directions(axis, np.geomspace(1e-80, 1.0 - 1e-9, 200))[:, 0]
    assert np.all(np.diff(far) <= 0.0)
    assert np.all(np.isfinite(far))


def test_even_radii_are_quantiles_in_order():
    scales = np.array([0.5, 2.0, 1.0])
    omega = np.random.default_rng(0).normal(size=(9, 3))
    found = spectrum_of(Matern(scales, nu=1.5), 3).with_even_radii(omega) * scales
    before = np.linalg.norm(omega * scales, axis=1)
    after = np.linalg.norm(found, axis=1)
    np.testing.assert_array_equal(np.argsort(before), np.argsort(after))
    # the squared radius of a t distribution with 2ν degrees of freedom is F(d, 2ν)
    tail = f(3, 3.0).sf(np.sort(after)[::-1] ** 2 / 3.0)
    np.testing.assert_allclose(tail, (np.arange(9) + 0.5) / 9.0, rtol=1e-6)


@pytest.mark.parametrize("length_scale", [0.05, 0.3, 1.0, 3.0, 50.0])
def test_a_periodic_kernel_is_a_finite_series(length_scale):
    kernel = ExpSineSquared(length_scale, 1.7)
    X = np.linspace(-4.0, 5.0, 100)[:, np.newaxis]
    for scaled in (kernel, 3.0 * kernel):
        sample = sample_frequencies(scaled, 4, 1, np.random.default_rng(0))
        np.testing.assert_allclose(
            correlations(sample, X), exact_correlations(kernel, X), atol=1e-11
        )


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_orthogonal_directions(d):
    rng = np.random.default_rng(0)
    omega, _ = sample_frequencies(Matern(0.5), 2 * d + 1, d, rng, "orthogonal")
    for block in (omega[:d], omega[d : 2 * d]):
        unit = block / np.linalg.norm(block, axis=1, keepdims=True)
        np.testing.assert_allclose(unit @ unit.T, np.eye(d), atol=1e-12)


def test_sums_and_unknown_methods_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="2 terms one by one"):
        sample_frequencies(RBF() + Matern(), 4, 2, rng)
    with pytest.raises(ValueError, match="method must be one of"):
        sample_frequencies(RBF(), 4, 2, rng, "grid")


# ---- What users register -------------------------------------------------------------


def cauchy_density(kernel, omega):
    S = 2.0 * np.pi * kernel.diag(omega[:1]) * (1.0 + np.sum(omega**2, axis=1)) ** -1.5
    return S, np.empty((len(S), 0))


def cauchy_score(kernel, omega):
    return -3.0 * omega / (1.0 + np.sum(omega**2, axis=1, keepdims=True))


def kernel_with(**rules):
    Mine = type("Mine", (Matern,), {"diag": lambda self, X: np.full(len(X), 3.0)})
    register_kernel(Mine, **rules)
    return Mine(nu=0.5)


OMEGA = np.random.default_rng(0).normal(size=(30, 2))


def test_a_density_and_its_score():
    kernel, twin = kernel_with(spectral_density=cauchy_density), Matern(nu=0.5)
    expected = log_spectral_density(twin, OMEGA)
    np.testing.assert_allclose(log_spectral_density(kernel, OMEGA), expected)
    assert has_spectrum(kernel)
    with pytest.raises(ValueError, match=r"register_kernel\(Mine, spectral_score"):
        spectral_score(kernel, OMEGA)
    register_kernel(type(kernel), spectral_score=cauchy_score)
    check_spectral_score(kernel, OMEGA)
    mixed = spectral_score(kernel + RBF(0.5), OMEGA)
    np.testing.assert_allclose(mixed, spectral_score(3.0 * twin + RBF(0.5), OMEGA))
    # rows of another array type
    register_kernel(
        type(kernel), spectral_score=lambda k, w: cauchy_score(k, w).tolist()
    )
    assert spectral_score(kernel, OMEGA).shape == OMEGA.shape
    # another density forgets the score of the earlier one
    register_kernel(type(kernel), spectral_density=lambda k, w: cauchy_density(k, w))
    assert rule_of(kernel, "spectral_score") is None
    register_kernel(type(kernel), spectral_score=lambda k, w: -w / (1.0 + w**2))
    with pytest.raises(ValueError, match="is not the slope"):
        check_spectral_score(kernel, OMEGA)


class Waves(RBF):
    """``cos(3 (x - y))``."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.cos(3.0 * np.subtract.outer(X[:, 0], (X if Y is None else Y)[:, 0]))


def test_a_sampler_alone_and_in_a_product():
    register_kernel(Waves, spectral_sampler=lambda k, n, d, rng: np.full((n, d), 3.0))
    X = np.random.default_rng(1).normal(size=(15, 1))
    for kernel in (Waves(), 2.0 * Waves() * RBF(0.7)):
        sample = sample_frequencies(kernel, 1024, 1, np.random.default_rng(0))
        error = correlations(sample, X) - exact_correlations(kernel, X)
        # a cosine has a variance of at most one
        assert np.max(np.abs(error)) < 4.5 / np.sqrt(1024)
    assert pickle.loads(pickle.dumps(spectrum_of(Waves(), 1))).d == 1


def test_a_sampler_of_another_law_is_refused():
    class Cauchy(RBF):
        """A new type: ``1 / (1 + |x - y|²)``, whose frequencies are exponential."""

        def __call__(self, X, Y=None, eval_gradient=False):
            squares = np.subtract.outer(X[:, 0], (X if Y is None else Y)[:, 0]) ** 2
            return 1.0 / (1.0 + squares)

    def sampled(sampler):
        register_kernel(Cauchy, spectral_sampler=sampler)
        for n in (100, 1000):
            for seed in range(20):
                rng = np.random.default_rng(seed)
                sample_frequencies(Cauchy(), n, 1, rng)

    sampled(lambda k, n, d, rng: rng.exponential(size=(n, d)))
    for wrong in (
        lambda k, n, d, rng: rng.standard_normal((n, d)),
        lambda k, n, d, rng: rng.exponential(size=(n, d)) / (2.0 * np.pi),
        lambda k, n, d, rng: 2.0 * rng.exponential(size=(n, d)),
    ):
        with pytest.raises(ValueError, match="does not have the law of the kernel"):
            sampled(wrong)


@pytest.mark.parametrize("name", ["pullback", "spectral_density", "spectral_score"])
@pytest.mark.parametrize("kernel", [RBF(), Matern()], ids=str)
def test_subclasses_inherit_no_rule(kernel, name):
    assert rule_of(kernel, name) is not None
    assert rule_of(type("Child", (type(kernel),), {})(), name) is None


def score(function):
    check_spectral_score(kernel_with(spectral_score=function), OMEGA)


def sample(answer):
    kernel = kernel_with(spectral_sampler=lambda k, n, d, rng: answer)
    sample_frequencies(kernel, 4, 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("register", "what", "named"),
    [
        (register_kernel, RBF(), r"a subclass of .*Kernel; got"),
        (register_kernel, int, r"a subclass of .*Kernel; got"),
        (kernel_with, 3.0, r"pullback must be a function; got 3\.0"),
        (score, lambda k, omega: 1.0 - omega, "not odd"),
        (score, lambda k, omega: -omega[:, 0], r"shape \(30, 2\); got shape \(30,\)"),
        (score, lambda k, omega: np.full(omega.shape, np.nan), "must be finite"),
        (sample, np.ones((3, 2)), r"Mine must return finite .*\(4, 2\)"),
        (sample, np.full((4, 2), np.nan), r"Mine must return finite .*\(4, 2\)"),
    ],
)
def test_what_cannot_be_registered_or_used(register, what, named):
    with pytest.raises(ValueError, match=named):
        register(pullback=what) if register is kernel_with else register(what)
