"""Grades that are ordered categories of pandas."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from skgpx import PLSRegressor
from skgpx.likelihoods import Ordinal
from skgpx.metrics import neg_crps_scorer

NAMES = ["low", "middle", "high", "top"]
rng = np.random.default_rng(0)
X = rng.standard_normal((40, 1))
CODES = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(40), [-0.5, 0.5])
# no row has the last of the grades
GRADES = pd.Categorical.from_codes(CODES, NAMES, ordered=True)
MODEL = PLSRegressor(
    likelihood=Ordinal(), n_inducing=10, n_particles=20, tol=9.0, random_state=0
)
NUMBERS = clone(MODEL).set_params(likelihood=Ordinal(n_grades=4)).fit(X, CODES)


def test_categories_are_numbered_in_their_order():
    model = clone(MODEL).fit(X, GRADES)
    assert model.likelihood_.categories_.tolist() == NAMES
    assert len(model.likelihood_.thresholds) == 3
    assert model.likelihood.categories_ is None
    assert_array_equal(model.predict(X), NUMBERS.predict(X))
    distribution, same = model.predict_dist(X), NUMBERS.predict_dist(X)
    for y in (GRADES, pd.Series(GRADES), CODES):
        assert model.score(X, y) == NUMBERS.score(X, CODES)
        assert_array_equal(
            model.log_predictive_density(X, y), NUMBERS.log_predictive_density(X, CODES)
        )
        assert_array_equal(distribution.crps(y), same.crps(CODES))
        assert_array_equal(distribution.cdf(y), same.cdf(CODES))
        assert model.report(X, y)["held_out"] == NUMBERS.report(X, CODES)["held_out"]
        assert neg_crps_scorer(model, X, y) == neg_crps_scorer(NUMBERS, X, CODES)
    other = GRADES.reorder_categories(NAMES[::-1])
    for score in (model.score, model.log_predictive_density, model.report):
        with pytest.raises(ValueError, match=r"y must hold the categories \['low'"):
            score(X, other)
    with pytest.raises(ValueError, match="y must hold numbers, as in fit"):
        NUMBERS.score(X, GRADES)


def test_categories_that_are_numbers_are_not_taken_for_codes():
    shifted = GRADES.rename_categories([10, 20, 30, 40])
    model = clone(MODEL).fit(X, pd.Series(shifted))
    assert_array_equal(model.predict(X), NUMBERS.predict(X))
    assert model.score(X, shifted) == NUMBERS.score(X, CODES)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.asarray(GRADES), "got text.*ordered=True"),
        (np.asarray(GRADES).astype(str), "got text.*ordered=True"),
        (list(GRADES), "got text.*ordered=True"),
        (GRADES.as_unordered(), "got categories without one.*ordered=True"),
        (GRADES.remove_categories("low"), "of 40 are missing. Drop their rows"),
    ],
    ids=["objects", "text", "list", "unordered", "missing"],
)
def test_labels_without_an_order_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        clone(MODEL).fit(X, y)


def test_as_many_categories_as_grades():
    with pytest.raises(ValueError, match=r"got 4 categories.*n_grades=3"):
        clone(MODEL).set_params(likelihood=Ordinal(n_grades=3)).fit(X, GRADES)


def test_codes_among_grades_are_no_number_of_grades():
    grades = np.arange(11) % 3
    for code in (99, 99_999, 10**12):
        with pytest.raises(ValueError, match="largest y for the number of grades"):
            Ordinal().prepare(np.append(grades, code))
    with pytest.raises(ValueError, match="from 2 to 1000"):
        Ordinal(n_grades=10**12).prepare(grades)
    assert Ordinal(n_grades=100).prepare(grades).n_grades == 100
    assert Ordinal().prepare([0.0, 10.0]).n_grades == 11
