"""Smallest and largest values of drawn functions."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern


class TestOptima:
    def test_is_below_a_fine_mesh(self, posterior):
        draws = posterior(Matern(0.5, nu=2.5), n_draws=4)
        axis = np.linspace(-1.0, 1.0, 201)
        mesh = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        values = draws(mesh)
        box = [(-1.0, 1.0), (-1.0, 1.0)]
        low = draws.minimize(box, n_mesh=2000, random_state=0)
        high = draws.maximize(box, n_mesh=2000, random_state=0)
        assert np.all(low.fun <= values.min(axis=0) + 1e-12)
        assert np.all(high.fun >= values.max(axis=0) - 1e-12)
        assert np.all(np.abs(low.x) <= 1.0)
        np.testing.assert_allclose(draws.at(low.x), low.fun, rtol=1e-9, atol=1e-9)

    def test_inner_minima_are_stationary(self, posterior):
        draws = posterior(RBF(0.4), n_draws=4)
        found = draws.minimize([(-2.0, 2.0)] * 2, n_mesh=2000, random_state=1)
        inner = np.all(np.abs(found.x) < 1.999, axis=1)
        gradients = draws.value_and_grad(found.x)[1][np.arange(4), np.arange(4)]
        assert inner.any()
        assert np.abs(gradients[inner]).max() < 1e-4

    def test_reproducible(self, posterior):
        draws = posterior(RBF(0.4))
        box = [(-2.0, 2.0)] * 2
        one, two = (draws.minimize(box, random_state=3, n_mesh=100) for _ in "ab")
        np.testing.assert_array_equal(one.x, two.x)

    @pytest.mark.parametrize(
        "bounds", [[0.0, 1.0], [(1.0, 0.0), (0.0, 1.0)], [(0.0, np.inf)] * 2]
    )
    def test_bad_bounds(self, bounds, posterior):
        with pytest.raises(ValueError, match=r"bound"):
            posterior(RBF()).minimize(bounds)

    def test_bad_sizes_and_several_outputs(self, posterior):
        with pytest.raises(ValueError, match="n_starts"):
            posterior(RBF()).minimize([(0.0, 1.0)] * 2, n_starts=8, n_mesh=4)
        with pytest.raises(ValueError, match="one output"):
            posterior(RBF(), n_outputs=2).minimize([(0.0, 1.0)] * 2)
