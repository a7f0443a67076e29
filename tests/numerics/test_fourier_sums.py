import numpy as np
import pytest

from skgpx._numerics.fourier_sums import fourier_sums


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


def test_sums_add_and_shift():
    rng = np.random.default_rng(1)
    turns, y, w = rng.random((200, 2)), rng.standard_normal(200), rng.random(200)
    reach = np.array([2, 3])
    whole = fourier_sums(turns, y, w, reach)
    halves = [
        fourier_sums(turns[c], y[c], w[c], reach) for c in (slice(90), slice(90, 200))
    ]
    total = halves[0].add(halves[1])
    assert np.allclose(total.sums.values, whole.sums.values, rtol=0, atol=1e-12)
    assert np.allclose(total.moments.values, whole.moments.values, rtol=0, atol=1e-12)
    shifted = fourier_sums(turns, y - 2.0, w, reach)
    moved = whole.less(2.0)
    assert np.allclose(moved.moments.values, shifted.moments.values, rtol=0, atol=1e-12)
