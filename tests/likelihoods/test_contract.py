import pickle

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.base import clone

from skgpx import likelihoods
from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Poisson,
    RobustMax,
    ShiftedMixture,
    StudentT,
    check_likelihood,
)

CONTINUOUS = [
    Gaussian(noise_variance=0.5),
    StudentT(df=5.0, scale=0.7),
    ShiftedMixture(shift=2.0, probability=0.3, noise_variance=0.4),
]
COUNTS = [Poisson(link="softplus"), Poisson(link="exp"), Poisson(link="square")]
BINARY = [Bernoulli(link="logit"), Bernoulli(link="probit")]
SCALAR = CONTINUOUS + COUNTS + BINARY
UNSET = [Gaussian(), StudentT(), ShiftedMixture(shift=2.0)]
CATEGORICAL = Categorical().prepare([0.0, 1.0, 2.0])
ROBUST_MAX = RobustMax(epsilon=0.05).prepare([0.0, 1.0, 2.0])
CLASSES = [CATEGORICAL, ROBUST_MAX]
ALL = [*SCALAR, *CLASSES]
F = np.linspace(-3.0, 3.0, 7)


def targets(likelihood, n=12):
    if isinstance(likelihood, Bernoulli):
        return np.arange(n) % 2.0
    if isinstance(likelihood, Poisson):
        return np.arange(n) % 5.0
    if type(likelihood) in (Categorical, RobustMax):
        return np.arange(n) % 3.0
    return np.linspace(-2.0, 3.0, n)


def latent_mixture(likelihood, rng, n=4, s=6):
    c = 3 if likelihood in CLASSES else 1
    weights = rng.random(s) + 0.1
    mean = rng.standard_normal((n, c, s))
    variance = 0.1 + 0.3 * rng.random((n, c, s))
    return LatentMixture(mean, variance, weights / weights.sum())


def draws_of_y(likelihood, mixture, n_draws, rng):
    """(n, n_draws) observations from the latent mixture."""
    component = rng.choice(mixture.weights.size, n_draws, p=mixture.weights)
    mean, variance = mixture.mean[..., component], mixture.variance[..., component]
    f = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
    return likelihood.sample(f if f.shape[1] > 1 else f[:, 0], rng)


def assert_z(estimates, expected, limit=4.5):
    """Mean over the last axis against its expectation, in standard errors.

    An event that never happened has no standard error of its own: 1 / n is the floor.
    """
    n = estimates.shape[-1]
    error = np.maximum(estimates.std(axis=-1) / np.sqrt(n), 1.0 / n)
    z = (estimates.mean(axis=-1) - expected) / error
    assert np.max(np.abs(z)) < limit


def test_every_public_class_is_tested():
    public = {getattr(likelihoods, name) for name in likelihoods.__all__}
    tested = {type(likelihood) for likelihood in ALL}
    assert public - tested == {Likelihood, check_likelihood}


@pytest.mark.parametrize(
    "likelihood", [*ALL, *UNSET, Categorical(), RobustMax()], ids=repr
)
def test_public_check_passes(likelihood):
    check_likelihood(likelihood)


@pytest.mark.parametrize("likelihood", SCALAR, ids=repr)
def test_gradient_is_the_derivative(likelihood):
    y, h = targets(likelihood)[:, np.newaxis], 1e-6
    numeric = (likelihood.nll(y, F + h) - likelihood.nll(y, F - h)) / (2.0 * h)
    np.testing.assert_allclose(
        likelihood.gradient(y, F), numeric, rtol=2e-8, atol=2e-8 * np.abs(numeric).max()
    )


@pytest.mark.parametrize("likelihood", SCALAR, ids=repr)
def test_curvature(likelihood):
    y, h = targets(likelihood)[:, np.newaxis], 1e-5
    f = F + 0.2
    curvature = likelihood.curvature(y, f)
    second = (likelihood.gradient(y, f + h) - likelihood.gradient(y, f - h)) / (2 * h)
    assert curvature.shape == (y.size, F.size)
    assert np.all(curvature >= 0.0)
    if isinstance(likelihood, ShiftedMixture):
        assert np.all(curvature >= second - 1e-8)  # a majorant
    elif not isinstance(likelihood, StudentT):
        np.testing.assert_allclose(curvature, second, rtol=1e-6, atol=1e-7)


def test_student_t_curvature_is_the_fisher_information():
    likelihood = StudentT(df=5.0, scale=0.7)
    fisher, _ = integrate.quad(
        lambda y: likelihood.gradient(y, 0.0) ** 2 * np.exp(-likelihood.nll(y, 0.0)),
        -np.inf,
        np.inf,
    )
    assert likelihood.curvature(0.0, 0.0) == pytest.approx(fisher, rel=1e-7)


def test_categorical_derivatives():
    rng = np.random.default_rng(0)
    y, f, h = targets(CATEGORICAL, 5), rng.standard_normal((5, 3, 2)), 1e-6
    for k in range(3):
        step = h * (np.arange(3) == k).reshape(1, 3, 1)
        gradient = CATEGORICAL.nll(y, f + step) - CATEGORICAL.nll(y, f - step)
        hessian = CATEGORICAL.gradient(y, f + step) - CATEGORICAL.gradient(y, f - step)
        np.testing.assert_allclose(
            CATEGORICAL.gradient(y, f)[:, k], gradient / (2 * h), atol=1e-8
        )
        np.testing.assert_allclose(
            CATEGORICAL.curvature(y, f)[:, k], hessian / (2 * h), atol=1e-8
        )


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_row_wise_shapes(likelihood, rng):
    y = targets(likelihood, 5)
    c = likelihood.prepare(targets(likelihood)).n_outputs_
    f = rng.standard_normal((5, c, 4))
    assert likelihood.row_nll(y, f).shape == (5, 4)
    assert likelihood.row_gradient(y, f).shape == (5, c, 4)
    assert likelihood.row_curvature(y, f).shape == (5, c, c, 4)
    assert likelihood.initial_latent(y).shape == ((5,) if c == 1 else (5, c))


@pytest.mark.parametrize("likelihood", SCALAR, ids=repr)
def test_moments_and_cdf_against_samples(likelihood, rng):
    f = np.repeat(F[:, np.newaxis], 20_000, axis=1)
    draws = likelihood.sample(f, rng)
    mean, variance = likelihood.mean(F), likelihood.variance(F)
    assert_z(draws, mean)
    if not isinstance(likelihood, StudentT):  # its squares have no finite variance
        assert_z((draws - mean[:, np.newaxis]) ** 2, variance)
    for y in (0.0, 1.0, 2.5):
        assert_z((draws <= y) * 1.0, likelihood.cdf(y, F), limit=5.0)


def test_student_t_moments_against_scipy():
    distribution = stats.t(df=5.0, loc=1.5, scale=0.7)
    likelihood = StudentT(df=5.0, scale=0.7)
    assert likelihood.variance(1.5) == pytest.approx(distribution.var())
    assert likelihood.nll(-4.0, 1.5) == pytest.approx(-distribution.logpdf(-4.0))
    assert np.isinf(StudentT(df=2.0, scale=1.0).variance(0.0))


@pytest.mark.parametrize("likelihood", SCALAR, ids=repr)
@pytest.mark.parametrize("f", [-1.3, 0.4, 2.0])
def test_density_integrates_to_one(likelihood, f):
    if likelihood.discrete:
        top = 2.0 if isinstance(likelihood, Bernoulli) else 80.0
        y = np.arange(top)
        total = np.exp(-likelihood.nll(y, f)).sum()
        np.testing.assert_allclose(
            np.exp(-likelihood.nll(y, f)).cumsum(), likelihood.cdf(y, f), atol=1e-12
        )
    else:
        total, _ = integrate.quad(
            lambda y: np.exp(-likelihood.nll(y, f)), -np.inf, np.inf, limit=200
        )
    assert total == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("likelihood", SCALAR, ids=repr)
def test_finite_far_from_the_data(likelihood):
    y = targets(likelihood)[:, np.newaxis]
    f = np.array([-1e6, -1e3, 0.0, 1e3, 1e6])
    for function in (likelihood.nll, likelihood.gradient, likelihood.curvature):
        assert np.all(np.isfinite(function(y, f)))


def test_probit_in_the_tails():
    assert Bernoulli("probit").nll(1.0, -40.0) == pytest.approx(804.6084420137538)
    assert Bernoulli("probit").gradient(1.0, -40.0) == pytest.approx(-40.02496886)


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_targets_must_be_finite(likelihood, bad):
    y = targets(likelihood)
    y[0] = bad
    with pytest.raises(ValueError, match="expects finite y; got 1 values"):
        likelihood.prepare(y)


@pytest.mark.parametrize("likelihood", [*COUNTS, *BINARY, *CLASSES], ids=repr)
@pytest.mark.parametrize("bad", [-1.0, 0.5])
def test_discrete_support(likelihood, bad):
    y = targets(likelihood)
    y[3] = bad
    with pytest.raises(ValueError, match=rf"expects y .* for example {bad:g}"):
        likelihood.prepare(y)


@pytest.mark.parametrize("likelihood", [Categorical(), RobustMax()], ids=repr)
def test_two_classes_are_needed(likelihood):
    with pytest.raises(ValueError, match="expects at least two classes; got one class"):
        likelihood.prepare(np.zeros(3))


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        (Gaussian(noise_variance=-1.0), "noise_variance to be positive"),
        (Gaussian(noise_variance=np.nan), "noise_variance to be positive"),
        (StudentT(df=0.0), "positive df"),
        (StudentT(scale=0.0), "scale to be positive"),
        (Bernoulli(link="cloglog"), "expects link in"),
        (Poisson(link="identity"), "expects link in"),
        (ShiftedMixture(shift=1.0, probability=1.0), "strictly between 0 and 1"),
        (ShiftedMixture(shift=np.inf), "finite shift"),
        (RobustMax(epsilon=0.0), "strictly between 0 and 0.5"),
        (RobustMax(epsilon=0.5), "strictly between 0 and 0.5"),
        (RobustMax(epsilon=True), "strictly between 0 and 0.5"),
    ],
    ids=repr,
)
def test_parameters_are_checked(likelihood, message):
    with pytest.raises(ValueError, match=message):
        likelihood.prepare(np.zeros(3))


@pytest.mark.parametrize("likelihood", UNSET, ids=repr)
def test_an_unset_scale_is_refused(likelihood):
    with pytest.raises(ValueError, match=r"is not set yet: call prepare\(y\)"):
        likelihood.nll(0.0, 0.0)


@pytest.mark.parametrize("likelihood", [*ALL, *UNSET], ids=repr)
def test_clone_and_pickle(likelihood):
    prepared = likelihood.prepare(targets(likelihood))
    copies = [clone(prepared), pickle.loads(pickle.dumps(prepared))]
    for copied in copies:
        assert copied.get_params() == prepared.get_params()
    assert clone(likelihood).get_params() == likelihood.get_params()
    np.testing.assert_array_equal(copies[1].theta, prepared.theta)


@pytest.mark.parametrize("likelihood", [*ALL, *UNSET], ids=repr)
def test_prepare_returns_a_copy(likelihood):
    before = likelihood.get_params()
    y = targets(likelihood)
    y.setflags(write=False)
    prepared = likelihood.prepare(y)
    assert likelihood.get_params() == before
    assert prepared is not likelihood
    assert prepared.free_ == (likelihood.scale_names if likelihood in UNSET else ())


@pytest.mark.parametrize("likelihood", [*ALL, *UNSET], ids=repr)
def test_theta_round_trip(likelihood):
    prepared = likelihood.prepare(targets(likelihood))
    p = len(prepared.free_)
    assert prepared.theta.shape == (p,)
    assert prepared.theta_bounds.shape == (p, 2)
    assert np.all(prepared.theta_bounds[:, 0] < prepared.theta)
    assert np.all(prepared.theta < prepared.theta_bounds[:, 1])
    moved = prepared.with_theta(prepared.theta + 0.5)
    np.testing.assert_allclose(moved.theta, prepared.theta + 0.5)
    assert moved.free_ == prepared.free_


@pytest.mark.parametrize("likelihood", UNSET, ids=repr)
def test_starting_scales(likelihood):
    y = np.array([0.0, 1.0, 5.0, 2.0])
    repeated = likelihood.prepare(np.repeat(y, [1, 3, 2, 1]))
    weighted = likelihood.prepare(y, sample_weight=[1, 3, 2, 1])
    np.testing.assert_allclose(repeated.theta, weighted.theta)
    scaled = likelihood.prepare(1e-9 * y)
    power = 1.0 if isinstance(likelihood, StudentT) else 2.0
    expected = likelihood.prepare(y).theta + power * np.log(1e-9)
    np.testing.assert_allclose(scaled.theta, expected, rtol=1e-9)
    assert np.isfinite(likelihood.prepare(np.full(3, 4.0)).theta).all()


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_scaled(likelihood):
    scaled = likelihood.scaled(3.0)
    if not likelihood.location_scale:
        assert scaled.get_params() == likelihood.get_params()
        return
    y, f = targets(likelihood)[:, np.newaxis], F
    # p(3 y | 3 f) d(3 y) = p(y | f) dy
    np.testing.assert_allclose(
        scaled.nll(3.0 * y, 3.0 * f), likelihood.nll(y, f) + np.log(3.0)
    )


def test_scaled_moves_the_bounds_along():
    prepared = Gaussian().prepare([0.0, 1.0, 3.0])
    scaled = prepared.scaled(10.0)
    np.testing.assert_allclose(scaled.theta, prepared.theta + np.log(100.0))
    np.testing.assert_allclose(
        scaled.theta_bounds, prepared.theta_bounds + np.log(100.0)
    )
    assert ShiftedMixture(shift=2.0).scaled(0.5).shift == 1.0


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_symmetry_is_declared(likelihood, rng):
    y = targets(likelihood, 5)
    c = 3 if likelihood in CLASSES else 1
    f = rng.standard_normal((5, c, 2))
    same = np.allclose(likelihood.row_nll(y, f), likelihood.row_nll(y, -f))
    assert same == likelihood.symmetric


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_predictive_moments_and_cdf_against_samples(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    draws = draws_of_y(likelihood, mixture, 40_000, rng)
    mean = likelihood.predictive_mean(mixture)
    assert_z(draws, mean)
    if not isinstance(likelihood, StudentT):
        variance = likelihood.predictive_moments(mixture)[1]
        assert_z((draws - mean[:, np.newaxis]) ** 2, variance)
    for level in (0.0, 1.0, 2.5):
        expected = likelihood.predictive_cdf(np.full(4, level), mixture)
        assert_z((draws <= level) * 1.0, expected)


@pytest.mark.parametrize("likelihood", SCALAR, ids=repr)
def test_closed_forms_equal_the_atoms(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    y = targets(likelihood, 4)
    for name in ("predictive_moments", "predictive_mean_variance"):
        np.testing.assert_allclose(
            getattr(likelihood, name)(mixture),
            getattr(Likelihood, name)(likelihood, mixture),
            rtol=1e-5,
        )
    np.testing.assert_allclose(
        likelihood.predictive_cdf(y, mixture),
        Likelihood.predictive_cdf(likelihood, y, mixture),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        likelihood.predictive_log_density(y, mixture),
        Likelihood.predictive_log_density(likelihood, y, mixture),
        atol=1e-5,
    )


LEVELS = [1e-4, 0.025, 0.5, 0.9, 0.9999]


@pytest.mark.parametrize("likelihood", CONTINUOUS, ids=repr)
def test_quantile_inverts_the_cdf(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    quantiles = likelihood.predictive_quantile(LEVELS, mixture)
    assert quantiles.shape == (4, len(LEVELS))
    for level, column in zip(LEVELS, quantiles.T, strict=True):
        np.testing.assert_allclose(
            likelihood.predictive_cdf(column, mixture), level, rtol=1e-8
        )


@pytest.mark.parametrize("likelihood", [*COUNTS, *BINARY, *CLASSES], ids=repr)
def test_discrete_quantile_is_the_smallest_integer(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    for level, y in zip(
        LEVELS, likelihood.predictive_quantile(LEVELS, mixture).T, strict=True
    ):
        np.testing.assert_array_equal(y, np.floor(y))
        assert np.all(likelihood.predictive_cdf(y, mixture) >= level)
        assert np.all(likelihood.predictive_cdf(y - 1.0, mixture) < level)


def test_quantiles_of_one_gaussian_component():
    distribution = LatentMixture(
        np.full((1, 1, 1), 2.0), np.full((1, 1, 1), 3.0), np.ones(1)
    )
    quantiles = Gaussian(noise_variance=1.0).predictive_quantile(LEVELS, distribution)
    np.testing.assert_allclose(quantiles[0], stats.norm(2.0, 2.0).ppf(LEVELS), 1e-10)


@pytest.mark.parametrize("df", [0.5, 2.0])
def test_quantiles_of_heavy_tails(df):
    distribution = LatentMixture(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones(1))
    quantiles = StudentT(df=df, scale=1e-9).predictive_quantile(LEVELS, distribution)
    np.testing.assert_allclose(
        quantiles[0], 1e-9 * stats.t(df).ppf(LEVELS), rtol=1e-7, atol=1e-18
    )


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_predictions_do_not_depend_on_the_other_rows(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    alone = LatentMixture(mixture.mean[2:3], mixture.variance[2:3], mixture.weights)
    y = targets(likelihood, 4)
    together = [moment[2:3] for moment in likelihood.predictive_moments(mixture)]
    np.testing.assert_allclose(
        likelihood.predictive_moments(alone), together, rtol=1e-13
    )
    for method, argument, part in (
        ("predictive_log_density", y, y[2:3]),
        ("predictive_quantile", LEVELS, LEVELS),
    ):
        together = getattr(likelihood, method)(argument, mixture)[2:3]
        single = getattr(likelihood, method)(part, alone)
        np.testing.assert_allclose(single, together, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("likelihood", [*BINARY, CATEGORICAL], ids=repr)
def test_probabilities(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    proba = likelihood.predict_proba(mixture)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    for k in range(proba.shape[1]):
        log_density = likelihood.predictive_log_density(np.full(4, float(k)), mixture)
        np.testing.assert_allclose(np.exp(log_density), proba[:, k], rtol=1e-10)


def test_a_missing_method_is_named():
    class Silent(Likelihood):
        pass

    with pytest.raises(NotImplementedError, match=r"Silent does not implement cdf"):
        Silent().cdf(0.0, 0.0)


class Heteroscedastic(Likelihood):
    """Normal noise whose log standard deviation is a second latent function."""

    n_outputs = 2

    def nll(self, y, f):
        z = (y[:, np.newaxis] - f[:, 0]) * np.exp(-f[:, 1])
        return 0.5 * z**2 + f[:, 1] + 0.5 * np.log(2.0 * np.pi)

    def mean(self, f):
        return f[:, 0]

    def variance(self, f):
        return np.exp(2.0 * f[:, 1])

    def cdf(self, y, f):
        return stats.norm.cdf((y[:, np.newaxis] - f[:, 0]) * np.exp(-f[:, 1]))

    def sample(self, f, rng):
        return f[:, 0] + np.exp(f[:, 1]) * rng.standard_normal(f[:, 0].shape)

    def base_latent(self, y, weights):
        return np.zeros(2)


def test_two_latent_functions_need_no_more_than_one(rng):
    likelihood = Heteroscedastic().prepare(targets(Gaussian()))
    check_likelihood(likelihood)
    y, f = targets(likelihood, 5), rng.standard_normal((5, 2, 3))
    z, sd = y[:, np.newaxis] - f[:, 0], np.exp(f[:, 1])
    exact = np.stack((-z / sd**2, 1.0 - z**2 / sd**2), axis=1)
    np.testing.assert_allclose(likelihood.row_gradient(y, f), exact, atol=1e-6)
    hessian = np.array([[1.0 / sd**2, 2.0 * z / sd**2]] * 2)
    hessian[1] = 2.0 * z / sd**2, 2.0 * z**2 / sd**2
    hessian = hessian.transpose(2, 3, 0, 1)
    values, vectors = np.linalg.eigh(hessian)
    part = np.einsum("nsab,nsb,nscb->nacs", vectors, np.maximum(values, 0.0), vectors)
    np.testing.assert_allclose(likelihood.row_curvature(y, f), part, atol=1e-3)
    mean = rng.standard_normal((4, 2, 1))
    mixture = LatentMixture(mean, np.full((1, 1, 1), 0.2), np.ones(1))
    draws = draws_of_y(likelihood, mixture, 20_000, rng)
    expected, variance = likelihood.predictive_moments(mixture)
    np.testing.assert_allclose(draws.mean(axis=1), expected, atol=0.2)
    np.testing.assert_allclose(draws.var(axis=1), variance, rtol=0.2)
    for level, q in zip(
        LEVELS, likelihood.predictive_quantile(LEVELS, mixture).T, strict=True
    ):
        np.testing.assert_allclose(
            likelihood.predictive_cdf(q, mixture), level, rtol=1e-6
        )


def test_default_derivatives_and_start():
    class Plain(Likelihood):
        def nll(self, y, f):
            return -np.cos(f) + 0.0 * y

    zeros = np.zeros((2, 1))
    gradient, curvature = Plain().gradient(zeros, F), Plain().curvature(zeros, F)
    np.testing.assert_allclose(gradient, np.tile(np.sin(F), (2, 1)), atol=1e-8)
    positive = np.tile(np.maximum(np.cos(F), 0.0), (2, 1))
    np.testing.assert_allclose(curvature, positive, atol=1e-5)
    np.testing.assert_array_equal(Plain().initial_latent([1.0, 2.0]), 0.0)
