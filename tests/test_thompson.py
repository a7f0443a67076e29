"""Thompson sampling: it finds optima, it can be stopped and resumed."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel
from sklearn.linear_model import Ridge

from skgpx import DecoupledSampler, ExactGPRegressor, FunctionDraws, _decoupled
from skgpx._decisions._acquisition import (
    DrawnFunction,
    LogExpectedImprovement,
    Outcome,
    log_improvement,
)
from skgpx._draws import linear_draws
from skgpx._latent import MixtureModel
from skgpx.kernels import Additive, Linear
from skgpx.likelihoods import Gaussian, Warped
from skgpx.thompson import ThompsonSampler

BOUNDS = np.array([[-5.0, 5.0], [100.0, 300.0]])
UNIT = np.random.default_rng(3).random((8, 2))
CENTRE = np.array([1.0, 180.0])
QUICK = {"n_mesh": 256, "n_starts": 4}
FIXED = DecoupledSampler(
    GaussianProcessRegressor(
        RBF(0.5) + WhiteKernel(1e-4), optimizer=None, normalize_y=True
    ),
    n_basis=256,
)
LEARNED = GaussianProcessRegressor(
    Matern([0.5, 0.5], (0.02, 20.0), nu=2.5) + WhiteKernel(1e-3, (1e-6, 1.0)),
    normalize_y=True,
)


def quadratic(X):
    return np.sum(((X - CENTRE) / [5.0, 100.0]) ** 2, axis=1)


def run(optimizer, rounds, n=2, function=quadratic):
    for _ in range(rounds):
        X = optimizer.ask(n)
        optimizer.tell(X, function(X))
    return optimizer


def assert_inside(X):
    low, high = BOUNDS.T
    assert np.all((low <= X) & (high >= X))


def test_beats_random_search_on_a_quadratic():
    evaluations = 24
    optimizer = ThompsonSampler(BOUNDS, LEARNED, random_state=0, **QUICK)
    found = run(optimizer, evaluations // 2)
    low, high = BOUNDS.T
    luck = [
        quadratic(np.random.default_rng(i).uniform(low, high, (evaluations, 2))).min()
        for i in range(50)
    ]
    assert found.best_y_ < np.min(luck)
    assert found.best_y_ < 1e-3
    assert np.all(np.abs(found.best_x_ - CENTRE) < [0.2, 4.0])


def test_maximize_is_minimize_of_the_opposite():
    lower = run(ThompsonSampler(BOUNDS, FIXED, random_state=1, **QUICK), 6)
    upper = run(
        ThompsonSampler(BOUNDS, FIXED, maximize=True, random_state=1, **QUICK),
        6,
        function=lambda X: -quadratic(X),
    )
    assert upper.best_y_ > -0.05
    assert lower.best_y_ < 0.05
    assert np.argmax(upper.y_) == np.flatnonzero(upper.y_ == upper.best_y_)[0]


def test_inputs_of_equal_bounds_are_fixed():
    bounds = [BOUNDS[0], [40.0, 40.0]]
    found = run(ThompsonSampler(bounds, LEARNED, random_state=0, **QUICK), 6)
    assert_array_equal(found.X_[:, 1], 40.0)
    best = quadratic(np.array([[CENTRE[0], 40.0]]))[0]
    assert found.best_y_ < best + 0.01


@pytest.mark.parametrize("maximize", [False, True])
def test_candidates_lie_near_the_best_rows(maximize, monkeypatch):
    seen = []
    minimize = FunctionDraws.minimize

    def record(draws, *arguments):
        seen.append(arguments[-1])
        return minimize(draws, *arguments)

    monkeypatch.setattr(FunctionDraws, "minimize", record)
    low, high = BOUNDS.T
    rng = np.random.default_rng(0)
    X = rng.uniform(low, high, (40, 2))
    y = -quadratic(X) if maximize else quadratic(X)
    optimizer = ThompsonSampler(
        BOUNDS, FIXED, maximize=maximize, n_initial=0, random_state=0, **QUICK
    )
    optimizer.tell(X, y).ask()
    (candidates,) = seen
    rows = (X - low) / (high - low)
    distances = np.linalg.norm(candidates[:, np.newaxis] - rows, axis=2)
    nearest = np.argmin(distances, axis=1)
    best = np.argsort(quadratic(X))[:4]
    assert np.mean(np.isin(nearest, best)) > 0.8
    assert set(best) <= set(nearest)


def test_data_frames_keep_the_order_of_their_columns():
    X = pd.DataFrame({"dose": [1.0, 2.0], "heat": [150.0, 250.0]})
    named = pd.DataFrame(BOUNDS, ["dose", "heat"])
    for bounds in (BOUNDS, named):
        optimizer = ThompsonSampler(bounds, FIXED, random_state=0, **QUICK)
        if bounds is BOUNDS:
            optimizer.tell(X, [0.0, 1.0])
        with pytest.raises(ValueError, match="in the same order"):
            optimizer.tell(X[["heat", "dose"]], [0.0, 1.0])
        # proposals are arrays
        run(optimizer, 2).tell(X, [0.0, 1.0])
        assert list(optimizer.feature_names_in_) == ["dose", "heat"]
    optimizer = ThompsonSampler(BOUNDS)
    with pytest.raises(ValueError, match="y must have shape"):
        optimizer.tell(X[["heat", "dose"]], [0.0])
    assert_array_equal(optimizer.tell(X, [0.0, 1.0]).X_, X)


def test_initial_design_fills_the_box():
    optimizer = ThompsonSampler(BOUNDS, n_initial=8, random_state=0)
    parts = [optimizer.ask(n) for n in (3, 1, 4)]
    X = (np.concatenate(parts) - BOUNDS[:, 0]) / np.diff(BOUNDS).T
    # one point of the scrambled Sobol sequence in each eighth of each input
    for column in X.T:
        assert sorted((8 * column).astype(int)) == list(range(8))
    beyond = optimizer.ask(5)
    assert_inside(beyond)


def test_batches_of_any_size_and_late_answers():
    optimizer = ThompsonSampler(BOUNDS, FIXED, n_initial=4, random_state=0, **QUICK)
    first = optimizer.ask(4)
    optimizer.tell(first[:3], quadratic(first[:3]))
    for n in (1, 5, 2):
        X = optimizer.ask(n)
        assert X.shape == (n, 2)
        assert_inside(X)
        assert len(np.unique(X, axis=0)) == n
    optimizer.tell(first[3:], quadratic(first[3:]))
    assert optimizer.y_.shape == (4,)
    mixed = ThompsonSampler(BOUNDS, FIXED, n_initial=3, random_state=0, **QUICK)
    mixed.tell(first[:2], quadratic(first[:2]))
    assert mixed.ask(3).shape == (3, 2)
    assert mixed.sampler_ is not None


def test_seed_and_pickle_reproduce_the_run():
    one = run(ThompsonSampler(BOUNDS, LEARNED, random_state=7, **QUICK), 5)
    two = run(ThompsonSampler(BOUNDS, LEARNED, random_state=7, **QUICK), 3)
    resumed = run(pickle.loads(pickle.dumps(two)), 2)
    assert_array_equal(one.X_, resumed.X_)
    assert_array_equal(one.y_, resumed.y_)
    other = run(ThompsonSampler(BOUNDS, LEARNED, random_state=8, **QUICK), 1)
    assert not np.array_equal(other.X_, one.X_[:2])


@pytest.mark.parametrize("refit_every", [1, 3, None])
def test_hyperparameters_are_fitted_when_due(refit_every):
    kernel = RBF(0.5) + WhiteKernel(1e-3)
    sampler = DecoupledSampler(
        GaussianProcessRegressor(kernel, normalize_y=True), n_basis=256
    )
    optimizer = ThompsonSampler(
        BOUNDS, sampler, n_initial=4, refit_every=refit_every, random_state=0, **QUICK
    )
    run(optimizer, 1, n=4)
    thetas = []
    for _ in range(6):
        run(optimizer, 1)
        thetas.append(optimizer.sampler_.estimator_.kernel_.theta)
    changed = [not np.array_equal(a, b) for a, b in itertools.pairwise(thetas)]
    expected = {1: [True] * 5, 3: [False, False, True] * 2, None: [False] * 5}
    assert changed == expected[refit_every][:5]
    if refit_every is None:
        assert_array_equal(thetas[0], kernel.theta)
    assert sampler.estimator.optimizer == "fmin_l_bfgs_b"


def test_hyperparameters_are_kept_where_nothing_is_factored(monkeypatch):
    monkeypatch.setattr(_decoupled._exact, "_MAX_FACTORED_ROWS", 5)
    kernel = RBF([0.3, 0.4]) + WhiteKernel(0.01)
    optimizer = ThompsonSampler(
        BOUNDS, GaussianProcessRegressor(kernel), n_initial=4, refit_every=None,
        random_state=0, **QUICK,
    )  # fmt: skip
    run(optimizer, 1, n=6)
    for _ in range(2):
        run(optimizer, 1)
    assert not hasattr(optimizer.sampler_.estimator_, "L_")
    assert_array_equal(optimizer.sampler_.kernel_.theta, kernel.theta)


def test_model_is_kept_without_new_evaluations():
    optimizer = run(ThompsonSampler(BOUNDS, FIXED, random_state=0, **QUICK), 4)
    one = optimizer.ask(2)
    model = optimizer.sampler_
    two = optimizer.ask(2)
    assert optimizer.sampler_ is model
    assert not np.array_equal(one, two)
    optimizer.tell(two, quadratic(two)).ask()
    assert optimizer.sampler_ is not model


def test_duplicates_and_constant_values_are_harmless():
    optimizer = ThompsonSampler(BOUNDS, LEARNED, random_state=0, **QUICK)
    X = np.repeat([CENTRE], 8, axis=0)
    assert optimizer.tell(X, np.zeros(8)).ask(2).shape == (2, 2)
    assert optimizer.tell(X, np.arange(8.0)).ask(2).shape == (2, 2)


def test_nothing_is_known_at_first():
    optimizer = ThompsonSampler(BOUNDS)
    for name in ("best_x_", "best_y_"):
        with pytest.raises(NotFittedError, match="tell"):
            getattr(optimizer, name)
    assert repr(optimizer) == "ThompsonSampler(minimize, n_told=0)"


FROZEN = DecoupledSampler(FrozenEstimator(Ridge()))
BAD = [
    ({"bounds": [0.0, 1.0]}, "bounds must have shape"),
    ({"bounds": [[1.0, 0.0]]}, "is not below it"),
    ({"bounds": [[0.0, np.inf]]}, "finite"),
    ({"sampler": Ridge()}, "DecoupledSampler expects"),
    ({"sampler": FROZEN}, "does not learn"),
    ({"n_mesh": 0}, "n_mesh"),
    ({"n_starts": 1.5}, "n_starts"),
    ({"n_initial": -1}, "n_initial"),
    ({"refit_every": 0}, "refit_every"),
    ({"acquisition": "EI"}, "acquisition must be one of"),
    ({"noisy": "maybe"}, "noisy must be one of"),
]


def test_what_does_not_fit_is_refused():
    for arguments, message in BAD:
        with pytest.raises((ValueError, TypeError), match=message):
            ThompsonSampler(**{"bounds": BOUNDS, **arguments})
    assert ThompsonSampler(BOUNDS, n_initial=None).n_initial == 0
    optimizer = ThompsonSampler(BOUNDS)
    for X, y, message in (
        ([1.0, 2.0], [1.0], r"X must have shape \(any, 2\)"),
        ([[1.0, 150.0]], [1.0, 2.0], r"y must have shape \(1,\)"),
        ([[1.0, 150.0]], [np.inf], "y must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            optimizer.tell(X, y)
    with pytest.raises(ValueError, match="n == 0"):
        optimizer.ask(0)
    assert len(optimizer.y_) == 0


# ---- Expected improvement ------------------------------------------------------------


def below_means(posterior, rows, sign=1.0, unit=1.0):
    """Improvement over the smallest posterior mean at rows."""
    objective = Outcome(posterior, unit, sign)
    upper = objective.moments(rows).mean.min(axis=0)[np.newaxis, np.newaxis]
    return LogExpectedImprovement((objective,), np.full((1, 1, 1), -np.inf), upper)


def log_improvement_by_quadrature(z):
    """``log ∫ u N(u | z, 1) du`` over positive u, with the tail factored out."""
    if z > -3.0:
        value, _ = quad(lambda u: u * np.exp(z * u - 0.5 * u**2), 0.0, np.inf)
    else:
        # t = |z| u
        value, _ = quad(
            lambda t: t * np.exp(-t - 0.5 * (t / z) ** 2) / z**2, 0.0, 60.0, epsabs=0.0
        )
    return np.log(value) - 0.5 * z**2 - 0.5 * np.log(2.0 * np.pi)


def test_logarithm_of_the_improvement_is_an_integral():
    z = np.array([8.0, 1.0, 0.0, -0.99, -1.01, -4.0, -20.0, -49.9, -50.1, -3e3, -1e6])
    exact = [log_improvement_by_quadrature(value) for value in z]
    assert_allclose(log_improvement(z), exact, rtol=1e-13, atol=1e-8)


def test_improvement_of_a_mixture_is_the_mean_over_its_components():
    models = [FIXED.fit(UNIT, UNIT[:, 0] * k).posterior_ for k in (1.0, -2.0)]
    mixture = MixtureModel(tuple(models), np.log([0.25, 0.75]))
    rng = np.random.default_rng(0)
    X = rng.random((3, 2))
    improvement = below_means(mixture, UNIT, sign=-1.0)
    values = -linear_draws(improvement, np.ones((1, 1, 1)))(X)[:, 0]
    # z-scores of the improvements of many draws, above the largest mean
    marginals = mixture.marginals(X)
    gains = []
    for k, model in enumerate(models):
        best = model.marginals(UNIT).mean.max()
        mean, std = marginals.mean[:, 0, k], np.sqrt(marginals.variance[:, 0, k])
        draws = mean + std * rng.standard_normal((20_000, 3))
        gains.append((0.25, 0.75)[k] * np.maximum(draws - best, 0.0))
    expected = sum(gain.mean(axis=0) for gain in gains)
    error = np.sqrt(sum(gain.var(axis=0) for gain in gains) / 20_000)
    assert np.all(np.abs(np.exp(values) - expected) < 4.0 * error + 1e-6)


class OfUnknownGradient(RBF):
    """A kernel without a rule for its derivatives."""


def process(kernel):
    regressor = GaussianProcessRegressor(
        kernel + WhiteKernel(1e-2), optimizer=None, normalize_y=True
    )
    return DecoupledSampler(regressor).fit(UNIT, quadratic(UNIT)).posterior_


POSTERIORS = {
    "stationary": lambda: process(RBF(0.5)),
    "rough": lambda: process(Matern(0.5, nu=0.5)),
    "with a trend": lambda: process(2.0 * Matern([0.4, 2.0], nu=2.5) + Linear([1, 2])),
    "additive": lambda: process(Additive(RBF([0.5, 0.7]), order=2)),
    "gradient not known": lambda: process(OfUnknownGradient(0.5)),
    "mixture": lambda: MixtureModel(
        tuple(FIXED.fit(UNIT, UNIT[:, 0] * k).posterior_ for k in (1.0, -2.0)),
        np.log([0.25, 0.75]),
    ),
    "drawn": lambda: DrawnFunction(
        process(RBF(0.5)).draw(1, np.random.default_rng(0)), std=0.1
    ),
}


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_slopes_of_the_improvement_are_differences(name, sign):
    improvement = below_means(POSTERIORS[name](), UNIT, sign)
    draws = linear_draws(improvement, np.ones((1, 1, 1)))
    X = np.random.default_rng(1).random((5, 2))
    values, slopes = draws.value_and_grad(X)
    assert_allclose(values, draws(X), rtol=1e-12)
    for k, step in enumerate(1e-4 * np.eye(2)):
        differences = (draws(X + step) - draws(X - step)) / 2e-4
        assert_allclose(slopes[:, :, k], differences, rtol=1e-4, atol=1e-6)


def test_exact_posterior_has_the_moments_of_its_regressor():
    y = quadratic(UNIT) + 3.0
    sampler = FIXED.fit(UNIT, y)
    posterior = sampler.posterior_
    new = np.random.default_rng(2).random((4, 2))
    mean, variance = posterior.marginals(new).moments()
    expected, std = sampler.predict(new, return_std=True)
    noise = posterior.noise_variance_at(new)
    assert_allclose(mean[:, 0], expected, rtol=1e-9)
    assert_allclose(variance + noise, std[:, np.newaxis] ** 2, rtol=1e-7)
    # some of the rows first, the others as observations
    part = replace(
        posterior,
        points=UNIT[:4],
        root=np.linalg.cholesky(posterior.full_kernel(UNIT[:4])),
        targets=posterior.targets[:4],
        noise=posterior.noise[:4],
    )
    noise = noise[0, 0] * np.ones(len(UNIT) - 4)
    conditioned = part.condition(UNIT[4:], y[4:, np.newaxis], noise)
    for one, other in zip(
        conditioned.marginals(new).moments(), (mean, variance), strict=True
    ):
        assert_allclose(one, other, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("acquisition", ["expected_improvement", "thompson"])
def test_acquisitions_find_a_minimum_by_batches(acquisition):
    options = {"acquisition": acquisition, "random_state": 0, **QUICK}
    optimizer = run(ThompsonSampler(BOUNDS, LEARNED, **options), 7)
    assert optimizer.best_y_ < 0.01
    batch = optimizer.ask(4)
    distances = pdist((batch - BOUNDS[:, 0]) / np.diff(BOUNDS).T)
    assert distances.min() > 1e-6
    again = run(ThompsonSampler(BOUNDS, LEARNED, **options), 7)
    assert_array_equal(again.ask(4), batch)


def test_default_model_learns_from_few_rows_without_a_warning():
    one, two = (
        run(ThompsonSampler(BOUNDS, random_state=0, **QUICK), 1, n=8) for _ in range(2)
    )
    assert one.best_y_ < 0.3
    assert_array_equal(one.ask(2), two.ask(2))


def test_unanswered_proposals_are_not_repeated():
    optimizer = run(ThompsonSampler(BOUNDS, FIXED, random_state=0, **QUICK), 4)
    X = np.concatenate([optimizer.ask() for _ in range(4)])
    assert pdist((X - BOUNDS[:, 0]) / np.diff(BOUNDS).T).min() > 1e-6


def test_models_that_cannot_be_conditioned_are_drawn_from():
    optimizer = ThompsonSampler(
        BOUNDS, ExactGPRegressor(RBF(0.5)), n_initial=4, random_state=0, **QUICK
    )
    run(optimizer, 3)
    optimizer.acquisition = "expected_improvement"
    with pytest.raises(ValueError, match="cannot"):
        optimizer.ask()


def test_best_input_under_noise_has_the_smallest_mean():
    rng = np.random.default_rng(0)
    X = BOUNDS[:, 0] + np.repeat(rng.random((30, 2)), 2, axis=0) * np.ptp(BOUNDS, 1)
    y = quadratic(X) + 0.5 * rng.standard_normal(60)
    optimizer = ThompsonSampler(BOUNDS, FIXED, random_state=0, **QUICK).tell(X, y)
    unit = (X - BOUNDS[:, 0]) / np.ptp(BOUNDS, axis=1)
    mean = clone(FIXED).fit(unit, y).predict(unit)
    assert_array_equal(optimizer.best_x_, X[np.argmin(mean)])
    assert_allclose(optimizer.best_y_, mean.min())
    assert optimizer.best_y_ > y.min()
    optimizer.noisy = False
    assert optimizer.best_y_ == y.min()


def test_best_input_under_noise_is_that_of_averaged_hyperparameters():
    rng = np.random.default_rng(0)
    X = rng.random((15, 1))
    y = np.sin(7.0 * X[:, 0]) + 0.5 * rng.standard_normal(15)
    optimizer = ThompsonSampler([[0.0, 1.0]], noisy=True, random_state=0, **QUICK)
    optimizer.tell(X, y)
    proposing = optimizer.sampler_
    averaged = DecoupledSampler(random_state=optimizer._seed % 2**31).fit(X, y)
    mean = averaged.predict(X)
    assert len(averaged.estimator_.hyperparameter_states_) > 1
    assert_array_equal(optimizer.best_x_, X[np.argmin(mean)])
    assert_allclose(optimizer.best_y_, mean.min())
    # proposals have a model of their own
    assert optimizer.sampler_ is proposing


def test_best_input_of_many_trials_is_that_of_the_proposing_model():
    rng = np.random.default_rng(0)
    X = rng.random((310, 1))
    y = np.sin(7.0 * X[:, 0]) + 0.5 * rng.standard_normal(310)
    optimizer = ThompsonSampler([[0.0, 1.0]], noisy=True, random_state=0, **QUICK)
    optimizer.tell(X, y)
    best = optimizer.best_x_
    fitted = optimizer.sampler_
    assert_array_equal(best, X[np.argmin(fitted.predict(X))])
    optimizer.ask()
    assert optimizer.sampler_ is fitted


# ---- Levels --------------------------------------------------------------------------


def bowl(X):
    return ((X - [2.0, 3.0]) ** 2).sum(axis=1)


def test_no_level_is_tried_twice_without_noise():
    options = {"steps": [1.0, 1.0], "n_mesh": 300, "random_state": 0}
    optimizer = ThompsonSampler([(0.0, 4.0), (1.0, 4.5)], FIXED, **options)
    for _ in range(5):
        X = optimizer.ask(4)
        assert np.all(np.round(X) == X)
        optimizer.tell(X, bowl(X))
    assert len(np.unique(optimizer.X_, axis=0)) == 20  # all of the five by four
    assert optimizer.best_y_ == 0.0
    # nothing else is left
    assert np.all(optimizer.ask(2) <= 4.0)


def test_proposed_level_has_the_largest_improvement_of_all_untried():
    optimizer = ThompsonSampler(
        [(0.0, 10.0)] * 2, FIXED, steps=[1.0, 1.0], n_mesh=2000, random_state=0
    )
    X = optimizer.ask(6)
    proposal = optimizer.tell(X, bowl(X)).ask()
    levels = np.stack(np.meshgrid(np.arange(11.0), np.arange(11.0)), axis=-1)
    untried = [x for x in levels.reshape(-1, 2) if not (x == X).all(axis=1).any()]
    improvement = below_means(
        optimizer.sampler_.posterior_, X / 10.0, unit=bowl(X).std()
    )
    best = np.argmin(improvement(np.array(untried) / 10.0))
    assert_array_equal(proposal[0], untried[best])


def test_levels_are_tried_again_where_values_differ():
    options = {"steps": [1.0, 1.0], "n_mesh": 300, "n_initial": 4, "random_state": 0}
    optimizer = ThompsonSampler([(0.0, 4.0), (0.0, 4.0)], FIXED, **options)
    rng = np.random.default_rng(0)
    X = np.repeat(optimizer.ask(4), 2, axis=0)
    optimizer.tell(X, bowl(X) + 0.01 * rng.normal(size=8))
    for _ in range(3):
        X = optimizer.ask(6)
        optimizer.tell(X, bowl(X) + 0.01 * rng.normal(size=6))
    assert np.sum(np.all(optimizer.X_ == [2.0, 3.0], axis=1)) > 2


def test_continuous_inputs_stay_as_they_are_beside_levels():
    bounds, options = [(0.0, 1.0), (0.0, 4.0)], {"n_mesh": 200, "random_state": 1}
    levels = ThompsonSampler(bounds, steps=[0.0, 2.0], **options).ask(4)
    free = ThompsonSampler(bounds, **options).ask(4)
    assert_array_equal(levels[:, 0], free[:, 0])
    assert set(levels[:, 1]) <= {0.0, 2.0, 4.0}
    with pytest.raises(ValueError, match="distance between the levels"):
        ThompsonSampler(bounds, steps=[1.0, -1.0])


def rosenbrock(X):
    return np.sum(100.0 * (X[:, 1:] - X[:, :-1] ** 2) ** 2 + (1.0 - X[:, :-1]) ** 2, 1)


def test_the_model_has_the_scale_of_y_that_is_more_probable():
    optimizer = ThompsonSampler([(-2.0, 2.0)] * 3, random_state=0)
    X = optimizer.ask(8)
    optimizer.tell(X, rosenbrock(X))
    for _ in range(8):
        X = optimizer.ask(2)
        optimizer.tell(X, rosenbrock(X))
    optimizer.ask()
    likelihood = optimizer.likelihood_
    assert isinstance(likelihood, Warped)
    # the model of g(y), which has no noise, is taken back to y
    points = (optimizer.X_ + 2.0) / 4.0
    scaled = optimizer.sampler_.predict(points)
    assert_allclose(scaled, likelihood.forward(optimizer.y_), atol=0.1 * scaled.std())
    assert optimizer.best_y_ == optimizer.y_.min()
    # near the valley it is better than a model of y itself
    new = np.random.default_rng(0).uniform(-2.0, 2.0, (4000, 3))
    new = new[rosenbrock(new) < 300.0]
    f_new = rosenbrock(new)
    new = (new + 2.0) / 4.0
    itself = DecoupledSampler(hyperparameters="maximise", random_state=0)
    of_y = itself.fit(points, optimizer.y_).predict(new)
    of_scale = likelihood.inverse(optimizer.sampler_.predict(new))
    assert np.median(np.abs(of_scale - f_new)) < np.median(np.abs(of_y - f_new))
    # under noise the best value is the smallest mean in the units of y
    noisy = ThompsonSampler([(-2.0, 2.0)] * 3, noisy=True, random_state=0)
    noisy.tell(optimizer.X_, optimizer.y_)
    noisy.ask()
    assert noisy.best_y_ == pytest.approx(optimizer.best_y_, abs=30.0)


def test_models_of_the_user_and_of_several_objectives_have_no_scale():
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (30, 3))
    y = rosenbrock(X)
    bounds = [(-2.0, 2.0)] * 3
    given = ThompsonSampler(bounds, DecoupledSampler(), random_state=0)
    several = ThompsonSampler(bounds, random_state=0)
    for optimizer, values in ((given, y), (several, np.column_stack((y, X[:, 0])))):
        optimizer.tell(X, values)
        optimizer.ask()
        assert isinstance(optimizer.likelihood_, Gaussian)


def test_values_may_leave_the_scale_that_was_learned():
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (30, 3))
    y = np.exp(np.sum(X**2, axis=1) - 4.0)
    for noisy in (False, True):
        settings = {"noisy": noisy, "refit_every": 5, "random_state": 0}
        optimizer = ThompsonSampler([(-2.0, 2.0)] * 3, **settings)
        optimizer.tell(X, y)
        optimizer.ask()
        assert optimizer.likelihood_.transform == "box-cox"
        optimizer.tell([[0.1, 0.1, 0.1]], [-0.5])
        assert optimizer.best_y_ == pytest.approx(-0.5, abs=0.1 * y.std())
        optimizer.ask()
        assert optimizer.likelihood_.support[0] == -np.inf
