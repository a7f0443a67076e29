import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skgpx._pls._resampling import next_temperature, resample, reweight

LARGEST_Z = 4.5


def effective_fraction(nll, rise, log_weights):
    """Conditional effective size of a rise, as a fraction."""
    present = np.exp(log_weights) / np.exp(log_weights).sum()
    weights = np.exp(-rise * (nll - nll.min()))
    return np.sum(present * weights) ** 2 / np.sum(present * weights**2)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    exponent=st.integers(-3, 8),
    temperature=st.floats(0.0, 0.95),
    kept=st.floats(0.3, 0.95),
    unevenness=st.floats(0.0, 2.0),
)
def test_temperature_keeps_the_effective_fraction(
    seed, exponent, temperature, kept, unevenness
):
    rng = np.random.default_rng(seed)
    nll = 1e5 + 10.0**exponent * rng.standard_normal(50) ** 2
    log_weights = unevenness * rng.standard_normal(50)
    new = next_temperature(nll, temperature, kept, log_weights)
    assert temperature < new <= 1.0
    fraction = effective_fraction(nll, new - temperature, log_weights)
    if new < 1.0:
        assert fraction == pytest.approx(kept, rel=1e-3)
    else:
        assert fraction >= kept * (1.0 - 1e-9)


def test_equal_particles_go_to_the_end_at_once():
    assert next_temperature(np.full(10, 3.0), 0.2, 0.8, np.zeros(10)) == 1.0


@pytest.mark.parametrize("rise", [0.0, 0.3, 2.0])
def test_systematic_resampling_is_unbiased(rng, rise):
    nll, n_repeats = rng.standard_normal(12), 4000
    weights = np.exp(-rise * nll)
    expected = 12 * weights / weights.sum()
    counts = np.empty((n_repeats, 12))
    for i in range(n_repeats):
        chosen = resample(-rise * nll, 12, rng)
        counts[i] = np.bincount(chosen, minlength=12)
    # systematic: never more than one away from the expected number
    assert np.all(np.abs(counts - expected) < 1.0 + 1e-9)
    fraction = expected - np.floor(expected)
    error = np.sqrt(fraction * (1.0 - fraction) / n_repeats)
    z = (counts.mean(axis=0) - expected) / np.maximum(error, 1e-12)
    assert np.max(np.abs(z)) < LARGEST_Z


def test_normalising_constant_is_the_mean_weight(rng):
    nll = 5.0 * rng.standard_normal(30)
    equal = np.full(30, -np.log(30.0))
    log_weights, log_ratio = reweight(equal, nll, 0.7)
    assert log_ratio == pytest.approx(np.log(np.mean(np.exp(-0.7 * nll))))
    assert np.exp(log_weights).sum() == pytest.approx(1.0)
    # two rises are one, whatever the weights between them
    _, second = reweight(log_weights, nll, 0.3)
    assert log_ratio + second == pytest.approx(np.log(np.mean(np.exp(-nll))))


def test_one_index_from_each_stratum(rng):
    # pairs of equal mass: exactly one of each, with its own probability
    log_odds = 1.3
    log_weights = np.tile([0.0, log_odds], 10)
    n_repeats = 4000
    chosen = np.stack([resample(log_weights, 10, rng, True) for _ in range(n_repeats)])
    np.testing.assert_array_equal(chosen // 2, np.tile(np.arange(10), (n_repeats, 1)))
    p = 1.0 / (1.0 + np.exp(-log_odds))
    error = np.sqrt(p * (1.0 - p) / chosen.size)
    assert abs(np.mean(chosen % 2) - p) < LARGEST_Z * error
    assert np.all(resample(np.array([-1e4, 0.0, -np.inf]), 5, rng, True) == 1)
