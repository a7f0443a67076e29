"""Exact regression on a Markov process, through the estimator."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    WhiteKernel,
)

from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp._markov_fit import (
    Evidence,
    MarkovData,
    MarkovSettings,
    default_markov,
    start_markov,
)
from skgpx._validation import Rows
from skgpx.exceptions import ConvergenceWarning

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 10.0, (150, 1))
Y = 5.0 + np.sin(3.0 * X[:, 0]) + 0.2 * RNG.standard_normal(150)
NEW = RNG.uniform(-2.0, 12.0, (30, 1))
GIVEN = {"basis": "markov", "optimizer": None, "normalize_y": False}


def fitted(X=X, y=Y, weights=None, **parameters):
    model = SpectralVGPRegressor(basis="markov").set_params(**parameters)
    return model.fit(X, y, weights)


@pytest.mark.parametrize(
    "kernel",
    [1.3 * Matern(0.7, nu=0.5), Matern(0.7, nu=1.5), Matern(0.7, nu=2.5) * 2.0,
     ConstantKernel(3.0) * Matern([0.4], nu=2.5)],
    ids=str,
)  # fmt: skip
def test_a_given_kernel_is_the_exact_process(kernel):
    model = fitted(kernel=kernel, noise_variance=0.04, **GIVEN)
    exact = GaussianProcessRegressor(kernel, alpha=0.04, optimizer=None).fit(X, Y)
    mean, covariance = model.predict(NEW, return_cov=True, include_noise=False)
    expected = exact.predict(NEW, return_cov=True)
    assert_allclose(mean, expected[0], atol=1e-8)
    assert_allclose(covariance, expected[1], atol=1e-8)
    std = model.predict(NEW, return_std=True, include_noise=False)[1]
    assert_allclose(std, np.sqrt(np.diagonal(expected[1])), atol=1e-8)
    assert model.log_evidence_ == pytest.approx(exact.log_marginal_likelihood_value_)
    assert_allclose(model.kernel_.theta, kernel.theta)
    assert_array_equal(model.kernel_.bounds, kernel.bounds)
    assert model.n_basis_ == 150 * model.posterior_.prior.n_states


def test_learned_parameters_are_at_an_optimum_of_the_exact_evidence():
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * Matern(1.0, (1e-2, 1e2), nu=1.5)
    noisy = kernel + WhiteKernel(0.1, (1e-6, 10.0))
    few, y = X[:60], Y[:60]
    model = fitted(few, y, kernel=noisy)
    exact = GaussianProcessRegressor(noisy, normalize_y=True).fit(few, y)
    evidence = exact.log_marginal_likelihood_value_ - 60 * np.log(y.std())
    assert model.log_evidence_ == pytest.approx(evidence, abs=1e-4)
    assert_allclose(model.predict(NEW), exact.predict(NEW), atol=2e-3)


def test_the_best_order_is_taken_and_competes_with_scikit_learn():
    model = fitted()
    for nu in (0.5, 1.5, 2.5):
        kernel = ConstantKernel(1.0, (1e-3, 1e3)) * Matern(1.0, (1e-3, 1e3), nu=nu)
        given = fitted(kernel=kernel)
        # the level is free where no kernel is given
        assert model.log_evidence_ > given.log_evidence_ - 3.0
    assert model.kernel_.k2.nu == 2.5
    assert model.noise_variance_ == pytest.approx(0.04, rel=0.3)
    assert model.basis_ == "markov"
    assert model.cycles_.shape == (0, 1)
    assert_array_equal(model.domain_, [[X.min(), X.max()]])
    level = model.kernel_.k1.constant_value + 1.0
    assert model.spectrum_.sum() == pytest.approx(level * Y.var())
    assert list(model.stage_seconds_) == ["search", "solution"]


def test_bounds_and_what_is_fixed():
    fixed = ConstantKernel(2.0, "fixed") * Matern(0.5, (0.4, 0.6), nu=1.5)
    model = fitted(kernel=fixed + WhiteKernel(0.3, "fixed"))
    assert model.kernel_.k1.constant_value == pytest.approx(2.0)
    assert 0.4 <= model.kernel_.k2.length_scale <= 0.6
    assert model.noise_variance_ == pytest.approx(0.3 * Y.var())
    model = fitted(noise_variance=0.09)
    assert model.noise_variance_ == pytest.approx(0.09)
    model = fitted(optimizer=None)
    assert model.kernel_.k2.nu == 1.5
    bounded = Matern(0.5, "fixed", nu=1.5) + WhiteKernel(0.5, (0.3, 0.6))
    assert 0.3 * Y.var() <= fitted(kernel=bounded).noise_variance_ <= 0.6 * Y.var()


@pytest.mark.filterwarnings("ignore:The noise variance ended at nothing")
def test_repetitions_are_weights_and_rows_have_no_order():
    counts = RNG.integers(0, 4, 150)
    repeated = np.repeat(np.arange(150), counts)
    one = fitted(X, Y, counts)
    two = fitted(X[repeated], Y[repeated])
    assert one.log_evidence_ == two.log_evidence_
    assert_array_equal(one.predict(NEW), two.predict(NEW))
    order = RNG.permutation(150)
    three = fitted(X[order], Y[order], counts[order], n_jobs=2)
    assert_array_equal(three.predict(NEW), one.predict(NEW))


def test_different_values_at_one_input_count_exactly():
    Z, rng = np.repeat(X[:40], 3, axis=0), np.random.default_rng(1)
    y = np.sin(Z[:, 0]) + 0.3 * rng.standard_normal(120)
    kernel = 1.3 * Matern(0.7, nu=1.5)
    model = fitted(Z, y, kernel=kernel, noise_variance=0.04, **GIVEN)
    exact = GaussianProcessRegressor(kernel, alpha=0.04, optimizer=None).fit(Z, y)
    assert model.log_evidence_ == pytest.approx(exact.log_marginal_likelihood_value_)
    assert_allclose(model.predict(NEW), exact.predict(NEW), atol=1e-8)


def test_the_gradient_with_repetitions():
    rng = np.random.default_rng(2)
    data = MarkovData(np.sort(rng.random(20)), rng.uniform(0.5, 4.0, 20),
                      rng.standard_normal(20), 7.0)  # fmt: skip
    for kernel in default_markov(data.x, data.variance):
        evidence = Evidence(data, kernel, np.ones((20, 1)))
        theta = np.log([1.3, 0.2, 0.3])
        value, gradient = evidence.negative(theta)
        assert value == pytest.approx(-evidence.value(theta))
        for i, e in enumerate(1e-5 * np.eye(3)):
            rise = evidence.value(theta - e) - evidence.value(theta + e)
            assert gradient[i] == pytest.approx(rise / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    expected = fitted()
    in_y, in_x = fitted(X, scale * Y), fitted(scale * X, Y)
    assert_allclose(in_y.predict(NEW), scale * expected.predict(NEW), rtol=1e-5)
    assert_allclose(in_x.predict(scale * NEW), expected.predict(NEW), rtol=1e-5)
    gain = in_y.log_evidence_ + 150 * np.log(scale)
    assert gain == pytest.approx(expected.log_evidence_, abs=1e-5)
    offset = fitted(X, Y + 1e6)
    assert_allclose(offset.predict(NEW) - 1e6, expected.predict(NEW), atol=1e-4)


def test_a_far_row_changes_nothing_for_the_others():
    far = np.concatenate((X, [[1e9]])), np.append(Y, 5.0)
    assert_allclose(fitted(*far).predict(X), fitted().predict(X), atol=0.02)


def walk(n=300, noise=0.0):
    """Rows of a process as rough as noise, and noise."""
    rng = np.random.default_rng(5)
    y = np.cumsum(rng.standard_normal(n)) + noise * rng.standard_normal(n)
    return np.arange(float(n))[:, np.newaxis], y


def told_of_no_noise(*data, **parameters):
    """Whether a fit warns, in the caller's name, of noise that is nothing."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fitted(*data, **parameters)
    assert {one.category for one in told} <= {ConvergenceWarning}
    assert all("ended at nothing" in str(one.message) for one in told)
    assert all(one.filename == __file__ for one in told)
    return len(told)


def test_no_noise_beside_a_rough_process_is_told_once():
    assert told_of_no_noise(*walk()) == 1
    assert told_of_no_noise(*walk(), kernel=Matern(10.0, nu=0.5)) == 1
    # rows twice, from which the noise is known to be nothing
    Z, y = walk(100)
    assert told_of_no_noise(np.repeat(Z, 2, axis=0), np.repeat(y, 2)) == 1


def test_noise_that_is_found_known_or_of_smooth_functions_is_not_told():
    model = fitted(*walk(noise=2.0))
    assert model.noise_variance_ == pytest.approx(4.0, rel=0.5)
    Z, y = walk()
    fitted(Z, y, noise_variance=0.01)
    kernel = 100.0 * Matern(100.0, nu=0.5) + WhiteKernel(1e-5)
    fitted(Z, y, **GIVEN, kernel=kernel)
    fitted(Z, np.sin(0.1 * Z[:, 0]))
    # the other remedy
    fitted(Z, y, kernel=Matern(nu=1.5))


@pytest.mark.parametrize(("n", "told"), [(19, 0), (20, 1), (21, 1)])
def test_few_rows_say_nothing_of_their_noise(n, told):
    Z, y = walk(n)
    kernel = ConstantKernel(4.0, (1.0, 10.0)) * Matern(10.0, (5.0, 50.0), nu=0.5)
    repeated = np.repeat(Z, 2, axis=0), np.repeat(y, 2)
    assert told_of_no_noise(*repeated, kernel=kernel) == told


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.filterwarnings("ignore:Nothing but noise")
def test_few_rows_and_constants(n):
    for y in (Y[:n], np.full(n, 3.0)):
        model = fitted(X[:n], y)
        mean, std = model.predict(NEW, return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(np.isfinite(std))
        assert np.isfinite(model.log_evidence_)
    same = fitted(np.ones((n + 1, 1)), np.arange(n + 1.0))
    assert np.isfinite(same.predict([[1.0]])).all()


def test_noise_is_said_to_be_noise():
    y = np.random.default_rng(5).standard_normal(150)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = fitted(X, y)
        fitted()
    alone = -75.0 * (np.log(2.0 * np.pi * y.var()) + 1.0)
    assert len(said) == (model.log_evidence_ <= alone)
    assert np.all(np.abs(model.predict(NEW) - y.mean()) < 0.5)


# ---- More rows -----------------------------------------------------------------------


def test_chunks_and_merges_are_one_fit():
    whole = fitted()
    chunks = SpectralVGPRegressor(basis="markov")
    for part in np.array_split(np.arange(150), 4):
        chunks.partial_fit(X[part], Y[part])
    both = fitted(X[:60], Y[:60]) + fitted(X[60:], Y[60:])
    for model in (chunks, both):
        assert model.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1e-6)
        assert_allclose(model.predict(NEW), whole.predict(NEW), atol=1e-5)


def test_sums_of_chunks_that_share_inputs():
    rng = np.random.default_rng(3)
    rows = Rows(rng.integers(0, 9, (80, 1)) / 2.0, 1e6 + rng.standard_normal(80),
                rng.uniform(0.5, 2.0, 80))  # fmt: skip
    settings = MarkovSettings(None, None, True, True, None)
    whole = start_markov(rows, settings, np.empty(0))
    state = start_markov(rows.take(slice(30)), settings, np.empty(0))
    state = state.with_rows(rows.take(slice(30, None)), None)
    for name in ("x", "weights", "means", "within"):
        assert_allclose(getattr(state, name), getattr(whole, name), rtol=1e-9)


def test_only_the_same_process_is_merged():
    one, other = fitted(), fitted(kernel=Matern(nu=0.5))
    with pytest.raises(ValueError, match="Only models of one process can be merged"):
        one.merge(other)
    with pytest.raises(ValueError, match="can be merged"):
        one.merge(SpectralVGPRegressor().fit(X, Y))
    cycles = copy.copy(one)
    cycles._state = one._state._replace(frequencies=np.ones(1))
    with pytest.raises(ValueError, match="cycles_"):
        one.merge(cycles)


# ---- What predictions are made of ----------------------------------------------------


def test_everything_else_of_the_estimator():
    model = fitted(random_state=0)
    copied = pickle.loads(pickle.dumps(model))
    assert_array_equal(copied.predict(NEW), model.predict(NEW))
    truth = 5.0 + np.sin(3.0 * X[:, 0])
    low, high = model.credible_band(X).T
    assert 0.85 < np.mean((low < truth) & (truth < high)) <= 1.0
    wide = model.credible_band(X, simultaneous=True)
    assert np.all(wide[:, 0] < low)
    assert 0.02 < model.credible_ball() < 0.3
    assert 0.02 < model.credible_ball(X=X) < 0.3
    draws = model.sample_functions(3)
    assert_array_equal(draws(NEW), draws(NEW))
    assert_array_equal(draws(NEW), model.sample_functions(3)(NEW))
    assert model.sample_y(NEW, 4).shape == (30, 4)
    assert draws.minimize([(0.0, 9.0)], n_starts=2, n_mesh=50).fun.shape == (3,)
    density = model.log_predictive_density(X, Y)
    assert np.mean(density) > -0.1
    model.credible_band([[1e6]])


def test_waves_beside_the_process():
    x = np.arange(400.0)
    rng = np.random.default_rng(4)
    y = 2.0 * np.sin(2.0 * np.pi * x / 24.0) + 0.3 * rng.standard_normal(400)
    settings = MarkovSettings(None, None, True, True, None)
    rows = Rows(x[:, np.newaxis], y, np.ones(400))
    with_wave = start_markov(rows, settings, np.array([1.0 / 24.0])).solve()
    plain = start_markov(rows, settings, np.empty(0)).solve()
    assert with_wave.log_evidence > plain.log_evidence
    assert_allclose(with_wave.cycles, [[1.0 / 24.0]])
    # they go on where the process does not
    model = with_wave.posterior.affine(with_wave.shift, with_wave.scale)
    ahead = np.arange(400.0, 424.0)[:, np.newaxis]
    mean = model.marginals(ahead).moments()[0][:, 0]
    assert_allclose(mean, 2.0 * np.sin(2.0 * np.pi * ahead[:, 0] / 24.0), atol=0.3)
    # a wave that is not there is left out
    idle = start_markov(rows, settings, np.array([1.0 / 7.3])).solve()
    assert idle.cycles.shape == (0, 1)


@pytest.mark.parametrize(
    ("kernel", "columns", "message"),
    [(None, 2, "one column"), (RBF(), 1, "Matern kernel"),
     (Matern(nu=1.0), 1, "Matern kernel"),
     (Matern(nu=1.5) + Matern(nu=0.5), 1, "Matern kernel"),
     (Matern(nu=1.5) ** 2, 1, "Matern kernel"),
     (Matern(nu=1.5) * RBF(), 1, "Matern kernel")],
    ids=str,
)  # fmt: skip
def test_what_is_no_process_is_refused(kernel, columns, message):
    Z = np.repeat(X, columns, axis=1)
    for fit in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(SpectralVGPRegressor(kernel, basis="markov"), fit)(Z, Y)
