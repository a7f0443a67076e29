"""`interaction_cst`: which columns the default kernel lets interact."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV

from skgpx import ExactGPRegressor, GWIRegressor, PLSClassifier, PLSRegressor
from skgpx.inspection import sobol_indices
from skgpx.kernels import length_scales
from skgpx.likelihoods import Gaussian, HeteroscedasticGaussian, NegativeBinomial

# features of draws from functions with little noise
pytestmark = [
    pytest.mark.filterwarnings("ignore:With .* Fourier features"),
]
rng = np.random.default_rng(0)
D = 4
X = rng.uniform(-2.0, 2.0, (90, D))
F = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3]
Y = F + 0.1 * rng.standard_normal(len(X))
LABELS = np.where(Y > 0.0, "high", "low")
NAMES = ["a", "b", "c", "d"]
OF_ONE_STATE = {"hyperparameters": "maximise", "random_state": 0}
MODELS = {
    "PLS": (PLSRegressor(likelihood=Gaussian(), random_state=0), Y),
    "GWI": (GWIRegressor(likelihood="gaussian", **OF_ONE_STATE), Y),
    "exact": (ExactGPRegressor(likelihood=Gaussian(), random_state=0), Y),
    "counts": (
        PLSRegressor(likelihood=NegativeBinomial(), random_state=0),
        np.floor(np.exp(Y)),
    ),
    "two classes": (PLSClassifier(random_state=0), LABELS),
    "three classes": (
        PLSClassifier(n_particles=10, tol=3.0, random_state=0),
        np.digitize(Y, [-1.0, 1.0]),
    ),
}
each = pytest.mark.parametrize("name", MODELS)


def mean_of(model):
    """The posterior mean of the latent function, a function of rows."""
    if is_classifier(model):
        return lambda rows: model.latent_mean_and_variance(rows)[0]
    if type(getattr(model, "likelihood_", None)) is NegativeBinomial:
        return lambda rows: model.posterior_.marginals(rows).moments()[0]
    return model.predict


def interaction(function, columns):
    """Largest mixed difference in some columns, in ranges of the function."""
    draws = np.random.default_rng(1)
    start, end = draws.uniform(-2.0, 2.0, (2, 40, D))
    total = 0.0
    for size in range(len(columns) + 1):
        for moved in combinations(columns, size):
            rows = start.copy()
            rows[:, moved] = end[:, moved]
            total = total + (-1.0) ** size * function(rows)
    return np.max(np.abs(total)) / np.ptp(function(start))


def interacting(function, size=2):
    """Sets of so many columns that interact, but for rounding."""
    return {
        columns
        for columns in combinations(range(D), size)
        if interaction(function, columns) > 1e-8
    }


@each
def test_no_column_interacts(name):
    model, y = MODELS[name]
    model = clone(model).set_params(interaction_cst="no_interactions").fit(X, y)
    assert interacting(mean_of(model)) == set()


@each
def test_groups_interact_and_others_do_not(name):
    model, y = MODELS[name]
    model = clone(model).set_params(interaction_cst=[{1, 2}, [2, 3]]).fit(X, y)
    function = mean_of(model)
    assert interacting(function) <= {(1, 2), (2, 3)}
    assert interacting(function, size=3) == set()


def test_pairs_interact_and_threes_do_not():
    y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3]
    model = PLSRegressor(
        interaction_cst="pairwise", likelihood=Gaussian(), random_state=0
    )
    function = mean_of(model.fit(X, y))
    assert (0, 1) in interacting(function)
    assert interacting(function, size=3) == set()


def test_effects_of_pairs_are_nothing():
    model = PLSRegressor(
        interaction_cst=[[1, 2]], likelihood=Gaussian(), random_state=0
    )
    indices = sobol_indices(model.fit(X, Y), X, n_pairs=6)
    shares = dict(zip(indices["effect"], indices["share"], strict=True))
    assert shares["x1, x2"] > 0.1
    # columns that are not named are a group
    assert all(shares[f"x{i}, x{j}"] < 1e-6 for i in (0, 3) for j in (1, 2) if i < j)
    assert shares["x1, x3"] < 1e-6


def test_draws_have_no_interactions_either():
    model = PLSRegressor(
        interaction_cst="no_interactions", likelihood=Gaussian(), random_state=0
    )
    draws = model.fit(X, Y).sample_functions(3, random_state=0)
    assert interacting(draws) == set()


@pytest.mark.parametrize("groups", [[[0, 1, 2, 3]], [[3, 2, 1], [0, 1, 2, 3]], []])
def test_all_columns_are_the_default(groups):
    model = ExactGPRegressor(random_state=0)
    expected = clone(model).fit(X, Y).predict(X)
    found = model.set_params(interaction_cst=groups).fit(X, Y).predict(X)
    assert_array_equal(found, expected)


def test_names_are_numbers_and_clones_keep_them():
    frame = pd.DataFrame(X, columns=NAMES)
    by_name = ExactGPRegressor(interaction_cst=[["c", "b"], ("d",)], random_state=0)
    by_number = ExactGPRegressor(interaction_cst=[[1, 2], [3]], random_state=0)
    expected = by_number.fit(X, Y).predict(X)
    assert_array_equal(clone(by_name).fit(frame, Y).predict(frame), expected)


def test_categories_are_columns(rng):
    n = 120
    codes = rng.integers(0, 3, (2, n))
    letters = np.array(list("xyz"))
    frame = pd.DataFrame(
        {
            "time": rng.uniform(-2.0, 2.0, n),
            "site": pd.Categorical(letters[codes[0]]),
            "kind": pd.Categorical(letters[codes[1]]),
        }
    )
    y = np.sin(frame["time"]) * (codes[0] - 1.0) + codes[1] + 0.05 * rng.normal(size=n)
    model = PLSRegressor(
        interaction_cst=[["time", "site"]], likelihood=Gaussian(), random_state=0
    )
    model.fit(frame, y)
    rows = frame[:40]
    other_kind = rows.assign(kind=pd.Categorical(["x"] * 40, categories=list("xyz")))
    difference = model.predict(rows) - model.predict(other_kind)
    # one number for each kind
    spread = [np.ptp(difference[codes[1, :40] == kind]) for kind in range(3)]
    assert_allclose(spread, 0.0, atol=1e-7)
    assert np.ptp(difference) > 1.0


def test_many_rows_keep_it(rng):
    many = rng.uniform(-2.0, 2.0, (4600, 3))
    y = np.sin(2.0 * many[:, 0]) + many[:, 1] + 0.1 * rng.standard_normal(4600)
    model = PLSRegressor(
        interaction_cst="no_interactions", likelihood=Gaussian(), random_state=0
    )
    model.fit(many, y)
    rows = many[:200]
    expected = np.sin(2.0 * rows[:, 0]) + rows[:, 1]
    assert_allclose(model.predict(rows), expected, atol=0.05)
    moved = np.column_stack((rows[:, 0], rows[::-1, 1:]))
    swapped = np.column_stack((rows[::-1, 0], rows[:, 1:]))
    total = model.predict(rows) - model.predict(moved) - model.predict(swapped)
    total += model.predict(rows[::-1])
    assert_allclose(total, 0.0, atol=1e-7)


def test_a_scale_that_varies_keeps_it(rng):
    many = rng.uniform(-2.0, 2.0, (150, D))
    y = many[:, 0] + np.exp(0.5 * many[:, 1]) * rng.standard_normal(150)
    model = PLSRegressor(
        interaction_cst="no_interactions",
        likelihood=HeteroscedasticGaussian(variation=0.5),
        random_state=0,
    )
    model.fit(many, y)

    def scale(rows):
        _, std = model.predict(rows, return_std=True)
        return std

    assert np.ptp(scale(many)) > 0.1
    assert interacting(mean_of(model)) == set()


def test_a_search_chooses_it():
    grid = {"interaction_cst": ["no_interactions", [[1, 2]], None]}
    search = GridSearchCV(ExactGPRegressor(random_state=0), grid, cv=2)
    search.fit(X, Y)
    assert search.best_params_["interaction_cst"] != "no_interactions"


def test_a_warm_start_is_from_the_same_interactions():
    model = ExactGPRegressor(
        interaction_cst=[[1, 2]], warm_start=True, random_state=0
    ).fit(X, Y)
    scales = length_scales(model.kernel_, D)
    again = model.fit(X[:80], Y[:80])
    assert_array_equal(length_scales(again.kernel_, D), scales)
    other = model.set_params(interaction_cst=[[1, 3]]).fit(X, Y)
    assert not np.array_equal(length_scales(other.kernel_, D), scales)


@each
def test_beside_a_kernel_it_is_refused(name):
    model, y = MODELS[name]
    model = clone(model).set_params(kernel=RBF(), interaction_cst="pairwise")
    with pytest.raises(ValueError, match="interaction_cst says which columns"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("interactions", "message"),
    [
        ([[0, 4]], "interaction_cst does not fit X.*from 0 to 3"),
        ([[0.5]], "interaction_cst does not fit X.*integers"),
        ([["a"]], r"names columns \['a'\]"),
        ("triples", "interaction_cst"),
        (2, "interaction_cst"),
    ],
)
@each
def test_columns_that_are_not_there(name, interactions, message):
    model, y = MODELS[name]
    model = clone(model).set_params(interaction_cst=interactions)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
