"""Class probabilities in terms of contrasts between the classes.

Softmax probabilities of c classes do not change when a number is added to all latent
values. With orthonormal contrasts ``Q`` (c, c - 1), ``Qᵀ1 = 0``, the likelihood is a
function of ``Qᵀf`` only, whose weights ``WQ`` are as independent and standard normal a
priori as the weights W (m, c) are; the mean over the classes keeps its prior law.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.langevin import Target

Array = NDArray[np.float64]


def contrasts(c: int) -> Array:
    """Orthonormal contrasts between c classes (Helmert's), shape (c, c - 1)."""
    Q = np.zeros((c, c - 1))
    for k in range(1, c):
        Q[:k, k - 1], Q[k, k - 1] = 1.0, -float(k)
        Q[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return Q


class ContrastLikelihood(NamedTuple):
    """The row-wise functions of a likelihood of classes, of contrasts (n, c - 1, s).

    Attributes
    ----------
    likelihood : Likelihood
    Q : ndarray of shape (c, c - 1)
    """

    likelihood: Any
    Q: Array

    @property
    def theta(self) -> Array:
        """Free log-parameters."""
        theta: Array = self.likelihood.theta
        return theta

    def with_theta(self, theta: Array) -> ContrastLikelihood:
        """Copy with other log-parameters."""
        return self._replace(likelihood=self.likelihood.with_theta(theta))

    def row_nll(self, y: Array, f: Array) -> Array:
        """Negative log-likelihood, (n, s)."""
        nll: Array = self.likelihood.row_nll(y, self.Q @ f)
        return nll

    def row_gradient(self, y: Array, f: Array) -> Array:
        """``Qᵀ∇``, (n, c - 1, s)."""
        gradient: Array = self.Q.T @ self.likelihood.row_gradient(y, self.Q @ f)
        return gradient

    def row_curvature(self, y: Array, f: Array) -> Array:
        """``QᵀWQ``, (n, c - 1, c - 1, s)."""
        W = self.likelihood.row_curvature(y, self.Q @ f)
        half = np.tensordot(W, self.Q, (2, 0))  # (n, c, s, c - 1)
        both: Array = np.tensordot(half, self.Q, (1, 0)).transpose(0, 3, 2, 1)
        return both


def between_classes(target: Target) -> Target | None:
    """The same target of contrasts; None where the outputs are not exchangeable.

    Contrasts suffice if the rows of the curvature sum to zero. The residual must have
    one variance for all outputs.
    """
    c = target.n_outputs
    alike = bool(np.all(target.std == target.std[:, :1]))
    if c == 1 or not alike or isinstance(target.likelihood, ContrastLikelihood):
        return None
    first = slice(0, min(4, len(target.y)))
    f = np.linspace(-1.0, 1.0, c)[np.newaxis, :, np.newaxis]
    y = target.y[first]
    W = target.likelihood.row_curvature(y, np.repeat(f, len(y), axis=0))
    if np.max(np.abs(W.sum(axis=2))) > 1e-9 * np.max(np.abs(W)):
        return None
    Q = contrasts(c)
    # std is that of the residual, the same for all classes
    return target._replace(
        likelihood=ContrastLikelihood(target.likelihood, Q),
        std=target.std[:, : c - 1],
        nodes=target.nodes @ Q,
        n_outputs=c - 1,
        offset=np.broadcast_to(target.offset, (len(target.offset), c)) @ Q,
    )


def of_all_classes(weights: Array, root: Array, m: int) -> tuple[Array, Array]:
    """Weights (m, c) and root (1, c m, c m) from those of the contrasts.

    ``W = V Qᵀ``, and the root ``(Q ⊗ I) root`` with ``(1 / √c) ⊗ I`` for the mean.
    """
    Q = contrasts(weights.shape[1] + 1)
    c = len(Q)
    width = (c - 1) * m
    full = np.zeros((c, m, c * m))
    between = np.tensordot(Q, root[0].reshape(c - 1, m, width), 1)
    full[:, :, :width] = between
    full[:, np.arange(m), width + np.arange(m)] = 1.0 / np.sqrt(c)
    return weights @ Q.T, full.reshape(1, c * m, c * m)
