"""Fourier functions: their list, sums of waves over rows, and the evidence of them."""

import numpy as np
import pytest
from scipy.special import jv
from scipy.stats import multivariate_normal

from skgpx._numerics.fourier import (
    Box,
    boost_waves,
    by_length,
    collapse,
    combination,
    convolve,
    evaluate,
    half_space,
    reach_of,
)
from skgpx._numerics.fourier_sums import (
    BINS_PER_WAVE,
    bin_moments,
    direct_statistics,
    fourier_sums,
    n_bins,
    sketched_statistics,
)
from skgpx._numerics.regression import (
    Spectrum,
    TargetRegressions,
    series_evidence,
    whitened,
)
from tests.numerics.conftest import slopes


def functions(index, turns):
    """The functions one by one, from their definition."""
    phase = 2 * np.pi * turns @ index.waves.T
    values = np.sqrt(2) * np.where(index.sine, np.sin(phase), np.cos(phase))
    constant = ~index.waves.any(axis=1)
    values[:, constant] = 1.0
    return values


# ---- The list ------------------------------------------------------------------------


def test_one_dimension_is_the_order_of_the_paper():
    index = by_length(1, 6)
    assert index.waves[:, 0].tolist() == [0, 1, 1, 2, 2, 3]
    assert index.sine.tolist() == [False, True, False, True, False, True]


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


def test_boosted_waves_follow_the_constant():
    index = by_length(1, 9)
    found = boost_waves(index, np.array([[3], [7]]))
    np.testing.assert_array_equal(found.waves[:5, 0], [0, 3, 3, 7, 7])
    np.testing.assert_array_equal(found.waves[5:, 0], [1, 1, 2, 2, 4, 4])
    # ranks are those of the prior, and after all of them
    np.testing.assert_array_equal(found.ranks[[1, 3]], [6.5, 19.0])


# ---- Sums of waves -------------------------------------------------------------------


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
        error = np.abs(table.ravel() - expected).max()
        assert error < 1e-14 * np.abs(weights).sum() * (1 + sum(reach))


@pytest.fixture(params=[(1, 1), (1, 40), (2, 33), (3, 50)], ids=str)
def case(request):
    d, m = request.param
    rng = np.random.default_rng(d)
    turns, y, w = rng.random((300, d)), rng.standard_normal(300), rng.random(300)
    index = by_length(d, m)
    return rng, index, turns, y, w, functions(index, turns)


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
    found = convolve(sums, combination(index, a), reach)
    assert np.array_equal(reach_of(found), reach)
    error = np.abs(found - expected).max()
    assert error < 1e-13 * np.abs(a).sum() * w.sum()


def test_a_row_does_not_depend_on_its_neighbours(case):
    rng, index, turns, *_ = case
    tables = [collapse(index, np.eye(len(index)))]
    whole = evaluate(tables, turns)
    assert np.array_equal(whole[250:260], evaluate(tables, turns)[250:260])
    assert np.allclose(whole[250:251], evaluate(tables, turns[250:251]), rtol=1e-13)
    order = rng.permutation(len(turns))
    assert np.array_equal(whole[order], evaluate(tables, turns[order]))


# ---- Bin moments: the sums of any waves, for any data --------------------------------


UNIT = Box(np.zeros(1), np.ones(1))
# Products of these places and whole numbers have no rounding error.
GRID = 2.0**-20


def direct(x, weights, reach):
    waves = np.arange(-reach, reach + 1)
    return np.exp(2j * np.pi * (np.outer(waves, x) % 1.0)) @ weights


def places(name, bins, rng):
    if name == "uniform":
        return rng.integers(0, 2**20, 3000) * GRID
    if name == "left ends":
        return rng.integers(0, bins, 3000) / bins
    if name == "right ends":
        return (rng.integers(0, bins, 3000) + 1) / bins - GRID
    return np.full(3000, 123457 * GRID)


@pytest.mark.parametrize("bins", [256, 1024])
@pytest.mark.parametrize("name", ["uniform", "left ends", "right ends", "one place"])
def test_every_wave_for_any_data(bins, name):
    rng = np.random.default_rng(0)
    x = places(name, bins, rng)
    y, w = rng.standard_normal(3000), rng.random(3000)
    reach = bins // BINS_PER_WAVE
    sketch = bin_moments(x, y, w, UNIT, 0.0, bins)
    assert sketch.largest_wave == reach
    sums, moments = sketch.tables(reach)
    # truncation and rounding, in units of the sum of the weights
    bound = 4 * jv(12, np.pi / BINS_PER_WAVE) + 2e-14
    assert np.abs(sums - direct(x, w, reach)).max() < bound * w.sum()
    expected = direct(x, w * y, reach // 2)
    assert np.abs(moments - expected).max() < bound * np.abs(w * y).sum()
    assert sketch.squares.sum() == pytest.approx(w @ y**2, rel=1e-14)


@pytest.mark.parametrize("periods", [0.5, 1.0, 3.3])
def test_waves_of_any_period_follow_from_one_sketch(periods):
    rng = np.random.default_rng(0)
    x, y = rng.random(500), rng.standard_normal(500)
    sketch = bin_moments(x, y, None, UNIT, 0.0, 512).periodic(periods)
    period = sketch.size / 512
    assert periods <= period < periods + 1.0 / 16.0
    for reach in (3, sketch.largest_wave):
        sums, moments = sketch.tables(reach)
        waves = np.arange(-reach, reach + 1)
        expected = np.exp(2j * np.pi * np.outer(waves, x / period)).sum(axis=1)
        assert np.allclose(sums, expected, atol=1e-10, rtol=0.0)
        waves = np.arange(-(reach // 2), reach // 2 + 1)
        expected = np.exp(2j * np.pi * np.outer(waves, x / period)) @ y
        assert np.allclose(moments, expected, atol=1e-10, rtol=0.0)


def test_a_section_has_the_sums_of_its_rows():
    rng = np.random.default_rng(0)
    X, y, w = rng.random((2000, 1)), rng.standard_normal(2000), rng.random(2000)
    index = by_length(1, 41)
    whole = sketched_statistics(X, y, w, UNIT, 0.3, 1024).moved(-0.2)
    section = whole.section(256, 512)
    inside = (X[:, 0] >= 0.25) & (X[:, 0] < 0.75)
    box = Box(np.array([0.25]), np.array([0.5]))
    rows = (X[inside], y[inside], w[inside])
    alone = sketched_statistics(*rows, box, -0.2, 512)
    assert section.box == box
    assert section.weight == pytest.approx(alone.weight)
    for one, other in zip(
        section.normal_equations(index), alone.normal_equations(index), strict=True
    ):
        assert np.allclose(one, other, rtol=1e-11, atol=1e-10)


# ---- Statistics, of chunks and shifts ------------------------------------------------


OFFSET = 1.7e9


def statistics(kind, X, y, w, box, shift, finer=0):
    if kind == "sketch":
        return sketched_statistics(X, y, w, box, shift, n_bins(40) << finer)
    return direct_statistics(X, y, w, box, shift, np.array([3, 2]))


@pytest.fixture(params=["sketch", "direct"])
def counted(request):
    kind, d = request.param, {"sketch": 1, "direct": 2}[request.param]
    rng = np.random.default_rng(0)
    # places that are exact in spite of the offset
    X = OFFSET + rng.integers(0, 2**10, (500, d)) / 64.0
    y, w = 3.0 + rng.standard_normal(500), rng.random(500)
    box = Box(np.full(d, OFFSET - 4.0), np.full(d, 32.0))
    index = by_length(d, 17)
    return kind, X, y, w, box, index, functions(index, box.turns(X))


def test_sums_of_the_definition(counted):
    kind, X, y, w, box, index, phi = counted
    e = statistics(kind, X, y, w, box, 2.5).normal_equations(index)
    z = y - 2.5
    bound = 2e-14 * w.sum()
    assert np.abs(e.gram - (phi * w[:, np.newaxis]).T @ phi).max() < bound
    assert np.abs(e.moment - phi.T @ (w * z)).max() < bound
    assert np.allclose([e.weight, e.square], [w.sum(), w @ z**2])


def test_a_hundred_chunks_equal_one_pass(counted):
    kind, X, y, w, box, index, _ = counted
    whole = statistics(kind, X, y, w, box, 3.0).normal_equations(index)
    # chunks may use shifts and bins of their own; the sum has the first one's shift
    total, chunks = None, np.array_split(np.arange(500), 100)
    for i, (chunk, shift) in enumerate(
        zip(chunks, 3.0 + np.arange(100) / 50, strict=True)
    ):
        part = statistics(kind, X[chunk], y[chunk], w[chunk], box, shift, i < 3)
        total = part if total is None else total + part
    assert total.shift == 3.0
    merged = total.normal_equations(index)
    for found, expected in zip(merged, whole, strict=True):
        assert np.allclose(found, expected, rtol=1e-12, atol=1e-12 * whole.weight)


def test_functions_beyond_reach_are_refused(counted):
    kind, X, y, w, box, *_ = counted
    s = statistics(kind, X, y, w, box, 0.0)
    with pytest.raises(ValueError, match=r"hold waves up to .*fewer functions"):
        s.normal_equations(by_length(box.period.size, 3000))


# ---- Evidence ------------------------------------------------------------------------


NOISE = 0.07


@pytest.fixture
def line():
    rng = np.random.default_rng(0)
    X, w = rng.random((40, 1)), np.ones(40)
    y = np.sin(7 * X[:, 0]) + 0.2 * rng.standard_normal(40)
    box, index = Box(np.zeros(1), np.ones(1)), by_length(1, 11)
    s = sketched_statistics(X, y, w, box, 0.0, n_bins(10))
    return s.normal_equations(index), functions(index, X), y


def spectrum(theta):
    """Any smooth eigenvalues of two parameters, with a tail."""
    j = np.arange(1.0, 12.0)
    s = np.exp(theta[1])
    return Spectrum(
        np.exp(theta[0]) * j**-s,
        np.stack([np.ones(11), -s * np.log(j)], axis=1),
        np.exp(theta[0] - 2 * theta[1]),
        np.exp(theta[0] - 2 * theta[1]) * np.array([1.0, -2.0]),
    )


def test_value_is_the_dense_bound(line):
    equations, phi, y = line
    s = spectrum([0.3, 0.5])
    K = phi @ (s.eigenvalues[:, np.newaxis] * phi.T) + NOISE * np.eye(40)
    bound = multivariate_normal(cov=K).logpdf(y) - 40 * s.tail / (2 * NOISE)
    assert series_evidence(equations, s, NOISE)[0] == pytest.approx(bound, rel=1e-10)


def test_gradient_by_differences(line):
    equations = line[0]

    def value(point):
        return series_evidence(equations, spectrum(point[1:]), np.exp(point[0]))[0]

    point = np.array([np.log(NOISE), 0.3, 0.5])
    _, gradient = series_evidence(equations, spectrum(point[1:]), NOISE)
    assert np.allclose(gradient, slopes(value, point), rtol=1e-6, atol=1e-6)


def test_underflowing_eigenvalues_do_no_harm(line):
    equations = line[0]
    s = spectrum([0.3, 0.5])
    tiny = np.where(np.arange(11) > 5, 0.0, s.eigenvalues)
    value, gradient = series_evidence(equations, s._replace(eigenvalues=tiny), NOISE)
    assert np.isfinite([value, *gradient]).all()


def test_best_noise_variance(line):
    s = spectrum([0.3, 0.5])
    statistics = whitened(line[0], s.eigenvalues, line[0].weight * s.tail)
    regression = TargetRegressions(statistics)
    best = float(regression.best_noise(-14.0, 2.0, np.zeros_like)[0])
    value, gradient = series_evidence(line[0], s, best)
    assert abs(gradient[0]) < 1e-2
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert series_evidence(line[0], s, best * factor)[0] < value
