"""Draws of a stationary process on a grid, exact at its nodes and splines between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.gaussian_process.kernels import ExpSineSquared, WhiteKernel

from skgpx._draws._features import FeatureMap
from skgpx._draws._frequencies import Conditioning, HeldOutErrors
from skgpx._numerics import lattice
from skgpx._numerics.rows import row_slices
from skgpx._types import Array, ArrayLike, Generator, Index, Kernel
from skgpx.exceptions import PredictionWarning, warn
from skgpx.kernels import Monomial, category_columns, expand

# Largest number of nodes that "auto" takes.
_MAX_NODES = 2**16

# ---- The process on a grid -----------------------------------------------------------


@dataclass(frozen=True)
class StationarySum:
    """Covariance of a sum of products of stationary kernels.

    Parameters
    ----------
    terms : tuple of Monomial
    n_features : int
    """

    terms: tuple[Monomial, ...]
    n_features: int

    def __call__(self, lags: Array) -> Array:
        """Covariances at lags (n, d), shape (n,)."""
        origin = np.zeros((1, self.n_features))
        total = np.zeros(len(lags))
        for term in self.terms:
            product = np.full(len(lags), term.coefficient)
            for factor in term.factors:
                product *= factor(lags, origin)[:, 0]
            total += product
        return total

    def lengths(self, widths: Array) -> Array:
        """Lag along each axis at which the correlation is a half, (d,).

        At most twice the width of the domain, where a kernel hardly varies.
        """
        fractions = np.geomspace(1e-6, 2.0, 300)
        variance = self(np.zeros((1, self.n_features)))
        lengths = np.empty(self.n_features)
        for axis, width in enumerate(widths):
            lags = np.zeros((len(fractions), self.n_features))
            lags[:, axis] = fractions * width
            below_half = self(lags) < 0.5 * variance
            length = fractions[-1]
            if below_half.any():
                length = fractions[np.argmax(below_half)]
            lengths[axis] = length * width
        return lengths


@dataclass(frozen=True)
class Grid:
    """A stationary process at the nodes of a grid, and its spline between them.

    Parameters
    ----------
    box : ndarray of shape (d, 2)
        Where the process is defined; the first node is the lower corner.
    spacing : ndarray of shape (d,)
        Distance of neighbouring nodes.
    shape : tuple of int
        Coefficients of the spline along each axis: one for each node, and one beyond
        either end.
    roots : ndarray of the shape of the torus
        Roots of the eigenvalues of the covariance of the coefficients.
    clipped : float
        Variance in negative eigenvalues of the embedding, as a fraction.
    """

    box: Array
    spacing: Array
    shape: tuple[int, ...]
    roots: Array
    clipped: float

    @classmethod
    def of(
        cls,
        covariance: StationarySum,
        box: Array,
        n_nodes: Iterable[float],
        spacing: Array,
    ) -> Grid:
        """Grid with this number of nodes along each axis."""
        shape = tuple(int(n) + 2 for n in n_nodes)
        eigenvalues, clipped = lattice.embed(covariance, shape, spacing)
        # of the coefficients, from the eigenvalues of the values at the nodes
        transfer = lattice.spline_transfer(eigenvalues.shape)
        return cls(
            box=box,
            spacing=spacing,
            shape=shape,
            roots=np.sqrt(eigenvalues) / transfer,
            clipped=clipped,
        )

    def weights(self, X: Array) -> tuple[Index, Array, Array]:
        """Interpolation by the spline at the rows of X.

        Returns
        -------
        coefficients : ndarray of shape (n, 4^d)
            Positions of the coefficients of a row.
        weights : ndarray of shape (n, 4^d)
            Weights of these coefficients.
        slopes : ndarray of shape (n, 4^d, d)
            Derivatives of the weights in the inputs.

        Raises
        ------
        ValueError
            If a row is outside of the box.
        """
        low, high = self.box.T
        width = high - low
        middle = (low + high) / 2
        farthest = width / 2 + 1e-9 * width
        distance = np.abs(X - middle)
        outside = np.any(distance > farthest, axis=1)
        if outside.any():
            raise ValueError(
                f"These functions are defined on {self.box.tolist()}, the domain of "
                f"their grid; got {X[outside][0].tolist()}. State a larger domain, or "
                'draw with prior="spectral", which has none.'
            )
        # in units of the spacing
        positions = (np.clip(X, low, high) - low) / self.spacing
        coefficients, weights, slopes = lattice.spline_weights(positions, self.shape)
        return coefficients, weights, slopes / self.spacing

    def interpolation(self, X: Array) -> csr_array:
        """Matrix that maps coefficients to values at the rows of X."""
        coefficients, weights, _ = self.weights(X)
        n, width = weights.shape
        n_coefficients = int(np.prod(self.shape))
        row_starts = np.arange(0, n * width + 1, width)
        return csr_array(
            (weights.ravel(), coefficients.ravel(), row_starts),
            shape=(n, n_coefficients),
        )

    def covariance(self, functionals: Array, X: Array) -> Array:
        """Covariance of linear functionals (k, n) of the values at the rows of X."""
        # A = F W of functionals F and interpolation W
        n_coefficients = int(np.prod(self.shape))
        A = np.zeros((len(functionals), n_coefficients))
        # rows of interpolation weights at a time
        for rows in row_slices(len(X), 4096):
            F = functionals[:, rows]
            W = self.interpolation(X[rows])
            A += (W.T @ F.T).T
        # A C Aᵀ
        A_C = lattice.multiply(self.roots, self.shape, A)
        return A @ A_C.T

    def draw(self, n_outputs: int, size: int, rng: Generator) -> GridTerm:
        """Independent draws of each output."""
        values = lattice.draw(self.roots, self.shape, n_outputs * size, rng)
        coefficients = values.reshape(-1, n_outputs, size)
        return GridTerm(self, coefficients)


# ---- Drawn functions -----------------------------------------------------------------


@dataclass(frozen=True)
class GridTerm:
    """Cubic splines on a grid.

    Parameters
    ----------
    grid : Grid
    coefficients : ndarray of shape (n_coefficients, c, s)
    """

    grid: Grid
    coefficients: Array

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return len(self.grid.box)

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        W = self.grid.interpolation(X)
        flat = self.coefficients.reshape(len(self.coefficients), -1)
        values = W @ flat
        out += values.reshape(out.shape)

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""
        values, _ = self.pairs(X, np.arange(len(X)))
        return values

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        positions, weights, slopes = self.grid.weights(X)
        c = self.coefficients.shape[1]
        coefficients = self._by_draw[draws[:, np.newaxis], positions]
        coefficients = coefficients.reshape(*positions.shape, c)
        values = np.einsum("pk,pkc->pc", weights, coefficients)
        gradients = np.einsum("pkd,pkc->pcd", slopes, coefficients)
        return values, gradients

    @cached_property
    def _by_draw(self) -> Array:
        """Coefficients of one draw after another, (s, n_coefficients, c)."""
        return np.ascontiguousarray(self.coefficients.transpose(2, 0, 1))

    def __getstate__(self) -> dict[str, Any]:
        return {"grid": self.grid, "coefficients": self.coefficients}

    def scaled(self, factor: Array | float) -> GridTerm:
        """Multiply the outputs of the functions by one factor, or by factors (c,)."""
        factor_of_output = np.reshape(factor, (-1, 1))
        coefficients = self.coefficients * factor_of_output
        return replace(self, coefficients=coefficients)

    def select(self, draws: Index) -> GridTerm:
        """Keep the draws at these positions."""
        return replace(self, coefficients=self.coefficients[:, :, draws])


# ---- The choice of a grid ------------------------------------------------------------


def box_of_grid(domain: Array | None, points: Array) -> Array:
    """Box that a grid covers: a domain and all points, (d, 2).

    Without a domain the range of the points and a fifth of it on either side, or a
    width of one where the range is zero.

    Raises
    ------
    ValueError
        If there is neither a domain nor a point.
    """
    if domain is not None:
        points = np.concatenate((domain.T, points))
    elif not len(points):
        raise ValueError(
            'prior="grid" needs a domain: a lower and an upper bound of each of '
            f"{points.shape[1]} inputs, between which functions are drawn; got None."
        )
    low = points.min(axis=0)
    high = points.max(axis=0)
    if domain is None:
        margin = np.where(high > low, 0.2 * (high - low), 0.5)
        low = low - margin
        high = high + margin
    return np.column_stack((low, high))


def checked_domain(domain: ArrayLike | None, d: int) -> Array | None:
    """A domain as an array (d, 2).

    Raises
    ------
    ValueError
        If it has another shape, is not finite or has no width.
    """
    if domain is None:
        return None
    box = np.array(domain, dtype=np.float64)
    if box.shape == (2,) and d == 1:
        box = box[np.newaxis]
    is_box = box.shape == (d, 2) and np.isfinite(box).all()
    if not is_box or np.any(box[:, 1] <= box[:, 0]):
        raise ValueError(
            f"domain must hold a pair (lower, upper) of finite bounds for each input, "
            f"shape ({d}, 2), with lower < upper; got {np.asarray(domain).tolist()}."
        )
    return box


def split_stationary(
    kernel: Kernel,
    n_features: int,
) -> tuple[StationarySum | None, list[Monomial]]:
    """Split a kernel into a stationary part for a grid and other terms.

    Returns
    -------
    covariance : StationarySum or None
        The stationary part; None if there is none.
    other_terms : list of Monomial
        Terms with exact features, products that are not stationary, and noise.

    Raises
    ------
    ValueError
        If there are more than three inputs, or columns of categories.
    """
    if n_features > 3 or category_columns(kernel, n_features):
        raise ValueError(
            f'prior="grid" draws functions of one to three numbers; got {n_features} '
            f'inputs, and the kernel {kernel!r}. Draw with prior="spectral".'
        )
    stationary: list[Monomial] = []
    other_terms: list[Monomial] = []
    for term in expand(kernel):
        types = [type(factor) for factor in term.factors]
        # constants and periodic kernels have exact features, noise has no function
        excluded = not types or types == [ExpSineSquared] or WhiteKernel in types
        if not excluded and all(factor.is_stationary() for factor in term.factors):
            stationary.append(term)
        else:
            other_terms.append(term)
    if not stationary:
        return None, other_terms
    return StationarySum(tuple(stationary), n_features), other_terms


def choose_grid(
    covariance: StationarySum,
    box: Array,
    n_basis: int | str | tuple[int, ...],
    error_of: Callable[[Grid], float],
) -> Grid:
    """Grid with a spacing for nearly right standard deviations of draws.

    Parameters
    ----------
    covariance : StationarySum
    box : ndarray of shape (d, 2)
        Box that the grid covers.
    n_basis : "auto", int or tuple of int
        Number of nodes. "auto": as many as an error of 2 % needs, at most 2^16. An int:
        in total. A tuple: along each axis, for an evaluation at the nodes only.
    error_of : callable
        Predicts the error of the standard deviations of draws on a grid.

    Returns
    -------
    grid : Grid

    Warns
    -----
    PredictionWarning
        If an error of more than 2 % is predicted ("auto") or of more than 10 % (an
        int), or if more than 2 % of the variance is clipped (a tuple).
    """
    width = box[:, 1] - box[:, 0]
    lengths = covariance.lengths(width)

    def nodes(fineness: float) -> Array:
        return np.ceil(width / lengths * fineness) + 1

    def grid_of(fineness: float) -> Grid:
        spacing = lengths / fineness
        return Grid.of(covariance, box, nodes(fineness), spacing)

    def finest(max_nodes: int) -> float:
        """Largest fineness with at most so many nodes, or two along each axis."""
        candidates = np.geomspace(1e-7, 1e6, 3000)
        totals = np.prod([nodes(fineness) for fineness in candidates], axis=1)
        allowed = candidates[totals <= max(max_nodes, totals[0])]
        return float(allowed[-1])

    if isinstance(n_basis, str):
        limit = 0.02
        fineness = min(4.0, finest(_MAX_NODES))
        grid = grid_of(fineness)
        error = error_of(grid)
        while error > limit and np.prod(nodes(1.4 * fineness)) <= _MAX_NODES:
            fineness *= 1.4
            grid = grid_of(fineness)
            error = error_of(grid)
    elif isinstance(n_basis, tuple):
        # numbers for each axis: draws are looked at in the nodes, where they are exact
        limit = 0.02
        n_nodes = np.array(n_basis)
        spacing = width / (n_nodes - 1)
        grid = Grid.of(covariance, box, n_nodes, spacing)
        error = grid.clipped
    else:
        limit = 0.1
        grid = grid_of(finest(n_basis))
        error = error_of(grid)
    if error > limit:
        n_total = int(np.prod(np.array(grid.shape) - 2))
        warn(
            f"With a grid of {n_total} nodes the "
            f"standard deviations of draws are expected to be off by "
            f"{100 * error:.2g} % between them (root mean square). Pass a larger "
            'n_basis or a smaller domain, or use prior="spectral".',
            PredictionWarning,
        )
    return grid


def prior_on_grid(
    covariance: StationarySum,
    kernel: Kernel,
    others: list[tuple[float, FeatureMap]],
    box: Array,
    n_basis: int | str | tuple[int, ...],
    given: Conditioning | None,
    rng: Generator,
) -> Grid:
    """Grid for the stationary part of a process.

    Parameters
    ----------
    covariance : StationarySum
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    others : list of (variance, feature map)
        The other parts of the process.
    box : ndarray of shape (d, 2)
    n_basis : "auto", int or tuple of int
    given : Conditioning or None
        Points on which the draws will be conditioned.
    rng : numpy.random.Generator
        Picks the inputs at which errors are predicted.
    """
    if given is not None:
        errors = HeldOutErrors(kernel, given, rng, box)
        other_covariance = errors.covariance(others)

        def error_given_data(grid: Grid) -> float:
            on_grid = grid.covariance(errors.functionals, errors.points)
            std_error, _ = errors.misfit(other_covariance + on_grid)
            return max(std_error, grid.clipped)

        return choose_grid(covariance, box, n_basis, error_given_data)
    # without data: the variance at points of the box, between the nodes
    d = len(box)
    low, high = box.T
    points = low + rng.random((32, d)) * (high - low)
    exact_variance = kernel.diag(points)
    variance_of_grid = covariance(np.zeros((1, d)))
    other_variance = exact_variance - variance_of_grid

    values = np.eye(len(points))

    def error_of_prior(grid: Grid) -> float:
        on_grid = grid.covariance(values, points)
        variance = np.diagonal(on_grid) + other_variance
        log_ratios = 0.5 * np.log(variance / exact_variance)
        std_error = np.sqrt(np.mean(log_ratios**2))
        return max(float(std_error), grid.clipped)

    return choose_grid(covariance, box, n_basis, error_of_prior)
