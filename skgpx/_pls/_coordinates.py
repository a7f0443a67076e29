"""Where chains start, and the coordinates and steps in which they move."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Scheme, Target
from skgpx._numerics.linalg import solve_lower
from skgpx._pls._chains import ADJUSTED, CORRELATED, adapt
from skgpx.bases import Nystroem
from skgpx.kernels import GREKernel

Array = NDArray[np.float64]

TIERS = {"ou_mala": CORRELATED, "mala": ADJUSTED}
# Step of the unadjusted scheme times the largest eigenvalue of the Hessian (stable: 2).
_ULA_STEP = 0.2
# Eigenvalues of k(Z, Z) below this fraction of the largest are rounding errors.
_SMALLEST_EIGENVALUE = 1e-10


def nystroem_root(basis: Nystroem) -> Array:
    """Root of the paper's coordinates u, in which its scheme (236) is Euler-Maruyama.

    With ``k(Z, Z) / M = V Λ Vᵀ`` for the kernel k inside the GRE kernel,
    ``u_m = <f, e_m> = (M λ_m)^(-1/2) v_mᵀ f(Z)``, and ``f(Z) = L w``: hence
    ``w = L⁻¹ V (M Λ)^(1/2) u``. Shape (m, m).
    """
    kernel, Z = basis.kernel, basis.inducing_points
    k = kernel.kernel if isinstance(kernel, GREKernel) else kernel
    eigenvalues, V = np.linalg.eigh(k(Z))
    eigenvalues = np.maximum(eigenvalues, _SMALLEST_EIGENVALUE * eigenvalues[-1])
    return solve_lower(basis.root, V * np.sqrt(eigenvalues))


def coordinates(
    method: str, mode: laplace.Mode, basis: Nystroem
) -> tuple[Array, Array]:
    """Centre (g, p) and root (g, p, p) of the coordinates in which chains move."""
    groups, width = mode.root.shape[:2]
    if method != "ula":
        return mode.weights.T.reshape(groups, width), mode.root
    c = mode.weights.shape[1]
    one = nystroem_root(basis)
    coupled = groups == 1
    root = np.kron(np.eye(c), one)[np.newaxis] if coupled else np.stack([one] * c)
    return np.zeros((groups, width)), np.asarray(root, dtype=np.float64)


def start(
    target: Target,
    mode: laplace.Mode,
    n_particles: int,
    previous: Array | None,
    rng: np.random.Generator,
) -> Array:
    """Coordinates (g, p, s) of draws from the Laplace law, or of earlier particles."""
    groups, width = target.centre.shape
    noise = rng.standard_normal((groups, width, n_particles))
    if previous is not None:
        w = previous.transpose(1, 0, 2).reshape(groups, width, -1)
    elif target.root is mode.root:
        return noise
    else:
        w = mode.weights.T.reshape(groups, width, 1) + mode.root @ noise
    shifted = w - target.centre[:, :, np.newaxis]
    return np.asarray(np.linalg.solve(target.root, shifted), dtype=np.float64)


def choose_scheme(
    target: Target,
    z: Array,
    mode: laplace.Mode,
    method: str,
    step_size: float | None,
    rng: np.random.Generator,
) -> tuple[Scheme, float]:
    """Step of the method, and the score of its trial.

    The step size is `step_size` if given (score 1), comes from the Hessian for ULA
    (score 1), and from a trial otherwise.
    """
    if step_size is not None:
        if method == "ou_mala":
            return langevin.ornstein_uhlenbeck(1.0 - min(step_size, 1.0)), 1.0
        return langevin.euler_maruyama(step_size, metropolis=method == "mala"), 1.0
    if method != "ula":
        return adapt(target, z, TIERS[method], rng)
    # H = (mode.root mode.rootᵀ)⁻¹: λ_max(rootᵀ H root) = σ_max(mode.root⁻¹ root)²
    largest = np.linalg.norm(np.linalg.solve(mode.root, target.root), 2, axis=(1, 2))
    eta = _ULA_STEP / float(largest.max()) ** 2
    return langevin.euler_maruyama(eta, metropolis=False), 1.0
