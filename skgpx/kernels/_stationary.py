"""RBF, Matern and RationalQuadratic: functions of the distance in lengthscales.

With ``r² = |(x - y) / ℓ|²`` every one is ``k = φ(r²)``, has the slopes
``∂k/∂log ℓ_i = w (x_i - y_i)² / ℓ_i²`` and ``∇ₓk = -w (x - y) / ℓ²``,
``w = -(dk/dr) / r``, and frequencies of density ``p(ω) = Π ℓ h(|ℓω|²)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import gamma, gammaln, kv, kve
from sklearn.gaussian_process.kernels import (
    RBF,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)

from skgpx._numerics import radial
from skgpx.kernels._records import Pullback, fill_record, no_sampler
from skgpx.kernels._spectral_distributions import (
    EllipticalDistribution,
    GammaMixtureRadius,
    GaussianRadius,
    PeriodicDistribution,
    SpectralDistribution,
    StudentRadius,
)

Array = NDArray[np.float64]

# From this many columns on the matrix product is faster than the direct sum, and with
# |x|² + |y|² below this its error in exp(-distance / 2) stays below 1e-11.
_GEMM_COLUMNS, _GEMM_LIMIT = 6, 1e4
# Order of a Bessel function from which SciPy's may overflow far from zero.
_LARGE_ORDER = 50.0


# ---- Distances -----------------------------------------------------------------------


def scaled_points(X: Array, Y: Array | None, length_scale: Any) -> tuple[Array, Array]:
    """Both sets of points divided by the lengthscales, centred at the mean of Y."""
    length_scale = np.asarray(length_scale, dtype=np.float64)
    right = X if Y is None else Y
    centre = right.mean(axis=0)
    left = (X - centre) / length_scale
    return left, left if Y is None else (right - centre) / length_scale


def squared_distances(X: Array, Y: Array) -> Array:
    """Squared Euclidean distances of centred rows, shape (n, m).

    By ``|x|² + |y|² - 2 x·y`` where that is faster and its cancellation harmless.
    """
    x2, y2 = np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", Y, Y)
    far = x2.max(initial=0.0) + y2.max(initial=0.0)
    if X.shape[1] < _GEMM_COLUMNS or not far < _GEMM_LIMIT:
        return cdist(X, Y, metric="sqeuclidean")
    # [x, |x|², 1] · [-2 y, 1, |y|²] = |x - y|²
    left = np.column_stack((X, x2, np.ones_like(x2)))
    right = np.column_stack((-2.0 * Y, np.ones_like(y2), y2))
    distances: Array = left @ right.T
    np.maximum(distances, 0.0, out=distances)
    if X is Y:
        np.fill_diagonal(distances, 0.0)
    return distances


def _squared_difference_sums(P: Array, X: Array, Y: Array) -> Array:
    """``Σ_ij P_ij (x_iq - y_jq)²`` of centred rows for every column q, shape (d,)."""
    d = X.shape[1]
    # P [y, 1] holds P y and the row sums of P
    products = P @ np.column_stack((Y, np.ones(Y.shape[0])))
    column_sums = np.ones(P.shape[0]) @ P
    # (P 1)ᵀ x² + (Pᵀ 1)ᵀ y² - 2 Σ x ∘ (P y)
    cross = np.einsum("ij,ij->j", X, products[:, :d])
    return products[:, d] @ (X * X) + column_sums @ (Y * Y) - 2.0 * cross


def _by_length_scale(kernel: Any, by_input: Array) -> Array:
    """Slopes in the free log-lengthscales, from those of each input (..., d)."""
    if kernel.hyperparameter_length_scale.fixed:
        return by_input[..., :0]
    if np.size(kernel.length_scale) == 1:
        return by_input.sum(axis=-1, keepdims=True)
    return by_input


# ---- Kernel matrices and their slopes ------------------------------------------------


def _order(kernel: Any) -> float:
    """Order ν of a Matern kernel; infinite for an RBF."""
    return float(getattr(kernel, "nu", np.inf))


def _profile(kernel: Any, left: Array, right: Array) -> tuple[Array, Array]:
    """Values k and ``w = -(dk/dr) / r`` between scaled points."""
    if type(kernel) is RationalQuadratic:
        base = 1.0 + squared_distances(left, right) / (2.0 * kernel.alpha)
        K: Array = base**-kernel.alpha
        return K, K / base
    if _order(kernel) == np.inf:
        K = squared_distances(left, right)
        K *= -0.5
        np.exp(K, out=K)
        return K, K
    # direct sums of squares: the root would amplify cancellation errors near zero
    return _matern(_order(kernel), cdist(left, right))


def _matern(nu: float, r: Array) -> tuple[Array, Array]:
    """Matérn function of the scaled distance, and ``-(dk/dr) / r``."""
    if nu == 0.5:
        K = np.exp(-r)
        # the value of w at the kink is irrelevant: it multiplies r² = 0
        return K, np.divide(K, r, out=np.zeros_like(r), where=r > 1e-8)
    t = np.maximum(np.sqrt(2.0 * nu) * r, np.finfo(float).eps)
    if nu == 1.5:
        decay = np.exp(-t)
        return (1.0 + t) * decay, 3.0 * decay
    if nu == 2.5:
        decay = np.exp(-t)
        return (1.0 + t + t * t / 3.0) * decay, 5.0 / 3.0 * (1.0 + t) * decay
    # k = c tᵛ Kᵥ(t), dk/dt = -c tᵛ Kᵥ₋₁(t), t = √(2ν) r
    c = 2.0 ** (1.0 - nu) / gamma(nu)
    w = 2.0 * nu * c * t ** (nu - 1.0) * kv(nu - 1.0, t)
    w[r <= 1e-8] = 0.0
    return c * t**nu * kv(nu, t), w


def _matrix(kernel: Any, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    """Kernel matrix, and the pullback to theta."""
    left, right = scaled_points(X, Y, kernel.length_scale)
    K, W = _profile(kernel, left, right)

    def pullback(G: Array) -> Array:
        if kernel.hyperparameter_length_scale.fixed:
            return np.empty(0)
        sums = _squared_difference_sums(G * W, left, right)
        return _by_length_scale(kernel, sums)

    if type(kernel) is not RationalQuadratic or kernel.hyperparameter_alpha.fixed:
        return K, pullback

    def with_alpha(G: Array) -> Array:
        # k = b^-α, b = K / W:  ∂k/∂log α = α k ((b - 1) / b - log b)
        base, alpha = K / W, kernel.alpha
        slope = alpha * np.vdot(G * K, (base - 1.0) / base - np.log(base))
        return np.concatenate(([slope], pullback(G)))

    return K, with_alpha


def _unit_diagonal(kernel: Any, X: Array) -> tuple[Array, Pullback]:
    return np.ones(X.shape[0]), lambda _: np.zeros(kernel.n_dims)


def _inputs(kernel: Any, X: Array, Z: Array) -> tuple[Array, Pullback]:
    """Kernel matrix, and the pullback to X."""
    # centred, so that inputs far from zero lose no digits
    left, right = scaled_points(X, Z, kernel.length_scale)
    K, W = _profile(kernel, left, right)
    return K, lambda G: _moved(G * W, left, right) / kernel.length_scale


def _moved(P: Array, X: Array, Z: Array) -> Array:
    """``-Σ_j P_ij (x_i - z_j)``, shape (n, d)."""
    moved: Array = P @ Z - P.sum(axis=1, keepdims=True) * X
    return moved


# ---- Spectral densities --------------------------------------------------------------


def _spectral_distribution(kernel: Any, d: int) -> SpectralDistribution:
    """Normal, Student's t, and normal of random variance."""
    radius: Any = GaussianRadius()
    if type(kernel) is RationalQuadratic:
        radius = GammaMixtureRadius(float(kernel.alpha))
    elif _order(kernel) != np.inf:
        radius = StudentRadius(_order(kernel))
    return EllipticalDistribution(radius, np.asarray(kernel.length_scale), d)


def _log_radial_density(kernel: Any, square: Array, d: int) -> tuple[Array, Array]:
    """``log h(s)`` at ``s = |ℓω|²``, and its slope in s."""
    half, nu = 0.5 * d, _order(kernel)
    if type(kernel) is RationalQuadratic:
        return _rational_density(float(kernel.alpha), square, half)
    if nu == np.inf:
        logs = -half * np.log(2.0 * np.pi) - 0.5 * square
        return logs, np.full(square.shape, -0.5)
    front = gammaln(nu + half) - gammaln(nu) - half * np.log(2.0 * np.pi * nu)
    logs = front - (nu + half) * np.log1p(square / (2.0 * nu))
    return logs, -(nu + half) / (2.0 * nu + square)


def _rational_density(alpha: float, square: Array, half: float) -> tuple[Array, Array]:
    """``2 (2π)^(-d/2) αᵅ / Γ(α) (t / 2α)ᵛ K_v(t)``, ``v = α - d/2``, ``t = √(2αs)``.

    Infinite at zero for ``α <= d/2``; the slope is ``-α K_(v-1)(t) / (t K_v(t))``.
    """
    v, t = alpha - half, np.sqrt(2.0 * alpha * square)
    front = np.log(2.0) - half * np.log(2.0 * np.pi)
    front += alpha * np.log(alpha) - gammaln(alpha) - v * np.log(2.0 * alpha)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = _log_power_bessel(v, t)
        # (tᵛ K_v)' = -tᵛ K_(v-1)
        slopes = -alpha * np.exp(_log_power_bessel(v - 1.0, t) - logs)
    return front + logs, np.where(t > 0.0, slopes, 0.0)


def _log_power_bessel(v: float, t: Array) -> Array:
    """``log(tᵛ K_v(t))``; by its limit near zero where K_v overflows.

    For large orders by Debye's expansion in ``p = |v| / √(v² + t²)``, to 1e-7.
    """
    order = abs(v)
    if order >= _LARGE_ORDER:
        root = np.hypot(order, t)
        p = order / root
        u1 = (3.0 * p - 5.0 * p**3) / 24.0
        u2 = (81.0 * p**2 - 462.0 * p**4 + 385.0 * p**6) / 1152.0
        logs = 0.5 * np.log(0.5 * np.pi / root) - root + order * np.log(order + root)
        logs += np.log1p((u2 / order - u1) / order)
        return logs if v > 0.0 else logs - 2.0 * order * np.log(t)
    logs = v * np.log(t) + np.log(kve(v, t)) - t
    limit = gammaln(v) + (v - 1.0) * np.log(2.0) if v > 0.0 else np.inf
    return np.where(np.isfinite(logs), logs, limit)


def _scaled(kernel: Any, omega: Array) -> tuple[Array, Array, Array]:
    """``ℓω`` (R, d), its square norms (R,), and ℓ (d,)."""
    scales = np.broadcast_to(np.asarray(kernel.length_scale, float), omega.shape[1])
    scaled = omega * scales
    return scaled, np.einsum("rd,rd->r", scaled, scaled), scales


def _log_spectral_density(kernel: Any, omega: Array) -> Array:
    _, square, scales = _scaled(kernel, omega)
    logs = _log_radial_density(kernel, square, len(scales))[0]
    density: Array = np.sum(np.log(scales)) + logs
    return density


def _spectral_density(kernel: Any, omega: Array) -> tuple[Array, Array]:
    """``S(ω) = (2π)^d`` times the density, and its slopes in the lengthscales."""
    scaled, square, scales = _scaled(kernel, omega)
    logs, slope = _log_radial_density(kernel, square, len(scales))
    values = np.exp(logs) * np.prod(2.0 * np.pi * scales)
    by_input = 1.0 + 2.0 * slope[:, np.newaxis] * scaled**2
    return values, _by_length_scale(kernel, values[:, np.newaxis] * by_input)


def _spectral_score(kernel: Any, omega: Array) -> Array:
    scaled, square, scales = _scaled(kernel, omega)
    slope = _log_radial_density(kernel, square, len(scales))[1]
    score: Array = 2.0 * slope[:, np.newaxis] * scales * scaled
    return score


# ---- The records ---------------------------------------------------------------------


_RADIAL_CODES = {
    0.5: radial.MATERN_12,
    1.5: radial.MATERN_32,
    2.5: radial.MATERN_52,
    np.inf: radial.RBF,
}


def _radial_code(kernel: Any) -> int | None:
    return _RADIAL_CODES.get(_order(kernel))


for _type in (RBF, Matern, RationalQuadratic):
    fill_record(
        _type,
        pullback=_matrix,
        diagonal_pullback=_unit_diagonal,
        input_gradient=_inputs,
        spectral_distribution=_spectral_distribution,
    )
for _type in (RBF, Matern):
    fill_record(_type, spectral_density=_spectral_density, radial_code=_radial_code)
for _type in (RBF, Matern, RationalQuadratic):
    fill_record(
        _type,
        log_spectral_density=_log_spectral_density,
        spectral_score=_spectral_score,
    )


# ---- ExpSineSquared: exp(-2 sin²(π|x - y|/p) / ℓ²), a cosine series ------------------


def _periodic_distribution(kernel: ExpSineSquared, d: int) -> SpectralDistribution:
    """Multiples of one frequency, in one input column."""
    if d != 1:
        raise no_sampler(kernel, kernel, f" in {d} input columns (only in one)")
    return PeriodicDistribution(kernel.length_scale, kernel.periodicity)


def _periodic_inputs(
    kernel: ExpSineSquared, X: Array, Z: Array
) -> tuple[Array, Pullback]:
    r = cdist(X, Z)
    angle = np.pi * r / kernel.periodicity
    K = np.exp(-2.0 * (np.sin(angle) / kernel.length_scale) ** 2)
    # dk/dr = -k (2 π / p l²) sin(2 angle)
    slope = 2.0 * np.pi / (kernel.periodicity * kernel.length_scale**2)
    ratio = np.divide(np.sin(2.0 * angle), r, out=np.zeros_like(r), where=r > 0.0)
    W, centre = slope * K * ratio, Z.mean(axis=0)
    return K, lambda G: _moved(G * W, X - centre, Z - centre)


fill_record(
    ExpSineSquared,
    input_gradient=_periodic_inputs,
    spectral_distribution=_periodic_distribution,
)
