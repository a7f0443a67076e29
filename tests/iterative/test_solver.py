"""Block conjugate gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx._iterative._product import KernelProduct
from skgpx._iterative._sparse import SparseRows
from skgpx._numerics.conjugate_gradients import solve
from skgpx.bases import Nystroem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
B = RNG.normal(size=(300, 5))
HOW = {"tol": 1e-8, "unit": 1.0, "max_iter": 400}


def system(kernel=None, noise=0.1, points=X):
    kernel = kernel or Matern(1.0, nu=1.5)
    variances = np.full(len(points), noise)
    return (
        KernelProduct(kernel, points),
        variances,
        kernel(points) + noise * np.eye(len(points)),
    )


def scaled(V):
    return V / 1.1


def sparse(kernel, variances, m=60):
    basis = Nystroem.from_kernel(kernel, X[:m])
    return SparseRows.of(basis, X, variances, None)


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4])
def test_the_solution_is_the_dense_one(noise):
    product, variances, A = system(noise=noise)
    prec = sparse(Matern(1.0, nu=1.5), variances, 200).precondition
    found = solve(product, variances, prec, B, **HOW)
    assert found.converged
    exact = np.linalg.solve(A, B)
    assert_allclose(A @ found.values, B, atol=1e-6)
    assert np.max(np.abs(found.values - exact)) < 1e-5 * np.max(np.abs(exact))
    residuals = np.linalg.norm(B - A @ found.values, axis=0)
    assert_allclose(
        found.residuals, residuals / np.linalg.norm(B, axis=0), rtol=0.1, atol=1e-13
    )


def test_single_precision_gives_way_where_noise_is_tiny():
    kernel, noise = RBF(1.0), 1e-9
    product, variances, _ = system(kernel, noise)
    prec = sparse(kernel, variances, 200).precondition
    found = solve(product, variances, prec, kernel(X) @ B, **HOW)
    assert found.converged
    assert_allclose(kernel(X) @ found.values, kernel(X) @ B, atol=1e-4)


def test_directions_restart_from_the_exact_residual():
    _, variances, A = system()
    K = A - np.diag(variances)
    n_rough = 0
    preconditioned = []

    def product(V, exact=False):
        """Errors of a hundredth, then of all digits, unless `exact`."""
        nonlocal n_rough
        if exact:
            return K @ V
        n_rough += 1
        if n_rough == 3:
            return -V
        return 1.01 * (K @ V)

    def precondition(R):
        preconditioned.append(R.copy())
        return R

    solution = solve(product, variances, precondition, B, **HOW | {"max_iter": 3})
    assert_allclose(preconditioned[-1], B - A @ solution.values, atol=1e-10)


def test_a_solution_is_resumed():
    product, variances, _ = system()
    whole = solve(product, variances, scaled, B, **HOW)
    part = solve(product, variances, scaled, B, **HOW | {"max_iter": 5})
    assert not part.converged
    assert part.n_products == 6
    rest = solve(product, variances, scaled, B, part.values, **HOW)
    assert rest.converged
    assert_allclose(rest.values, whole.values, atol=1e-7)
    # from the solution there is nothing left to do
    again = solve(product, variances, scaled, B, whole.values, **HOW)
    assert again.n_products <= 5


def test_preconditioning_saves_products():
    product, variances, _ = system(noise=0.01)
    how = HOW | {"tol": 1e-3}
    plain = solve(product, variances, scaled, B, **how)
    prec = sparse(Matern(1.0, nu=1.5), variances, 200).precondition
    better = solve(product, variances, prec, B, **how)
    assert better.n_products < 0.5 * plain.n_products


@pytest.mark.parametrize(
    "columns",
    [
        np.zeros((300, 3)),
        np.ones((300, 4)),
        np.column_stack((B[:, 0], np.zeros(300), B[:, 0])),
    ],
)
def test_dependent_columns_do_no_harm(columns):
    product, variances, A = system()
    found = solve(product, variances, scaled, columns, **HOW)
    assert found.converged
    assert_allclose(A @ found.values, columns, atol=1e-6)


def test_fewer_rows_than_columns():
    product, variances, A = system(points=X[:3])
    found = solve(product, variances, scaled, B[:3], **HOW)
    assert_allclose(A @ found.values, B[:3], atol=1e-8)


def test_the_change_of_predictions_ends_it():
    product, variances, A = system()
    exact = np.linalg.solve(A, B)
    for tol in (0.1, 0.01):
        found = solve(product, variances, scaled, B, **HOW | {"tol": tol})
        assert found.converged
        assert found.change < tol
        error = product(found.values - exact, exact=True)
        assert np.sqrt(np.mean(error**2, axis=0)).max() < tol


def test_a_callback_sees_every_product_and_may_end_it():
    product, variances, _ = system()
    seen = []

    def callback(progress):
        seen.append(progress.n_products)
        return len(seen) == 3

    found = solve(product, variances, scaled, B, callback=callback, **HOW)
    assert seen == [1, 2, 3]
    assert not found.converged
    assert found.n_products == 4


def test_the_preconditioner_is_an_inverse():
    kernel, variances = Matern(1.0, nu=1.5), np.linspace(0.1, 0.4, 300)
    one = sparse(kernel, variances, 50)
    basis = one.posterior.basis
    features = basis(X)
    total = variances + basis.residual_variance(X, features)
    P = features @ features.T + np.diag(total)
    assert_allclose(P @ one.precondition(B), B, atol=1e-10)
    # leave-one-out variances of the sparse process
    h, r = one.spread_without(slice(None))
    assert_allclose(r + variances, total)
    assert_allclose(h + total, 1.0 / np.diag(np.linalg.inv(P)), rtol=1e-8)
    # posterior variances at other rows
    new = RNG.normal(size=(20, 2))
    cross, (h, r) = basis(new) @ features.T, one.posterior.spread(new)
    explained = np.sum(cross * np.linalg.solve(P, cross.T).T, axis=1)
    assert_allclose(h + r, kernel.diag(new) - explained, rtol=1e-6)
    covariance = one.posterior.covariance(new)
    assert_allclose(np.diag(covariance), h + r)
    # coefficients of sections that predict as the sparse process
    start = one.start(X, B)
    mean = basis(new) @ one.weights(one.whitening @ B)
    assert_allclose(kernel(new, X) @ start, mean, atol=1e-6)
    assert one.start(X[100:], B[100:]) is None


def test_the_preconditioner_of_nearest_rows():
    kernel, variances = Matern(1.0, nu=1.5), np.full(300, 0.1)
    basis, new = Nystroem.from_kernel(kernel, X[:20]), RNG.normal(size=(15, 2))
    # as many neighbours as there are rows: the exact process
    one = SparseRows.of(basis, X, variances, None, 299)
    A = kernel(X) + np.diag(variances)
    assert_allclose(A @ one.precondition(B), B, atol=1e-7)
    h, r = one.posterior.spread(new)
    explained = kernel(new, X) @ np.linalg.solve(A, kernel(X, new))
    assert_allclose(h + r, kernel.diag(new) - np.diag(explained), rtol=1e-5)
    h, r = one.spread_without(slice(0, 40))
    exact = 1.0 / np.diag(np.linalg.inv(A))[:40] - 0.1
    assert_allclose(h + r, exact, rtol=1e-3)
    # with few of them the rows left out are as new ones
    few = SparseRows.of(basis, X, variances, None, 10)
    found = np.log(np.sum(few.spread_without(slice(None)), axis=0))
    exact = np.log(1.0 / np.diag(np.linalg.inv(A)) - 0.1)
    assert np.sqrt(np.mean((found - exact) ** 2)) < 0.3
