"""The default kernel in the units of a latent function."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skgpx._selection import (
    Hyperparameters,
    PriorSettings,
    fit_prior,
    with_base_rates,
)
from skgpx._selection._lengthscales import (
    LARGEST_STD,
    default_gre,
    default_latent_kernel,
    latent_scale,
    rough_latent,
)
from skgpx._selection._prior_kernel import warn_at_default_bounds
from skgpx._validation import Rows
from skgpx.kernels import GREKernel
from skgpx.likelihoods import Bernoulli, Categorical, Gaussian, Poisson, StudentT


def rows_of(y, seed=0):
    X = np.random.default_rng(seed).standard_normal((len(y), 1))
    return Rows(X, np.asarray(y, dtype=np.float64), np.ones(len(y)))


COUNTS = rows_of(
    np.random.default_rng(1).poisson(200.0 + 60.0 * np.arange(-20, 20) / 9)
)
BINARY = rows_of(np.arange(40) % 2)


@pytest.mark.parametrize(
    ("likelihood", "rows", "scale"),
    [
        (Gaussian(0.1), COUNTS, 1.0),
        (StudentT(), COUNTS, 1.0),
        (Bernoulli(), BINARY, 1.0),
        (Categorical(), BINARY, 1.0),
        (Poisson("exp"), COUNTS, 1.0),
        (Poisson("softplus"), COUNTS, np.std(COUNTS.y)),
        (Poisson("square"), COUNTS, np.std(np.sqrt(COUNTS.y))),
    ],
    ids=repr,
)
def test_scale(likelihood, rows, scale):
    prepared = likelihood.prepare(rows.y)
    assert latent_scale(rows, prepared) == pytest.approx(scale, rel=0.02)


def test_scale_of_nothing_is_one():
    class Silent(Poisson):
        def initial_latent(self, y):
            return np.zeros(np.shape(y)) + self.base_latent_

    assert latent_scale(COUNTS, Silent().prepare(COUNTS.y)) == 1.0


def test_scale_counts_weights_as_repetitions():
    weights = np.arange(40) % 3 * 1.0
    weighted = COUNTS._replace(weights=weights)
    repeated = rows_of(np.repeat(COUNTS.y, weights.astype(int)))
    prepared = Poisson().prepare(COUNTS.y, weights)
    assert latent_scale(weighted, prepared) == pytest.approx(
        latent_scale(repeated, Poisson().prepare(repeated.y))
    )


@pytest.mark.parametrize("prior", ["gre", "gp"])
@pytest.mark.parametrize("log_scale", [True, False])
def test_only_log_scales_are_capped(prior, log_scale):
    likelihood = Poisson("exp" if log_scale else "softplus").prepare(COUNTS.y)
    kernel = default_latent_kernel(COUNTS, likelihood, prior)
    s = latent_scale(COUNTS, likelihood)
    high = kernel.k1.constant_value_bounds[1]
    if log_scale:
        assert high == LARGEST_STD ** (1 if prior == "gre" else 2)
    else:
        assert high == pytest.approx(1e3 * s**2)
        assert kernel.k1.constant_value == pytest.approx(s**2)


def test_the_gre_kernel_has_the_variance_of_the_default_kernel():
    likelihood = Poisson().prepare(COUNTS.y)
    kernel = default_latent_kernel(COUNTS, likelihood, "gre")
    (gre,) = default_gre((GREKernel(kernel, COUNTS.X),), COUNTS, likelihood)
    far = np.full((1, 1), 1e6)
    assert gre.diag(far)[0] == pytest.approx(kernel.diag(far)[0])
    variance = gre.diag(COUNTS.X)
    assert np.all(variance <= 2.0 * kernel.diag(COUNTS.X) * (1.0 + 1e-9))
    assert gre.background_bounds[1] > gre.background
    capped = Bernoulli().prepare(BINARY.y)
    kernel = default_latent_kernel(BINARY, capped, "gre")
    (gre,) = default_gre((GREKernel(kernel, BINARY.X),), BINARY, capped)
    assert gre.background_bounds[1] == LARGEST_STD


def test_rough_latent_values_are_around_the_base():
    prepared = Poisson().prepare(COUNTS.y)
    rough = rough_latent(COUNTS, prepared)
    assert rough.shape == (40, 1)
    assert abs(rough.mean()) < 1e-3 * np.sqrt(np.mean(rough**2))


@pytest.mark.parametrize("prior", ["gre", "gp"])
def test_the_base_expects_the_rate_under_the_variance_far_away(prior):
    prepared = Poisson("exp").prepare(COUNTS.y)
    kernel = default_latent_kernel(COUNTS, prepared, prior)
    kernel.set_params(k1__constant_value=0.7)
    if prior == "gre":
        kernel = GREKernel(kernel, COUNTS.X, background=1.3)
    variance = kernel.diag(np.full((1, 1), 1e6))[0]
    moved = with_base_rates(COUNTS, prepared, kernel)
    shift = moved.base_latent_ - prepared.base_latent_
    np.testing.assert_allclose(shift, -0.5 * variance, rtol=1e-5)


# ---- Bounds of the default kernel ----------------------------------------------------


def found_at(likelihood, rows, **parameters):
    kernel = default_latent_kernel(rows, likelihood, "gre").set_params(**parameters)
    return Hyperparameters(GREKernel(kernel, rows.X), likelihood, 0.0)


def told(found):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        said = warn_at_default_bounds(found)
    assert said == bool(record)
    return [str(one.message) for one in record]


@pytest.mark.parametrize("excess", [0.9, 1.0])
def test_an_amplitude_at_its_bound_is_told(excess):
    likelihood = Poisson().prepare(COUNTS.y)
    high = default_latent_kernel(COUNTS, likelihood, "gre").k1.constant_value_bounds[1]
    messages = told(found_at(likelihood, COUNTS, k1__constant_value=excess * high))
    assert len(messages) == (excess == 1.0)
    for message in messages:
        assert "With Poisson and the default kernel" in message
        assert "kernel__k1__constant_value = [" in message
        assert "Give a `kernel` with wider ones, such as ConstantKernel(" in message


def test_the_cap_of_log_odds_is_not_told():
    likelihood = Bernoulli().prepare(BINARY.y)
    assert not told(found_at(likelihood, BINARY, k1__constant_value=LARGEST_STD))
    assert not told(found_at(likelihood, BINARY, k1__constant_value=1e-3))


def test_a_short_lengthscale_is_told():
    likelihood = Bernoulli().prepare(BINARY.y)
    low, high = default_latent_kernel(BINARY, likelihood, "gre").k2.length_scale_bounds
    assert not told(found_at(likelihood, BINARY, k2__length_scale=high))
    (message,) = told(found_at(likelihood, BINARY, k2__length_scale=low))
    assert "kernel__k2__length_scale" in message
    assert "log_scale" not in message


def test_bounds_survive_a_warm_start(rng):
    likelihood = Bernoulli().prepare(BINARY.y)
    settings = PriorSettings(None, "gre", "evidence", 1, "greedy", 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = fit_prior(BINARY, likelihood, settings, rng)
        again = fit_prior(BINARY, likelihood, settings, rng, first)
    assert again.kernel.background_bounds == first.kernel.background_bounds
