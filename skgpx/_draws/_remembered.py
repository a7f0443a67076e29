"""Exact draws: values of a function that remembers where it was evaluated."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import NUGGET, cholesky, solve_lower

# ---- Exact draws of a process with any kernel, which remember their values -----------


Array = NDArray[np.float64]


class PriorMemory:
    """Exact draws of a Gaussian process that remember where they were evaluated.

    The value at a new point is drawn given all values drawn so far, so all values are
    consistent. A nugget of 1e-10 of the prior variance handles points that
    nearly coincide. The values depend on the order in which points are evaluated; a
    pickled copy continues with the same random numbers.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel.
    n_features, n_outputs, n_draws : int
        Columns of X, independent outputs and independent draws.
    rng : numpy.random.Generator
        Source of the draws; kept, and advanced by every new point.

    Notes
    -----
    O(N^3 + N^2 c s) time in total and O(N^2 + N c s) memory for N distinct points.
    """

    def __init__(
        self,
        kernel: Any,
        n_features: int,
        n_outputs: int,
        n_draws: int,
        rng: np.random.Generator,
    ):
        self.kernel = kernel
        self.points = np.empty((0, n_features))
        self.root = np.empty((0, 0))
        self.noise = np.empty((0, n_outputs * n_draws))
        self.known = np.empty((0, n_outputs, n_draws))
        self.position: dict[bytes, int] = {}
        self._rng = rng
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {k: v for k, v in self.__dict__.items() if k != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.points.shape[1]

    def gradients(self, _: Array) -> Array:
        """Refuse: values that are drawn point by point have no derivatives."""
        raise ValueError(
            f"Exact draws of {self.kernel!r} are sampled point by point and have no "
            "derivative, which searches for optima need. Draw from Fourier features "
            "instead; if a kernel of your own is stationary, they need "
            "skgpx.kernels.register_kernel(YourKernel, spectral_sampler=...): see "
            '"The spectral density of a kernel" on the documentation\'s page '
            '"Extending".'
        )

    def values(self, X: Array) -> Array:
        """Values at the rows of X, shape (n, c, s)."""
        X = X + 0.0  # -0.0 and 0.0 are the same point
        keys = [row.tobytes() for row in X]
        with self._lock:
            first = {key: i for i, key in enumerate(keys) if key not in self.position}
            if first:
                self._extend(X[list(first.values())], list(first))
            return self.known[[self.position[key] for key in keys]]

    def _extend(self, new: Array, keys: list[bytes]) -> None:
        """Draw the values at new distinct points and remember them."""
        n_old, n_new = self.points.shape[0], new.shape[0]
        K = self.kernel(new)
        K[np.diag_indices(n_new)] *= 1.0 + NUGGET
        # [L 0; Bᵀ C] is the root of the joint covariance
        B = solve_lower(self.root, self.kernel(self.points, new)) if n_old else None
        corner = cholesky(K if B is None else K - B.T @ B).L
        root = np.zeros((n_old + n_new, n_old + n_new))
        root[:n_old, :n_old] = self.root
        root[n_old:, n_old:] = corner
        if B is not None:
            root[n_old:, :n_old] = B.T
        shape = (n_new, self.noise.shape[1])
        self.noise = np.concatenate((self.noise, self._rng.standard_normal(shape)))
        values = root[n_old:] @ self.noise
        self.known = np.concatenate(
            (self.known, values.reshape(n_new, *self.known.shape[1:]))
        )
        self.root, self.points = root, np.concatenate((self.points, new))
        self.position.update({key: n_old + i for i, key in enumerate(keys)})


@dataclass(frozen=True)
class RememberedTerm:
    """Selected and scaled draws of a shared memory.

    Parameters
    ----------
    memory : PriorMemory
    draws : ndarray of shape (s,)
        Which of its draws.
    factor : float or ndarray of shape (c,), default=1.0
        Of each output.
    """

    memory: Any
    draws: NDArray[np.intp]
    factor: Any = 1.0

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.memory.n_features

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        out += self._values(X)

    def _values(self, X: Array) -> Array:
        factor = np.reshape(self.factor, (-1, 1))
        return self.memory.values(X)[:, :, self.draws] * factor

    def pairs(
        self, X: Array, draws: NDArray[np.intp], gradient: bool
    ) -> tuple[Array, Any]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d).

        Gradients are None if they are not wanted.
        """
        rows, slopes = np.arange(len(X)), None
        if gradient:
            factor = np.reshape(self.factor, (-1, 1))
            chosen = self.memory.gradients(X)[rows, :, :, self.draws[draws]]
            slopes = chosen * factor
        return self._values(X)[rows, :, draws], slopes

    def scaled(self, factor: Array | float) -> RememberedTerm:
        """Multiply the outputs of the functions by a factor, or one each (c,)."""
        return replace(self, factor=np.asarray(factor) * self.factor)

    def select(self, draws: NDArray[np.intp]) -> RememberedTerm:
        """Keep the draws at these positions."""
        return replace(self, draws=self.draws[draws])
