import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skgpx._numerics.rows import distinct_rows

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


def test_the_order_of_the_rows_does_not_matter(rng):
    table = rng.integers(0, 3, size=(200, 2)).astype(float)
    weights = rng.integers(1, 5, 200).astype(float)
    shuffled = rng.permutation(200)
    one, a = distinct_rows(table, weights)
    two, b = distinct_rows(table[shuffled], weights[shuffled])
    np.testing.assert_array_equal(table[one], table[shuffled][two])
    np.testing.assert_array_equal(a, b)
