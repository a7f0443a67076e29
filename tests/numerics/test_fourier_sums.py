import numpy as np
import pytest

from skgpx._numerics.fourier_index import Box, by_length
from skgpx._numerics.fourier_sketch import n_bins
from skgpx._numerics.fourier_sums import (
    direct_statistics,
    fourier_sums,
    sketched_statistics,
)
from skgpx._numerics.series_evidence import whitened
from tests.numerics.test_fourier_gram import functions


@pytest.mark.parametrize("reach", [[7], [3, 5], [2, 1, 3], [0, 2]])
def test_sums_from_their_definition(reach):
    rng = np.random.default_rng(0)
    d = len(reach)
    turns, y, w = rng.random((700, d)), rng.standard_normal(700), rng.random(700)
    found = fourier_sums(turns, y, w, np.array(reach))
    for table, factor, weights in ((found.sums, 2, w), (found.moments, 1, w * y)):
        axes = [np.arange(-factor * r, factor * r + 1) for r in reach]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
        expected = np.exp(2j * np.pi * grid @ turns.T) @ weights
        error = np.abs(table.values.ravel() - expected).max()
        assert error < 1e-14 * np.abs(weights).sum() * (1 + sum(reach))


# ---- Statistics, of chunks and shifts ------------------------------------------------

OFFSET = 1.7e9


def statistics(kind, X, y, w, box, shift):
    if kind == "sketch":
        return sketched_statistics(X, y, w, box, shift, n_bins(40))
    return direct_statistics(X, y, w, box, shift, np.array([3, 2]))


@pytest.fixture(params=["sketch", "direct"])
def case(request):
    kind, d = request.param, {"sketch": 1, "direct": 2}[request.param]
    rng = np.random.default_rng(0)
    # places that are exact in spite of the offset
    X = OFFSET + rng.integers(0, 2**10, (500, d)) / 64.0
    y, w = 3.0 + rng.standard_normal(500), rng.random(500)
    box = Box(np.full(d, OFFSET - 4.0), np.full(d, 32.0))
    index = by_length(d, 17)
    return kind, X, y, w, box, index, functions(index, box.turns(X))


def agree(found, expected, scale):
    assert np.abs(np.subtract(found, expected)).max() < 2e-14 * scale


def test_sums_of_the_definition(case):
    kind, X, y, w, box, index, phi = case
    e = statistics(kind, X, y, w, box, 2.5).normal_equations(index)
    z = y - 2.5
    agree(e.gram, (phi * w[:, np.newaxis]).T @ phi, w.sum())
    agree(e.moment, phi.T @ (w * z), w.sum())
    assert np.allclose([e.weight, e.square], [w.sum(), w @ z**2])


def test_a_hundred_chunks_equal_one_pass(case):
    kind, X, y, w, box, index, _ = case
    whole = statistics(kind, X, y, w, box, 3.0).normal_equations(index)
    # chunks may use shifts of their own; the sum has the first one's
    shifts = 3.0 + np.arange(100) / 50
    total = None
    for chunk, shift in zip(np.array_split(np.arange(500), 100), shifts, strict=True):
        part = statistics(kind, X[chunk], y[chunk], w[chunk], box, shift)
        total = part if total is None else total + part
    assert total.shift == 3.0
    merged = total.normal_equations(index)
    for found, expected in zip(merged, whole, strict=True):
        assert np.allclose(found, expected, rtol=1e-12, atol=1e-12 * whole.weight)


def test_weights_are_repetitions(case):
    kind, X, y, _, box, index, _ = case
    counts = np.arange(500) % 3
    rows = np.repeat(np.arange(500), counts)
    once = statistics(kind, X, y, counts.astype(float), box, 0.0)
    many = statistics(kind, X[rows], y[rows], None, box, 0.0)
    for a, b in zip(
        once.normal_equations(index), many.normal_equations(index), strict=True
    ):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-11)


def test_whitening(case):
    kind, X, y, w, box, index, phi = case
    e = statistics(kind, X, y, w, box, 0.0).normal_equations(index)
    lam = np.random.default_rng(1).random(17)
    white = whitened(e, lam, 0.3)
    F = phi * np.sqrt(lam)
    agree(white.gram, (F * w[:, np.newaxis]).T @ F, w.sum())
    agree(white.moment, F.T @ (w * y), 4 * w.sum())
    assert white.residual == 0.3


def test_functions_beyond_reach_are_refused(case):
    kind, X, y, w, box, *_ = case
    s = statistics(kind, X, y, w, box, 0.0)
    with pytest.raises(ValueError, match=r"hold waves up to .*fewer functions"):
        s.normal_equations(by_length(box.period.size, 3000))
