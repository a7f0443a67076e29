"""Thompson sampling: it finds optima, it can be stopped and resumed."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import Ridge

from skgpx import DecoupledSampler, _decoupled
from skgpx.thompson import ThompsonSampler

BOUNDS = np.array([[-5.0, 5.0], [100.0, 300.0]])
CENTRE = np.array([1.0, 180.0])
QUICK = {"n_mesh": 256, "n_starts": 4}
FIXED = DecoupledSampler(
    GaussianProcessRegressor(
        RBF(0.5) + WhiteKernel(1e-4), optimizer=None, normalize_y=True
    ),
    n_basis=256,
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
    found = run(ThompsonSampler(BOUNDS, random_state=0, **QUICK), evaluations // 2)
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
    found = run(ThompsonSampler(bounds, random_state=0, **QUICK), 6)
    assert_array_equal(found.X_[:, 1], 40.0)
    best = quadratic(np.array([[CENTRE[0], 40.0]]))[0]
    assert found.best_y_ < best + 0.01


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
    one = run(ThompsonSampler(BOUNDS, random_state=7, **QUICK), 5)
    two = run(ThompsonSampler(BOUNDS, random_state=7, **QUICK), 3)
    resumed = run(pickle.loads(pickle.dumps(two)), 2)
    assert_array_equal(one.X_, resumed.X_)
    assert_array_equal(one.y_, resumed.y_)
    other = run(ThompsonSampler(BOUNDS, random_state=8, **QUICK), 1)
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
    optimizer = ThompsonSampler(BOUNDS, random_state=0, **QUICK)
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
        ([[1.0, 150.0]], [np.nan], "y must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            optimizer.tell(X, y)
    with pytest.raises(ValueError, match="n == 0"):
        optimizer.ask(0)
    assert len(optimizer.y_) == 0


# ---- Levels --------------------------------------------------------------------------


def bowl(X):
    return ((X - [2.0, 3.0]) ** 2).sum(axis=1)


def test_no_level_is_tried_twice_without_noise():
    options = {"steps": [1.0, 1.0], "n_mesh": 300, "random_state": 0}
    optimizer = ThompsonSampler([(0.0, 4.0), (1.0, 4.5)], **options)
    for _ in range(5):
        X = optimizer.ask(4)
        assert np.all(np.round(X) == X)
        optimizer.tell(X, bowl(X))
    assert len(np.unique(optimizer.X_, axis=0)) == 20  # all of the five by four
    assert optimizer.best_y_ == 0.0
    # nothing else is left
    assert np.all(optimizer.ask(2) <= 4.0)


def test_levels_are_tried_again_where_values_differ():
    options = {"steps": [1.0, 1.0], "n_mesh": 300, "n_initial": 4, "random_state": 0}
    optimizer = ThompsonSampler([(0.0, 4.0), (0.0, 4.0)], **options)
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
