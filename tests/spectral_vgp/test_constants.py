"""Constants that switch an algorithm: fits just below, at and above each."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from skgpx import SpectralVGPRegressor
from skgpx._numerics import row_sample
from skgpx._spectral_vgp import _series_fit, _series_size, _wild_rows
from skgpx._spectral_vgp._domain import input_range

FIXED = {"alpha": 1.0, "optimizer": None, "noise_variance": 0.04}


def smooth(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 1))
    return X, np.sin(4.0 * X[:, 0]) + 0.2 * rng.normal(size=n)


X, Y = smooth(100)


def error(model):
    return np.sqrt(np.mean((model.predict(X) - np.sin(4.0 * X[:, 0])) ** 2))


# ---- Numbers of functions ------------------------------------------------------------


def refined(monkeypatch, most, first, cost=np.inf):
    """Number of functions of a fixed prior, with limits to what refines it."""
    monkeypatch.setattr(_series_size, "MOST_REFINED", most)
    monkeypatch.setattr(_series_size, "_COST_A_ROW", cost)
    monkeypatch.setitem(_series_size.FIRST_FUNCTIONS, 1, first)
    model = SpectralVGPRegressor(**FIXED).fit(X, Y)
    # a sine has its cosine
    assert model.n_basis_ % 2 == 1
    return model


def test_functions_that_refine_the_variance(monkeypatch):
    elbow = refined(monkeypatch, 1, 1)
    enough = refined(monkeypatch, 1001, 1)
    m = enough.n_basis_
    assert elbow.n_basis_ + 4 < m < 1001
    for most, wanted in [(m - 2, m - 2), (m - 1, m), (m, m), (m + 1, m), (m + 2, m)]:
        assert refined(monkeypatch, most, 1).n_basis_ == wanted
    # never fewer than those of the elbow
    k = elbow.n_basis_
    for most, wanted in [(k - 2, k), (k, k), (k + 2, k + 2)]:
        model = refined(monkeypatch, most, 1)
        assert model.n_basis_ == wanted
        # the others are left to the residual: the prior variance is that of all
        variance = model.posterior_.basis.variance
        assert_allclose(variance, enough.posterior_.basis.variance)


def test_functions_that_tighten_the_bound(monkeypatch):
    tight = refined(monkeypatch, 1, 2001).n_basis_
    assert refined(monkeypatch, 1, 1).n_basis_ + 4 < tight < 2001
    for shift, wanted in [(-2, -2), (-1, 0), (0, 0), (1, 0), (2, 0)]:
        assert refined(monkeypatch, 1, tight + shift).n_basis_ == tight + wanted


def test_nats_a_row_that_functions_may_leave_out(monkeypatch):
    monkeypatch.setattr(_series_size, "_ROWS_A_FUNCTION", 1e-3)
    few = refined(monkeypatch, 1, 1)
    rule, box = few.prior_, few.posterior_.basis.box
    k = few.n_basis_ + 10
    tail = rule.spectrum(rule.index(box, k), box).tail
    # the noise is given in squared units of y
    cost = 0.5 * tail / (FIXED["noise_variance"] / np.var(Y))
    for shift, wanted in [(-1e-6, k + 2), (1e-6, k)]:
        limit = cost * (1.0 + shift)
        assert refined(monkeypatch, 1, 1, limit).n_basis_ == wanted


@pytest.mark.parametrize(("rows", "wanted"), [(1.01, 99), (1.0, 101), (0.99, 101)])
def test_rows_that_a_function_needs(rows, wanted, monkeypatch):
    monkeypatch.setattr(_series_size, "_ROWS_A_FUNCTION", rows)
    assert refined(monkeypatch, 1, 1, 0.0).n_basis_ == wanted


@pytest.mark.parametrize("max_basis", [199, 200, 201, 202, 203])
@pytest.mark.filterwarnings("ignore:The data would support")
def test_basis_sizes_around_the_first_of_a_search(max_basis):
    model = SpectralVGPRegressor(max_basis=max_basis).fit(X, Y)
    assert model.n_basis_ <= max_basis
    assert error(model) < 0.1


@pytest.mark.parametrize("shift", [-2, -1, 0, 1, 2])
def test_searches_that_start_with_as_many_functions_as_are_wanted(shift, monkeypatch):
    kernel = 1.0 * RBF(0.5)
    known = SpectralVGPRegressor(kernel).fit(X, Y)
    first = known.n_basis_ + shift
    monkeypatch.setitem(_series_size.FIRST_FUNCTIONS, 1, first)
    model = SpectralVGPRegressor(kernel).fit(X, Y)
    # no more functions than these for the sake of the bound, which pairs may cost
    assert model.n_basis_ <= known.n_basis_
    assert_allclose(model.log_evidence_, known.log_evidence_, atol=0.1)
    assert_allclose(model.predict(X), known.predict(X), atol=0.01)


# ---- Rows that are looked at ---------------------------------------------------------


@pytest.mark.parametrize("n", [49, 50, 51, 99, 100, 101, 149, 151])
def test_wild_rows_are_found_whether_or_not_some_rows_are_looked_at_first(
    n, monkeypatch
):
    monkeypatch.setattr(_wild_rows, "_SCREENED", 50)
    inputs, y = smooth(n)
    assert_array_equal(
        SpectralVGPRegressor(**FIXED).fit(inputs, y).domain_, input_range(inputs)
    )
    # not among those that are looked at
    inputs[1] = 1e3
    with pytest.warns(UserWarning, match=f"1 of {n} rows are left out"):
        model = SpectralVGPRegressor(**FIXED).fit(inputs, y)
    assert_array_equal(model.domain_, input_range(np.delete(inputs, 1, axis=0)))


@pytest.mark.parametrize("n", [19_999, 20_000, 20_001, 39_999, 40_000])
def test_wild_rows_among_as_many_as_are_looked_at_first(n):
    inputs, y = smooth(n)
    inputs[1] = 1e3
    with pytest.warns(UserWarning, match=f"1 of {n} rows are left out"):
        SpectralVGPRegressor(n_basis=5, **FIXED).fit(inputs, y)


@pytest.mark.parametrize("copies", [1, 3, 4, 5, 8, 9, 20])
def test_copies_of_rows_up_to_those_of_which_a_sample_is_full(copies, monkeypatch):
    """The pilot looks at 4.4 rows for each that it wants, and then takes fewer."""
    monkeypatch.setattr(row_sample, "_MOST_REPEATED", 4)
    monkeypatch.setattr(_series_fit, "_PILOT_ROWS", {1: 40})
    sizes, sample = [], _series_fit.sample_distinct_rows

    def watched(inputs, y, size, salt):
        chosen = sample(inputs, y, size, salt)
        sizes.append(len(np.unique(inputs[chosen])))
        return chosen

    monkeypatch.setattr(_series_fit, "sample_distinct_rows", watched)
    # so that copies say no more than the rows
    parameters = {"noise_variance": 0.04 * copies, "domain": (-1.0, 1.0)}
    parameters |= {"kernel": 1.0 * RBF(0.5), "random_state": 0}
    again = np.repeat(np.arange(100), copies)
    written = SpectralVGPRegressor(**parameters).fit(X[again], Y[again])
    if copies <= 3:
        assert sizes == [40]
    elif copies >= 8:
        assert 0 < sizes[0] < 40
    weights = np.full(100, copies)
    weighted = SpectralVGPRegressor(**parameters).fit(X, Y, sample_weight=weights)
    assert_allclose(written.log_evidence_, weighted.log_evidence_, rtol=1e-5, atol=0.02)
    assert_allclose(written.predict(X), weighted.predict(X), atol=0.01)


# ---- Boxes ---------------------------------------------------------------------------


def fit_and_watch(monkeypatch, scale):
    """A fit, and the ratio of the box it wants to the first for each box it took."""
    found, box_of = [], _series_fit.box_of

    def watched(*arguments):
        box = box_of(*arguments)
        found.append(box.period[0])
        return box

    with monkeypatch.context() as m:
        m.setattr(_series_fit, "box_of", watched)
        model = SpectralVGPRegressor(1.0 * RBF(scale)).fit(X, Y)
    return model, np.array(found[1::2]) / np.array(found[::2])


@pytest.mark.parametrize(
    ("name", "other", "loose", "scale"),
    [("_MORE_ROOM", "_LESS_ROOM", 0.0, 0.1), ("_LESS_ROOM", "_MORE_ROOM", np.inf, 2.0)],
)
def test_ratios_at_which_another_box_is_taken(name, other, loose, scale, monkeypatch):
    monkeypatch.setattr(_series_fit, other, loose)
    monkeypatch.setattr(_series_fit, name, np.inf if loose == 0.0 else 0.0)
    whole, ratios = fit_and_watch(monkeypatch, scale)
    assert len(ratios) == 1
    assert (ratios[0] > 1.0) == (name == "_MORE_ROOM")
    outwards = 1.0 if name == "_MORE_ROOM" else -1.0
    for shift, again in [(-1e-6, True), (0.0, True), (1e-6, False)]:
        limit = ratios[0] * (1.0 + outwards * shift)
        monkeypatch.setattr(_series_fit, name, limit)
        model, taken = fit_and_watch(monkeypatch, scale)
        assert (len(taken) > 1) == again
        # another box, another periodic kernel
        assert_allclose(model.log_evidence_, whole.log_evidence_, atol=0.5)
        assert error(model) < 0.1
