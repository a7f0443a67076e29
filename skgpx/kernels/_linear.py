"""DotProduct: ``k = x·y + σ₀²``."""

from __future__ import annotations

from sklearn.gaussian_process.kernels import DotProduct

from skgpx.kernels._constants import summing_pullback
from skgpx.kernels._records import Array, Pullback, fill_record


def matrix_and_pullback(
    kernel: DotProduct, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    """Kernel matrix, and its derivative in σ₀."""
    K = X @ (X if Y is None else Y).T + kernel.sigma_0**2
    return K, _offset_pullback(kernel)


def diagonal_and_pullback(kernel: DotProduct, X: Array) -> tuple[Array, Pullback]:
    """Diagonal, and its derivative in σ₀."""
    return kernel.diag(X), _offset_pullback(kernel)


def _offset_pullback(kernel: DotProduct) -> Pullback:
    """``dσ₀²/dlog σ₀ = 2σ₀²`` at every entry."""
    free = not kernel.hyperparameter_sigma_0.fixed
    return summing_pullback(2.0 * float(kernel.sigma_0) ** 2, free)


def input_gradient(kernel: DotProduct, X: Array, Z: Array) -> tuple[Array, Pullback]:
    """Kernel matrix, and its derivatives in X."""
    return X @ Z.T + kernel.sigma_0**2, lambda G: G @ Z


fill_record(
    DotProduct,
    pullback=matrix_and_pullback,
    diagonal_pullback=diagonal_and_pullback,
    input_gradient=input_gradient,
)
