"""What networks miss and neighbouring rows show is told."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import (
    load_breast_cancer,
    load_iris,
    make_classification,
    make_moons,
)
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression

from skgpx import GWIClassifier
from skgpx._gwi._checks import (
    NeighbourLosses,
    neighbour_losses,
    warn_if_neighbours_are_better,
)
from skgpx._validation import Rows
from skgpx.likelihoods import RobustMax

TOLD = "networks miss how classes depend on X"
# No search of the kernel, and few networks.
BRIEF = {"kernel": 9.0 * RBF(1.0), "optimizer": None, "n_inducing": 20}
BRIEF |= {"n_restarts": 5, "max_iter": 20, "random_state": 0}


def waves(n, n_classes=2, n_columns=1, cycles=5, seed=0):
    """Classes in turn along the first column, mistaken near their boundaries."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, n_columns))
    phase = 2.0 * np.pi * (cycles * X[:, :1] - np.arange(n_classes) / n_classes)
    scores = 4.0 * np.cos(phase)
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def linear(n, d, seed=0, relevant=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = 2.0 * X[:, :relevant].mean(axis=1) * np.sqrt(relevant or d)
    return X, (f + rng.logistic(size=n) > 0.0).astype(int)


def noise(n, d, n_classes):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(n_classes, size=n)


def quiet(X, y, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "No dependence of y on X was found")
        return GWIClassifier(**{"random_state": 0, **parameters}).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("n", [200, 2000])
def test_classes_that_alternate_are_told(n, n_classes):
    X, y = waves(n, n_classes)
    with pytest.warns(UserWarning, match=TOLD) as caught:
        GWIClassifier(random_state=0).fit(X, y)
    (one,) = caught
    assert one.filename == __file__


def test_one_column_among_several():
    X, y = waves(1000, 3, n_columns=6)
    with pytest.warns(UserWarning, match=TOLD):
        GWIClassifier(**BRIEF).fit(X, y)


@pytest.mark.parametrize(
    "parameters", [{"tempering": False}, {"fading": False}, {"likelihood": RobustMax()}]
)
def test_whatever_the_law(parameters):
    X, y = waves(1000)
    with pytest.warns(UserWarning, match=TOLD):
        GWIClassifier(**BRIEF, **parameters).fit(X, y)


QUIET = {
    "iris": load_iris(return_X_y=True),
    "breast cancer": load_breast_cancer(return_X_y=True),
    "moons": make_moons(300, noise=0.2, random_state=0),
    "clusters": make_classification(500, 8, n_informative=4, random_state=0),
    "linear": linear(500, 3),
    "one column": linear(300, 1),
    "60 columns": linear(400, 60, relevant=3),
    "noise": noise(500, 3, 2),
    "noise of five": noise(500, 3, 5),
    "thirty rows": linear(30, 3),
    "one class in twenty": (linear(800, 3)[0], linear(800, 3)[0][:, 0] > 1.64),
}


@pytest.mark.parametrize(("X", "y"), QUIET.values(), ids=QUIET)
def test_what_networks_find_is_not(X, y):
    quiet(X, y)


def test_a_classifier_of_others_is_its_users():
    X, y = waves(200)
    quiet(X, y, mean=LogisticRegression(), kernel=RBF(0.05), optimizer=None)


@pytest.mark.parametrize(
    ("gain", "error", "told"),
    [
        (0.049, 0.001, False),
        (0.05, 0.001, False),
        (0.051, 0.001, True),
        (0.399, 0.1, False),
        (0.401, 0.1, True),
        (-0.5, 0.1, False),
    ],
)
def test_by_enough_and_beyond_chance(gain, error, told):
    losses = NeighbourLosses(gain, 0.0, error, 100)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_neighbours_are_better(losses)
    assert bool(caught) is told


@pytest.mark.parametrize(("n", "told"), [(94, False), (95, True), (106, True)])
def test_around_the_fewest_rows_that_judge(n, told):
    # five networks hold out 45, 50 and 55 rows
    X, y = waves(n, cycles=2.5)
    if not told:
        quiet(X, y, **BRIEF)
        return
    with pytest.warns(UserWarning, match=TOLD):
        GWIClassifier(**BRIEF).fit(X, y)


@pytest.mark.parametrize(("d", "told"), [(99, True), (100, True), (101, False)])
def test_around_the_most_columns_that_are_looked_along(d, told):
    X, y = waves(400, n_columns=d)
    if not told:
        quiet(X, y, **BRIEF)
        return
    with pytest.warns(UserWarning, match=TOLD):
        GWIClassifier(**BRIEF).fit(X, y)


@pytest.mark.parametrize("n", [4999, 5000, 5001])
def test_around_the_most_rows_of_neighbours(n):
    X, y = waves(n)
    with pytest.warns(UserWarning, match=TOLD):
        GWIClassifier(**{**BRIEF, "max_iter": 1}).fit(X, y)


def test_losses_are_those_of_neighbours():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(60, 2)), rng.integers(1, 4, size=60).astype(float)
    codes, validation = rng.integers(3, size=60), np.arange(0, 60, 3)
    w[validation] = 1.0
    rows = Rows(X, codes.astype(float), w)
    half = np.arange(20) % 2
    every = list(neighbour_losses(rows, validation, half, np.random.default_rng(1)))
    found, choosing = [one for one, _ in every], [one for _, one in every]
    prior = np.bincount(codes, weights=w) / w.sum()
    centred = X - np.average(X, axis=0, weights=w)
    Z = centred / np.sqrt(np.average(centred**2, axis=0, weights=w))
    order = np.argsort(X, axis=0)
    place = np.argsort(order, axis=0)

    def loss(i, near):
        same = w[near] @ (codes[near] == codes[i]) + prior[codes[i]]
        return -np.log(same / (w[near].sum() + 1.0))

    def along(i, j, side):
        window = order[max(place[i, j] - side, 0) : place[i, j] + side + 1, j]
        return window[window != i]

    def nearest(i, side):
        return np.argsort(np.sum((Z - Z[i]) ** 2, axis=1))[1 : 2 * side + 1]

    sides = 2, 4, 8, 16
    expected = [
        [loss(i, along(i, j, side)) for i in validation]
        for j in (0, 1)
        for side in sides
    ]
    expected += [[loss(i, nearest(i, side)) for i in validation] for side in sides]
    assert_allclose(found, expected)
    # the choice does not know the classes of those that it is for
    other, moved = validation[1::2], rows.y.copy()
    moved[other] = np.roll(moved[other], 1)
    rows = rows._replace(y=moved)
    again = neighbour_losses(rows, validation, half, np.random.default_rng(1))
    for one, (_, two) in zip(choosing, again, strict=True):
        assert_allclose(one[::2], two[::2])
    assert np.max(np.abs(np.subtract(choosing, found))) > 0.2


def test_equal_rows_do_not_tell_each_others_classes():
    # rows of a fit are sorted by X, then by class
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 300, axis=0)
    rows = Rows(X, np.repeat([0.0, 1.0, 0.0, 1.0], 150), np.ones(600))
    validation = np.arange(0, 600, 2)
    losses = neighbour_losses(
        rows, validation, validation // 2 % 2, np.random.default_rng(0)
    )
    assert min(np.mean(one) for one, _ in losses) > 0.68


def test_more_rows_than_are_looked_at():
    X, y = waves(6000)
    rows, validation = Rows(X, y.astype(float), np.ones(6000)), np.arange(0, 6000, 10)
    losses = neighbour_losses(
        rows, validation, validation // 10 % 2, np.random.default_rng(0)
    )
    assert min(np.mean(one) for one, _ in losses) < 0.25
