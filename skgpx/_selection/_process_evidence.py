"""Evidence of a Gaussian process at all rows, for any likelihood: of few rows.

Exact for Gaussian noise; otherwise Laplace's approximation, without inducing points, in
the values of the latent function.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._numerics import pointwise
from skgpx._numerics.langevin import Target
from skgpx._numerics.laplace import (
    laplace_evidence_gradient,
    parameter_slopes,
)
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._numerics.smoothing import smoothed
from skgpx._numerics.softmax_evidence import ClassRows, softmax_evidence
from skgpx._selection._evidence import (
    ExactEvidence,
    rough_latent_values,
    rough_start,
    row_target,
)
from skgpx._validation import Rows
from skgpx.kernels import matrix_and_pullback, with_theta
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Half the squared decrement before the last step to the mode, in nats, and steps.
_TOLERANCE = 1e-5
_MAX_STEPS = 100
# Shortest part of a Newton step.
_MIN_LENGTH = 1e-9
# Noise around rough latent values, in their mean squares.
_ROUGH_NOISE = 0.1


def process_evidence(
    rows: Rows,
    kernel: Kernel,
    likelihood: Likelihood,
) -> ExactEvidence | LaplaceEvidence:
    """The evidence of kernel and likelihood: exact, or Laplace's approximation."""
    if likelihood.has_closed_form:
        return ExactEvidence(rows, kernel, likelihood)
    return LaplaceEvidence(rows, kernel, likelihood)


def is_softmax(likelihood: Likelihood) -> bool:
    """Whether classes have softmax probabilities."""
    return likelihood.kernel_code == pointwise.CATEGORICAL


class LaplaceEvidence:
    """Laplace's evidence of a process in its log-parameters.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel
    likelihood : Likelihood
        Prepared.
    """

    def __init__(self, rows: Rows, kernel: Kernel, likelihood: Likelihood):
        self.rows = rows
        self.kernel = kernel
        self.likelihood = likelihood
        self._n_kernel_parameters = len(kernel.theta)
        # α of the last mode, where the next search for one starts
        self._start: Array | None = None

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Evidence in nats, and its gradient in the log-parameters.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a covariance is not positive definite.
        """
        value, gradient, self._start = self._evaluate(theta, self._start)
        return value, gradient

    def values_and_gradients(self, thetas: Array) -> tuple[Array, Array]:
        """Evidence (s,) at points (s, p), and gradients (s, p); NaN where it fails."""
        values = np.full(len(thetas), np.nan)
        gradients = np.full(thetas.shape, np.nan)
        start = None
        for i, theta in enumerate(thetas):
            with suppress(np.linalg.LinAlgError):
                values[i], gradients[i], start = self._evaluate(theta, start)
        return values, gradients

    def _at(self, theta: Array) -> tuple[Kernel, Likelihood]:
        p = self._n_kernel_parameters
        kernel = with_theta(self.kernel, theta[:p])
        return kernel, self.likelihood.with_theta(theta[p:])

    def _evaluate(
        self,
        theta: Array,
        start: Array | None,
    ) -> tuple[float, Array, Array | None]:
        """Evidence, its gradient, and the mode of a function or of softmax classes."""
        kernel, likelihood = self._at(theta)
        K, pullback = matrix_and_pullback(kernel, self.rows.X)
        if is_softmax(likelihood):
            value, slope, start = softmax_evidence(self._class_rows(), K, start)
            scale_slopes = np.zeros(0)
        elif likelihood.n_outputs_ > 1:
            value, slope, scale_slopes = self._of_weights(K, likelihood)
        else:
            target, factor = self._row_target(likelihood)
            K = _scaled(K, factor)
            mode = find_mode(target, K, start)
            value = mode.evidence
            slope, scale_slopes = _slopes(target, K, mode)
            slope = _scaled(slope, factor)
            start = mode.alpha
        return value, np.append(pullback(slope), scale_slopes), start

    # ---- One latent function: its values at the rows ---------------------------------

    def _row_target(self, likelihood: Likelihood) -> tuple[Target, Array | None]:
        """Likelihood of the rows, and by what their latent values are multiplied."""
        without_features = np.empty((len(self.rows.y), 0))
        target = smoothed(row_target(without_features, self.rows, likelihood))
        form = likelihood.row_form(self.rows.y, self.rows.weights, self.rows.known)
        return target, form.factor

    # ---- Classes with softmax probabilities: values at the rows ----------------------

    def _class_rows(self) -> ClassRows:
        """Rows with their classes."""
        numbers = np.arange(self.likelihood.n_outputs_)
        is_class = self.rows.y == numbers[:, np.newaxis]
        return ClassRows(
            is_class.astype(np.float64),
            self.rows.weights,
            self.likelihood.base_latent_,
        )

    # ---- Other likelihoods of several: the weights of a root of K --------------------

    def _weight_target(self, K: Array, likelihood: Likelihood) -> tuple[Target, Array]:
        """Target of w with ``f = L w``, and L of ``K = L Lᵀ``."""
        L = cholesky(K).L
        return row_target(L, self.rows, likelihood), L

    def _of_weights(
        self,
        K: Array,
        likelihood: Likelihood,
    ) -> tuple[float, Array, Array]:
        """Evidence, and derivatives in K and in the scales of the likelihood."""
        target, L = self._weight_target(K, likelihood)
        evidence, _ = laplace_evidence_gradient(
            target,
            residual=np.zeros(len(L)),
            start=rough_start(target),
        )
        # L enters through L Lᵀ: with G the derivative in L, K̄ = ½ G L⁻¹
        slope = 0.5 * solve_lower_transpose(L, evidence.features.T).T
        return evidence.value, 0.5 * (slope + slope.T), evidence.parameters


def _scaled(K: Array, factor: Array | None) -> Array:
    """Covariance of ``factor f``."""
    if factor is None:
        return K
    scaled: Array = factor[:, np.newaxis] * K * factor
    return scaled


# ---- The mode of one latent function -------------------------------------------------


class ProcessMode(NamedTuple):
    """Laplace's approximation of the values f at the rows.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
        ``f = offset + K alpha``.
    f : ndarray of shape (n,)
    root_precision : ndarray of shape (n,)
        ``W^½``, of curvatures times weights.
    L : ndarray of shape (n, n)
        Lower root of ``B = I + W^½ K W^½``.
    evidence : float
        ``-Σ ω nll - ½ αᵀ K α - ½ log det B``.
    """

    alpha: Array
    f: Array
    root_precision: Array
    L: Array
    evidence: float


def find_mode(target: Target, K: Array, start: Array | None = None) -> ProcessMode:
    """Newton's method in the values of the function [1]_.

    Parameters
    ----------
    target : Target
        Its features are not read.
    K : ndarray of shape (n, n)
    start : ndarray of shape (n,), optional
        α where the search starts, if that is better than near rough latent values.

    Notes
    -----
    O(n³ / 3) a step.

    References
    ----------
    .. [1] Rasmussen and Williams, "Gaussian processes for machine learning", algorithm
       3.1.
    """
    offset = np.broadcast_to(target.offset[:, 0], target.y.shape)
    alpha = _rough_alpha(target, K)
    K_alpha = K @ alpha
    energy = _energy(target, offset, alpha, K_alpha)
    if start is not None:
        K_start = K @ start
        start_energy = _energy(target, offset, start, K_start)
        if start_energy < energy:
            alpha = start
            K_alpha = K_start
            energy = start_energy
    for _ in range(_MAX_STEPS):
        f = offset + K_alpha
        gradient = target.weights * _row_gradient(target, f)
        W = target.weights * np.abs(_row_second(target, f))
        root_W = np.sqrt(W)
        L = _root(K, root_W)
        # α' = b - W^½ B⁻¹ W^½ K b,  b = W (f - offset) - ∇
        b = W * K_alpha - gradient
        half = solve_lower(L, root_W * (K @ b))
        direction = b - root_W * solve_lower_transpose(L, half) - alpha
        K_direction = K @ direction
        decrement = -float(K_direction @ (gradient + alpha))
        length = 1.0
        while length > _MIN_LENGTH:
            new_alpha = alpha + length * direction
            new_K_alpha = K_alpha + length * K_direction
            new_energy = _energy(target, offset, new_alpha, new_K_alpha)
            if new_energy <= energy - 1e-4 * length * decrement:
                break
            length *= 0.5
        else:
            # rounding hides any further decrease
            break
        alpha = new_alpha
        K_alpha = new_K_alpha
        energy = new_energy
        if decrement < 2.0 * _TOLERANCE:
            break
    f = offset + K_alpha
    root_W = np.sqrt(target.weights * _row_curvature(target, f))
    L = _root(K, root_W)
    log_volume = float(np.sum(np.log(np.diagonal(L))))
    return ProcessMode(alpha, f, root_W, L, evidence=-energy - log_volume)


def _rough_alpha(target: Target, K: Array) -> Array:
    """Ridge regression on rough latent values."""
    rough = rough_latent_values(target)[:, 0]
    noise = _ROUGH_NOISE * float(np.average(rough**2, weights=target.weights))
    if noise <= 0.0:
        return np.zeros(len(K))
    root_precision = np.sqrt(target.weights / noise)
    L = _root(K, root_precision)
    half = solve_lower(L, root_precision * rough)
    alpha: Array = root_precision * solve_lower_transpose(L, half)
    return alpha


def _root(K: Array, root_W: Array) -> Array:
    """Lower root of ``B = I + W^½ K W^½``."""
    B = root_W[:, np.newaxis] * K * root_W
    B[np.diag_indices_from(B)] += 1.0
    return cholesky(B, jitter=0.0).L


def _energy(target: Target, offset: Array, alpha: Array, K_alpha: Array) -> float:
    """``Σ ω nll(y, offset + K α) + ½ αᵀ K α``."""
    f = offset + K_alpha
    nll = target.likelihood.row_nll(target.y, f[:, np.newaxis, np.newaxis])[:, 0]
    return float(target.weights @ nll) + 0.5 * float(alpha @ K_alpha)


def _row_gradient(target: Target, f: Array) -> Array:
    gradient = target.likelihood.row_gradient(target.y, f[:, np.newaxis, np.newaxis])
    return np.asarray(gradient[:, 0, 0])


def _row_curvature(target: Target, f: Array) -> Array:
    curvature = target.likelihood.row_curvature(target.y, f[:, np.newaxis, np.newaxis])
    return np.asarray(curvature[:, 0, 0, 0])


def _row_second(target: Target, f: Array) -> Array:
    """Second derivatives, as differences of the gradient."""
    h = 1e-5 * (1.0 + np.abs(f))
    rise = _row_gradient(target, f + h) - _row_gradient(target, f - h)
    return rise / (2.0 * h)


def _slopes(target: Target, K: Array, mode: ProcessMode) -> tuple[Array, Array]:
    """Derivatives of the evidence in K and in the scales, also through the mode.

    ``½ α αᵀ - ½ R + ½ (v αᵀ + α vᵀ)`` with ``R = (W⁻¹ + K)⁻¹``,
    ``v = (I + W K)⁻¹ s`` and ``s = ∂(-½ log det B) / ∂f = -½ diag(S) ∂W / ∂f`` with the
    posterior covariance S. In v the W are true second derivatives.
    """
    omega = target.weights
    f = mode.f
    # R = W^½ B⁻¹ W^½,  diag(S) = diag(K - K R K)
    inverse = solve_lower(mode.L, np.diag(mode.root_precision))
    R = inverse.T @ inverse
    variance = np.diagonal(K) - np.sum((inverse @ K) ** 2, axis=0)
    h = 1e-5 * (1.0 + np.abs(f))
    rise = _row_curvature(target, f + h) - _row_curvature(target, f - h)
    s = -0.5 * variance * omega * rise / (2.0 * h)
    W = mode.root_precision**2
    true_W = omega * _row_second(target, f)
    if np.max(np.abs(true_W - W)) > 1e-4 * np.max(W):
        A = true_W[:, np.newaxis] * K
        A[np.diag_indices_from(A)] += 1.0
        v = np.linalg.solve(A, s)
    else:
        v = s - R @ (K @ s)
    outer = np.outer(v, mode.alpha)
    slope = 0.5 * (np.outer(mode.alpha, mode.alpha) - R + outer + outer.T)
    scale_slopes = parameter_slopes(
        target,
        f[:, np.newaxis],
        variance[:, np.newaxis, np.newaxis],
        (K @ v)[:, np.newaxis],
    )
    return slope, scale_slopes
