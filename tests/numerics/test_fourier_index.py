import numpy as np
import pytest

from skgpx._numerics.fourier_index import (
    Box,
    by_length,
    function_list,
    half_space,
    raised,
)


def test_one_dimension_is_the_order_of_the_paper():
    index = by_length(1, 6)
    assert index.waves[:, 0].tolist() == [0, 1, 1, 2, 2, 3]
    assert index.sine.tolist() == [False, True, False, True, False, True]


def test_pairs_share_the_mean_of_their_places():
    assert by_length(1, 5).ranks.tolist() == [1, 2.5, 2.5, 4.5, 4.5]


@pytest.mark.parametrize("reach", [[4], [2, 3], [1, 2, 2]])
def test_half_space_has_one_of_each_pair(reach):
    waves = half_space(np.array(reach))
    everything = {tuple(w) for w in waves} | {tuple(-w) for w in waves}
    assert len(everything) == 2 * len(waves)
    assert len(everything) + 1 == np.prod(2 * np.array(reach) + 1)


@pytest.mark.parametrize(("d", "size"), [(1, 1), (1, 40), (2, 1), (2, 301), (3, 500)])
def test_by_length_takes_the_shortest_waves(d, size):
    index = by_length(d, size)
    assert len(index) == size
    square = np.sum(index.waves**2, axis=1)
    assert np.all(np.diff(square) >= 0)
    # all waves that are shorter than the longest are there
    longest = int(np.sqrt(square[-1]))
    waves = half_space(np.full(d, longest + 1))
    shorter = 1 + 2 * np.sum(np.sum(waves**2, axis=1) < square[-1])
    assert np.sum(square < square[-1]) == min(shorter, size) or square[-1] == 0


def test_raised_waves_follow_the_constant():
    index = by_length(1, 9)
    found = raised(index, np.array([[3], [7]]))
    np.testing.assert_array_equal(found.waves[:5, 0], [0, 3, 3, 7, 7])
    np.testing.assert_array_equal(found.waves[5:, 0], [1, 1, 2, 2, 4, 4])
    # ranks are those of the prior, and after all of them
    np.testing.assert_array_equal(found.ranks[[1, 3]], [6.5, 19.0])


def test_box():
    box = Box(np.array([1.7e9]), np.array([10.0]))
    assert box.turns(np.array([[1.7e9 + 2.5]])) == 0.25
    index = function_list(np.array([[3]]))
    assert box.frequencies(index.waves)[1, 0] == pytest.approx(0.6 * np.pi)
    assert index.scales().tolist() == [np.sqrt(0.5), 1.0, 1.0]
    assert index.reach().tolist() == [3]
    assert index.part(slice(0)).reach().tolist() == [0]
