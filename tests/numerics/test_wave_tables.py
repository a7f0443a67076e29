import numpy as np
import pytest

from skgpx._numerics.wave_tables import (
    angle_tables,
    from_real,
    multiple_angles,
    row_products,
    to_real,
)


@pytest.mark.parametrize("reach", [0, 1, 2, 257])
def test_multiples_of_angles(reach):
    # multiples of these are exact
    turns = np.random.default_rng(0).integers(-(2**18), 2**21, 64) * 2.0**-20
    out = np.empty((2, reach + 1, 64))
    multiple_angles(turns, out)
    phase = 2 * np.pi * (np.arange(reach + 1)[:, np.newaxis] * turns % 1.0)
    bound = 1e-15 * (1 + reach)
    assert np.abs(out[0] - np.cos(phase)).max() < bound
    assert np.abs(out[1] - np.sin(phase)).max() < bound


def test_rows_do_not_depend_on_their_neighbours():
    turns = np.random.default_rng(0).random((1000, 2))
    whole = np.empty((1000, 2, 12))
    for rows, tables in angle_tables(turns, (5, 11)):
        whole[rows] = tables[1][:, :, : rows.stop - rows.start].transpose(2, 0, 1)
    for rows, tables in angle_tables(turns[700:701], (5, 11)):
        assert rows == slice(0, 1)
        assert np.array_equal(tables[1][:, :, 0], whole[700])


@pytest.mark.parametrize("reach", [(3,), (2, 3), (1, 2, 3)])
def test_real_products_and_complex_waves(reach):
    rng = np.random.default_rng(1)
    d = len(reach)
    t = rng.random((1, d))
    axes = [np.arange(-r, r + 1) for r in reach]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    waves = np.exp(2j * np.pi * grid @ t[0])
    tables = next(iter(angle_tables(t, reach)))[1]
    products = row_products([a.reshape(-1, a.shape[-1]) for a in tables])[:, 0]
    assert np.allclose(from_real(products, reach), waves, atol=1e-14, rtol=0)
    # to_real is the adjoint
    v = rng.standard_normal(grid.shape[:-1]) + 1j * rng.standard_normal(grid.shape[:-1])
    assert np.isclose(to_real(v).ravel() @ products, np.sum(v * waves).real)
