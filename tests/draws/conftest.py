"""Draws that the tests of several files share."""

import numpy as np
import pytest

from skgpx._draws import condition
from skgpx.bases import draw_prior


@pytest.fixture
def posterior():
    """Maker of draws given data: waves, sections and everything else in one sum."""
    return draw_posterior


def draw_posterior(kernel, n_draws=3, n_outputs=1, seed=0, n=12, noise=1e-3):
    """Draws given data: waves, sections and everything else in one sum."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 2))
    values = rng.normal(size=(n, n_outputs, n_draws))
    K = kernel(Z) + noise * np.eye(n)
    prior = draw_prior(kernel, 2, n_outputs, n_draws, rng)
    return condition(prior, kernel, Z, values, lambda B: np.linalg.solve(K, B))
