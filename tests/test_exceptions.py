"""Every warning has a class that can be filtered, and names the line of the user."""

import numpy as np
import pytest

from skgpx import PLSRegressor, SpectralVGPRegressor
from skgpx.exceptions import (
    DataWarning,
    PredictionWarning,
    SkgpxWarning,
)
from skgpx.likelihoods import Poisson

rng = np.random.default_rng(0)
X = np.linspace(0.0, 1.0, 40)[:, None]
Y = np.sin(6.0 * X[:, 0]) + 0.1 * rng.standard_normal(40)


def shares():
    PLSRegressor(optimizer=None).fit(X, Y, sample_weight=np.full(40, 1 / 40))


def outside():
    SpectralVGPRegressor("series", n_basis=9).fit(X, Y).predict(X + 5.0)


def no_exposure():
    counts = rng.poisson(3.0, 40)
    model = PLSRegressor(likelihood=Poisson(), optimizer=None, max_iter=5, tol=9.0)
    model.fit(X, counts, exposure=np.full(40, 2.0)).score(X, counts)


CASES = [
    (shares, DataWarning),
    (outside, PredictionWarning),
    (no_exposure, PredictionWarning),
]


@pytest.mark.parametrize(("call", "category"), CASES, ids=lambda one: one.__name__)
@pytest.mark.filterwarnings("default")
def test_warnings_have_their_class_and_place(call, category):
    with pytest.warns(category) as given:
        call()
    assert all(issubclass(one.category, SkgpxWarning) for one in given)
    assert {one.filename for one in given} == {__file__}
