"""Gaussian Wasserstein inference for regression, in plain PyTorch.

As the method is usually written (appendix A.5 of Wild, Hu and Sejdinovic, NeurIPS
2022): automatic differentiation of the whole objective, the eigenvalues of a product of
covariances included. ``loss="paper"`` is the negative log likelihood of all rows plus
the squared distance; ``loss="code"`` is that of the authors' code, whose likelihood is
divided by the size of the batch, and whose distance is not squared.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

# Shift of the eigenvalues in the authors' code, under which small ones are rounded.
_SHIFT = 100.0


class TorchGWI:
    """A training.

    Parameters
    ----------
    X, y : ndarray of shape (n, d), (n,)
        Standardised.
    Z : ndarray of shape (m, d)
        Inducing points.
    length_scale : ndarray of shape (d,)
    noise_variance : float
    amplitude : float
        Variance of the prior process.
    loss : {"paper", "code"}
    batch_size : int or None
        None takes all rows.
    n_sample : int
        Rows X_S of the estimator of the distance.
    hidden : tuple of int
    n_epochs : int
        Over which the rate decays as a cosine.
    seed : int
    dtype : torch.dtype
    """

    def __init__(
        self,
        X,
        y,
        Z,
        length_scale,
        noise_variance,
        *,
        amplitude=1.0,
        loss="paper",
        batch_size=None,
        n_sample=100,
        hidden=(10, 10),
        n_epochs=1000,
        seed=0,
        dtype=torch.float64,
    ):
        torch.manual_seed(seed)
        self._dtype = dtype
        self.X, self.y, self.Z = (self._tensor(one) for one in (X, y, Z))
        self._scale, self.noise_variance = self._tensor(length_scale), noise_variance
        self._amplitude = amplitude
        self._loss, self._n_sample = loss, min(n_sample, len(X))
        self.batch_size = batch_size or len(X)
        sizes = (X.shape[1], *hidden)
        layers = []
        for n, m in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(n, m), torch.nn.Tanh()]
        last = torch.nn.Linear(sizes[-1], 1)
        self.mean = torch.nn.Sequential(*layers, last).to(dtype)
        jitter = 1e-8 * amplitude * torch.eye(len(Z), dtype=dtype)
        self._root_ZZ = torch.linalg.cholesky(self.k(self.Z, self.Z) + jitter)
        K = self.k(self.Z, self.X)
        # of sparse regression: Σ = (K_ZZ + K Kᵀ / σ²)⁻¹, K_ZZ = L Lᵀ taken out
        white = torch.linalg.solve_triangular(self._root_ZZ, K, upper=False)
        inner = torch.eye(len(Z), dtype=dtype) + white @ white.T / noise_variance
        precision_root = self._root_ZZ @ torch.linalg.cholesky(inner)
        start = torch.linalg.inv(precision_root).T
        self.root = torch.nn.Parameter(start.contiguous())
        parameters = [*self.mean.parameters(), self.root]
        self._adam = torch.optim.Adam(parameters, lr=1e-2)
        steps = n_epochs * math.ceil(len(X) / self.batch_size)
        self._decay = torch.optim.lr_scheduler.CosineAnnealingLR(self._adam, steps)

    def _tensor(self, values):
        return torch.as_tensor(np.asarray(values), dtype=self._dtype)

    def k(self, A, B):
        """RBF, one lengthscale a column."""
        distance = torch.cdist(A / self._scale, B / self._scale)
        return self._amplitude * torch.exp(-0.5 * distance**2)

    def _halves(self, A):
        """``L⁻¹ k(Z, A)`` and ``Rᵀ k(Z, A)``, Σ = R Rᵀ."""
        K = self.k(self.Z, A)
        white = torch.linalg.solve_triangular(self._root_ZZ, K, upper=False)
        return white, self.root.T @ K

    def r(self, A, B):
        """Covariance of the process between rows."""
        white_A, half_A = self._halves(A)
        white_B, half_B = self._halves(B)
        return self.k(A, B) - white_A.T @ white_B + half_A.T @ half_B

    def variance(self, A):
        """Variance of the process at rows."""
        white, half = self._halves(A)
        spread = self._amplitude - (white**2).sum(0) + (half**2).sum(0)
        return spread.clamp(min=0.0)

    def squared_distance(self, X_B, m, r, X_S):
        """Equation (62), with a prior of mean zero."""
        product = self.r(X_S, X_B) @ self.k(X_B, X_S)
        shifted = product + _SHIFT * torch.eye(len(X_S), dtype=self._dtype)
        sizes = (torch.linalg.eigvals(shifted).abs() - _SHIFT).clamp(min=1e-10)
        root = sizes.sqrt().sum() / math.sqrt(len(X_B) * len(X_S))
        return (m**2).mean() + self._amplitude + r.mean() - 2.0 * root

    def objective(self, rows, sample):
        """Loss of a batch of rows."""
        X, y, n = self.X[rows], self.y[rows], len(self.X)
        m, r = self.mean(X)[:, 0], self.variance(X)
        misfit = ((y - m) ** 2 + r).sum() / (2.0 * self.noise_variance)
        whole = 0.5 * n * math.log(2.0 * math.pi * self.noise_variance)
        whole = whole + misfit * n / len(rows)
        squared = self.squared_distance(X, m, r, self.X[sample])
        if self._loss == "paper":
            return whole + squared
        return whole / len(rows) + squared.clamp(min=1e-12).sqrt()

    def epoch(self):
        """One pass over the rows."""
        order = torch.randperm(len(self.X))
        for rows in order.split(self.batch_size):
            sample = torch.randperm(len(self.X))[: self._n_sample]
            self._adam.zero_grad()
            self.objective(rows, sample).backward()
            self._adam.step()
            self._decay.step()

    def predict(self, X):
        """Mean and variance of the function, as arrays."""
        with torch.no_grad():
            X = self._tensor(X)
            return self.mean(X)[:, 0].numpy(), self.variance(X).numpy()
