import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skgpx._numerics.rows import distinct_rows, sample_distinct_rows

tables = arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)),
                elements=st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0]))  # fmt: skip


@given(tables, st.integers(0, 2**31))
@settings(max_examples=50, deadline=None)
def test_rows_and_weights_are_those_of_a_dictionary(table, seed):
    weights = np.random.default_rng(seed).integers(0, 3, len(table)).astype(float)
    weights[0] += 1.0
    expected: dict[tuple[float, ...], float] = {}
    for row, weight in zip((table + 0.0).tolist(), weights, strict=True):
        if weight > 0.0:
            expected[tuple(row)] = expected.get(tuple(row), 0.0) + weight
    positions, totals = distinct_rows(table, weights)
    found = [tuple(row) for row in (table[positions] + 0.0).tolist()]
    assert found == sorted(expected)
    np.testing.assert_array_equal(totals, [expected[row] for row in found])


RNG = np.random.default_rng(0)
X, Y = RNG.random((3000, 2)), RNG.random(3000)


def as_set(X, y, chosen):
    return {
        (*a, b) for a, b in zip(X[chosen].tolist(), y[chosen].tolist(), strict=True)
    }


@pytest.mark.parametrize("size", [1, 500, 2999])
def test_order_and_copies_do_not_matter(size):
    chosen = sample_distinct_rows(X, Y, size, 7)
    assert len(chosen) == size
    assert np.all(np.diff(chosen) > 0)
    order = RNG.permutation(3000)
    repeated = np.repeat(order, 1 + order % 3)
    again = sample_distinct_rows(X[repeated], Y[repeated], size, 7)
    assert as_set(X[repeated], Y[repeated], again) == as_set(X, Y, chosen)
    # all copies of those that are chosen
    assert len(again) == np.sum(1 + chosen % 3)
    assert as_set(X, Y, sample_distinct_rows(X, Y, size, 8)) != as_set(X, Y, chosen)


def test_no_more_than_there_are():
    assert sample_distinct_rows(X, Y, 3000, 0) is None
    twice = np.repeat(np.arange(3000), 2)
    assert sample_distinct_rows(X[twice], Y[twice], 3000, 0) is None
    assert len(sample_distinct_rows(X[twice], Y[twice], 2999, 0)) == 5998
    signs = np.array([[0.0], [-0.0], [0.0]])
    assert sample_distinct_rows(signs, np.zeros(3), 1, 0) is None


def test_every_part_of_a_raster_is_met():
    """Uniform in both directions and over the cells of a chessboard: z-scores."""
    side = np.arange(300.0)
    raster = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    chosen = sample_distinct_rows(raster, np.zeros(len(raster)), 9000, 1)
    for values in (raster[chosen] // 30).T:
        counts = np.bincount(values.astype(int), minlength=10)
        assert np.abs((counts - 900) / np.sqrt(900 * 0.9)).max() < 4.5
    odd = np.mean(raster[chosen].sum(axis=1) % 2)
    assert abs(odd - 0.5) < 4.5 * 0.5 / np.sqrt(9000)
