"""Density of rows from all over the data: Vecchia's approximation, by blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from skgpx._hyperparameters._evidence import ExactEvidence, normal_density
from skgpx._hyperparameters._sparse import most_points_beside_rows
from skgpx._numerics.linalg import cholesky, solve_lower
from skgpx._numerics.nearest import solve_local
from skgpx._row_budgets import (
    HELD_OUT_ROWS,
    NEIGHBORHOOD_ROWS,
    PREDECESSOR_ROWS,
)
from skgpx._shell.validation import Rows
from skgpx._types import Array, Index, Kernel
from skgpx.bases import NeighborResidual, Nystroem
from skgpx.kernels import (
    kernel_matrix,
    scaled_inputs,
    stacked_triangles,
)
from skgpx.likelihoods import Likelihood

# Neighbourhoods whose covariances are in memory at a time.
_BLOCK = 100
# Up to this share of the rows predecessors are searched one by one.
_SMALL_SHARE = 0.05


class Neighborhoods(NamedTuple):
    """Neighbouring rows all over the data, and the nearest of their predecessors.

    Attributes
    ----------
    rows : Rows
        All rows, in a random order.
    scattered : Rows
        The first ones: what nearest rows cannot tell apart, a weak and smooth function
        and none, is seen in their joint density.
    positions : ndarray of shape (s, p + q)
        Of q neighbours after the scattered rows, following their p nearest
        predecessors.
    """

    rows: Rows
    scattered: Rows
    positions: Index

    @classmethod
    def of(
        cls,
        rows: Rows,
        scattered: Rows,
        kernel: Kernel,
        number: int,
        phase: float,
    ) -> Neighborhoods:
        """Spread neighbourhoods over the order of the rows.

        Parameters
        ----------
        rows, scattered : Rows
        kernel : sklearn.gaussian_process.kernels.Kernel
            Rows are nearest in units of its lengthscales.
        number : int
        phase : float
            Position of a neighbourhood in its stretch of the order, from 0 to 1.
        """
        n = len(rows.y)
        first = len(scattered.y)
        points = scaled_inputs(kernel, rows.X)
        number = min(number, (n - first) // NEIGHBORHOOD_ROWS)
        size = PREDECESSOR_ROWS + NEIGHBORHOOD_ROWS
        if number == 0:
            return cls(rows, scattered, np.empty((0, size), dtype=np.intp))
        tree = KDTree(points)
        later = KDTree(points[first:])
        neighborhoods = []
        for index in range(number):
            position = first + int((index + phase) * (n - first) / number)
            members = first + later.query(points[position], NEIGHBORHOOD_ROWS)[1]
            predecessors = _nearest_predecessors(points, tree, position, members)
            neighborhoods.append(np.concatenate((predecessors, members)))
        return cls(rows, scattered, np.stack(neighborhoods))

    def evidences(self, kernel: Kernel, likelihood: Likelihood) -> list[ExactEvidence]:
        """Density of the scattered rows, and densities of neighbourhoods given others.

        They are factors of the joint density of all rows in Vecchia's approximation by
        blocks; a sample of them estimates it. Of several functions with noise of their
        own each has its share of the neighbourhoods.
        """
        evidences: list[ExactEvidence] = []
        scattered_of_functions = _functions(self.scattered)
        n_functions = len(scattered_of_functions)
        for function, rows in enumerate(_functions(self.rows)):
            scattered = scattered_of_functions[function]
            evidences.append(ExactEvidence(scattered, kernel, likelihood))
            positions = self.positions[function::n_functions]
            for block in range(0, len(positions), _BLOCK):
                density = ExactEvidence(
                    rows,
                    kernel,
                    likelihood,
                    members=positions[block : block + _BLOCK],
                    n_given=PREDECESSOR_ROWS,
                )
                evidences.append(density)
        return evidences

    def held_out_density(self, kernel: Kernel, likelihood: Likelihood) -> float:
        """Mean log density of the last rows, as a model of all others predicts them.

        Given the first rows, as many as it has inducing points, and the nearest of
        those between. Of several functions with noise of their own each has its
        share of the held-out rows.

        Notes
        -----
        O(m^2 (m + p)) for m points and the p rows that are among the nearest.
        """
        n = len(self.rows.y)
        first = min(most_points_beside_rows(n), n // 3)
        last = n - min(HELD_OUT_ROWS, n // 3)
        noise_variance = float(likelihood.variance(0.0))
        functions = _functions(self.rows)
        log_densities = []
        weights = []
        for function, rows in enumerate(functions):
            held_out = rows.take(slice(last + function, None, len(functions)))
            mean, latent_variance = _conditional_moments(
                kernel,
                noise_variance,
                rows.take(slice(0, first)),
                rows.take(slice(first, last)),
                held_out.X,
            )
            noise = noise_variance * held_out.weights / held_out.precisions
            variance = (latent_variance + noise)[:, np.newaxis]
            y = held_out.y.reshape(len(noise), -1)
            log_density = normal_density(y, mean, variance)
            log_densities.append(np.sum(log_density, axis=1))
            weights.append(held_out.weights)
        return float(
            np.average(np.concatenate(log_densities), weights=np.concatenate(weights))
        )


def _conditional_moments(
    kernel: Kernel,
    noise_variance: float,
    scattered: Rows,
    others: Rows,
    X: Array,
) -> tuple[Array, Array]:
    """Moments of f at p rows, given scattered rows S and the nearest of the others.

    Given S alone, with ``L Lᵀ = k(S, S) + Σ``, f has the mean ``φ(x)ᵀ w`` and the
    covariance ``k(x, x') - φ(x)ᵀ φ(x')``::

        φ(x) = L⁻¹ k(S, x),   w = L⁻¹ y_S

    which is that of a residual, under which nearest rows are conditioned on.

    Returns
    -------
    mean : ndarray of shape (p, t)
    variance : ndarray of shape (p,)
    """
    K = kernel_matrix(kernel, scattered.X, scattered.X)
    K += np.diag(noise_variance / scattered.precisions)
    root = cholesky(K).L
    w = solve_lower(root, scattered.y.reshape(len(root), -1))
    residual = NeighborResidual(
        basis=Nystroem(kernel, scattered.X, root),
        rows=others.X,
        noise=(noise_variance / others.precisions)[:, np.newaxis],
        features=np.empty((0, len(root))),
        n_neighbors=PREDECESSOR_ROWS,
    )
    used = np.unique(residual.nearest(X)[0])
    residual = residual.of_rows(used)
    # b(x)ᵀ (y - Φ w)_N
    left = others.y[used].reshape(len(used), -1) - residual.features @ w
    mean = np.empty((len(X), w.shape[1]))
    variance = np.empty(len(X))
    for local in residual.neighborhoods(X):
        left_nearby = left[local.nearest[0]]
        mean[local.block] = local.features @ w
        mean[local.block] += np.einsum("pn,pnt->pt", local.coefficients[0], left_nearby)
        variance[local.block] = local.variance[0]
    return mean, variance


def _functions(rows: Rows) -> list[Rows]:
    """Values of each function, if their noise differs; otherwise the rows."""
    if rows.known is None or rows.known.ndim == 1:
        return [rows]
    return [
        rows._replace(y=rows.y[:, function], known=rows.known[:, function])
        for function in range(rows.y.shape[1])
    ]


def _nearest_predecessors(
    points: Array,
    tree: KDTree,
    position: int,
    members: Index,
) -> Index:
    """The rows nearest to the one at this position, of those before it, no members."""
    n = len(points)
    point = points[position]
    # about this share of the nearest rows comes before
    share = position / n
    n_nearest = NEIGHBORHOOD_ROWS + int(2.0 * PREDECESSOR_ROWS / share)
    predecessors: Index = np.empty(0, dtype=np.intp)
    while len(predecessors) < PREDECESSOR_ROWS:
        if share < _SMALL_SHARE:
            distance = np.sum((points[:position] - point) ** 2, axis=1)
            nearest = np.argsort(distance)
        else:
            nearest = tree.query(point, min(n, n_nearest))[1]
        is_predecessor = (nearest < position) & ~np.isin(nearest, members)
        predecessors = nearest[is_predecessor]
        n_nearest *= 2
    return predecessors[:PREDECESSOR_ROWS]


class NearestOthers(NamedTuple):
    """The nearest other rows of each row, which predict its latent value.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    positions : ndarray of shape (n, N + 1)
        Of N other rows, followed by the row itself.
    """

    X: Array
    positions: Index

    @classmethod
    def of(cls, X: Array, kernel: Kernel, n_neighbors: int) -> NearestOthers:
        """Nearest in units of the lengthscales of a kernel."""
        n = len(X)
        points = scaled_inputs(kernel, X)
        _, nearest = KDTree(points).query(points, min(n_neighbors + 1, n))
        nearest = nearest.reshape(n, -1)
        # a row is among its nearest, unless there are copies of it
        is_itself = nearest == np.arange(n)[:, np.newaxis]
        order = np.argsort(is_itself, axis=1, kind="stable")
        positions = np.take_along_axis(nearest, order, axis=1)
        positions[:, -1] = np.arange(n)
        return cls(X, positions.astype(np.intp))

    def predict(self, kernel: Kernel, y: Array, noise: Array) -> tuple[Array, Array]:
        """Mean and variance of f at each row, given noisy values at the others.

        With ``C = k(X, X) + diag(noise) = L Lᵀ`` of a row and the others, and the row
        as the last of them [1]_::

            E f = y - L_ii² (C⁻¹ y)_i,    var f = L_ii² - noise_i

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
        y, noise : ndarray of shape (n, c)
            Values of c functions, and variances of their noise.

        Returns
        -------
        mean, variance : ndarray of shape (n, c)

        References
        ----------
        .. [1] Dubrule, "Cross validation of kriging in a unique neighborhood",
           Mathematical Geology 1983.
        """
        n, size = self.positions.shape
        n_functions = y.shape[1]
        diagonal = np.arange(size)
        mean = np.empty(y.shape)
        variance = np.empty(y.shape)
        for first in range(0, n, _BLOCK):
            last = min(first + _BLOCK, n)
            block = slice(first, last)
            positions = self.positions[block]
            sizes = np.full(len(positions), size)
            K = stacked_triangles(kernel, self.X[positions])
            for function in range(n_functions):
                C = np.array(K, order="C")
                C[:, diagonal, diagonal] += noise[positions, function]
                solution = np.ascontiguousarray(y[positions, function])
                # L is left in the place of C, and C⁻¹ y in that of y
                solve_local(C, sizes, solution)
                total = C[:, -1, -1] ** 2
                error = total * solution[:, -1]
                mean[block, function] = y[block, function] - error
                variance[block, function] = total - noise[block, function]
        # rounding
        least_variance = 1e-6 * noise
        return mean, np.maximum(variance, least_variance)
