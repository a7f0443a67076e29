"""Noise that varies with X."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSRegressor
from skgpx._numerics.mixture import LatentMixture
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    Likelihood,
    StudentT,
)

PAIRS = [
    (HeteroscedasticGaussian, Gaussian, "noise_variance"),
    (HeteroscedasticStudentT, StudentT, "scale"),
]


@pytest.mark.parametrize("make", [HeteroscedasticGaussian, HeteroscedasticStudentT])
def test_scales_are_positive(make):
    with pytest.raises(ValueError, match="expects scale to be positive"):
        make(scale=-1.0).prepare([0.0, 1.0])


@pytest.mark.parametrize(("varying", "constant", "name"), PAIRS)
def test_the_density_is_that_of_its_scale(varying, constant, name):
    rng = np.random.default_rng(0)
    y = 5.0 + 3.0 * rng.standard_normal(40)
    likelihood = varying(scale=0.7, variation=0.5).prepare(y)
    f = rng.standard_normal((40, 2, 3))
    sd = 0.7 * np.exp(0.5 * f[:, 1])
    mean = likelihood.mean(f)
    for i in range(5):
        width = float(sd[i, 0]) ** (2 if name == "noise_variance" else 1)
        one = constant(**{name: width})
        assert_allclose(likelihood.nll(y, f)[i, 0], one.nll(y[i], mean[i, 0]))
        assert_allclose(likelihood.cdf(y, f)[i, 0], one.cdf(y[i], mean[i, 0]))
        assert_allclose(likelihood.variance(f)[i, 0], one.variance(0.0))


def rows(n, seed, varies):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 1))
    noise = 0.05 + 0.4 / (1.0 + np.exp(-4.0 * X[:, 0])) if varies else 0.2
    return X, np.sin(2.0 * X[:, 0]) + noise * rng.standard_normal(n), noise


def test_noise_that_varies_is_learned():
    X, y, _ = rows(400, 0, True)
    new, held_out, noise = rows(2000, 1, True)
    model = PLSRegressor(likelihood=HeteroscedasticGaussian(), random_state=0).fit(X, y)
    low, high = model.predict_interval(new, 0.9).T
    for third in np.array_split(np.argsort(new[:, 0]), 3):
        inside = np.mean((low <= held_out)[third] & (held_out <= high)[third])
        assert abs(inside - 0.9) < 0.05
    truth = -0.5 * ((held_out - np.sin(2.0 * new[:, 0])) / noise) ** 2 - np.log(noise)
    truth -= 0.5 * np.log(2.0 * np.pi)
    lost = truth - model.log_predictive_density(new, held_out)
    assert np.mean(lost) < 0.06
    with pytest.warns(FitWarning, match="noise varies with column 0"):
        constant = PLSRegressor(random_state=0).fit(X, y)
    gain = model.log_predictive_density(new, held_out)
    gain = gain - constant.log_predictive_density(new, held_out)
    assert np.mean(gain) > 5.0 * np.std(gain) / np.sqrt(len(gain))


@pytest.mark.parametrize(("varying", "constant", "name"), PAIRS)
def test_nothing_is_lost_where_it_is_constant(varying, constant, name):
    del name
    X, y, _ = rows(200, 0, False)
    new, held_out, _ = rows(2000, 1, False)
    densities = [
        PLSRegressor(likelihood=likelihood, random_state=0)
        .fit(X, y)
        .log_predictive_density(new, held_out)
        for likelihood in (varying(), constant())
    ]
    assert abs(np.mean(densities[0] - densities[1])) < 0.02


def test_units_of_y_do_not_matter():
    X, y, _ = rows(200, 0, True)
    ours = HeteroscedasticGaussian()
    models = [
        PLSRegressor(likelihood=ours, random_state=0).fit(X, factor * y + shift)
        for factor, shift in ((1.0, 0.0), (1000.0, 5000.0))
    ]
    plain, scaled = (model.predict(X[:20]) for model in models)
    assert_allclose(scaled, 1000.0 * plain + 5000.0, rtol=1e-3, atol=5.0)


def test_moments_in_closed_form_are_those_of_the_nodes():
    rng = np.random.default_rng(0)
    likelihood = HeteroscedasticGaussian(0.7, 0.5).prepare(rng.standard_normal(40) + 5)
    mixture = LatentMixture(
        rng.standard_normal((3, 2, 4)), np.full((3, 1, 1), 0.2), np.full(4, 0.25)
    )
    found = likelihood.predictive_moments(mixture)
    nodes = Likelihood.predictive_moments(likelihood, mixture)
    assert_allclose(found, nodes, rtol=1e-2)
    # E exp(2 v f₂) = exp(2 v m + 2 v² s²), far beyond the nodes
    wide = LatentMixture(np.ones((1, 2, 1)), np.full((1, 1, 1), 64.0), np.ones(1))
    noise = 0.49 * np.exp(2.0 * 0.5 + 2.0 * 0.25 * 64.0)
    variance = likelihood.predictive_moments(wide)[1]
    assert_allclose(variance - likelihood.predictive_mean_variance(wide), noise)


@pytest.mark.parametrize("make", [HeteroscedasticGaussian, HeteroscedasticStudentT])
@pytest.mark.parametrize("scale", [1.0, 0.03, 1e-3])
def test_densities_at_every_ratio_of_the_scale_to_the_location(make, scale):
    """Against the integral over the log scale by a fine mesh, two components."""
    y = np.linspace(-1.0, 1.0, 7)
    likelihood = make(scale=scale, variation=0.7).prepare(y)
    rng = np.random.default_rng(0)
    mean = rng.standard_normal((7, 2, 2))
    variance = np.full((7, 2, 2), 0.4)
    weights = np.array([0.3, 0.7])
    mixture = LatentMixture(mean, variance, weights)
    log_scale = np.linspace(-9.0, 9.0, 2001)
    masses = np.exp(-0.5 * log_scale**2)
    masses /= masses.sum()
    density = np.zeros(7)
    probability = np.zeros(7)
    for node, mass in zip(log_scale[::10], masses[::10] * 10.0, strict=True):
        for k in range(2):
            width = scale * np.exp(0.7 * (mean[:, 1, k] + np.sqrt(0.4) * node))
            location = LatentMixture(
                likelihood.centre_ + likelihood.unit_ * mean[:, :1, k, np.newaxis],
                likelihood.unit_**2 * variance[:, :1, [k]],
                np.ones(1),
            )
            for i in range(7):
                row = location.rows([i])
                if make is HeteroscedasticGaussian:
                    noise = Gaussian(width[i] ** 2)
                else:
                    noise = StudentT(scale=width[i])
                p = np.exp(noise.predictive_log_density(y[[i]], row)[0])
                density[i] += mass * weights[k] * p
                cdf = noise.predictive_cdf(y[[i]], row)[0]
                probability[i] += mass * weights[k] * cdf
    log_density = likelihood.predictive_log_density(y, mixture)
    assert_allclose(log_density, np.log(density), atol=1e-5)
    assert_allclose(likelihood.predictive_cdf(y, mixture), probability, atol=1e-6)
    quantile = likelihood.predictive_quantile([0.2], mixture)[:, 0]
    assert_allclose(likelihood.predictive_cdf(quantile, mixture), 0.2, atol=1e-6)


@pytest.mark.parametrize("make", [HeteroscedasticGaussian, HeteroscedasticStudentT])
def test_errors_say_what_the_scale_is(make):
    y = np.linspace(-1.0, 1.0, 7)
    likelihood = make(scale=0.3, variation=0.7).prepare(y)
    known = np.geomspace(1e-6, 2.0, 7)
    errors = likelihood.of_scale().at_rows(known)
    f = np.linspace(-2.0, 2.0, 5) * np.ones((7, 1))
    e = np.geomspace(1e-3, 10.0, 7)[:, np.newaxis]
    # p(e | s) = ∫ p(e - δ | s) N(δ | 0, v) dδ
    mixture = LatentMixture(
        np.stack((np.zeros((7, 5)), f), axis=1).transpose(0, 2, 1).reshape(35, 2, 1),
        np.stack((np.repeat(known, 5), np.zeros(35)), axis=1)[:, :, np.newaxis],
        np.ones(1),
    )
    y_of_error = likelihood.centre_ + likelihood.unit_ * np.repeat(e[:, 0], 5)
    log_density = likelihood.predictive_log_density(y_of_error, mixture)
    expected = -log_density.reshape(7, 5) - np.log(likelihood.unit_)
    # the mixture of Student's noise has half of the components
    assert_allclose(errors.nll(e, f), expected, atol=5e-3)
    # moments of the log scale given e, and under the observation that stands for e
    e = e[:, 0]
    m = np.linspace(-1.0, 1.0, 7)
    v = np.geomspace(0.05, 4.0, 7)
    one = np.ones(7)
    evidence = errors.evidence_of(e, known, m, v, one)
    s = m[:, np.newaxis] + np.sqrt(v)[:, np.newaxis] * np.linspace(-8.0, 8.0, 2001)
    log_joint = -errors.nll(e[:, np.newaxis], s)
    log_joint += norm.logpdf(s, m[:, np.newaxis], np.sqrt(v)[:, np.newaxis])
    mass = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    mass /= mass.sum(axis=1, keepdims=True)
    mean = np.sum(mass * s, axis=1)
    variance = np.sum(mass * s**2, axis=1) - mean**2
    total = v + evidence.value_noise
    of_observation = (v * evidence.value + evidence.value_noise * m) / total
    assert_allclose(of_observation, mean, atol=1e-5)
    # at least a hundredth of Fisher's information, where that is a thousandth or less
    least_information = np.minimum(1e-2 * 2.0 * 0.7**2 * v, 1e-3)
    expected = np.minimum(variance, v / (1.0 + least_information))
    assert_allclose(v * evidence.value_noise / total, expected, rtol=1e-4)
    # the location moves by E[δ | e] = -v d log p(e) / de
    step = 1e-5 * e
    after = errors.evidence_of(e + step, known, m, v, one).log_density
    before = errors.evidence_of(e - step, known, m, v, one).log_density
    moved = -known * (after - before) / (2.0 * step)
    gain = known / (known + evidence.location_noise)
    assert_allclose(gain * e, moved, rtol=1e-5, atol=1e-9)


@pytest.mark.filterwarnings("ignore:The noise varies")
def test_the_location_is_as_good_as_that_of_regression():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (900, 4))
    function = np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, 1]) + X[:, 2] ** 2
    y = function + 0.1 * np.exp(X[:, 3]) * rng.standard_normal(900)
    seen = slice(0, 200)
    errors = []
    for likelihood in (Gaussian(), HeteroscedasticGaussian()):
        model = PLSRegressor(likelihood=likelihood, random_state=0)
        model.fit(X[seen], y[seen])
        error = model.predict(X[200:]) - function[200:]
        errors.append(np.sqrt(np.mean(error**2)))
    assert errors[1] < 1.05 * errors[0]
    # the scale follows the fourth column only
    scales = model.likelihood_.scale_kernel_.k2.length_scale
    assert np.argmin(scales) == 3


def growing_noise(n=80):
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(n, 1))
    noise = (0.05 + 0.5 * X[:, 0]) * rng.standard_normal(n)
    return X, np.sin(6.0 * X[:, 0]) + noise


def test_a_row_of_many_repetitions_leaves_the_others():
    X, y = growing_noise()
    weights = np.ones(80)
    weights[0] = 10
    model = PLSRegressor(likelihood=HeteroscedasticGaussian(), random_state=0)
    mean, std = model.fit(X, y, weights).predict(X[1:], return_std=True)
    for largest in (100, 1000, 10_000):
        weights[0] = largest
        after, _ = model.fit(X, y, weights).predict(X[1:], return_std=True)
        assert np.sqrt(np.mean(((after - mean) / std) ** 2)) < 0.7


@pytest.mark.parametrize("row", [0, 5])
def test_repetitions_of_a_row_converge(row):
    X, y = growing_noise(60)
    nearby = np.argsort(np.abs(X[:, 0] - X[row, 0]))[:6]
    weights = np.ones(60)
    errors = []
    stds = []
    for weight in (10, 1000, 10_000):
        weights[row] = weight
        model = PLSRegressor(likelihood=HeteroscedasticGaussian(), random_state=0)
        model.fit(X, y, weights)
        mean, std = model.predict(X[nearby], return_std=True)
        errors.append(mean - y[nearby])
        stds.append(std)
    # nothing that a thousand repetitions have not said
    assert np.abs(errors[1][0]) < 0.1 * np.abs(errors[0][0])
    assert np.abs(errors[2] - errors[1]).max() < 0.3 * stds[1].min()
    assert np.all(stds[1] < stds[0])
    assert_allclose(stds[2], stds[1], rtol=0.1)


def test_noise_of_rounded_rows_is_that_of_their_levels():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 6, 900)
    noise = (0.2 + 0.4 * level) * rng.standard_normal(900)
    y = np.round(2.0 * np.sin(level) + noise)
    model = PLSRegressor(likelihood=HeteroscedasticGaussian(), random_state=0)
    model.fit(level[:, np.newaxis], y)
    _, std = model.predict(np.arange(1.0, 6.0)[:, np.newaxis], return_std=True)
    observed = [y[level == k].std() for k in range(1, 6)]
    assert_allclose(std, observed, rtol=0.12)


def test_the_log_scale_has_an_amplitude_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, 1))
    y = np.sin(6.0 * X[:, 0]) + 0.2 * rng.standard_normal(150)
    # no amplitude of the location
    model = PLSRegressor(RBF(0.3), likelihood=HeteroscedasticGaussian(), random_state=0)
    assert model.fit(X, y).likelihood_.variation < 0.5
    # a prior standard deviation that the user states
    likelihood = HeteroscedasticGaussian(variation=0.05)
    model = PLSRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    assert model.likelihood_.variation == pytest.approx(0.05)
    assert_allclose(model.likelihood_.scale_kernel_.diag(X), 1.0)


def test_a_kernel_of_the_log_scale_is_that_of_the_fit():
    X, y = growing_noise()
    model = PLSRegressor(likelihood=HeteroscedasticGaussian(), random_state=0)
    model.fit(X, y)
    settings = {"likelihood": model.likelihood_, "optimizer": None, "random_state": 0}
    again = PLSRegressor(model.kernel_, **settings).fit(X, y)
    assert_allclose(again.predict(X), model.predict(X), atol=0.02)
    chains = PLSRegressor(model.kernel_, n_neighbors=0, **settings).fit(X, y)
    assert chains.likelihood_.scale_kernel_ is None
    assert "kernel_of_log_scale" not in str(chains.report())
    # thirty equal rows are one
    PLSRegressor(likelihood=HeteroscedasticGaussian()).fit(
        np.ones((30, 1)), np.ones(30)
    )
