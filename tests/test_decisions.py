"""Spaces, constraints, failures, several objectives, costs, and searches."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import loguniform, norm, randint, uniform
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import ShuffleSplit
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgpx import DecoupledSampler, ExactGPRegressor
from skgpx._decisions._acquisition import LogExpectedImprovement, Outcome
from skgpx._decisions._fidelity import Coefficient, fidelity_model
from skgpx._decisions._pareto import dominated_volume, improving_boxes, is_efficient
from skgpx._decisions._space import as_space
from skgpx.thompson import ThompsonSampler, ThompsonSearchCV

UNIT = np.random.default_rng(3).random((8, 2))
QUICK = {"n_mesh": 256, "n_starts": 4, "random_state": 0}
FIXED = DecoupledSampler(
    GaussianProcessRegressor(
        RBF(0.5) + WhiteKernel(1e-4), optimizer=None, normalize_y=True
    ),
    n_basis=256,
)
SQUARE = [(0.0, 1.0)] * 2


def bowl(X):
    return ((X - 0.3) ** 2).sum(axis=1)


# ---- Spaces --------------------------------------------------------------------------

NAMED = {
    "rate": loguniform(1e-4, 1.0),
    "depth": randint(2, 9),
    "width": [16, 32, 64, 128],
    "drop": uniform(0.0, 0.5),
    "kind": ["linear", "rbf", None],
    "shrink": [True, False],
    "size": (0.5, 2.0),
}


def test_named_inputs_have_their_ranges():
    optimizer = ThompsonSampler(NAMED, n_initial=200, random_state=0)
    trials = optimizer.ask(200)
    table = pd.DataFrame(trials)
    assert list(table) == list(NAMED) == list(optimizer.feature_names_in_)
    assert table["rate"].between(1e-4, 1.0).all()
    # uniform on the logarithmic scale
    assert abs(np.log10(table["rate"]).median() + 2.0) < 0.2
    assert set(table["depth"]) == set(range(2, 9))
    assert set(table["width"]) == {16, 32, 64, 128}
    assert table["drop"].between(0.0, 0.5).all()
    assert table["kind"].value_counts(dropna=False).min() > 50
    assert {type(trial["depth"]) for trial in trials} == {int}
    assert {type(trial["shrink"]) for trial in trials} == {bool}
    assert table["size"].between(0.5, 2.0).all()


def test_coordinates_and_numbers_are_inverse():
    space = as_space(NAMED, None, None, None, None)
    X = space.from_design(np.random.default_rng(0).random((50, len(space))))
    points = space.to_unit(X)
    # three choices without an order have a coordinate each
    assert points.shape == (50, len(NAMED) + 2)
    assert points.min() >= 0.0
    assert points.max() <= 1.0
    assert_allclose(space.from_unit(points), X, rtol=1e-12)
    assert_array_equal(space.read(space.write(X)), X)
    assert_array_equal(space.read(pd.DataFrame(space.write(X))), X)


def test_an_optimum_among_choices_and_logarithms_is_found():
    space = {
        "rate": loguniform(1e-5, 1.0),
        "kind": ["a", "b", "c"],
        "n": randint(1, 20),
    }

    def loss(trial):
        distance = (np.log10(trial["rate"]) + 3.0) ** 2
        return distance + 2.0 * (trial["kind"] != "b") + 0.05 * (trial["n"] - 7) ** 2

    optimizer = ThompsonSampler(space, n_mesh=256, n_starts=4, random_state=0)
    for _ in range(22):
        trials = optimizer.ask()
        optimizer.tell(trials, [loss(trial) for trial in trials])
    assert optimizer.best_x_["kind"] == "b"
    assert optimizer.best_y_ < 0.3
    resumed = pickle.loads(pickle.dumps(optimizer))
    assert resumed.ask(2) == optimizer.ask(2)


def test_choices_of_any_kind_are_read_back():
    choices = [np.nan, -1, None, True, np.array([0.2, 0.8]), SVC(C=2.0), "a"]
    optimizer = ThompsonSampler(
        {"a": choices, "x": [True, False]}, FIXED, n_initial=40, **QUICK
    )
    trials = optimizer.ask(40)
    optimizer.tell(trials, np.arange(40.0))
    assert set(optimizer.X_[:, 0]) == set(range(7))
    optimizer.tell({"a": np.float64(-1.0), "x": np.True_}, [0.0])
    assert_array_equal(optimizer.X_[-1], [1.0, 0.0])


def test_inactive_names_must_be_names():
    for names, message in (("x", "list of names"), (["z"], "unknown"), (None, "list")):
        optimizer = ThompsonSampler(
            {"x": (0.0, 1.0)}, inactive=lambda trial, names=names: names
        )
        with pytest.raises(ValueError, match=message):
            optimizer.ask()


def test_a_design_is_not_needed_after_a_warm_start():
    rows = [(a, b) for a in range(9) for b in range(9) if a + b == 8]
    optimizer = ThompsonSampler(
        [(0.0, 8.0)] * 2, FIXED, steps=[1, 1], allowed=lambda x: sum(x) == 8, **QUICK
    )
    optimizer.tell(rows[:-1], np.arange(8.0))
    assert_array_equal(optimizer.ask()[0], rows[-1])


def test_a_table_of_earlier_trials_is_a_start():
    table = pd.DataFrame({"kind": ["a", "b", "a"], "x": [0.1, 0.5, 0.9]})
    optimizer = ThompsonSampler(
        {"x": (0.0, 1.0), "kind": ["a", "b"]}, FIXED, n_initial=3, **QUICK
    )
    optimizer.tell(table, [1.0, 0.0, 2.0])
    assert optimizer.best_x_ == {"x": 0.5, "kind": "b"}
    (trial,) = optimizer.ask()
    assert set(trial) == {"x", "kind"}


def test_inputs_without_an_effect_are_left_out():
    space = {"kernel": ["linear", "rbf"], "gamma": loguniform(1e-3, 1.0)}

    def inactive(trial):
        return ["gamma"] if trial["kernel"] == "linear" else []

    optimizer = ThompsonSampler(space, FIXED, inactive=inactive, n_initial=6, **QUICK)
    for _ in range(5):
        trials = optimizer.ask(2)
        for trial in trials:
            assert ("gamma" in trial) == (trial["kernel"] == "rbf")
        optimizer.tell(trials, [trial.get("gamma", 0.5) for trial in trials])
    # one row for all values of an input that has no effect
    linear = optimizer.X_[optimizer.X_[:, 0] == 0.0]
    assert len(np.unique(linear, axis=0)) == 1
    assert optimizer.best_x_["kernel"] == "rbf"


@pytest.mark.parametrize("acquisition", ["expected_improvement", "thompson"])
def test_what_is_not_allowed_is_not_proposed(acquisition):
    """The optimum of the allowed half lies on its edge."""
    optimizer = ThompsonSampler(
        SQUARE,
        FIXED,
        allowed=lambda x: x[0] + x[1] >= 1.0,
        acquisition=acquisition,
        n_mesh=500,
        n_starts=4,
        random_state=0,
    )
    for _ in range(14):
        X = optimizer.ask()
        optimizer.tell(X, bowl(X))
    assert np.all(optimizer.X_.sum(axis=1) >= 1.0)
    assert optimizer.best_y_ < 0.08 + 0.01
    with pytest.raises(ValueError, match="admits only 0"):
        ThompsonSampler(SQUARE, allowed=lambda x: False).ask()


# ---- Acquisition ---------------------------------------------------------------------


def outcome(y, sign=1.0):
    return Outcome(clone(FIXED).fit(UNIT, y).posterior_, float(np.std(y)), sign)


def test_boxes_fill_what_the_front_does_not_dominate():
    rng = np.random.default_rng(0)
    for t in (1, 2, 3, 4):
        values = rng.random((12, t))
        front = values[is_efficient(values)]
        reference = np.full(t, 0.9)
        lower, upper = improving_boxes(front, reference)
        points = rng.uniform(-0.5, 1.0, (4000, t))
        inside = np.all(
            (points[:, np.newaxis] > lower) & (points[:, np.newaxis] < upper), 2
        )
        is_dominated = np.any(np.all(front[:, np.newaxis] <= points, axis=2), axis=0)
        expected = ~is_dominated & np.all(points < reference, axis=1)
        # each point is in one box or in none
        assert_array_equal(inside.sum(axis=1), expected.astype(int))
        corner = front.min(axis=0)
        fill = corner + rng.random((40_000, t)) * (reference - corner)
        share = np.any(np.all(front[:, np.newaxis] <= fill, axis=2), axis=0).mean()
        volume = share * np.prod(reference - corner)
        error = np.sqrt(share * (1.0 - share) / 40_000) * np.prod(reference - corner)
        assert abs(dominated_volume(front, reference) - volume) < 4.0 * error + 1e-12


def test_expected_gain_of_volume_is_the_mean_of_gains():
    """By draws: two objectives, one of them maximised, a constraint and a cost."""
    rng = np.random.default_rng(1)
    signs = (1.0, -1.0)
    objectives = tuple(
        outcome(y, sign)
        for y, sign in zip((bowl(UNIT), UNIT @ [1.0, 2.0]), signs, strict=True)
    )
    constraint = outcome(UNIT[:, 0] - UNIT[:, 1])
    log_cost = outcome(1.0 + UNIT[:, 1])
    front = np.column_stack([objective.means(UNIT) for objective in objectives])
    reference = front.max(axis=0) + 0.1
    lower, upper = improving_boxes(front, reference)
    improvement = LogExpectedImprovement(
        objectives,
        lower[:, :, np.newaxis],
        upper[:, :, np.newaxis],
        constraints=(constraint,),
        log_cost=log_cost,
    )
    X = rng.random((4, 2))
    values = np.exp(-improvement(X)[:, 0])
    before = dominated_volume(front, reference)
    for k in range(4):
        gains = []
        moments = [objective.moments(X[[k]]) for objective in objectives]
        for _ in range(600):
            new = [m[0, 0] + s[0, 0] * rng.standard_normal() for m, s, _ in moments]
            extended = np.vstack((front, new))
            extended = extended[is_efficient(extended)]
            gains.append(dominated_volume(extended, reference) - before)
        mean, std, _ = constraint.moments(X[[k]])
        factor = norm.cdf(-mean[0, 0] / std[0, 0]) / np.exp(log_cost.means(X[[k]])[0])
        error = np.std(gains) / np.sqrt(600)
        assert abs(values[k] / factor - np.mean(gains)) < 4.5 * error + 1e-9


def test_slopes_are_differences_and_stop_at_what_is_not_allowed():
    objectives = (outcome(bowl(UNIT)), outcome(UNIT[:, 0]))
    front = np.column_stack([objective.means(UNIT) for objective in objectives])
    lower, upper = improving_boxes(front, front.max(axis=0) + 0.1)
    improvement = LogExpectedImprovement(
        objectives,
        lower[:, :, np.newaxis],
        upper[:, :, np.newaxis],
        constraints=(outcome(UNIT[:, 1] - 0.5),),
        allowed=lambda points: points[:, 0] < 0.8,
    )
    X = np.array([[0.2, 0.3], [0.5, 0.6], [0.9, 0.5]])
    weights, index = np.ones((1, 1)), np.zeros(3, dtype=int)
    values, slopes = improvement.pairs(X, weights, index)
    assert_allclose(values, improvement(X)[:, 0])
    for k, step in enumerate(1e-4 * np.eye(2)):
        differences = (improvement(X + step) - improvement(X - step))[:, 0] / 2e-4
        assert_allclose(slopes[:2, k], differences[:2], rtol=1e-4, atol=1e-6)
    assert values[2] > 1e5
    assert_array_equal(slopes[2], 0.0)


def test_an_improvement_without_anything_to_improve_is_constant():
    nothing = np.empty((0, 0, 1))
    improvement = LogExpectedImprovement((), lower=nothing, upper=nothing)
    X = np.random.default_rng(0).random((3, 2))
    values, slopes = improvement.pairs(X, np.ones((1, 1)), np.zeros(3, dtype=int))
    assert_array_equal(values, 0.0)
    assert_array_equal(values, improvement(X)[:, 0])
    assert_array_equal(slopes, 0.0)


# ---- Constraints and failures --------------------------------------------------------


def disk(X):
    """Feasible within a disk that does not hold the minimum of the bowl."""
    return ((X - 0.75) ** 2).sum(axis=1) - 0.09


@pytest.mark.parametrize("acquisition", ["expected_improvement", "thompson"])
@pytest.mark.parametrize("labels", [False, True])
def test_the_best_feasible_input_is_found(acquisition, labels):
    optimizer = ThompsonSampler(
        SQUARE, FIXED, acquisition=acquisition, n_initial=8, **QUICK
    )
    optimizer.tell(
        UNIT, bowl(UNIT), constraints=disk(UNIT) > 0 if labels else disk(UNIT)
    )
    for _ in range(6):
        X = optimizer.ask(2)
        violations = disk(X) > 0 if labels else disk(X)
        optimizer.tell(X, bowl(X), constraints=violations)
    # on the edge of the disk, towards the minimum
    exact = (np.sqrt(2.0) * 0.45 - 0.3) ** 2
    assert exact - 1e-9 < optimizer.best_y_ < exact + (0.1 if labels else 0.02)
    assert disk(optimizer.best_x_[np.newaxis])[0] <= 0.0
    report = optimizer.report()
    assert report["evaluations"]["told"] == 20
    assert report["evaluations"]["feasible"] == np.sum(disk(optimizer.X_) <= 0.0)
    assert 0.0 < report["feasibility"]["constraint 0"] <= 1.0
    assert "feasible" in repr(report)


def test_nothing_feasible_yet():
    optimizer = ThompsonSampler(SQUARE, FIXED, n_initial=4, **QUICK)
    for _ in range(2):
        X = optimizer.ask(4)
        optimizer.tell(
            X, bowl(X), constraints=np.column_stack((0.5 + X[:, 0], disk(X)))
        )
    with pytest.raises(NotFittedError, match="None of 8 evaluations meets"):
        _ = optimizer.best_x_
    assert optimizer.report()["evaluations"] == {"told": 8, "failed": 0, "feasible": 0}
    # towards where the constraints are met
    assert optimizer.ask()[0, 0] < 0.45


def test_large_violations_do_not_hide_the_edge():
    """Constraints have a logarithmic scale far from zero."""
    optimizer = ThompsonSampler([[-1.0, 9.0]], n_mesh=500, n_starts=4, random_state=0)
    for _ in range(14):
        X = optimizer.ask()
        violation = np.expm1(2.0 * (X[:, 0] - 0.5))
        optimizer.tell(X, -X[:, 0], constraints=violation)
    assert 0.45 < optimizer.best_x_[0] <= 0.5


def test_runs_that_fail_are_avoided():
    def run(X):
        return np.where(X[:, 0] < 0.25, np.nan, bowl(X))

    optimizer = ThompsonSampler(SQUARE, n_mesh=500, n_starts=4, random_state=0)
    X = optimizer.ask(6)
    optimizer.tell(X, run(X))
    for _ in range(8):
        X = optimizer.ask()
        optimizer.tell(X, run(X))
    assert optimizer.best_y_ < 0.01
    assert np.isnan(optimizer.y_[6:]).sum() <= 2
    assert optimizer.report()["evaluations"]["failed"] == np.isnan(optimizer.y_).sum()
    assert optimizer.report()["feasibility"]["success"] > 0.5


def test_designs_go_on_while_all_runs_fail():
    optimizer = ThompsonSampler(SQUARE, FIXED, n_initial=4, **QUICK)
    optimizer.tell(optimizer.ask(6), np.full(6, np.nan))
    X = optimizer.ask(2)
    assert len(np.unique(np.vstack((optimizer.X_, X)), axis=0)) == 8
    with pytest.raises(NotFittedError, match="No evaluations"):
        _ = optimizer.best_y_


# ---- Several objectives and costs ----------------------------------------------------


def two_bowls(X):
    return np.column_stack((bowl(X), ((X - 0.7) ** 2).sum(axis=1)))


@pytest.mark.parametrize("acquisition", ["expected_improvement", "thompson"])
def test_the_front_between_two_optima_is_found(acquisition):
    """The exact front is the segment between them."""
    optimizer = ThompsonSampler(
        SQUARE, FIXED, acquisition=acquisition, reference=[0.4, 0.4], **QUICK
    )
    X = optimizer.ask(6)
    optimizer.tell(X, two_bowls(X))
    for _ in range(6):
        X = optimizer.ask(2)
        optimizer.tell(X, two_bowls(X))
    shares = np.linspace(0.0, 1.0, 300)[:, np.newaxis]
    exact = two_bowls(0.3 + 0.4 * shares * np.ones(2))
    largest = dominated_volume(exact[is_efficient(exact)], np.array([0.4, 0.4]))
    assert 0.9 * largest < optimizer.hypervolume() <= largest
    assert len(optimizer.pareto_front_) == len(optimizer.pareto_set_) > 5
    assert_allclose(two_bowls(optimizer.pareto_set_), optimizer.pareto_front_)
    with pytest.raises(ValueError, match="no single best"):
        _ = optimizer.best_x_


def test_objectives_may_be_maximised():
    signs = np.array([-1.0, 1.0])
    lower, upper = (
        ThompsonSampler(SQUARE, FIXED, maximize=maximize, n_initial=6, **QUICK)
        for maximize in (False, [True, False])
    )
    for optimizer, factor in ((lower, 1.0), (upper, signs)):
        for _ in range(4):
            X = optimizer.ask(2)
            optimizer.tell(X, factor * two_bowls(X))
    assert_allclose(lower.X_, upper.X_, atol=1e-6)
    volume = upper.hypervolume([-0.5, 0.5])
    assert_allclose(volume, lower.hypervolume([0.5, 0.5]), rtol=1e-5)


@pytest.mark.parametrize("slope", [-4.0, 4.0])
def test_cheap_evaluations_are_preferred(slope):
    """The same improvement is expected on both sides."""
    X = np.array([[0.0], [0.3], [0.5], [0.7], [1.0]])
    optimizer = ThompsonSampler([[0.0, 1.0]], FIXED, n_initial=0, **QUICK)
    optimizer.tell(X, (X[:, 0] - 0.5) ** 2, cost=np.exp(slope * X[:, 0]))
    assert (optimizer.ask()[0, 0] < 0.5) == (slope > 0.0)
    # costs may be told later, and of some evaluations only
    optimizer.tell([[0.2]], [0.09]).tell([[0.8]], [0.09], cost=[np.exp(0.8 * slope)])
    assert np.isnan(optimizer.costs_).sum() == 1
    assert optimizer.ask().shape == (1, 1)


def test_no_input_is_proposed_twice():
    """Neither at a bound that is the optimum, nor where values are constant."""
    for function in (lambda X: X.sum(axis=1), lambda X: np.zeros(len(X))):
        optimizer = ThompsonSampler(SQUARE, FIXED, **QUICK)
        for _ in range(16):
            X = optimizer.ask()
            optimizer.tell(X, function(X))
        assert len(np.unique(optimizer.X_, axis=0)) == 16


def test_what_is_not_allowed_is_not_proposed_where_nothing_is_feasible():
    optimizer = ThompsonSampler(
        SQUARE, FIXED, allowed=lambda x: x[0] > 0.3, n_initial=4, **QUICK
    )
    for _ in range(3):
        X = optimizer.ask(4)
        assert np.all(X[:, 0] > 0.3)
        optimizer.tell(X, X.sum(axis=1), constraints=np.ones((4, 1), dtype=bool))


def test_labels_are_labels_beside_numbers_and_failures():
    """Coded as 0 and 1, told with numbers, or missing where a run failed."""
    labels = disk(UNIT) > 0.0
    models = []
    for constraint in (labels, labels.astype(int), [*labels[:-1], None]):
        y = bowl(UNIT)
        y[-1] = np.nan
        columns = np.array([constraint, UNIT[:, 0] - 0.9], dtype=object).T
        optimizer = ThompsonSampler(SQUARE, FIXED, n_initial=0, **QUICK)
        models.append(optimizer.tell(UNIT, y, constraints=columns.astype(float)))
    for optimizer in models[1:]:
        assert_array_equal(optimizer.best_x_, models[0].best_x_)
    feasible = [model.report()["feasibility"]["constraint 0"] for model in models]
    assert min(feasible) > 0.9
    # a constraint that was not measured is not known to be met
    unknown = ThompsonSampler(SQUARE, FIXED, n_initial=0, **QUICK)
    unknown.tell(UNIT[:2], [0.0, 1.0], constraints=[np.nan, -1.0])
    assert unknown.best_y_ == 1.0


def test_noisy_runs_may_all_fail_at_first():
    optimizer = ThompsonSampler(SQUARE, FIXED, noisy=True, n_initial=2, **QUICK)
    optimizer.tell(UNIT[:3], np.full(3, np.nan))
    assert optimizer.report()["evaluations"]["failed"] == 3
    assert optimizer.ask(2).shape == (2, 2)
    # numbers of columns are those of the first success
    optimizer.tell(UNIT, two_bowls(UNIT), constraints=disk(UNIT))
    assert optimizer.y_.shape == (11, 2)
    assert optimizer.ask().shape == (1, 2)


# ---- Fidelities ----------------------------------------------------------------------


def wave(X):
    """The experiment, and half of it with a trend as its approximation."""
    x, s = X.T
    high = np.sin(9.0 * x) + (x - 0.6) ** 2
    return np.where(s == 1.0, high, 0.5 * high + 0.3 * x)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_model_of_fidelities_is_autoregressive():
    """f_1 = ρ f_0 + δ: values of the approximation tell most of the experiment."""
    rng = np.random.default_rng(0)
    low = np.column_stack((np.linspace(0.0, 1.0, 15), np.zeros(15)))
    high = np.column_stack((rng.random(5), np.ones(5)))
    X = np.vstack((low, high))
    new = np.column_stack((np.linspace(0.05, 0.95, 40), np.ones(40)))
    model = fidelity_model(2, fidelity=1).fit(X, wave(X))
    alone = fidelity_model(2, fidelity=1).fit(high, wave(high))
    errors = [
        np.sqrt(np.mean((m.predict(new) - wave(new)) ** 2)) for m in (model, alone)
    ]
    assert errors[0] < 0.05 < errors[1]


def test_slopes_of_the_coefficient_are_differences():
    kernel = Coefficient(1, 1.0, 0.7, (0.1, 10.0))
    X = np.column_stack((UNIT[:, 0], [0.0, 1.0] * 4))
    matrix, slopes = kernel(X, eval_gradient=True)
    assert_allclose(np.diag(matrix), kernel.diag(X))
    assert_allclose(kernel(X, X), matrix)
    moved = [kernel.clone_with_theta(kernel.theta + step)(X) for step in (1e-5, -1e-5)]
    assert_allclose(slopes[:, :, 0], (moved[0] - moved[1]) / 2e-5, atol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_cheap_approximations_are_used_and_the_experiment_counts():
    optimizer = ThompsonSampler(
        {"x": (0.0, 1.0), "grid": randint(0, 2)},
        fidelity="grid",
        n_initial=8,
        **QUICK,
    )
    trials = optimizer.ask(8)
    for _ in range(9):
        X = np.array([[trial["x"], trial["grid"]] for trial in trials])
        optimizer.tell(trials, wave(X), cost=np.where(X[:, 1] == 1.0, 1.0, 0.05))
        trials = optimizer.ask()
    assert optimizer.best_x_["grid"] == 1
    is_experiment = optimizer.X_[:, 1] == 1.0
    assert optimizer.best_y_ == optimizer.y_[is_experiment].min()
    assert optimizer.best_y_ < -0.95
    # both are proposed
    assert 0 < is_experiment[8:].sum() < 8
    # without costs there is no reason for an approximation
    free = ThompsonSampler(SQUARE, fidelity=1, n_initial=0, **QUICK)
    free.tell(UNIT, bowl(UNIT))
    assert free.ask()[0, 1] == 1.0


def test_the_largest_fidelity_is_exact():
    """On a logarithmic scale, and where the bound is no level."""
    names = {"x": (0.0, 1.0), "epochs": loguniform(1, 1000)}
    optimizer = ThompsonSampler(names, FIXED, fidelity="epochs", n_initial=0, **QUICK)
    optimizer.tell([{"x": 0.2, "epochs": 10.0}, {"x": 0.7, "epochs": 1000}], [0.0, 1.0])
    assert optimizer.ask()[0]["epochs"] == 1000.0
    levels = ThompsonSampler(
        [[0.0, 1.0], [1.0, 100.0]], FIXED, steps=[0.0, 10.0], fidelity=1, **QUICK
    )
    levels.tell([[0.2, 1.0], [0.7, 91.0]], [0.0, 1.0])
    assert levels.best_y_ == 1.0
    with pytest.raises(ValueError, match="without a fidelity"):
        ThompsonSampler(
            SQUARE, ExactGPRegressor(RBF(0.5)), fidelity=1, n_initial=0, **QUICK
        ).tell(UNIT, bowl(UNIT)).ask()


def test_a_fidelity_that_is_not_allowed_is_not_proposed():
    optimizer = ThompsonSampler(
        SQUARE, FIXED, fidelity=1, allowed=lambda x: x[1] > 0.7, n_initial=0, **QUICK
    )
    optimizer.tell(UNIT, bowl(UNIT), cost=np.exp(5.0 * UNIT[:, 1]))
    assert optimizer.ask(3)[:, 1].min() > 0.7


# ---- What does not fit ---------------------------------------------------------------

BAD_SPACES = [
    ({"x": (1.0, 0.0)}, "lower, upper"),
    ({"x": 3.0}, "pair of numbers"),
    ({"x": "abc"}, "pair of numbers"),
    ({"x": norm(0.0, 1.0)}, "bounded range"),
    ({"x": []}, "at least one choice"),
    ({}, "at least one input"),
]


@pytest.mark.parametrize(("bounds", "message"), BAD_SPACES)
def test_spaces_that_do_not_fit_are_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        ThompsonSampler(bounds)


def test_options_that_do_not_fit_are_refused():
    for options, message in (
        ({"bounds": {"x": (0.0, 1.0)}, "steps": [1.0]}, "steps goes with"),
        ({"bounds": SQUARE, "inactive": lambda x: []}, "inactive speaks of names"),
        ({"bounds": SQUARE, "allowed": 3}, "allowed must be callable"),
        ({"bounds": SQUARE, "maximize": [1.0, 2.0]}, "maximize must be"),
        ({"bounds": SQUARE, "reference": [np.nan]}, "reference must be finite"),
        ({"bounds": SQUARE, "maximize": "yes"}, "maximize must be"),
        ({"bounds": SQUARE, "fidelity": 2}, "fidelity must be one of"),
        ({"bounds": SQUARE[:1], "fidelity": 0}, "needs another input"),
        ({"bounds": {"x": loguniform(1.0, 10.0, loc=-5.0)}}, "positive throughout"),
        (
            {"bounds": {"k": ["a", "b"], "x": (0.0, 1.0)}, "fidelity": "k"},
            "range of numbers",
        ),
        (
            {"bounds": SQUARE, "fidelity": 1, "acquisition": "thompson"},
            "chosen by expected improvement",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            ThompsonSampler(**options)


def test_evaluations_that_do_not_fit_are_refused():
    space = {"x": (0.0, 1.0), "kind": ["a", "b"]}
    space |= {"rate": loguniform(1e-3, 1.0), "n": randint(1, 9)}
    named = ThompsonSampler(space)
    for trial, message in (
        ({"x": 0.5}, "lacks the inputs"),
        ({"x": 0.5, "kind": "c", "rate": 0.1, "n": 2}, "must be one of"),
        ({"x": 0.5, "kind": "a", "z": 1}, "unknown inputs"),
        ({"x": np.inf, "kind": "a", "rate": 0.1, "n": 2}, "finite"),
        ([0.5, 0.0], "list of dictionaries"),
        ({"x": 0.5, "kind": "a", "rate": 0.0, "n": 2}, "must be positive"),
        ({"x": 0.5, "kind": "a", "rate": 0.1, "n": 2.5}, "must be an integer"),
    ):
        with pytest.raises(ValueError, match=message):
            named.tell(trial, [1.0])
    X = UNIT[:2]
    y = np.zeros(2)
    pairs = np.zeros((2, 2))
    for options, message in (
        ({"y": np.zeros((2, 1))}, "one objective"),
        ({"y": y, "constraints": [np.inf, 0.0]}, "constraints must be finite"),
        ({"y": y, "constraints": [np.nan, np.nan]}, "NaN only in column 0"),
        ({"y": y, "cost": [np.nan, 1.0]}, "cost must be finite where y is"),
        ({"y": y, "constraints": np.zeros(3)}, "constraints must have shape"),
        ({"y": y, "cost": [0.0, 1.0]}, "cost must be positive"),
        ({"y": None, "cost": [1.0, 1.0]}, "go with values"),
    ):
        with pytest.raises(ValueError, match=message):
            ThompsonSampler(SQUARE).tell(X, **options)
    optimizer = ThompsonSampler(SQUARE).tell(X, y)
    for options in ({"y": pairs}, {"y": y, "constraints": y}):
        with pytest.raises(ValueError, match=r"shape|Either all"):
            optimizer.tell(X, **options)
    constrained = ThompsonSampler(SQUARE).tell(X, y, constraints=pairs)
    for violations in (None, y):
        with pytest.raises(ValueError, match=r"Either all|shape"):
            constrained.tell(X, y, constraints=violations)
    with pytest.raises(ValueError, match="2 columns"):
        ThompsonSampler(SQUARE, reference=[1.0, 1.0]).tell(X, y)
    with pytest.raises(ValueError, match="reference point"):
        ThompsonSampler(SQUARE).tell(X, pairs).hypervolume()


def test_pending_inputs_are_not_proposed_again():
    optimizers = [ThompsonSampler(SQUARE, FIXED, n_initial=8, **QUICK) for _ in "ab"]
    for optimizer in optimizers:
        optimizer.tell(UNIT, bowl(UNIT))
    first = optimizers[0].ask()
    optimizers[1].tell(first)
    assert len(optimizers[1].y_) == 8
    assert np.linalg.norm(optimizers[1].ask() - first) > 1e-3


# ---- Hyperparameters of estimators ---------------------------------------------------


# labels that are infinite
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [
        ThompsonSearchCV(
            LogisticRegression(),
            {"C": (0.1, 1.0)},
            n_iter=3,
            n_initial=2,
            cv=2,
            error_score="raise",
            random_state=0,
        )
    ]
)
def test_the_search_is_an_estimator(estimator, check):
    check(estimator)


X_IRIS, Y_IRIS = load_iris(return_X_y=True)
SVM = {
    "C": loguniform(1e-3, 1e3),
    "kernel": ["linear", "rbf"],
    "gamma": loguniform(1e-4, 1e1),
}


def of_linear(trial):
    return ["gamma"] if trial["kernel"] == "linear" else []


def test_a_search_finds_parameters_and_keeps_the_contract():
    search = ThompsonSearchCV(
        SVC(), SVM, n_iter=9, n_initial=5, inactive=of_linear, cv=3, random_state=0
    )
    again = clone(search).set_params(n_jobs=2).fit(X_IRIS, Y_IRIS)
    search.fit(X_IRIS, Y_IRIS)
    assert search.cv_results_["params"] == again.cv_results_["params"]
    assert len(search.cv_results_["params"]) == 9
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() > 0.97
    assert search.best_estimator_.get_params()["C"] == search.best_params_["C"]
    assert search.optimizer_.best_y_ == search.best_score_
    assert search.predict(X_IRIS).shape == Y_IRIS.shape


def test_all_candidates_see_the_same_splits():
    cv = ShuffleSplit(2, random_state=np.random.RandomState(0))
    search = ThompsonSearchCV(
        SVC(), {"C": [1.0, 1.0 + 1e-12, 1.0 + 2e-12]}, n_initial=1, cv=cv
    ).fit(X_IRIS, Y_IRIS)
    # all levels, and no more
    assert len(search.cv_results_["params"]) == 3
    assert np.ptp(search.cv_results_["split0_test_score"]) == 0.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
def test_candidates_that_fail_are_avoided():
    space = {"C": (-1.0, 4.0), "gamma": (0.01, 1.0)}
    search = ThompsonSearchCV(
        SVC(), space, n_iter=10, n_initial=6, cv=2, random_state=0
    )
    search.fit(X_IRIS, Y_IRIS)
    assert np.isnan(search.optimizer_.y_).sum() >= 1
    assert search.best_params_["C"] > 0.0


class Fragile(Ridge):
    """Better with a larger alpha, until fits fail."""

    def fit(self, X, y, sample_weight=None):
        if self.alpha > 0.6:
            raise ArithmeticError("too large")
        return super().fit(X, y, sample_weight)

    def score(self, X, y, sample_weight=None):
        return self.alpha


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
def test_a_later_candidate_all_of_whose_fits_fail_is_left_out():
    """Scikit-learn raises an error there, which must not end the search."""
    search = ThompsonSearchCV(
        Fragile(), {"alpha": (0.0, 1.0)}, n_iter=10, n_initial=4, cv=2, random_state=0
    ).fit(X_IRIS, Y_IRIS)
    has_failed = np.isnan(search.optimizer_.y_)
    assert len(has_failed) == 10
    assert 0 < has_failed[4:].sum() < 6
    assert len(search.cv_results_["params"]) == 10 - has_failed[4:].sum()
    assert 0.5 < search.best_params_["alpha"] <= 0.6
    with pytest.raises(ArithmeticError, match="too large"):
        clone(search).set_params(error_score="raise").fit(X_IRIS, Y_IRIS)


def test_a_score_of_the_name_score_is_not_mistaken():
    search = ThompsonSearchCV(
        SVC(),
        {"C": (0.1, 9.0)},
        scoring={"score": lambda model, X, y: -model.C, "acc": "accuracy"},
        refit="acc",
        n_iter=3,
        n_initial=2,
        cv=2,
        random_state=0,
    ).fit(X_IRIS, Y_IRIS)
    assert_array_equal(search.optimizer_.y_, search.cv_results_["mean_test_acc"])


def test_a_search_goes_on_at_a_bound():
    X, y = X_IRIS[:30], np.arange(30.0)
    search = ThompsonSearchCV(
        Ridge(), {"alpha": (0.0, 1.0)}, n_iter=12, n_initial=4, cv=2, random_state=0
    ).fit(X, y)
    assert len(search.cv_results_["params"]) == 12


def test_one_of_several_scores_is_optimised():
    options = {"n_iter": 3, "n_initial": 2, "cv": 2, "random_state": 0}
    search = ThompsonSearchCV(
        SVC(),
        {"C": (0.1, 9.0)},
        scoring=["accuracy", "f1_macro"],
        refit="f1_macro",
        **options,
    ).fit(X_IRIS, Y_IRIS)
    assert_array_equal(search.optimizer_.y_, search.cv_results_["mean_test_f1_macro"])
    with pytest.raises(ValueError, match="refit to its name"):
        search.set_params(refit=False).fit(X_IRIS, Y_IRIS)
