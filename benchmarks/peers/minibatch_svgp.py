"""GPyTorch's sparse variational GP in mini-batches, as its documentation trains it."""

from __future__ import annotations

import time

import gpytorch
import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]


class _Model(gpytorch.models.ApproximateGP):
    """Matern 5/2 with one lengthscale an input; inducing points move."""

    def __init__(self, Z: torch.Tensor):
        law = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
        strategy = gpytorch.variational.VariationalStrategy(
            self, Z, law, learn_inducing_locations=True
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        base = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=Z.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(base)
        base.lengthscale = float(np.sqrt(Z.shape[1]))

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Prior law of the latent function at X."""
        return gpytorch.distributions.MultivariateNormal(
            self.mean_module(X), self.covar_module(X)
        )


def fit_and_predict(
    X: Array,
    y: Array,
    X_test: Array,
    n_inducing: int = 1000,
    n_epochs: int = 20,
    batch: int = 1024,
    learning_rate: float = 0.01,
    seed: int = 0,
) -> tuple[Array, Array, float]:
    """Mean and std of y at the test rows, noise included, and seconds of the fit."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    start = time.perf_counter()
    inputs, targets = torch.tensor(X).float(), torch.tensor(y).float()
    chosen = rng.choice(len(X), min(n_inducing, len(X)), replace=False)
    model = _Model(inputs[chosen].clone())
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = 0.1
    modules = torch.nn.ModuleList([model, likelihood]).train()
    optimiser = torch.optim.Adam(modules.parameters(), lr=learning_rate)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    for _ in range(n_epochs):
        for rows in np.array_split(rng.permutation(len(y)), -(-len(y) // batch)):
            optimiser.zero_grad()
            loss = -bound(model(inputs[rows]), targets[rows])
            loss.backward()
            optimiser.step()
    seconds = time.perf_counter() - start
    modules.eval()
    with torch.no_grad():
        laws = [
            likelihood(model(part)) for part in torch.tensor(X_test).float().split(1024)
        ]
    mean = np.concatenate([law.mean.numpy() for law in laws]).astype(float)
    variance = np.concatenate([law.variance.numpy() for law in laws]).astype(float)
    return mean, np.sqrt(variance), seconds
