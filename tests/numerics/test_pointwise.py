import numpy as np
import pytest
from scipy import special

from skgpx._numerics import elementary, pointwise
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Poisson,
    ShiftedMixture,
    StudentT,
)

SCALAR = [
    Gaussian(noise_variance=0.3),
    StudentT(df=4.0, scale=0.7),
    StudentT(df=1.5, scale=3.0),
    Bernoulli(link="logit"),
    Bernoulli(link="probit"),
    Poisson(link="softplus"),
    Poisson(link="exp"),
    Poisson(link="square"),
    ShiftedMixture(shift=2.0, probability=0.3, noise_variance=0.5),
    ShiftedMixture(shift=-5.0, probability=0.999, noise_variance=0.1),
]


def targets(likelihood, n):
    if isinstance(likelihood, Bernoulli):
        return np.arange(n) % 2.0
    if isinstance(likelihood, Poisson):
        return np.arange(n) % 7.0
    return np.linspace(-3.0, 3.0, n)


def run(likelihood, y, f, n_outputs=1, with_value=True):
    f = np.ascontiguousarray(f)
    value = np.full((y.size, f.shape[1] // n_outputs), 7.0)
    gradient = np.empty(f.shape)
    pointwise.value_and_gradient(
        pointwise.formula_of(likelihood.kernel_code),
        likelihood.kernel_parameters(),
        y,
        f,
        with_value,
        value,
        gradient,
    )
    return value, gradient


@pytest.mark.parametrize("likelihood", SCALAR, ids=repr)
def test_equals_the_numpy_formulas_up_to_a_constant(likelihood, rng):
    y = targets(likelihood, 6)
    f = rng.standard_normal((6, 11)) * np.linspace(0.1, 12.0, 11)
    value, gradient = run(likelihood, y, f)
    column = y[:, np.newaxis]
    np.testing.assert_allclose(
        gradient, likelihood.gradient(column, f), rtol=1e-12, atol=1e-13
    )
    dropped = likelihood.nll(column, f) - value
    size = 1.0 + np.abs(likelihood.nll(column, f))
    assert np.max(np.abs(dropped - dropped[:, :1]) / size) < 1e-12
    untouched, again = run(likelihood, y, f, with_value=False)
    np.testing.assert_array_equal(untouched, 7.0)
    np.testing.assert_allclose(again, gradient, rtol=1e-13)


@pytest.mark.parametrize("likelihood", SCALAR, ids=repr)
def test_finite_far_away_and_nan_stays_in_its_element(likelihood):
    y = targets(likelihood, 2)
    far = np.array([-1e6, -1e3, -40.0, -0.0, 0.0, 40.0, 1e3, 1e6, np.nan])
    value, gradient = run(likelihood, y, np.tile(far, (2, 1)))
    assert np.all(np.isfinite(value[:, :-1]))
    assert np.all(np.isfinite(gradient[:, :-1]))
    assert np.all(np.isnan(gradient[:, -1]))
    assert np.all(np.isnan(value[:, -1]))
    expected = likelihood.gradient(y[:, np.newaxis], far[np.newaxis, :-1])
    np.testing.assert_allclose(gradient[:, :-1], expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("n_outputs", [2, 3, 5])
def test_categorical_equals_the_numpy_formulas(n_outputs, rng):
    y = np.arange(7) % float(n_outputs)
    likelihood = Categorical().prepare(np.arange(float(n_outputs)))
    f = rng.standard_normal((7, n_outputs, 4)) * 5.0
    f[0, 0] = 1e6
    f[1, 1] = -1e6
    value, gradient = run(likelihood, y, f.reshape(7, -1), n_outputs)
    np.testing.assert_allclose(value, likelihood.nll(y, f), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        gradient.reshape(f.shape), likelihood.gradient(y, f), rtol=1e-12, atol=1e-13
    )
    untouched, again = run(likelihood, y, f.reshape(7, -1), n_outputs, False)
    np.testing.assert_array_equal(untouched, 7.0)
    np.testing.assert_array_equal(again, gradient)


def relative_error(function, exact, points):
    values = np.array([function(x) for x in points])
    return np.max(np.abs(values / exact(points) - 1.0))


def test_exponential():
    points = np.linspace(-707.0, 708.0, 301)
    assert relative_error(elementary.exp, np.exp, points) < 2e-15
    assert elementary.exp(0.0) == 1.0
    assert 0.0 < elementary.exp(-np.inf) < 1e-300
    assert np.isfinite(elementary.exp(np.inf))
    assert np.isnan(elementary.exp(np.nan))


def test_log():
    points = np.concatenate(
        (np.logspace(-300, 300, 996), 1.0 + np.logspace(-14, 0, 99))
    )
    assert relative_error(elementary.log, np.log, points) < 2e-15
    assert elementary.log(1.0) == 0.0
    assert np.isnan(elementary.log(np.nan))


def test_log1p_keeps_all_digits_of_small_numbers():
    points = np.concatenate((np.logspace(-300, 0, 997), np.linspace(1e-3, 1.0, 99)))
    assert relative_error(elementary.log1p, np.log1p, points) < 2e-15
    assert elementary.log1p(0.0) == 0.0


def test_scaled_complementary_error_function():
    points = np.concatenate([np.linspace(0.0, 10.0, 200), np.logspace(1, 7, 30)])
    assert relative_error(elementary.erfcx, special.erfcx, points) < 2e-15
