import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skgpx._numerics.regression import (
    log_evidence,
    log_evidence_gradient,
    weight_statistics,
)
from tests.numerics.conftest import slopes

NOISE = 0.37


def problem(rng, n=12, m=4):
    """Features, targets, integer weights, and residual variances."""
    features = rng.standard_normal((n, m))
    y = features @ rng.standard_normal(m) + 0.5 * rng.standard_normal(n)
    weights = rng.integers(1, 4, n).astype(np.float64)
    return features, y, weights, rng.random(n)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 30),
    m=st.integers(1, 6),
    parts=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_statistics_add_up_over_rows(n, m, parts, seed):
    rng = np.random.default_rng(seed)
    data = problem(rng, n, m)
    owner = rng.integers(0, parts, n)
    total = weight_statistics(*(a[owner == 0] for a in data))
    for part in range(1, parts):
        total = total.add(weight_statistics(*(a[owner == part] for a in data)))
    for one, other in zip(total, weight_statistics(*data), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_evidence_gradient_against_finite_slopes(rng):
    features, y, weights, residual = problem(rng)

    def value(phi=features, g=residual, noise=NOISE):
        return log_evidence(weight_statistics(phi, y, weights, g), noise)

    gradient = log_evidence_gradient(features, y, weights, residual, NOISE)
    assert gradient.value == pytest.approx(value(), rel=1e-14)
    numeric = slopes(lambda phi: value(phi=phi), features)
    np.testing.assert_allclose(gradient.features, numeric, rtol=1e-6, atol=1e-6)
    numeric = slopes(lambda g: value(g=g), residual)
    np.testing.assert_allclose(gradient.residual, numeric, rtol=1e-6)
    numeric = slopes(lambda t: value(noise=np.exp(t[0])), np.log([NOISE]))
    np.testing.assert_allclose(gradient.parameters, numeric, rtol=1e-6)
