"""What follows the choice of one lengthscale does not undo it."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import PLSClassifier, PLSRegressor
from skgpx._selection._learner import candidates, default_candidates
from skgpx._validation import canonical_rows
from skgpx.kernels import GREKernel


def ridge_rows(n=80, d=8, seed=0):
    """A function of the sum of the columns: one lengthscale is right."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(X.sum(axis=1) / np.sqrt(d)) + 0.3 * rng.standard_normal(n)


def lengths_in_units_of_columns(model, X):
    kernel = model.kernel_
    kernel = kernel.kernel if isinstance(kernel, GREKernel) else kernel
    return kernel.k2.length_scale / X.std(axis=0)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"n_inducing": 40}, {"n_inducing": 60}, {"prior": "gre"}, {"method": "mala"}],
)
def test_bounds_priors_and_warm_starts_keep_one_lengthscale(parameters):
    X, y = ridge_rows()
    model = PLSRegressor(warm_start=True, random_state=0, **parameters)
    for _ in range(2):
        lengths = lengths_in_units_of_columns(model.fit(X, y), X)
        np.testing.assert_allclose(lengths, lengths[0], rtol=1e-6)


def test_warm_starts_of_classes_keep_one_lengthscale():
    X, y = ridge_rows()
    model = PLSClassifier(warm_start=True, n_inducing=60, random_state=0)
    for _ in range(2):
        lengths = lengths_in_units_of_columns(model.fit(X, y > 0.0), X)
        np.testing.assert_allclose(lengths, lengths[0], rtol=1e-6)


def test_a_kernel_of_the_users_is_not_tied():
    X, y = ridge_rows()
    kernel = ConstantKernel(1.0) * RBF(np.full(8, 3.0))
    model = PLSRegressor(kernel, n_inducing=40, warm_start=True, random_state=0)
    for _ in range(2):
        lengths = lengths_in_units_of_columns(model.fit(X, y), X)
        assert np.ptp(np.log(lengths)) > 0.01


@pytest.mark.parametrize("gre", [False, True])
def test_coordinates_of_a_kernel_lead_back_to_it(gre):
    X, y = ridge_rows(d=3)
    rows = canonical_rows(X * [1.0, 1e3, 1e-3], y, np.ones(len(y)))
    for pair in default_candidates(rows):
        kernel = pair[0].kernel
        if gre:
            if not isinstance(kernel.k2, RBF) or hasattr(kernel.k2, "nu"):
                continue
            pair = candidates(GREKernel(kernel, rows.X), rows)
        for candidate, tied in zip(pair, (True, False), strict=True):
            assert candidate.is_tied == tied
            u = np.linspace(-0.4, 0.3, candidate.n_free)
            back = candidate.coordinates_of(candidate.kernel_at(u))
            np.testing.assert_allclose(back, u, atol=1e-9)


def test_columns_of_one_unit_share_a_lengthscale_in_it():
    """Sixty columns that hardly vary, as pixels at the rim of an image."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((400, 4))
    X = np.hstack((signal, 0.01 * rng.standard_normal((400, 60))))
    y = np.argmax(signal[:, :3] ** 2, axis=1)
    model = PLSClassifier(random_state=0, n_particles=10).fit(X[:200], y[:200])
    np.testing.assert_allclose(np.diff(model.kernel_.kernel.k2.length_scale), 0.0)
    # it was .31, with a lengthscale of so many standard deviations of each column
    assert model.score(X[200:], y[200:]) > 0.8
    assert "in the unit of X" in model.report()["search"]["lengthscales"]
