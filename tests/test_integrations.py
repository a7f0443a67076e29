"""Studies of Optuna."""

import numpy as np
import optuna
import pytest
from numpy.testing import assert_array_equal
from optuna.trial import TrialState
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgpx import DecoupledSampler
from skgpx.integrations.optuna import Sampler

optuna.logging.set_verbosity(optuna.logging.ERROR)
# A model that learns nothing, where a test is not about it.
FIXED = DecoupledSampler(
    GaussianProcessRegressor(
        RBF(0.5) + WhiteKernel(1e-4), optimizer=None, normalize_y=True
    ),
    n_basis=256,
)


def mixed(trial):
    """Depends on all kinds of parameters; one of them is not always there."""
    x = trial.suggest_float("x", -5.0, 5.0)
    n = trial.suggest_int("n", 1, 100, log=True)
    kind = trial.suggest_categorical("kind", ["a", "b", None])
    level = trial.suggest_float("level", 0.0, 2.0, step=0.5)
    if kind == "b":
        trial.suggest_float("only b", 0.0, 1.0)
    return x**2 + np.log(n / 10) ** 2 + 2.0 * (kind != "a") + (level - 1.0) ** 2


def study_of(objective, n_trials, *, sampler=None, **options):
    sampler = sampler or Sampler(seed=0, n_startup_trials=8)
    study = optuna.create_study(sampler=sampler, **options)
    study.optimize(objective, n_trials=n_trials, catch=(ZeroDivisionError,))
    return study


def test_all_kinds_of_parameters():
    study = study_of(mixed, 20)
    assert study.best_params["kind"] == "a"
    assert study.best_value < 0.5
    for trial in study.trials:
        assert isinstance(trial.params["n"], int)
        assert trial.params["level"] in (0.0, 0.5, 1.0, 1.5, 2.0)
    again = study_of(mixed, 9)
    for one, other in zip(study.trials, again.trials, strict=False):
        assert one.params == other.params


@pytest.mark.parametrize("by_function", [True, False])
def test_constraints(by_function):
    """By a function of the trial, or told by the objective."""

    def objective(trial):
        x = trial.suggest_float("x", 0.0, 1.0)
        y = trial.suggest_float("y", 0.0, 1.0)
        if by_function:
            trial.set_user_attr("c", 1.0 - x - y)
        else:
            trial.set_constraint("c", 1.0 - x - y)
        return x**2 + 2.0 * y**2

    options = {"seed": 1, "n_startup_trials": 6}
    if by_function:
        options["constraints_func"] = lambda trial: (trial.user_attrs["c"],)
    elif not hasattr(optuna.trial.Trial, "set_constraint"):
        pytest.skip("set_constraint is new in Optuna 5")
    study = study_of(objective, 14, sampler=Sampler(**options))
    assert sum(study.best_params.values()) >= 1.0
    # the exact value is 2 / 3
    assert study.best_value < 0.68


@pytest.mark.parametrize("reference", [None, [0.3, -0.3]])
def test_several_directions(reference):
    def objective(trial):
        x = trial.suggest_float("x", 0.0, 1.0)
        return (x - 0.3) ** 2, -((x - 0.7) ** 2)

    study = study_of(
        objective,
        14,
        sampler=Sampler(seed=0, n_startup_trials=8, sampler=FIXED, reference=reference),
        directions=["minimize", "maximize"],
    )
    on_front = [0.29 < trial.params["x"] < 0.71 for trial in study.best_trials]
    assert len(on_front) > 7
    assert np.mean(on_front) > 0.7


def test_trials_that_were_pruned_failed_or_run():
    def objective(trial):
        x = trial.suggest_float("x", 0.0, 1.0)
        if x < 0.2:
            raise ZeroDivisionError
        trial.report(x, step=0)
        if x > 0.9:
            raise optuna.TrialPruned
        return (x - 0.4) ** 2

    sampler = Sampler(seed=0, n_startup_trials=8, sampler=FIXED)
    study = study_of(objective, 16, sampler=sampler)
    states = [trial.state for trial in study.trials]
    assert TrialState.FAIL in states[:8]
    # failures are avoided later on
    assert states[8:].count(TrialState.FAIL) < 3
    assert study.best_value < 1e-3
    first, second = study.ask(), study.ask()
    pending = [trial.suggest_float("x", 0.0, 1.0) for trial in (first, second)]
    assert pending[0] != pending[1]


def test_infinite_values_and_constraints_of_some_trials():
    def objective(trial):
        x = trial.suggest_float("x", 0.0, 1.0)
        if trial.number % 3 == 0:
            trial.set_user_attr("c", (np.inf if x < 0.5 else -1.0,))
        return np.inf if trial.number == 2 else x

    sampler = Sampler(
        seed=0,
        n_startup_trials=4,
        sampler=FIXED,
        constraints_func=lambda trial: trial.user_attrs.get("c", ()),
    )
    study = study_of(objective, 11, sampler=sampler)
    assert len(study.trials) == 11
    # where the constraint is known to be met
    assert np.max([trial.params["x"] for trial in study.trials[8:]]) > 0.45


def test_the_design_fills_the_space():
    study = study_of(
        lambda trial: trial.suggest_float("x", 0.0, 1.0),
        16,
        sampler=Sampler(seed=0, n_startup_trials=16),
    )
    points = np.array([trial.params["x"] for trial in study.trials[1:]])
    # all but the first one, of a scrambled Sobol sequence
    assert len(np.unique(np.floor(16.0 * points))) == 15


def test_a_study_can_be_resumed_and_shared():
    storage = optuna.storages.InMemoryStorage()
    study = study_of(mixed, 9, storage=storage, study_name="shared")
    loaded = optuna.load_study(
        study_name="shared", storage=storage, sampler=Sampler(seed=0)
    )
    loaded.optimize(mixed, n_trials=4, n_jobs=2)
    points = np.array([[trial.params["x"]] for trial in study.trials])
    assert len(np.unique(points)) == 13
    assert_array_equal(points[:9, 0], [t.params["x"] for t in loaded.trials[:9]])


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="acquisition must be one of"):
        Sampler(acquisition="EI")
    with pytest.raises(ValueError, match="n_initial"):
        Sampler(n_startup_trials=-1)

    def objective(trial):
        return trial.suggest_float("x", 0.0, 1.0)

    sampler = Sampler(constraints_func=lambda trial: (np.nan,))
    with pytest.raises(ValueError, match="constraints_func must return"):
        study_of(objective, 1, sampler=sampler)
