"""Evidence of kernel and likelihood: of an exact process, and of a sparse model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import langevin, laplace
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.laplace import laplace_evidence_gradient
from skgpx._numerics.linalg import (
    cholesky,
    invert_factorised,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.regression import EvidenceGradient, log_evidence_gradient
from skgpx._numerics.smoothing import SmoothedLikelihood, smoothed
from skgpx._validation import Rows
from skgpx.bases import Nystroem, select_inducing
from skgpx.kernels import (
    diagonal_and_pullback,
    matrix_and_pullback,
    triangle_and_pullback,
)
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

# ---- Gaussian regression without an approximation ------------------------------------


class ExactEvidence:
    """Log marginal likelihood of Gaussian regression in its log-parameters.

    With ``C = k(X, X) + diag(noise_variance / ω)`` and ω the precisions of the rows,
    which are their weights unless more is known of their noise::

        log N(y | 0, C) - ½ Σ [(ω_i - 1) log(2π noise_variance) + log ω_i]

    the second term being what turns a row of noise ``noise_variance / ω`` into ω
    repetitions of it: an integer weight equals that many copies of the row. Targets of
    shape (n, c) are c independent functions of the same kernel.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel
        Without white noise.
    likelihood : Gaussian
        Prepared.
    given : Rows, optional
        Rows whose y are known: the density is that of the others given these.
    """

    def __init__(
        self,
        rows: Rows,
        kernel: Any,
        likelihood: Gaussian,
        given: Rows | None = None,
    ):
        self.rows, self.kernel, self.likelihood = rows, kernel, likelihood
        self._p, self._n_given = len(kernel.theta), 0
        self._all = rows
        if given is not None:
            self._n_given, self._all = len(given.y), given.followed_by(rows)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Evidence in nats, and its gradient in the log-parameters.

        One factorisation, one inverse and one pullback: O(n^3), memory O(n^2).

        Raises
        ------
        numpy.linalg.LinAlgError
            If the covariance of the rows is not positive definite.
        """
        p, g, omega = self._p, self._n_given, self._all.precisions
        likelihood = self.likelihood.with_theta(theta[p:])
        noise_variance = float(likelihood.variance(0.0))
        kernel = self.kernel.clone_with_theta(theta[:p])
        K, pullback = triangle_and_pullback(kernel, self._all.X)
        L, white, value = _factorised(K, self._all, noise_variance, g)
        c = white.shape[1]
        first = _slope(L[:g, :g].copy(), white[:g])
        slope = _slope(L, white)
        slope[:g, :g] -= first
        gradient = pullback(slope)
        if len(likelihood.theta):
            # C_ii holds σ²/ω, and -½ Σ(ω - 1) log σ² stands beside
            noise = noise_variance * float(np.sum(np.diagonal(slope) / omega))
            repeated = float(np.sum(omega[g:] - 1.0))
            gradient = np.append(gradient, noise - 0.5 * c * repeated)
        return value, gradient

    def value(self, kernel: Any, noise_variance: float) -> float:
        """Evidence of a kernel beside this noise, without a gradient; O(n^3 / 3)."""
        try:
            K = triangle_and_pullback(kernel, self._all.X)[0]
            return _factorised(K, self._all, noise_variance, self._n_given)[2]
        except np.linalg.LinAlgError:
            return -np.inf


def _slope(L: Array, white: Array) -> Array:
    """``∂ log N(y|0, C) / ∂C = ½ (C⁻¹y yᵀC⁻¹ - c C⁻¹)``, lower triangle; L is lost."""
    alpha = solve_lower_transpose(L, white)
    invert_factorised(L)
    slope: Array = 0.5 * (alpha @ alpha.T - white.shape[1] * L)
    return slope


def _factorised(
    K: Array,
    rows: Rows,
    noise_variance: float,
    n_given: int = 0,
) -> tuple[Array, Array, float]:
    """Root of the C of :class:`ExactEvidence`, ``L⁻¹ y``, and its log density.

    The density is that of the rows after the first ones, which are given. Only the
    lower triangle of K is read.
    """
    omega = rows.precisions
    C = np.array(K, order="C")
    C[np.diag_indices_from(C)] += noise_variance / omega
    L = cholesky(C, jitter=0.0).L
    white = solve_lower(L, rows.y.reshape(len(L), -1))
    each, left = (
        2.0 * np.log(np.diagonal(L)) + np.log(2.0 * np.pi),
        slice(n_given, None),
    )
    repeated = (omega - 1.0) * np.log(2.0 * np.pi * noise_variance) + np.log(omega)
    total = white.shape[1] * np.sum((each + repeated)[left]) + np.sum(white[left] ** 2)
    return L, white, -0.5 * float(total)


def wave_gains(rows: Rows, kernel: Any, noise_variance: float, omega: Array) -> Array:
    """Log evidence, in nats, that a wave of each frequency gains beside the process.

    Its two amplitudes are estimated by least squares under the covariance of the
    process: a periodogram of what the kernel does not expect in its one column. Where
    there is no wave these are standard exponential variables.
    """
    K = triangle_and_pullback(kernel, rows.X)[0]
    L, white, _ = _factorised(K, rows, noise_variance)
    phases = (rows.X - rows.X.mean()) * omega
    c, s = (solve_lower(L, wave) for wave in (np.cos(phases), np.sin(phases)))
    # ½ bᵀ G⁻¹ b with b = Fᵀ C⁻¹ y, G = Fᵀ C⁻¹ F and F the columns cos and sin
    yc, ys = white.T @ c, white.T @ s
    cc, ss, cs = np.sum(c * c, axis=0), np.sum(s * s, axis=0), np.sum(c * s, axis=0)
    gains: Array = 0.5 * (yc**2 * ss - 2.0 * yc * ys * cs + ys**2 * cc)
    # on a grid the sines of the shortest wave are zero
    gains /= np.maximum(cc * ss - cs**2, 1e-10 * cc * ss)
    return np.max(gains, axis=0)


def null_evidence(rows: Rows, likelihood: Likelihood) -> float:
    """Evidence, in nats, of latent functions that are zero, with the best noise."""
    if not likelihood.has_closed_form:
        flat = row_target(np.zeros((len(rows.y), 1)), rows, likelihood)
        start = np.zeros((1, likelihood.n_outputs_))
        return -float(laplace.find_mode(flat, start).energy)
    y, omega = rows.y.reshape(len(rows.X), -1), rows.precisions
    square = float(np.sum(omega @ y**2))
    n = float(omega.sum()) * y.shape[1]
    variance = float(with_noise(likelihood, square / n).variance(0.0))
    return -0.5 * float(n * np.log(2.0 * np.pi * variance) + square / variance)


def with_noise(likelihood: Gaussian, noise_variance: float) -> Gaussian:
    """The likelihood with this noise variance where it is free, within its bounds."""
    if not len(likelihood.theta):
        return likelihood
    low, high = np.exp(likelihood.theta_bounds[0])
    return likelihood.with_theta(np.log([np.clip(noise_variance, low, high)]))


def mean_square(rows: Rows) -> float:
    """Mean square of y, of several targets their mean: a noise that explains it all."""
    return float(np.mean(np.average(rows.y**2, axis=0, weights=rows.precisions)))


def within_variance(likelihood: Any, rows: Rows) -> Any:
    """Gaussian noise that is free, at most the mean square of y; others as they are.

    What few points leave out of the prior, bounds of the evidence count as noise. A
    single row, or a constant y, has no variance that could be exceeded.
    """
    if not likelihood.has_closed_form:
        return likelihood
    largest = mean_square(rows)
    if largest == 0.0:
        return likelihood
    noise = float(likelihood.variance(0.0))
    return with_noise(likelihood, min(noise, largest))


def normal_density(y: Array, mean: Array, variance: Array) -> Array:
    """Log density of each y, in nats."""
    square = (y - mean) ** 2 / variance
    density: Array = -0.5 * (square + np.log(2.0 * np.pi * variance))
    return density


# ---- Any likelihood, on inducing points ----------------------------------------------


class SparseEvidence:
    """Evidence of an inducing-point model as a function of its log-parameters.

    The collapsed bound for Gaussian noise, Laplace's approximation otherwise.

    Parameters
    ----------
    rows : Rows
    Z : ndarray of shape (m, d)
        Inducing inputs.
    kernel : sklearn.gaussian_process.kernels.Kernel
    likelihood : Likelihood
        Prepared.
    """

    def __init__(self, rows: Rows, Z: Array, kernel: Any, likelihood: Likelihood):
        self.rows, self.Z = rows, Z
        self.kernel, self.likelihood = kernel, likelihood
        self._p = len(kernel.theta)
        self._mode: Array | None = None

    @classmethod
    def selected(
        cls,
        rows: Rows,
        kernel: Any,
        likelihood: Likelihood,
        inducing: Any,
        n_inducing: int,
        rng: np.random.Generator,
    ) -> SparseEvidence:
        """With inducing inputs selected under the kernel."""
        how = rows.X, kernel, min(n_inducing, len(rows.y)), rng, rows.weights
        return cls(rows, select_inducing(inducing, *how), kernel, likelihood)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Evidence in nats, and its gradient in the log-parameters.

        O(n m^2 + m^3) with a few kernel matrices; no array of size n m p.
        """
        p = self._p
        likelihood = self.likelihood.with_theta(theta[p:])
        kernel = self.kernel.clone_with_theta(theta[:p])
        Kxz, pullback_cross = matrix_and_pullback(kernel, self.rows.X, self.Z)
        Kzz, pullback_inducing = matrix_and_pullback(kernel, self.Z)
        diagonal, pullback_diagonal = diagonal_and_pullback(kernel, self.rows.X)
        L = cholesky(Kzz).L
        features = np.ascontiguousarray(solve_lower(L, Kxz.T).T)
        outside = diagonal - np.einsum("ij,ij->i", features, features)
        evidence = self._evidence(features, np.maximum(outside, 0.0), likelihood)
        # var g = k(x, x) - |φ|² also moves with the features
        slope_residual = np.where(outside > 0.0, evidence.residual, 0.0)
        slope = evidence.features - 2.0 * slope_residual[:, np.newaxis] * features
        # Φ = K_xz L⁻ᵀ enters through ΦΦᵀ only: with G the derivative in Φ,
        # K̄_xz = G L⁻¹ and K̄_zz = -½ L⁻ᵀ (ΦᵀG) L⁻¹
        cross = solve_lower_transpose(L, slope.T).T
        inner = solve_lower_transpose(L, solve_lower_transpose(L, features.T @ slope).T)
        gradient = pullback_cross(cross) + pullback_diagonal(slope_residual)
        gradient -= pullback_inducing(0.25 * (inner + inner.T))
        return evidence.value, np.append(gradient, evidence.parameters)

    def _evidence(
        self,
        features: Array,
        residual: Array,
        likelihood: Likelihood,
    ) -> EvidenceGradient:
        if likelihood.has_closed_form:
            noise_variance = float(likelihood.variance(0.0))
            sums = self.rows.y, self.rows.precisions, residual, noise_variance
            evidence = log_evidence_gradient(features, *sums)
            free = evidence.parameters[: len(likelihood.theta)]
            return evidence._replace(parameters=free)
        target = smoothed(row_target(features, self.rows, likelihood))
        start = rough_start(target) if self._mode is None else self._mode
        rows = self.rows
        factor = likelihood.row_form(rows.y, rows.weights, rows.known).factor
        if factor is not None:
            residual = factor**2 * residual
        evidence, mode = laplace_evidence_gradient(target, residual, start)
        if factor is not None:
            # it is that of factor Φ and factor² var g
            evidence = evidence._replace(
                features=factor[:, np.newaxis] * evidence.features,
                residual=factor**2 * evidence.residual,
            )
        if np.all(np.isfinite(mode)):
            self._mode = mode
        return evidence


def sparse_value(
    rows: Rows,
    Z: Array,
    kernel: Any,
    likelihood: Likelihood,
    start: Array | None = None,
) -> float:
    """:class:`SparseEvidence` without its gradient, for other than Gaussian noise.

    The search for the mode begins at weights (m, c), by default near rough values.
    """
    basis = Nystroem.from_kernel(kernel, Z)
    features = basis(rows.X)
    residual = basis.residual_variance(rows.X, features)
    factor = likelihood.row_form(rows.y, rows.weights, rows.known).factor
    if factor is not None:
        residual = factor**2 * residual
    target = smoothed(row_target(features, rows, likelihood))
    start = rough_start(target) if start is None else start
    return laplace.laplace_evidence(target, residual, start)[0]


# ---- Targets in the weights of a basis -----------------------------------------------


def row_target(features: Array, rows: Rows, likelihood: Likelihood) -> langevin.Target:
    """Target in the coordinates of the weights themselves (centre 0, root I).

    The latent functions have the mean `base_latent_` of the likelihood. Rows of which
    more is known are written in terms of one likelihood, see `RowForm`.
    """
    c, m = likelihood.n_outputs_, features.shape[1]
    form = likelihood.row_form(rows.y, rows.weights, rows.known)
    code = likelihood.kernel_code
    offset = likelihood.base_latent_[np.newaxis]
    if form.factor is not None:
        factor = form.factor[:, np.newaxis]
        features, offset = factor * features, factor * offset
    return langevin.Target(
        form.likelihood,
        langevin.NUMPY if code is None else code,
        np.asarray(likelihood.kernel_parameters(), dtype=np.float64),
        np.ascontiguousarray(features),
        np.ascontiguousarray(form.y),
        np.ascontiguousarray(form.weights),
        np.zeros((len(rows.y), c)),
        np.zeros((1, c)),
        np.ones(1),
        np.zeros((1, m * c)),
        np.eye(m * c)[np.newaxis],
        c,
        offset,
    )


def rough_start(target: langevin.Target) -> Array:
    """Weights (m, c) whose functions are near the rough latent values of the rows."""
    rough = rough_latent_values(target)
    return laplace.projection_start(target.features, rough, target.weights)


def rough_latent_values(target: langevin.Target) -> Array:
    """Rough latent values of the rows, less their offset, (n, c)."""
    likelihood = target.likelihood
    if isinstance(likelihood, SmoothedLikelihood):
        likelihood = likelihood.likelihood
    rough = np.asarray(likelihood.initial_latent(target.y), dtype=np.float64)
    less: Array = rough.reshape(len(target.y), -1) - target.offset
    return less


# ---- Any likelihood as normal noise --------------------------------------------------


# Least information of a row under a likelihood that is not log-concave, as a share of
# the mean of all rows.
_LEAST_INFORMATION = 1e-2


class WorkingResponses(NamedTuple):
    """Normal observations to which a likelihood is equal, to second order around f.

    ::

        Σ ω log p(y | f) = constant + Σ log N(z | f, noise) + O((f - f̂)³)
        z = f̂ - g / c,   noise = 1 / (ω c)

    with the gradient g and the curvature c of the negative log-likelihood. The mean of
    f given z is the next step of Newton's method, and at its fixed point the process
    given z is Laplace's approximation.

    With ``g`` and ``c`` averaged over ``N(f̂, variance)`` the process given z is, where
    f̂ and `variance` are its own moments, the normal distribution that is closest to
    the posterior, in Kullback-Leibler divergence from it [1]_.

    Attributes
    ----------
    latent, variance : ndarray of shape (n,)
        ``f̂``, less the base of the latent function, and its variances; the latter are
        zero in Laplace's approximation.
    slope : ndarray of shape (n,)
        ``ω g``.
    noise : ndarray of shape (n,)
        Variances around z.
    energy : float
        ``-Σ ω log p(y | f̂)``, averaged where there are variances.

    References
    ----------
    .. [1] Opper and Archambeau, "The variational Gaussian approximation revisited",
       Neural Computation 2009.
    """

    latent: Array
    variance: Array
    slope: Array
    noise: Array
    energy: float

    @property
    def y(self) -> Array:
        """``z``, less the base of the latent function, (n,)."""
        return self.latent - self.noise * self.slope

    @property
    def constant(self) -> float:
        """What the log density of z lacks to the log evidence, in nats.

        With variances, to its lower bound ``E log p(y | f) - KL``: at the fixed point
        the divergence from the prior is that of the mode with the same noise less
        ``½ Σ variance / noise``.
        """
        gained = self.noise * self.slope**2 + np.log(2.0 * np.pi * self.noise)
        gained += self.variance / self.noise
        return 0.5 * float(np.sum(gained)) - self.energy

    @classmethod
    def of(
        cls,
        rows: Rows,
        likelihood: Likelihood,
        latent: Array,
        variance: Array | None = None,
    ) -> WorkingResponses:
        """Of rows at latent values (n,), those of one function less its base."""
        target = smoothed(row_target(np.ones((len(rows.y), 1)), rows, likelihood))
        factor, omega = target.features[:, 0], target.weights
        f = target.offset[:, 0] + factor * latent
        if variance is None:
            variance = np.zeros(len(latent))
            at = f[:, np.newaxis, np.newaxis]
            nll = target.likelihood.row_nll(target.y, at)[:, 0]
            slope = target.likelihood.row_gradient(target.y, at)[:, 0, 0]
            bent = target.likelihood.row_curvature(target.y, at)[:, 0, 0, 0]
        else:
            nodes, masses = expectation_nodes(1)
            std = (factor * np.sqrt(variance))[:, np.newaxis]
            spread = target._replace(std=std, nodes=nodes, node_weights=masses)
            nll, slope, bent = laplace.row_averages(spread, f)
        bent = factor**2 * bent
        # a row without curvature says little; not next to nothing, as it may have some
        # where its mean goes
        information = float(np.average(np.maximum(bent, 0.0), weights=omega))
        bent = np.maximum(bent, _LEAST_INFORMATION * information)
        energy = float(omega @ nll)
        return cls(
            latent,
            variance,
            omega * factor * slope,
            1.0 / (omega * bent),
            energy,
        )
