"""Attributes that follow from sums over rows are solved when read, once."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from skgpx import SpectralVGPRegressor, SteinRFFRegressor
from skgpx._spectral_vgp._population import FourierState
from skgpx._spectral_vgp._regressor import SparseState
from skgpx._stein._wave_mixture import SteinState

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 3.0, (240, 1))
Y = np.sin(4.0 * X[:, 0]) + 0.1 * rng.standard_normal(240)
NEW = np.linspace(0.0, 3.0, 20)[:, np.newaxis]
MODELS = {
    "series": (SpectralVGPRegressor(domain=[[0.0, 3.0]]), FourierState),
    "points": (
        SpectralVGPRegressor(RBF(), basis="inducing", n_basis=10, random_state=0),
        SparseState,
    ),
    "waves": (
        SteinRFFRegressor(
            RBF(), n_components=2, n_frequencies=8, max_iter=2, random_state=0
        ),
        SteinState,
    ),
}
each = pytest.mark.parametrize("name", MODELS)


@pytest.fixture
def solved(monkeypatch):
    """How often each state was solved."""
    count = []
    for state in {state for _, state in MODELS.values()}:

        def counting(self, solve=state.solve):
            count.append(type(self))
            return solve(self)

        monkeypatch.setattr(state, "solve", counting)
    return count


def chunks():
    return [(X[i : i + 60], Y[i : i + 60]) for i in range(0, 240, 60)]


def chain(name):
    model = clone(MODELS[name][0])
    for rows, targets in chunks():
        model.partial_fit(rows, targets)
    return model


@each
def test_a_chain_of_chunks_is_solved_once(name, solved):
    model = chain(name)
    # the first chunk of waves is a fit
    first = int(name == "waves")
    assert len(solved) == first
    model.predict(NEW, return_std=True)
    assert model.log_evidence_ < np.inf
    model.report()
    assert len(solved) == first + 1


@each
def test_the_same_bits_as_solving_after_every_chunk(name):
    eager = clone(MODELS[name][0])
    for rows, targets in chunks():
        assert np.isfinite(eager.partial_fit(rows, targets).log_evidence_)
    model = chain(name)
    found, expected = (m.predict(NEW, return_std=True) for m in (model, eager))
    assert_array_equal(found, expected)
    assert model.log_evidence_ == eager.log_evidence_
    assert set(vars(model)) == set(vars(eager))
    assert list(model.stage_seconds_) == ["statistics", "solution"]


@each
def test_copies_and_pickles_of_what_is_not_solved(name, solved):
    model = chain(name)
    before = len(solved)
    copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    assert len(solved) == before
    expected = model.predict(NEW)
    copies.append(pickle.loads(pickle.dumps(model)))
    for other in copies:
        assert_array_equal(other.predict(NEW), expected)
    assert len(solved) == before + 4


@each
@pytest.mark.parametrize("is_solved", [False, True])
def test_a_refused_chunk_leaves_everything_as_it_was(name, is_solved):
    model = clone(MODELS[name][0]).partial_fit(X[:60], Y[:60])
    if is_solved:
        model.predict(NEW)
    before = pickle.dumps(model)
    chunk = X[60:120], Y[60:120]
    refused = [
        (np.where(X[60:120] > 2.9, np.nan, X[60:120]), chunk[1]),
        (*chunk, np.full(60, -1.0)),
        (*chunk, np.ones(59)),
        (np.hstack((chunk[0], chunk[0])), chunk[1]),
        (chunk[0], np.column_stack((chunk[1], chunk[1]))),
        (1e200 * chunk[0], chunk[1]),
    ]
    if name == "series":
        refused.append((chunk[0] + 5.0, chunk[1]))
    for arguments in refused:
        with pytest.raises(ValueError, match=r"\S"):
            model.partial_fit(*arguments)
        assert pickle.dumps(model) == before
    # rows of weight zero are rows that were given
    model.partial_fit(*chunk, np.r_[np.ones(59), 0.0])
    assert model.report()["model"]["rows"] == 120


@each
def test_new_rows_replace_the_solution(name):
    model = clone(MODELS[name][0]).partial_fit(*chunks()[0])
    early = model.log_evidence_, model.predict(NEW)
    model.partial_fit(*chunks()[1])
    assert model.log_evidence_ != early[0]
    assert np.any(model.predict(NEW) != early[1])
    # a fit is solved at once, and forgets that something was left to do
    model.partial_fit(*chunks()[2]).fit(X, Y)
    assert "posterior_" in vars(model)
    assert_array_equal(model.predict(NEW), clone(model).fit(X, Y).predict(NEW))
