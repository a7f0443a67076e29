"""Bases of kernel sections: projections of f on linear functionals of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import linalg

from skgpx._draws import (
    Conditioning,
    FunctionDraws,
    KernelProcess,
    draw_prior,
    section_terms,
    with_features,
)
from skgpx._numerics.blas_threads import one_blas_thread
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx._types import Array, Generator, Kernel
from skgpx.bases._basis import Marginals, feature_marginals
from skgpx.kernels import Functionals, kernel_matrix


@dataclass(frozen=True)
class KernelBasis:
    """Whitened basis of kernel sections at points.

    With inducing variables ``u = Aᵀ f(Z)`` of prior covariance ``L Lᵀ``, and ``u = L
    w``, the process splits into two independent parts::

        f(x) = φ(x)ᵀ w + g(x),    φ(x) = L⁻¹ Aᵀ k(Z, x)
               -------   ----
               basis     residual, cov(g) = k(x, x') - φ(x)ᵀ φ(x')

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``, without observation noise.
    inducing_points : ndarray of shape (n, d)
        ``Z``.
    root : ndarray of shape (m, m), default=None
        Lower Cholesky factor ``L``; None is the identity.
    jitter : float or ndarray of shape (m,), default=0.0
        ``L w`` is u plus noise of this variance. Draws of f take it into account, since
        it matters where ``L⁻¹`` is large.
    combinations : ndarray of shape (n, m), default=None
        ``A``; None for the values at the points themselves.
    """

    kernel: Kernel
    inducing_points: Array
    root: Array | None = None
    jitter: float | Array = 0.0
    combinations: Array | None = None

    @property
    def n_basis(self) -> int:
        """Number of basis functions ``m``."""
        if self.combinations is None:
            return len(self.inducing_points)
        return self.combinations.shape[1]

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row."""
        support = getattr(self.kernel, "support", ())
        n_sections = len(self.inducing_points) + len(support)
        return 4 * self.n_basis + 2 * n_sections

    @property
    def white_variance(self) -> float:
        """Part of the residual that is independent between all rows: none."""
        return 0.0

    def __call__(self, X: Array) -> Array:
        """Features ``φ(X)``, shape (n, m); their prior weights are N(0, I)."""
        sections = kernel_matrix(self.kernel, X, self.inducing_points)
        if self.combinations is not None:
            sections = sections @ self.combinations
        if self.root is None:
            return sections
        # φ(X)ᵀ = L⁻¹ Aᵀ k(Z, X)
        return solve_lower(self.root, sections.T).T

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        return feature_marginals(self, weights)

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance of the residual, ``var g(x)``, shape (n,).

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        features : ndarray of shape (n, m)
            ``self(X)``.
        """
        # k(x, x) - |φ(x)|², not negative
        explained = np.einsum("ij,ij->i", features, features)
        return np.maximum(self.kernel.diag(X) - explained, 0.0)

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint prior covariance of the residual at the rows of X, shape (n, n).

        Jitter in the whitening can only increase it, so it is positive semi-definite
        up to rounding. Parameters as in :meth:`residual_variance`; O(n^2 m).
        """
        # k(X, X) - Φ Φᵀ
        covariance = self.kernel(X) - features @ features.T
        covariance[np.diag_indices(X.shape[0])] = self.residual_variance(X, features)
        return covariance

    def process(self, weights: GaussianWeights) -> KernelProcess:
        """Distribution of ``φᵀw + g`` as a process that can be conditioned."""
        mean, spread = weights.moments()
        n_outputs = mean.shape[1]
        return KernelProcess(
            self.kernel,
            self.inducing_points,
            np.eye(self.n_basis) if self.root is None else self.root,
            spread,
            np.ones(n_outputs),
            self.combinations,
        )

    def process_at(self, weights: GaussianWeights, X: Array) -> KernelProcess:
        """Process in which rows X (p, d) are observed."""
        del X
        return self.process(weights)

    def grown(self, process: KernelProcess) -> KernelBasis:
        """Return the basis of a process after conditioning on values.

        The variables of this basis come first, then the observed values.
        """
        n_observed = len(process.root) - self.n_basis
        observed = process.points[len(process.points) - n_observed :]
        basis_jitter = np.broadcast_to(self.jitter, (self.n_basis,))
        return KernelBasis(
            process.kernel,
            process.points,
            process.root,
            np.concatenate((basis_jitter, process.nugget(observed))),
            process.combinations,
        )

    def draw(
        self,
        weights: Array,
        rng: Generator,
        points: Array | None = None,
        **prior: Any,
    ) -> FunctionDraws:
        """Functions ``φᵀw + g`` with these weights and a drawn residual.

        Parameters
        ----------
        weights : ndarray of shape (m, c, s)
            Weights ``w`` of c outputs and s draws.
        rng : numpy.random.Generator
            Source of the residual.
        points : ndarray of shape (n, d), default=None
            If given, the residual is drawn here and at the inducing points only, and
            has its expectation elsewhere. Averages over many inputs are those of
            draws, at less cost.
        **prior
            Options of :func:`skgpx.bases.draw_prior`.

        Returns
        -------
        draws : FunctionDraws
            Prior draws, conditioned on ``u = L w``.
        """
        m, n_outputs, n_draws = weights.shape
        Z = self.inducing_points
        if points is not None:
            if isinstance(self.kernel, Functionals):
                points = self.kernel.as_rows(points)
            return self._draw_through(np.concatenate((Z, points)), weights, rng)
        # a residual below a thousandth of the prior's std does not matter: the weights
        # have a distribution, too
        conditioning = Conditioning(Z, negligible=1e-6)
        if self.combinations is None:
            conditioning = replace(
                conditioning,
                noise_variance=self.jitter,
                root=self.root,
            )
        prior_draws = draw_prior(
            self.kernel,
            Z.shape[1],
            n_outputs,
            n_draws,
            rng,
            given=conditioning,
            **with_features(prior, self.kernel),
        )
        # u = L w, less the noise of the jitter
        u = weights if self.root is None else np.tensordot(self.root, weights, 1)
        jitter_std = np.sqrt(np.broadcast_to(self.jitter, (m,)))
        if jitter_std.any():
            noise = rng.standard_normal(u.shape)
            u = u - jitter_std[:, np.newaxis, np.newaxis] * noise
        point_mass = GaussianWeights(np.zeros((m, n_outputs)), np.empty((1, m, 0)))
        return self.process(point_mass).condition(prior_draws, u)

    def _draw_through(
        self,
        points: Array,
        weights: Array,
        rng: Generator,
    ) -> FunctionDraws:
        """``k(·, P) K⁻¹ f(P)``, the expectation of functions with drawn values f(P)."""
        features = self(points)
        residual = self.residual_covariance(points, features)
        K = self.kernel(points)
        nugget = 1e-8 * float(np.mean(np.diagonal(K)))
        root = cholesky(residual, added=nugget).L
        noise = rng.standard_normal((len(points), *weights.shape[1:]))
        values = np.tensordot(features, weights, 1) + np.tensordot(root, noise, 1)
        L = cholesky(K, added=nugget).L
        white = solve_lower(L, values.reshape(len(points), -1))
        coefficients = solve_lower_transpose(L, white).reshape(values.shape)
        terms = section_terms(self.kernel, points, coefficients)
        return FunctionDraws(terms, *weights.shape[1:])


class Nystroem(KernelBasis):
    """Whitened Nyström basis: projection of f on its values at inducing points.

    With ``f ~ GP(0, k)`` and ``f(Z) = L w``, ``w ~ N(0, I)``, the process splits
    into two independent parts::

        f(x) = φ(x)ᵀ w + g(x),    φ(x) = L⁻¹ k(Z, x)
               -------   ----
               basis     residual, cov(g) = k(x, x') - φ(x)ᵀ φ(x'), zero at Z

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``, without observation noise.
    inducing_points : ndarray of shape (m, d)
        Points ``Z``, best without near-duplicates.
    root : ndarray of shape (m, m), default=None
        Lower Cholesky factor ``L`` of ``k(Z, Z)`` plus a small jitter.
    jitter : float, default=0.0
        The jitter. ``L w`` is f(Z) plus noise of this variance. Draws of f take it
        into account, since it matters where ``L⁻¹`` is large.
    combinations : ndarray of shape (n, m), default=None
        None: the inducing variables are the values at the points.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import Nystroem
    >>> Z = np.linspace(0.0, 1.0, 4)[:, None]
    >>> basis = Nystroem.from_kernel(RBF(0.5), Z)
    >>> features = basis(np.array([[0.1], [9.0]]))
    >>> basis.residual_variance(np.array([[0.1], [9.0]]), features).round(3)
    array([0.001, 1.   ])
    """

    @classmethod
    def from_kernel(
        cls,
        kernel: Kernel,
        inducing_points: Array,
        noise_variance: float = np.inf,
    ) -> Nystroem:
        """Build the basis; O(m^3).

        The jitter is 1e-10 of the prior variance, or a thousandth of the noise variance
        of the rows, if that is less.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the kernel matrix is not positive definite after adding jitter; the
            message names the kernel.
        """
        K = kernel_matrix(kernel, inducing_points, inducing_points)
        try:
            root, jitter = cholesky(K, _relative_jitter(K, noise_variance))
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"The kernel matrix of {kernel!r} at {len(inducing_points)} inducing "
                f"points is not positive definite ({error}): use fewer inducing "
                "points, or a kernel with finite positive parameters."
            ) from error
        return cls(kernel, inducing_points, root, jitter)

    def __getstate__(self) -> dict[str, Any]:
        """Attributes, without a root that the kernel gives again to the last bit."""
        state = dict(self.__dict__)
        # points up to which pickles leave the root out: it takes milliseconds to
        # compute again, and a mixture has many
        if self.root is None or self.n_basis > 512:
            return state
        try:
            again = self._again(self.kernel, self.inducing_points)
        except (np.linalg.LinAlgError, ValueError):
            return state
        has_equal_root = np.array_equal(np.asarray(again.root), self.root)
        if again.jitter == self.jitter and has_equal_root:
            del state["root"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "root" not in state:
            again = self._again(state["kernel"], state["inducing_points"])
            state = state | {"root": again.root}
        self.__dict__.update(state)

    @classmethod
    def _again(cls, kernel: Kernel, inducing_points: Array) -> Nystroem:
        """:meth:`from_kernel` in one thread; more threads round differently."""
        with one_blas_thread():
            return cls.from_kernel(kernel, inducing_points)


def _relative_jitter(K: Array, noise_variance: float) -> float:
    """Jitter that the noise hides, relative to the prior variance."""
    hidden = 1e-3 * noise_variance
    prior_variance = float(np.mean(np.diagonal(K)))
    # also where the noise is not known, or the kernel is zero
    usual_jitter = 1e-10
    if not hidden < usual_jitter * prior_variance:
        return usual_jitter
    # not below rounding
    return max(hidden / prior_variance, 1e-14)


@dataclass(frozen=True)
class EmpiricalSpectral(KernelBasis):
    """Whitened basis of the leading eigenvectors of the prior covariance of the data.

    The inducing variables are ``u_j = v_jᵀ f(X)``, where ``k(X, X) = Σ e_j v_j v_jᵀ``::

        φ_j(x) = e_j^(-1/2) k(x, X) v_j

    No other m linear functionals of the values at the data explain more of their
    variance: the posterior is kernel principal component regression, with the
    variance of the other components kept.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``.
    inducing_points : ndarray of shape (n, d)
        The inputs X.
    root : ndarray of shape (m, m), default=None
        None: the functions are whitened already.
    jitter : float or ndarray of shape (m,), default=0.0
        Noise variance of the inducing variables.
    combinations : ndarray of shape (n, m), default=None
        ``A = V diag(e)^(-1/2)``, so that ``φ = Aᵀ k(X, ·)``.
    eigenvalues : ndarray of shape (n,), optional
        ``e``, all of them, decreasing; ``e / n`` estimates the eigenvalues of the
        covariance operator.

    References
    ----------
    .. [1] Burt, Rasmussen and van der Wilk, "Rates of convergence for sparse
       variational Gaussian process regression", ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import EmpiricalSpectral
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> basis = EmpiricalSpectral.from_rows(RBF(0.5), X, 4)
    >>> basis(X).shape
    (20, 4)
    >>> float(basis.residual_variance(X, basis(X)).max()) < 0.01
    True
    """

    eigenvalues: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def from_rows(
        cls,
        kernel: Kernel,
        X: Array,
        n_basis: int,
        weights: Array | None = None,
    ) -> EmpiricalSpectral:
        """Build the basis on distinct rows; O(n^3) time, O(n^2) memory.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
        X : ndarray of shape (n, d)
        n_basis : int
            Number of features m; fewer if the matrix has no more positive eigenvalues.
        weights : ndarray of shape (n,), optional
            Row weights: a weight of two is the same as repeating the row.
        """
        root_weights = np.ones(len(X)) if weights is None else np.sqrt(weights)
        # repeated rows: the eigenvectors of W^½ k(X, X) W^½
        K = root_weights[:, np.newaxis] * kernel(X) * root_weights
        eigenvalues, eigenvectors = linalg.eigh(K)
        eigenvalues = eigenvalues[::-1]
        eigenvectors = eigenvectors[:, ::-1]
        # the last eigenvalues are rounding
        n_positive = int(np.sum(eigenvalues > 1e-12 * eigenvalues[0]))
        m = min(n_basis, n_positive)
        # A = W^½ V diag(e)^(-1/2)
        scaled_vectors = root_weights[:, np.newaxis] * eigenvectors[:, :m]
        return cls(
            kernel,
            X,
            combinations=scaled_vectors / np.sqrt(eigenvalues[:m]),
            eigenvalues=np.maximum(eigenvalues, 0.0),
        )

    def leading(self, n_basis: int) -> EmpiricalSpectral:
        """Return the basis of the first functions, the largest eigenvalues."""
        A = np.asarray(self.combinations)
        return replace(self, combinations=np.ascontiguousarray(A[:, :n_basis]))
