"""Gaussian processes that draws come from, and their conditioning on observations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import block_diag
from sklearn.gaussian_process.kernels import ConstantKernel

from skgpx._draws._features import Term, section_terms
from skgpx._draws._functionals import (
    FiniteFunctions,
    SeenFunctions,
    functional_sections,
    functionals_of,
)
from skgpx._draws._functions import FunctionDraws, Process
from skgpx._draws._mapped import InputMap
from skgpx._numerics.linalg import (
    NUGGET,
    cholesky,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._types import Array, Kernel
from skgpx.kernels import FunctionalRows, Functionals, length_scales

# ---- Roots of covariances of variables, and their change by observations -------------


class Observed(NamedTuple):
    """What was observed of variables ``v = [S 0; 0 I] ξ``, ``ξ ~ N(0, I)``.

    Parameters
    ----------
    B : ndarray of shape (p, q)
        The observed combinations of ξ, in units of the noise.
    Y : ndarray of shape (p, q)
        ``I - Bᵀ Y`` is a root of the covariance of ξ given the observations.
    """

    B: Array
    Y: Array


def whitened(spread: Array, features: Array) -> Array:
    """``features [S 0; 0 I]``: (n, q) to (n, q - m + r) with S (m, r)."""
    m = len(spread)
    with_spread = features[:, :m] @ spread
    return np.concatenate((with_spread, features[:, m:]), axis=1)


def times_root(spread: Array, observed: Observed | None, features: Array) -> Array:
    """``features R`` with the root ``R = [S 0; 0 I] (I - Bᵀ Y)`` of the covariance."""
    half = whitened(spread, features)
    if observed is None:
        return half
    return half - (half @ observed.B.T) @ observed.Y


def observe(
    spread: Array,
    past: tuple[Observed, ...],
    features: Array,
    scale: Array,
    discrepancy: Array,
    noise: Array,
) -> tuple[Array, tuple[Observed, ...]]:
    """Observe ``features v + ε`` of the variables v of each output.

    Let ``B ξ``, ``ξ ~ N(0, I)``, be all observations so far in units of the noise, and
    ``L Lᵀ = I + B Bᵀ``, a matrix with eigenvalues of at least one. With ``Y = L⁻ᵀ (L +
    I)⁻¹ B``, the matrix ``I - Bᵀ Y`` is a root of the posterior covariance ``(I + Bᵀ
    B)⁻¹`` of ξ [1]_.

    Parameters
    ----------
    spread : ndarray of shape (g, m, r)
        ``S`` of the first m variables, for each output or (g = 1) for all; the other
        variables are N(0, I).
    past : tuple of Observed
        Earlier observations, of each output or all; empty if there are none.
    features : ndarray of shape (p, q)
    scale : ndarray of shape (c,)
        Units of the outputs.
    discrepancy : ndarray of shape (p, c, s)
        Observed values less the values of draws, in these units.
    noise : ndarray of shape (c, p)
        Variances of ε in the units of v, positive.

    Returns
    -------
    change : ndarray of shape (q, c, s)
        Added to draws of v, in the units of the outputs.
    observed : tuple of Observed
        Earlier and new observations.

    References
    ----------
    .. [1] Andrews, "A square root formulation of the Kalman covariance equations",
       AIAA Journal, 1968.
    """
    p, c, s = discrepancy.shape
    q = features.shape[1]
    # one factorisation serves all outputs with the same covariance and units
    same_covariance = len(spread) == 1 and len(past) < 2
    is_shared = same_covariance and np.all(scale == scale[0])
    groups = [discrepancy.reshape(p, -1)]
    if not is_shared:
        groups = np.split(groups[0], c, axis=1)
    changes = []
    observed = []
    for o, values in enumerate(groups):
        S = spread[o % len(spread)]
        std = np.sqrt(noise[o])[:, np.newaxis]
        B = whitened(S, features) / std
        if past:
            past_of_output = past[o % len(past)]
            B = np.concatenate((past_of_output.B, B))
        # L Lᵀ = I + B Bᵀ
        unit = np.eye(len(B))
        L = cholesky(unit + B @ B.T, jitter=0.0).L
        # Y = L⁻ᵀ (L + I)⁻¹ B
        half = solve_lower(L + unit, B)
        Y = solve_lower_transpose(L, half)
        # draws agree with earlier observations: zeros
        errors = np.zeros((len(B), values.shape[1]))
        errors[len(B) - p :] = values / std
        # ξ = Bᵀ (B Bᵀ + I)⁻¹ (y - f)
        half = solve_lower(L, errors)
        shift = B.T @ solve_lower_transpose(L, half)
        # v = [S 0; 0 I] ξ
        r = S.shape[1]
        change = np.concatenate((S @ shift[:r], shift[r:]))
        changes.append(change)
        observed.append(Observed(B, Y))
    all_changes = np.concatenate(changes, axis=1)
    return all_changes.reshape(q, c, s), tuple(observed)


# ---- Processes of drawn functions, and their conditioning ----------------------------


@dataclass(frozen=True)
class KernelProcess(Process):
    """Process with a kernel, given data or inducing variables.

    ::

        cov(f(x), f(y)) = scale² (k(x, y) - h(x)ᵀ (I - S Sᵀ) h(y))
        h = L⁻¹ Aᵀ k(P, ·)

    This is the form of a prior (no points), of a Gaussian process given data (``A =
    I``, ``L Lᵀ`` the covariance of the noisy data, S empty), of a process with
    combinations ``u = Aᵀ f(P)`` of another distribution (``L Lᵀ`` their prior
    covariance, S a root of the covariance of ``L⁻¹u``), and of all these after further
    conditioning. ``L Lᵀ`` is never inverted: with little noise the inverse would be
    inaccurate.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``, without observation noise.
    points : ndarray of shape (n, d)
        ``P``.
    root : ndarray of shape (q, q)
        ``L``.
    spread : ndarray of shape (g, q, r)
        ``S``, for each output or (g = 1) for all.
    scale : ndarray of shape (c,)
        Units of the outputs.
    combinations : ndarray of shape (n, q), default=None
        ``A``; None for the values themselves.
    maps : tuple of InputMap, default=()
        Maps of the inputs; the points are mapped rows.
    """

    kernel: Kernel
    points: Array
    root: Array
    spread: Array
    scale: Array
    combinations: Array | None = None
    maps: tuple[InputMap, ...] = ()

    @classmethod
    def prior(cls, kernel: Kernel, n_features: int, n_outputs: int) -> KernelProcess:
        """Process without any observations."""
        return cls(
            kernel,
            points=np.empty((0, n_features)),
            root=np.empty((0, 0)),
            spread=np.empty((1, 0, 0)),
            scale=np.ones(n_outputs),
        )

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        h, residual = self._split(self.mapped(X))
        S = self.spread[output % len(self.spread)]
        half = S.T @ h
        variance = self.scale[output] ** 2
        return variance * (residual + half.T @ half)

    def _split(self, X: Array) -> tuple[Array, Array]:
        """h(X) (q, n), and the covariance given the variables, k - hᵀ h (n, n)."""
        K = self.kernel(X, X)
        if not len(self.points):
            h = np.empty((0, len(X)))
            return h, K
        sections = self.kernel(self.points, X)
        if self.combinations is not None:
            sections = self.combinations.T @ sections
        h = solve_lower(self.root, sections)
        return h, K - h.T @ h

    def nugget(self, X: Array) -> Array:
        """Smallest noise variance of observations at the rows of X, shape (n,).

        Positive, even where the variance is zero, as for a linear kernel at the origin.
        """
        variances = self.kernel.diag(X)
        largest = float(np.max(variances, initial=0.0)) or 1.0
        floor = NUGGET * largest
        return NUGGET * np.maximum(variances, floor)

    def extended(self, X: Array) -> Self:
        """Process with the values at mapped rows X as further variables."""
        h, residual = self._split(X)
        residual[np.diag_indices(len(X))] += self.nugget(X)
        # root of the covariance of all variables: [L 0; hᵀ C]
        C = cholesky(residual).L
        zeros = np.zeros(h.shape)
        root = np.block(
            [
                [self.root, zeros],
                [h.T, C],
            ]
        )
        combinations = self.combinations
        if combinations is not None:
            combinations = block_diag(combinations, np.eye(len(X)))
        if isinstance(self.kernel, Functionals):
            X = self.kernel.as_rows(X)
        return replace(
            self,
            points=np.concatenate((self.points, X)),
            root=root,
            combinations=combinations,
        )

    def learn(
        self,
        X: Array,
        discrepancy: Array,
        noise_variance: Array,
        white: float = 0.0,
    ) -> tuple[Array, Self]:
        """Condition on values at X; see :meth:`Process.learn`.

        The values become variables too, after the present ones. O(q p (q + r) + p^3)
        time, for each output with its own covariance or scale.
        """
        X = self.mapped(X)
        process = self.extended(X)
        # f(X) are the new rows of L times the whitened variables
        features = process.root[len(self.root) :]
        nugget = self.nugget(X) + white
        change, observed = observe(
            self.spread,
            past=(),
            features=features,
            scale=self.scale,
            discrepancy=discrepancy,
            noise=noise_variance / self.scale[:, np.newaxis] ** 2 + nugget,
        )
        # the root of each output as a matrix
        unit = np.eye(len(change))
        roots = []
        for output, observed_output in enumerate(observed):
            S = self.spread[output % len(self.spread)]
            root = times_root(S, observed_output, unit)
            roots.append(root)
        return change, replace(process, spread=np.stack(roots))

    def of_functionals(
        self,
        draws: FunctionDraws,
        rows: FunctionalRows,
    ) -> tuple[Process, Array]:
        """Process of rows of functionals; see :meth:`Process.of_functionals`."""
        if self.maps:
            return super().of_functionals(draws, rows)
        kernel = self.kernel
        if not isinstance(kernel, Functionals):
            # panels of a quarter lengthscale: draws of Matern kernels are rough
            scales = length_scales(kernel, rows.X.shape[1])
            kernel = Functionals(kernel, 0.25 * scales)
        # refuses slopes of functions that have none
        kernel.diag(rows.as_array())
        process = replace(self, kernel=kernel, points=kernel.as_rows(self.points))
        return process, functionals_of(draws, kernel, rows)

    def condition(self, prior: FunctionDraws, values: Array | float) -> FunctionDraws:
        """Matheron's update: draws of the process given its variables.

        ::

            (f | Aᵀf(P) = v)(·)  =  f(·) + k(·, P) A (L Lᵀ)⁻¹ (v - Aᵀf(P))
                                    ----   -------------------------------
                                    prior  one more linear term

        Parameters
        ----------
        prior : FunctionDraws
            Draws ``f`` of the unconditioned process.
        values : ndarray broadcastable to (q, c, s), or float
            The values v (for noisy observations: minus a draw of their noise).

        Returns
        -------
        draws : FunctionDraws
            As many draws as in ``prior``.
        """
        prior_values = prior.values(self.points)
        if self.combinations is not None:
            prior_values = np.tensordot(self.combinations.T, prior_values, 1)
        discrepancy = values - prior_values
        # L⁻¹ (v - Aᵀf(P))
        flat = discrepancy.reshape(len(discrepancy), -1)
        whitened_flat = solve_lower(self.root, flat)
        variables = whitened_flat.reshape(discrepancy.shape)
        return prior.plus(self.terms(variables))

    def terms(self, variables: Array) -> tuple[Term, ...]:
        """Functions of the mapped inputs with these whitened variables (q, c, s)."""
        # k(·, P) A L⁻ᵀ ξ
        _, c, s = variables.shape
        flat = variables.reshape(len(variables), -1)
        weights = solve_lower_transpose(self.root, flat)
        if self.combinations is not None:
            weights = self.combinations @ weights
        weights = weights.reshape(len(self.points), c, s)
        if isinstance(self.kernel, Functionals):
            return functional_sections(self.kernel, self.points, weights)
        return section_terms(self.kernel, self.points, weights)


@dataclass(frozen=True)
class FiniteProcess(Process):
    """Process of finitely many functions with normal weights.

    ::

        cov(f(x), f(y)) = scale² φ(x)ᵀ R Rᵀ φ(y)

    Attributes
    ----------
    basis : FiniteFunctions
        ``φ``, q functions.
    weight_root : ndarray of shape (g, m, r)
        Root of the covariance of the first m weights before observations, for each
        output or (g = 1) for all; the other weights are N(0, I).
    scale : ndarray of shape (c,)
        Units of the outputs.
    observed : tuple of Observed, default=()
        Observations, see :func:`observe`: factors of ``R``.
    maps : tuple of InputMap, default=()
        Maps of the inputs.
    """

    basis: FiniteFunctions
    weight_root: Array
    scale: Array
    observed: tuple[Observed, ...] = ()
    maps: tuple[InputMap, ...] = ()

    @classmethod
    def of_weights(
        cls, basis: FiniteFunctions, weights: GaussianWeights
    ) -> FiniteProcess:
        """Process of a distribution of the first weights; the others are N(0, I)."""
        mean, root = weights.moments()
        return cls(basis, root, np.ones(mean.shape[1]))

    def _times_root(self, features: Array, output: int) -> Array:
        observed = None
        if self.observed:
            observed = self.observed[output % len(self.observed)]
        weight_root = self.weight_root[output % len(self.weight_root)]
        return times_root(weight_root, observed, features)

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        features = self.basis.all_features(self.mapped(X))
        half = self._times_root(features, output)
        variance = self.scale[output] ** 2
        return variance * (half @ half.T)

    @property
    def n_known(self) -> int:
        """Number of weights with a posterior, all of them after observations."""
        _, m, r = self.weight_root.shape
        if not self.observed:
            return m
        return self.observed[0].B.shape[1] + m - r

    @property
    def spread(self) -> Array:  # type: ignore[override]
        """``R`` of the weights with a posterior, dense: (g, m, r)."""
        unit = np.eye(self.n_known)
        n_roots = max(len(self.weight_root), len(self.observed))
        roots = [self._times_root(unit, output) for output in range(n_roots)]
        return np.stack(roots)

    def learn(
        self,
        X: Array,
        discrepancy: Array,
        noise_variance: Array,
        white: float = 0.0,
    ) -> tuple[Array, Self]:
        """Condition on values at X; see :meth:`Process.learn`.

        O(q p (p + p') + p^3) time for p rows after p' others, and O(q p) memory.
        """
        features = self.basis.all_features(self.mapped(X))
        prior_variance = np.einsum("pq,pq->p", features, features)
        nugget = white + NUGGET * prior_variance
        change, observed = observe(
            self.weight_root,
            past=self.observed,
            features=features,
            scale=self.scale,
            discrepancy=discrepancy,
            noise=noise_variance / self.scale[:, np.newaxis] ** 2 + nugget,
        )
        return change, replace(self, observed=observed)

    def terms(self, variables: Array) -> tuple[Term, ...]:
        """Functions of the mapped inputs with these weights (q, c, s)."""
        return self.basis.all_terms(variables)

    def of_functionals(
        self,
        draws: FunctionDraws,
        rows: FunctionalRows,
    ) -> tuple[Process, Array]:
        """Process of rows of functionals; see :meth:`Process.of_functionals`."""
        if self.maps:
            return super().of_functionals(draws, rows)
        basis = self.basis
        if not isinstance(basis, SeenFunctions):
            # as many nodes as a box may have: functions may be fast
            finest = np.full(rows.X.shape[1], 1e-150)
            basis = SeenFunctions(basis, Functionals(ConstantKernel(1.0), finest))
        values = functionals_of(draws, basis.kernel, rows)
        return replace(self, basis=basis), values
