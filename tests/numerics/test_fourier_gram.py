import numpy as np
import pytest

from skgpx._numerics.fourier_gram import (
    WaveTable,
    collapse,
    combination,
    convolved,
    evaluate,
    gram,
    moment,
)
from skgpx._numerics.fourier_index import by_length
from skgpx._numerics.fourier_sums import fourier_sums


def functions(index, turns):
    """The functions one by one, from their definition."""
    phase = 2 * np.pi * turns @ index.waves.T
    values = np.sqrt(2) * np.where(index.sine, np.sin(phase), np.cos(phase))
    constant = ~index.waves.any(axis=1)
    values[:, constant] = 1.0
    return values


@pytest.fixture(params=[(1, 1), (1, 40), (2, 33), (3, 50)], ids=str)
def case(request):
    d, m = request.param
    rng = np.random.default_rng(d)
    turns, y, w = rng.random((300, d)), rng.standard_normal(300), rng.random(300)
    index = by_length(d, m)
    return rng, index, turns, y, w, functions(index, turns)


def test_gram_and_moment_from_sums_of_waves(case):
    _, index, turns, y, w, phi = case
    sums = fourier_sums(turns, y, w, index.reach())
    # multiples of angles, and phases of the definition, err in proportion
    bound = 1e-15 * (1 + 2 * index.reach().sum()) * w.sum()
    expected = (phi * w[:, np.newaxis]).T @ phi
    assert np.abs(gram(index, sums.sums) - expected).max() < bound
    assert np.abs(moment(index, sums.moments) - phi.T @ (w * y)).max() < bound


def test_quadratic_and_linear_forms_are_sums_of_waves(case):
    rng, index, turns, _, _, phi = case
    m = len(index)
    root, a = rng.standard_normal((m, m)), rng.standard_normal(m)
    V = root @ root.T
    tables = combination(index, a), collapse(index, V)
    linear, quadratic = evaluate(tables, turns).T
    assert np.abs(linear - phi @ a).max() < 1e-13 * np.abs(a).sum()
    expected = np.einsum("ij,jk,ik->i", phi, V, phi)
    assert np.abs(quadratic - expected).max() < 1e-13 * np.abs(V).sum()


def test_sums_of_a_function_times_waves_are_a_convolution(case):
    rng, index, turns, y, w, phi = case
    a = rng.standard_normal(len(index))
    reach = index.reach()
    sums, _ = fourier_sums(turns, y, w, reach)
    expected = fourier_sums(turns, phi @ a, w, reach).moments
    found = convolved(sums, combination(index, a), reach)
    assert np.array_equal(found.reach, reach)
    error = np.abs(found.values - expected.values).max()
    assert error < 1e-13 * np.abs(a).sum() * w.sum()


def test_a_row_does_not_depend_on_its_neighbours(case):
    rng, index, turns, *_ = case
    tables = [collapse(index, np.eye(len(index)))]
    whole = evaluate(tables, turns)
    assert np.array_equal(whole[250:260], evaluate(tables, turns)[250:260])
    assert np.allclose(whole[250:251], evaluate(tables, turns[250:251]), rtol=1e-13)
    order = rng.permutation(len(turns))
    assert np.array_equal(whole[order], evaluate(tables, turns[order]))


def test_waves_outside_a_table_are_zero():
    table = WaveTable(np.arange(15, dtype=complex).reshape(3, 5))
    assert table.reach.tolist() == [1, 2]
    waves = np.array([[0, 0], [1, -2], [2, 0], [0, -3]])
    assert table.at(waves).tolist() == [7, 10, 0, 0]
