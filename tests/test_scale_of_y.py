"""Noise that is normal on another scale of y: what is learned, and what it means."""

import functools
import re
from itertools import product

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIRegressor,
    PLSRegressor,
    TemperedRegressor,
)
from skgpx._cells._cells import RowUnits
from skgpx._hyperparameters._candidates import default_candidates
from skgpx._hyperparameters._evidence import ExactEvidence
from skgpx._hyperparameters._scale_of_y import WarpedPosterior
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.warping import Warp
from skgpx._shell.validation import Rows
from skgpx.likelihoods import Gaussian, LogNormal, StudentT, Tobit, Warped
from skgpx.metrics import log_predictive_density_scorer

KERNEL = 1.0 * RBF([1.5, 2.0, 3.0])


def latent(n, seed=0):
    """Inputs, and a function plus normal noise of standard deviation .3."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    f = np.sin(1.5 * X[:, 0]) + X[:, 1]
    return X, f + 0.3 * rng.standard_normal(n)


@functools.cache
def learned(estimator):
    """A fit to sixty rows whose logarithm has normal noise, for tests of few states."""
    X, z = latent(60)
    return estimator(random_state=0).fit(X, np.exp(z))


@functools.cache
def log_normal():
    X, z = latent(120)
    return PLSRegressor(likelihood=LogNormal(), random_state=0).fit(X, np.exp(z))


def log_density(model, X, y):
    return float(np.mean(model.log_predictive_density(X, y)))


# ---- The evidence --------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["yeo-johnson", "box-cox"])
def test_log_posterior_of_the_power(transform):
    """At one it is that of y itself; its gradient is the difference of its values."""
    rng = np.random.default_rng(0)
    X, z = latent(40)
    y = np.exp(z)
    weights = rng.integers(1, 3, 40).astype(float)
    rows = Rows(X, y, weights)
    mean = np.average(y, weights=weights)
    std = np.sqrt(np.average((y - mean) ** 2, weights=weights))
    standard = rows._replace(y=(y - mean) / std)
    likelihood = Gaussian().prepare(standard.y, weights)
    candidate = default_candidates(standard, likelihood, 1.0)[0][-1]
    warp = Warp.of(transform, y, weights)
    posterior = WarpedPosterior(candidate, rows, likelihood, warp)
    u = candidate.starts()[1]
    point = np.concatenate((u, [np.log(0.2)]))

    evidence = ExactEvidence(standard, candidate.kernel, likelihood)
    theta = np.append(candidate.log_parameters(u), np.log(0.2))
    expected, _ = evidence.value_and_gradient(theta)
    log_prior, _ = candidate.log_prior(point, likelihood)
    loss_of_power, _ = posterior(np.append(point, 1.0))
    # the prior of the power, normal around one with std ½ within two of these
    log_prior_of_power = -np.log(0.5 * np.sqrt(2.0 * np.pi) * 0.9544997361)
    log_posterior = expected + log_prior - weights.sum() * np.log(std)
    assert -loss_of_power == pytest.approx(log_posterior + log_prior_of_power)

    for power in (0.0, 0.4, 1.6):
        centre = np.append(point, power)
        _, gradient = posterior(centre)
        h = 1e-5
        for i, slope in enumerate(gradient):
            step = h * (np.arange(len(centre)) == i)
            rise = posterior(centre + step)[0] - posterior(centre - step)[0]
            assert slope == pytest.approx(rise / (2.0 * h), rel=1e-4, abs=1e-4)


# ---- What is learned -----------------------------------------------------------------


@pytest.mark.parametrize("estimator", [PLSRegressor, ExactGPRegressor, GWIRegressor])
def test_the_default_learns_a_logarithm(estimator):
    X, z = latent(120)
    y = np.exp(z)
    X_test, z_test = latent(500, seed=1)
    y_test = np.exp(z_test)
    model = estimator(random_state=0).fit(X, y)
    assert isinstance(model.likelihood_, Warped)
    assert model.likelihood_.power < 0.2
    assert model.findings_ == ()
    assert "scale of y" in str(model.report())
    normal = "gaussian" if estimator is GWIRegressor else Gaussian()
    on_y = estimator(likelihood=normal, random_state=0)
    with pytest.warns(match="variation of y grows with its level"):
        on_y.fit(X, y)
    gain = log_density(model, X_test, y_test) - log_density(on_y, X_test, y_test)
    # the truth gains as much as this
    assert gain > 0.8
    low, high = model.predict_interval(X_test, coverage=0.9).T
    held = np.mean((low <= y_test) & (y_test <= high))
    assert 0.83 < held < 0.96
    # as good as the likelihood that made y, but for the power
    loss = log_density(log_normal(), X_test, y_test)
    loss -= log_density(model, X_test, y_test)
    assert loss < 0.08


def test_normal_noise_stays_as_it_is():
    """To the last bit, and whatever the skewness of the signal."""
    X, y = latent(60)
    model = PLSRegressor(random_state=0).fit(X, y)
    stated = PLSRegressor(likelihood=Gaussian(), random_state=0).fit(X, y)
    assert repr(model.likelihood_) == repr(stated.likelihood_)
    np.testing.assert_array_equal(model.predict(X), stated.predict(X))


@pytest.mark.filterwarnings("ignore:.*variation of y grows")
def test_what_is_given_stays_given():
    X, z = latent(60)
    y = np.exp(z)
    gaussian = (
        PLSRegressor(likelihood=Gaussian()),
        PLSRegressor(KERNEL + WhiteKernel(0.1)),
        PLSRegressor(normalize_y=False),
        PLSRegressor(KERNEL, optimizer=None),
        ExactGPRegressor(KERNEL, optimizer=None),
        ExactGPRegressor(KERNEL + WhiteKernel(0.1)),
        GWIRegressor("svgp", noise_variance=0.1),
        GWIRegressor("svgp", KERNEL, optimizer=None),
    )
    for model in gaussian:
        model.set_params(random_state=0).fit(X, y)
        assert type(model.likelihood_) is Gaussian, model
    model = PLSRegressor(random_state=0).fit(X, y, noise_variance=np.full(60, 0.1))
    assert type(model.likelihood_) is Gaussian
    # few rows, and values that repeat
    model = PLSRegressor(random_state=0).fit(X[:25], y[:25])
    assert type(model.likelihood_) is Gaussian
    model = PLSRegressor(random_state=0).fit(X, np.minimum(y, np.median(y)))
    assert type(model.likelihood_) is Gaussian


@pytest.mark.filterwarnings("ignore:.*at its bound")
def test_units_of_y():
    """Powers follow from y in any unit and, for Yeo and Johnson's, from any zero."""
    X, z = latent(60)
    y = np.exp(z)
    model = PLSRegressor(KERNEL, random_state=0).fit(X, y)
    scaled = PLSRegressor(KERNEL, random_state=0).fit(X, 1e3 * y)
    assert model.likelihood_.transform == scaled.likelihood_.transform == "box-cox"
    np.testing.assert_allclose(scaled.predict(X), 1e3 * model.predict(X), rtol=1e-6)
    evidence = model.log_evidence_ - 60 * np.log(1e3)
    assert scaled.log_evidence_ == pytest.approx(evidence)
    shifted = PLSRegressor(KERNEL, random_state=0).fit(X, y - 5.0)
    again = PLSRegressor(KERNEL, random_state=0).fit(X, 2.0 * y - 40.0)
    assert shifted.likelihood_.transform == "yeo-johnson"
    expected = 2.0 * (shifted.predict(X) + 5.0) - 40.0
    np.testing.assert_allclose(again.predict(X), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*at its bound")
def test_reflected_units_of_y():
    """Yeo and Johnson's function of -y with the power p is that of y with 2 - p."""
    X, z = latent(60)
    y = np.exp(0.3 * z) - 2.0
    model = PLSRegressor(KERNEL, random_state=0).fit(X, y)
    reflected = PLSRegressor(KERNEL, random_state=0).fit(X, -20.0 - 3.0 * y)
    likelihood = model.likelihood_
    assert likelihood.transform == reflected.likelihood_.transform == "yeo-johnson"
    assert 0.0 < likelihood.power < 1.0
    assert reflected.likelihood_.power == pytest.approx(
        2.0 - likelihood.power, abs=5e-3
    )
    std = reflected.likelihood_.power_std_
    assert std == pytest.approx(likelihood.power_std_, rel=0.02)
    expected = -20.0 - 3.0 * model.predict_quantiles(X, [0.9, 0.5, 0.1])
    quantiles = reflected.predict_quantiles(X, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(quantiles, expected, rtol=1e-2)
    # Box and Cox's function is for positive y: it has no reflection
    assert learned(PLSRegressor).likelihood_.transform == "box-cox"
    negative = PLSRegressor(KERNEL, random_state=0).fit(X, -np.exp(z))
    assert negative.likelihood_.transform == "yeo-johnson"
    assert negative.likelihood_.power > 1.9


@pytest.mark.filterwarnings("ignore:.*heavy tails")
def test_posterior_of_the_power():
    X, z = latent(150, seed=1)
    model = PLSRegressor(hyperparameters="maximise", random_state=0)
    model.fit(X, (z + 6.0) ** 2)
    likelihood = model.likelihood_
    # the square root has normal noise
    assert 0.02 < likelihood.power_std_ < 0.2
    assert abs(likelihood.power - 0.5) < 3.0 * likelihood.power_std_
    described = model.report()["model"]["scale_of_y"]
    pattern = r"Box-Cox, power 0\.4\d* ± 0\.09\d*, probability 0\.9\d* \(0 is"
    assert re.match(pattern, described)
    # one that is stated has none
    assert fixed(0.5).fit(X, np.exp(z)).likelihood_.power_std_ == 0.0


@pytest.mark.parametrize("estimator", [PLSRegressor, ExactGPRegressor, GWIRegressor])
def test_powers_at_a_bound_are_found(estimator):
    """Of a tail longer than that of a logarithm, to the right or to the left."""
    X, z = latent(60)
    y = np.exp(z) - 5.0
    for sign, remedy in ((1.0, "smallest possible"), (-1.0, "largest possible")):
        model = estimator(kernel=KERNEL, random_state=0)
        with pytest.warns(match=remedy):
            model.fit(X, sign * y)
        assert "scale of y at its bound" in {one.check for one in model.findings_}


@pytest.mark.parametrize("seed", range(3))
def test_other_powers_are_no_findings(seed):
    X, z = latent(60, seed)
    for y in (z, np.exp(z), (z + 6.0) ** 2, np.sqrt(z + 6.0)):
        model = PLSRegressor(KERNEL, hyperparameters="maximise", random_state=0)
        model.fit(X, y)
        checks = {finding.check for finding in model.findings_}
        assert "scale of y at its bound" not in checks


def test_weights_are_repetitions():
    X, z = latent(50)
    y = np.exp(z)
    weights = np.where(np.arange(50) < 10, 2.0, 1.0)
    repeated = np.repeat(np.arange(50), weights.astype(int))[::-1]
    by_weight = PLSRegressor(random_state=0).fit(X, y, sample_weight=weights)
    by_rows = PLSRegressor(random_state=0).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(by_rows.predict(X), by_weight.predict(X), rtol=1e-9)
    assert by_rows.log_evidence_ == pytest.approx(by_weight.log_evidence_)


@pytest.mark.parametrize("base", [None, StudentT(), Tobit()])
def test_a_scale_that_is_asked_for_is_the_one_that_is_learned(base):
    """Of positive targets it may be a logarithm, and of others not."""
    X, z = latent(150)
    y = np.exp(z)
    asked = PLSRegressor(KERNEL, likelihood=Warped(base), random_state=0).fit(X, y)
    learned_scale = PLSRegressor(KERNEL, random_state=0).fit(X, y).likelihood_
    assert asked.likelihood_.transform == learned_scale.transform == "box-cox"
    assert asked.likelihood_.power == learned_scale.power
    moved = PLSRegressor(KERNEL, likelihood=Warped(base), random_state=0)
    assert moved.fit(X, z).likelihood_.transform == "yeo-johnson"


def test_tails_on_the_scale():
    X, z = latent(150)
    z[::15] += np.where(np.arange(10) % 2, 3.0, -3.0)
    model = PLSRegressor(KERNEL, random_state=0).fit(X, np.exp(z))
    assert isinstance(model.likelihood_, Warped)
    assert isinstance(model.likelihood_.base, StudentT)


# ---- What it means -------------------------------------------------------------------


def fixed(power, transform="box-cox", base=None):
    likelihood = Warped(base, transform=transform, power=power)
    return PLSRegressor(KERNEL, likelihood=likelihood, random_state=0)


def test_powers_of_other_likelihoods():
    """A logarithm is LogNormal, and a power of one is normal noise."""
    X, z = latent(60)
    y = np.exp(z)
    log_normal = PLSRegressor(KERNEL, likelihood=LogNormal(), random_state=0)
    normal = PLSRegressor(KERNEL, likelihood=Gaussian(), random_state=0)
    for model, other in (
        (fixed(0.0), log_normal),
        (fixed(1.0, "yeo-johnson"), normal),
    ):
        model.fit(X, y)
        with pytest.warns() if other is normal else np.errstate():
            other.fit(X, y)
        assert model.log_evidence_ == pytest.approx(other.log_evidence_)
        distribution = model.predict_dist(X)
        expected = other.predict_dist(X)
        np.testing.assert_allclose(distribution.mean(), expected.mean(), rtol=1e-4)
        np.testing.assert_allclose(distribution.std(), expected.std(), rtol=1e-3)
        for method in ("log_density", "cdf", "crps"):
            np.testing.assert_allclose(
                getattr(distribution, method)(y),
                getattr(expected, method)(y),
                rtol=1e-5,
                atol=1e-7,
            )
        np.testing.assert_allclose(
            distribution.quantile([0.05, 0.5]),
            expected.quantile([0.05, 0.5]),
            rtol=1e-9,
        )


@pytest.mark.parametrize("transform", ["box-cox", "yeo-johnson"])
def test_moments_are_those_of_the_samples(transform):
    X, z = latent(60)
    model = fixed(0.3, transform).fit(X, np.exp(z))
    rows = X[:5]
    n = 3000
    samples = model.sample_y(rows, n, random_state=1)
    mean, std = model.predict(rows, return_std=True)
    error = (samples.mean(1) - mean) / (std / np.sqrt(n))
    assert np.all(np.abs(error) < 4.0)
    squares = (samples - mean[:, np.newaxis]) ** 2
    error = (squares.mean(1) - std**2) / (squares.std(1) / np.sqrt(n))
    assert np.all(np.abs(error) < 4.0)
    # a covariance that has these variances, and the correlations of the samples
    _, covariance = model.predict(rows, return_cov=True)
    np.testing.assert_allclose(np.diagonal(covariance), std**2)
    assert np.linalg.eigvalsh(covariance).min() > 0.0
    difference = np.cov(samples) - covariance
    assert np.max(np.abs(difference / np.outer(std, std))) < 6.0 / np.sqrt(n)


def test_medians_of_functions():
    """Draws are functions on the scale; its inverse gives medians of y."""
    X, z = latent(60)
    model = fixed(0.3).fit(X, np.exp(z))
    medians = model.likelihood_.inverse(model.sample_functions(4000)(X[:5]))
    expected = model.predict_quantiles(X[:5], [0.5])[:, 0]
    np.testing.assert_allclose(np.median(medians, axis=1), expected, rtol=0.03)


def test_rows_come_in_parts():
    X, z = latent(90)
    y = np.exp(z)
    # the first rows say where the middle is
    given = fixed(0.3, base=Gaussian(0.1)).set_params(optimizer=None)
    first = given.fit(X[:60], y[:60])
    scale = first.likelihood_.warp_
    whole = fixed(0.3, base=Gaussian(0.1)).set_params(optimizer=None)
    whole.partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    assert whole.likelihood_.warp_ == scale
    on_scale = PLSRegressor(
        KERNEL, likelihood=Gaussian(0.1), optimizer=None, random_state=0
    )
    on_scale.partial_fit(X[:60], scale.forward(y[:60]))
    on_scale.partial_fit(X[60:], scale.forward(y[60:]))
    np.testing.assert_allclose(
        whole.predict_quantiles(X, [0.5])[:, 0], scale.inverse(on_scale.predict(X))
    )
    volume = float(np.sum(scale.log_slope(y)))
    assert whole.log_evidence_ == pytest.approx(on_scale.log_evidence_ + volume)
    # models of different scales do not merge
    other = fixed(0.4, base=Gaussian(0.1)).set_params(optimizer=None)
    with pytest.raises(ValueError, match="same kernel"):
        first + other.fit(X[:60], y[:60])


def test_rows_of_dask():
    array = pytest.importorskip("dask.array")
    X, z = latent(160)
    y = np.exp(z)
    model = PLSRegressor(KERNEL, random_state=0, hyperparameters="maximise").fit(X, y)
    parts = PLSRegressor(KERNEL, random_state=0, hyperparameters="maximise")
    parts.fit(array.from_array(X, (40, 3)), array.from_array(y, 40))
    assert repr(parts.likelihood_) == repr(model.likelihood_)
    assert parts.log_evidence_ == pytest.approx(model.log_evidence_)
    np.testing.assert_allclose(parts.predict(X), model.predict(X), rtol=1e-6)
    # rows that the sample does not have
    units = RowUnits(warp=model.likelihood_.warp_)
    assert model.likelihood_.transform == "box-cox"
    with pytest.raises(ValueError, match="positive y in all parts; got -1"):
        units.standardised(Rows(X[:2], np.array([1.0, -1.0]), np.ones(2)))


def test_exact_processes_have_the_same_scale():
    X, z = latent(200)
    y = np.exp(z)
    model = ExactGPRegressor(KERNEL, n_draws=512, random_state=0, tol=1e-4).fit(X, y)
    other = PLSRegressor(KERNEL, hyperparameters="maximise", random_state=0).fit(X, y)
    assert model.likelihood_.power == other.likelihood_.power
    np.testing.assert_allclose(
        model.predict_quantiles(X, 0.5), other.predict_quantiles(X, 0.5), rtol=0.02
    )
    with pytest.raises(ValueError, match="expects normal noise"):
        ExactGPRegressor(likelihood=Warped(StudentT())).fit(X, y)


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
# draws of sums of functions, beside next to no noise
@pytest.mark.filterwarnings("ignore:With .* Fourier features")
@pytest.mark.parametrize("likelihood", [None, Warped(), Warped(StudentT())])
def test_predictions_far_away_are_finite(likelihood):
    rng = np.random.default_rng(0)
    X, z = latent(60)
    y = np.exp(2.0 * z)
    y[0] = 1e4
    model = PLSRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    far = 100.0 * rng.standard_normal((20, 3))
    with pytest.warns(match="far outside"):
        distribution = model.predict_dist(far)
    for values in (
        distribution.mean(),
        distribution.std(),
        distribution.quantile([1e-4, 0.5, 0.9999]),
        distribution.log_density(np.full(20, 3.0)),
        distribution.crps(np.full(20, 3.0)),
        distribution.sample(10, random_state=0),
    ):
        assert np.all(np.isfinite(values))


def test_powers_that_are_refused():
    X, z = latent(40)
    for likelihood, message in (
        (Warped(power=2.5), "from 0 to 2"),
        (Warped(transform="logarithm"), "transform"),
        (Warped(LogNormal()), "with f as location"),
        (Warped(transform="box-cox"), "positive y"),
    ):
        with pytest.raises(ValueError, match=message):
            PLSRegressor(likelihood=likelihood, random_state=0).fit(X, z)


# ---- Several targets -----------------------------------------------------------------

# Of two targets: the first on a scale, and the second as it is.
OF_TWO = Warped(transform=("box-cox", "yeo-johnson"), power=(0.3, 1.0))


def two_targets(n, seed=0):
    X, z = latent(n, seed)
    rng = np.random.default_rng(seed + 10)
    return X, np.column_stack((np.exp(z), X[:, 1] + 0.2 * rng.standard_normal(n)))


def with_kernel(likelihood):
    return PLSRegressor(KERNEL, likelihood=likelihood, optimizer=None, random_state=0)


@pytest.mark.parametrize("estimator", [PLSRegressor, ExactGPRegressor, GWIRegressor])
def test_each_target_has_its_scale(estimator):
    X, Y = two_targets(80)
    Y = np.column_stack((Y, Y[:, 0]))
    X_test, Y_test = two_targets(500, seed=1)
    model = estimator(random_state=0).fit(X, Y)
    likelihood = model.likelihood_
    assert likelihood.transform == ("box-cox", "yeo-johnson", "box-cox")
    assert likelihood.power[0] == likelihood.power[2] < 0.2
    assert likelihood.power[1] == 1.0
    assert model.findings_ == ()
    described = model.report()["model"]["scale_of_y"]
    assert re.fullmatch(r"(Box-Cox, power 0\S* .*); y; \1", described)
    names = {"Warped": Warped, "Gaussian": Gaussian, "array": np.array}
    again = eval(repr(likelihood), names)
    assert again.power == likelihood.power
    # equal targets are one
    distributions = model.predict_dist(X_test)
    for method in ("mean", "std", "interval"):
        first, _, third = (getattr(one, method)() for one in distributions)
        np.testing.assert_array_equal(first, third)
    # as good as fits of their own, which average hyperparameters
    settings = {"method": "exact"} if estimator is PLSRegressor else {}
    for j, distribution in enumerate(distributions[:2]):
        alone = estimator(random_state=0, **settings).fit(X, Y[:, j])
        assert isinstance(alone.likelihood_, Warped) == (j == 0)
        loss = log_density(alone, X_test, Y_test[:, j])
        loss -= np.mean(distribution.log_density(Y_test[:, j]))
        assert loss < 0.05


def test_targets_on_scales_are_those_of_single_fits():
    X, Y = two_targets(60)
    rows, Y_new = two_targets(20, seed=1)
    model = with_kernel(OF_TWO).fit(X, Y)
    singles = [
        with_kernel(Warped(transform="box-cox", power=0.3)).fit(X, Y[:, 0]),
        with_kernel(Gaussian()).fit(X, Y[:, 1]),
    ]
    total = 0.0
    for j, (distribution, one) in enumerate(
        zip(model.predict_dist(rows), singles, strict=True)
    ):
        alone = one.predict_dist(rows)
        for method, argument in (
            ("mean", ()),
            ("std", ()),
            ("std", (False,)),
            ("quantile", ([0.01, 0.5, 0.9],)),
            ("cdf", (Y_new[:, j],)),
            ("log_density", (Y_new[:, j],)),
            ("crps", (Y_new[:, j],)),
            ("covariance", ()),
        ):
            values = getattr(distribution, method)(*argument)
            expected = getattr(alone, method)(*argument)
            # noise by a bound for targets, and by the evidence itself for one
            np.testing.assert_allclose(values, expected, rtol=3e-3, atol=1e-3)
        total = total + distribution.log_density(Y_new[:, j])
    density = model.log_predictive_density(rows, Y_new)
    np.testing.assert_allclose(density, total)
    evidences = [one.log_evidence_ for one in singles]
    assert model.log_evidence_ == pytest.approx(sum(evidences), abs=1e-3)
    # in the units of y, the second of which is that of the scale
    noise = {"noise_variance": np.full(20, 0.3)}
    _, std = model.predict(rows, return_std=True, **noise)
    for j, one in enumerate(singles):
        _, expected = one.predict(rows, return_std=True, **noise)
        np.testing.assert_allclose(std[:, j], expected, rtol=3e-3)
    # samples have the moments, and draws of functions have the medians
    n = 4000
    mean, std = model.predict(rows, return_std=True)
    samples = model.sample_y(rows, n, random_state=1)
    error = (samples.mean(axis=2) - mean) / (std / np.sqrt(n))
    assert np.all(np.abs(error) < 4.5)
    draws = model.sample_functions(n, random_state=1)(rows)
    medians = model.likelihood_.inverse(np.moveaxis(draws, 1, -1))
    expected = model.predict_quantiles(rows, [0.5])[..., 0]
    np.testing.assert_allclose(
        np.median(medians, axis=1), expected, rtol=0.03, atol=0.03
    )


def test_gaps_of_targets_on_scales():
    """Each target is that of the rows where it is known."""
    X, Y = two_targets(60)
    rows, _ = two_targets(10, seed=1)
    Y[:15, 0] = np.nan
    model = with_kernel(OF_TWO).fit(X, Y)
    one = with_kernel(Warped(transform="box-cox", power=0.3)).fit(X[15:], Y[15:, 0])
    medians = model.predict_quantiles(rows, 0.5)[:, 0]
    np.testing.assert_allclose(medians, one.predict_quantiles(rows, 0.5), rtol=0.02)
    learned = PLSRegressor(KERNEL, random_state=0).fit(X, Y)
    assert learned.likelihood_.power[0] < 0.3
    assert np.all(np.isfinite(learned.predict(rows)))


def test_normal_targets_stay_as_they_are():
    X, Y = two_targets(60)
    Y[:, 0] = np.log(Y[:, 0])
    model = PLSRegressor(random_state=0).fit(X, Y)
    stated = PLSRegressor(likelihood=Gaussian(), random_state=0).fit(X, Y)
    assert repr(model.likelihood_) == repr(stated.likelihood_)
    np.testing.assert_array_equal(model.predict(X), stated.predict(X))


def test_scales_of_targets_in_parts():
    array = pytest.importorskip("dask.array")
    X, Y = two_targets(160)
    model = PLSRegressor(KERNEL, random_state=0).fit(X, Y)
    parts = PLSRegressor(KERNEL, random_state=0)
    parts.fit(array.from_array(X, (40, 3)), array.from_array(Y, (40, 2)))
    assert parts.likelihood_.power == model.likelihood_.power
    assert parts.log_evidence_ == pytest.approx(model.log_evidence_)
    np.testing.assert_allclose(parts.predict(X), model.predict(X), rtol=1e-6)
    lazy = parts.predict_dist(array.from_array(X, (40, 3)))[0].quantile(0.9)
    expected = model.predict_quantiles(X, [0.9])[:, 0, 0]
    np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-6)


def test_a_power_at_its_bound_names_the_target():
    X, Y = two_targets(60)
    Y[:, 0] -= 5.0
    with pytest.warns(match="Target 0: The scale of y"):
        PLSRegressor(random_state=0).fit(X, Y)


@pytest.mark.parametrize("estimator", [PLSRegressor, ExactGPRegressor])
def test_each_target_learns_the_power_of_its_transform(estimator):
    X, Y = two_targets(60)
    stated = Warped(transform=("box-cox", "yeo-johnson"))
    model = estimator(KERNEL, likelihood=stated, random_state=0)
    fitted = model.fit(X, Y).likelihood_
    assert fitted.transform == stated.transform
    for j, transform in enumerate(stated.transform):
        model.set_params(likelihood=Warped(transform=transform))
        alone = model.fit(X, Y[:, j]).likelihood_
        assert fitted.power[j] == pytest.approx(alone.power)


def test_powers_of_targets_that_are_refused():
    X, Y = two_targets(40)
    for likelihood, y, message in (
        (Warped(power=(0.1, 2.5)), Y, "from 0 to 2"),
        (Warped(power=(0.1, None)), Y, "from 0 to 2"),
        (Warped(power=(0.1, 0.2, 0.3)), Y, "one for each of several"),
        (Warped(power=(0.1, 0.2)), Y[:, 0], "one for each of several"),
        (Warped(transform=("box-cox",) * 3), Y, "one for each of several"),
        (Warped(transform=("box-cox",) * 2), Y[:, 0], "one for each of several"),
        (Warped(transform=("box-cox", "log")), Y, "transform"),
        (Warped(transform="box-cox"), Y, "positive y"),
        (Warped(StudentT()), Y, "MultiOutputRegressor"),
    ):
        with pytest.raises(ValueError, match=message):
            PLSRegressor(likelihood=likelihood, random_state=0).fit(X, y)


# ---- Rows that tell little -----------------------------------------------------------


def targets_that_tell_little():
    """Inputs, and targets of forty rows by what is odd about them."""
    X, z = latent(40)
    y = np.exp(z)
    far = y.copy()
    far[3] = 1e8
    zeros = y.copy()
    zeros[:4] = 0.0
    tiny = y.copy()
    tiny[3] = 1e-100
    return X, {
        "ties": np.round(y, 1),
        "zeros": zeros,
        "a large offset": 1e6 + 1e-3 * y,
        "all but constant": 3.7 + 1e-14 * y,
        "a small unit": 1e-12 * y,
        "a large unit": 1e100 * y,
        "an outlier": far,
        "an outlier below": -far,
        "one value next to zero": tiny,
        "two values": np.sign(z),
        "steep": np.exp(10.0 * z),
    }


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning")
@pytest.mark.parametrize(
    ("estimator", "case"),
    [
        *((PLSRegressor, case) for case in targets_that_tell_little()[1]),
        # one of each kind: far, repeated, of a large unit, and steep
        *product(
            (ExactGPRegressor, GWIRegressor),
            ("an outlier", "ties", "a large unit", "steep"),
        ),
    ],
)
def test_whatever_the_targets_predictions_are_finite(estimator, case):
    X, targets = targets_that_tell_little()
    y = targets[case]
    model = estimator(kernel=KERNEL, random_state=0).fit(X, y)
    distribution = model.predict_dist(np.vstack((X[:5], 10.0 * X[:5])))
    some = np.tile(y[:5], 2)
    for values in (
        distribution.mean(),
        distribution.std(),
        distribution.log_density(some),
        distribution.cdf(some),
        distribution.crps(some),
        distribution.sample(3, random_state=0),
    ):
        assert np.all(np.isfinite(values))
    assert np.all(np.diff(distribution.quantile([0.001, 0.1, 0.5, 0.9, 0.999])) >= 0.0)


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning")
@pytest.mark.parametrize(
    ("estimator", "shift", "unit"),
    [
        (PLSRegressor, 1e6, 1e-3),
        (PLSRegressor, -3e-12, 1e-12),
        (PLSRegressor, -1e5, 7.0),
        (ExactGPRegressor, 1e6, 1e-3),
        (GWIRegressor, 1e6, 1e-3),
    ],
)
def test_units_of_few_rows(estimator, shift, unit):
    """Of every estimator, and with weights."""
    X, z = latent(40)
    y = np.exp(z) - 20.0
    weights = np.where(np.arange(40) < 8, 3.0, 1.0)
    one = estimator(kernel=KERNEL, random_state=0).fit(X, y, weights)
    two = estimator(kernel=KERNEL, random_state=0).fit(X, shift + unit * y, weights)
    assert isinstance(one.likelihood_, Warped)
    assert two.likelihood_.power == pytest.approx(one.likelihood_.power, abs=2e-3)
    expected = shift + unit * one.predict_quantiles(X, [0.1, 0.5, 0.9])
    quantiles = two.predict_quantiles(X, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(quantiles, expected, atol=2e-3 * unit * np.std(y))


# ---- Others that read it -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*variation of y grows")
@pytest.mark.parametrize(
    "estimator",
    [
        None,
        PLSRegressor(n_neighbors=0, random_state=0),
        ExactGPRegressor(random_state=0),
        GWIRegressor(random_state=0),
    ],
)
def test_functions_of_samplers_are_those_of_y(estimator):
    """Their means are the predictions, and values to condition on are values of y."""
    X, z = latent(40)
    y = np.exp(z)
    sampler = DecoupledSampler(estimator, random_state=0).fit(X, y)
    assert estimator is None or estimator.likelihood is None
    draws = sampler.sample_functions(32, random_state=0)(X[:5])
    error = draws.mean(1) - sampler.predict(X[:5])
    assert np.all(np.abs(error) < 4.0 * draws.std(1) / np.sqrt(32))


@pytest.mark.parametrize("estimator", [PLSRegressor, ExactGPRegressor])
def test_more_rows_have_to_be_positive(estimator):
    X, z = latent(60)
    y = np.exp(z)
    if estimator is PLSRegressor:
        model = PLSRegressor(hyperparameters="maximise", random_state=0)
        model.partial_fit(X, y)
        with pytest.raises(ValueError, match="first rows had positive y"):
            model.partial_fit(X[:1], [-1.0])
        return
    model = ExactGPRegressor(warm_start=True, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="first rows had positive y"):
        model.fit(X, np.append(y[1:], -1.0))
    # another likelihood is another fit
    with pytest.warns(match="variation of y grows"):
        model.set_params(likelihood=Gaussian()).fit(X, y)
    assert type(model.likelihood_) is Gaussian


def test_held_out_targets_that_are_not_positive():
    """Next to impossible, and no error: nothing is known of them in the fit."""
    X, _ = latent(60)
    model = learned(PLSRegressor)
    assert model.likelihood_.transform == "box-cox"
    distribution = model.predict_dist(X[:3])
    assert np.all(distribution.log_density(np.zeros(3)) < -100.0)
    assert np.all(distribution.cdf(np.full(3, -1.0)) < 1e-300)
    assert np.all(np.isfinite(distribution.crps([-1.0, 0.0, 1.0])))
    scorer = log_predictive_density_scorer
    assert scorer(model, X[:3], np.array([0.0, 1.0, 1.0])) < -100.0


@pytest.mark.parametrize("base", [Gaussian(), StudentT(), Tobit()])
@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0, 2.0])
def test_zero_has_no_density_on_a_scale_of_positive_numbers(power, base):
    """The slope of powers has a pole there; what mass there is is in the cdf."""
    X, z = latent(60)
    model = fixed(power, base=base).fit(X, np.exp(z))
    densities = model.log_predictive_density(X[:3], [0.0, -1.0, np.exp(z[2])])
    assert np.all(densities[:2] < -1e4)
    assert densities[2] > -10.0
    distribution = model.predict_dist(X[:3])
    np.testing.assert_allclose(
        distribution.cdf(np.zeros(3)), distribution.cdf(np.full(3, 1e-9)), atol=1e-3
    )


def test_draws_are_conditioned_on_their_scale():
    X, z = latent(60)
    model = fixed(0.3).fit(X, np.exp(z))
    new = X[:4] + 0.1
    y = np.array([0.5, 1.0, 2.0, 3.0])
    draws = model.sample_functions(8, random_state=0)
    draws = draws.condition(new, model.likelihood_.forward(y), random_state=0)
    medians = model.likelihood_.inverse(draws(new))
    np.testing.assert_allclose(medians, np.tile(y[:, np.newaxis], 8), rtol=1e-4)


def test_stretched_distributions():
    X, z = latent(60)
    model = TemperedRegressor(PLSRegressor(KERNEL, random_state=0), cv=2).fit(
        X, np.exp(z)
    )
    low, high = model.predict_interval(X).T
    assert np.all(low < high)


@pytest.mark.parametrize("likelihood", [Warped(), None])
def test_constant_targets(likelihood):
    X, _ = latent(40)
    model = PLSRegressor(likelihood=likelihood, random_state=0).fit(X, np.ones(40))
    np.testing.assert_allclose(model.predict(X), 1.0)


def test_a_random_state_is_drawn_from_once():
    X, y = latent(60)
    default = PLSRegressor(random_state=np.random.RandomState(0)).fit(X, y)
    stated = PLSRegressor(likelihood=Gaussian(), random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(default.predict(X), stated.fit(X, y).predict(X))


def test_left_out_density_of_repeated_rows():
    """A row of weight two is left out as two rows, and predicts one observation."""
    X, z = latent(30)
    y = np.exp(z)
    weights = np.where(np.arange(30) < 10, 2.0, 1.0)
    standard = (y - np.average(y, weights=weights)) / y.std()
    likelihood = Gaussian().prepare(standard, weights)
    rows = Rows(X, y, weights)
    candidate = default_candidates(rows, likelihood, 1.0)[0][-1]
    warp = Warp.of("box-cox", y, weights)
    posterior = WarpedPosterior(candidate, rows, likelihood, warp)
    u = candidate.starts()[1]
    point = np.concatenate((u, [np.log(0.2), 0.3]))
    z, log_slope, _, _ = posterior._standardised(0.3)
    K = candidate.kernel_at(u)(X)
    total = 0.0
    for i in range(30):
        others = np.arange(30) != i
        C = K[np.ix_(others, others)] + np.diag(0.2 / weights[others])
        k = np.linalg.solve(C, K[others, i])
        mean = k @ z[others]
        variance = K[i, i] - k @ K[others, i] + 0.2
        log_density = -0.5 * (z[i] - mean) ** 2 / variance
        log_density -= 0.5 * np.log(2.0 * np.pi * variance)
        total += weights[i] * (log_density + log_slope[i])
    assert posterior.left_out_density(point) == pytest.approx(total / weights.sum())


@pytest.mark.parametrize("transform", ["box-cox", "yeo-johnson"])
@pytest.mark.parametrize("power", [0.0, 0.4, 2.0])
def test_moments_of_wide_latent_functions(transform, power):
    """The integrals of y over a normal g(y) that leaves the range of the rows."""
    y = np.exp(np.random.default_rng(0).standard_normal(50))
    likelihood = Warped(Gaussian(0.01), transform, power).prepare(y)
    unit = likelihood.warp_.unit
    mixture = LatentMixture(
        np.full((1, 1, 1), unit), np.full((1, 1, 1), 9.0), np.ones(1)
    )
    z, step = np.linspace(unit - 30.0, unit + 30.0, 200_001, retstep=True)
    density = np.exp(-0.5 * (z - unit) ** 2 / 9.01) / np.sqrt(2.0 * np.pi * 9.01)
    values = likelihood.inverse(z)
    first = step * density @ values
    second = step * density @ (values - first) ** 2
    mean, variance = likelihood.predictive_moments(mixture)
    assert mean[0] == pytest.approx(first, rel=1e-3)
    assert variance[0] == pytest.approx(second, rel=1e-3)


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
@pytest.mark.parametrize("estimator", [PLSRegressor, ExactGPRegressor, GWIRegressor])
def test_means_far_away_are_not_those_of_exponentials(estimator):
    """A logarithm learned on 60 rows says nothing of values 1000 times as large."""
    rng = np.random.default_rng(1)
    X, z = latent(60)
    y = np.exp(1.5 * z + 0.5 * rng.standard_normal(60))
    model = estimator(random_state=0).fit(X, y)
    assert model.likelihood_.power == 0.0
    far = 20.0 * rng.standard_normal((20, 3))
    with pytest.warns(match="far outside"):
        distribution = model.predict_dist(far)
    # the trend goes on for 20 to 50 standard deviations of log y
    assert np.all(distribution.mean() < 100.0 * np.ptp(y))
    assert np.all(distribution.std() < 100.0 * np.ptp(y))


@pytest.mark.parametrize("base", [Gaussian(), StudentT(df=8.0)])
@pytest.mark.parametrize("transform", ["box-cox", "yeo-johnson"])
def test_noise_of_new_rows_is_that_of_y(base, transform):
    """To first order: the slope of the scale at the mean takes it there."""
    X, z = latent(60)
    model = fixed(0.3, transform, base).fit(X, np.exp(z))
    rows = X[:10]
    mean, own = model.predict(rows, return_std=True)
    np.testing.assert_array_equal(model.predict(rows, noise_variance=None), mean)
    # next to no noise leaves that of the mean
    _, of_mean = model.predict(rows, return_std=True, noise_variance=0.0)
    assert np.all(of_mean < own)
    # a little noise adds its variance
    noise_variance = np.linspace(0.01, 0.02, 10) * mean**2
    _, std = model.predict(rows, return_std=True, noise_variance=noise_variance)
    ratio = base.df / (base.df - 2.0) if isinstance(base, StudentT) else 1.0
    added = (std**2 - of_mean**2) / (ratio * noise_variance)
    assert np.all((added > 0.8) & (added < 1.3))
    # of each row, whatever rows are beside it
    for function in (model.predict_quantiles, model.predict_interval):
        whole = function(rows, noise_variance=noise_variance)
        part = function(rows[3:4], noise_variance=noise_variance[3])
        np.testing.assert_allclose(part, whole[3:4], rtol=1e-9)
    distribution = model.predict_dist(rows, noise_variance=noise_variance)
    np.testing.assert_allclose(distribution.std(), std)
    _, covariance = model.predict(rows, return_cov=True, noise_variance=noise_variance)
    np.testing.assert_allclose(np.diagonal(covariance), std**2)
    samples = distribution.sample(1000, random_state=0)
    error = (samples.mean(1) - distribution.mean()) / (std / np.sqrt(1000))
    assert np.all(np.abs(error) < 4.0)
    squares = (samples - distribution.mean()[:, np.newaxis]) ** 2
    error = (squares.mean(1) - std**2) / (squares.std(1) / np.sqrt(1000))
    assert np.all(np.abs(error) < 4.0)


@pytest.mark.parametrize("estimator", [PLSRegressor, ExactGPRegressor, GWIRegressor])
def test_noise_of_new_rows_where_the_scale_was_learned(estimator):
    X, z = latent(60)
    y = np.exp(z)
    model = learned(estimator)
    _, std = model.predict(X[:5], return_std=True, noise_variance=1e-3)
    _, noisy = model.predict(X[:5], return_std=True, noise_variance=1.0)
    assert np.all(std < noisy)
    with pytest.raises(ValueError, match="noise_variance of rows is for"):
        PLSRegressor(likelihood=Warped(), random_state=0).fit(X, y, noise_variance=0.1)
