"""GPyTorch's sparse variational GP, full batch, in float64."""

from __future__ import annotations

import gpytorch
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.problems import NOISE_VARIANCE, Problem


class _Model(gpytorch.models.ApproximateGP):
    """SVGP with fixed inducing points and an RBF kernel, one lengthscale an input."""

    def __init__(self, Z: torch.Tensor, amplitude: float, lengthscale: float):
        law = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
        strategy = gpytorch.variational.VariationalStrategy(
            self, Z, law, learn_inducing_locations=False
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        rbf = gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(rbf)
        self.double()
        self.covar_module.outputscale = amplitude
        rbf.lengthscale = lengthscale

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Prior law of the latent function at X."""
        return gpytorch.distributions.MultivariateNormal(
            self.mean_module(X), self.covar_module(X)
        )


def _likelihood(name: str) -> gpytorch.likelihoods.Likelihood:
    match name:
        case "gaussian":
            likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
            likelihood.noise = NOISE_VARIANCE
            return likelihood
        case "bernoulli":  # GPyTorch's is the probit link
            return gpytorch.likelihoods.BernoulliLikelihood().double()
        case "student_t":
            return gpytorch.likelihoods.StudentTLikelihood().double()
    raise ValueError(f"GPyTorch offers no likelihood for {name!r}.")


class SVGP:
    """A sparse variational GP and its optimiser.

    Parameters
    ----------
    problem : Problem
        Data, inducing points, start of the kernel; "gaussian", "bernoulli" or
        "student_t".
    learn_hyperparameters : bool
        Whether kernel and likelihood parameters move with the variational law.
    learning_rate : float
        Of Adam.
    """

    def __init__(
        self,
        problem: Problem,
        learn_hyperparameters: bool = True,
        learning_rate: float = 0.01,
    ):
        self.X, self.y = torch.tensor(problem.X), torch.tensor(problem.y)
        Z = torch.tensor(problem.Z)
        self.model = _Model(Z, problem.amplitude, problem.lengthscale)
        self.likelihood = _likelihood(problem.likelihood)
        if not learn_hyperparameters:
            self.model.covar_module.requires_grad_(False)
            self.likelihood.requires_grad_(False)
        modules = torch.nn.ModuleList([self.model, self.likelihood])
        learnt = [p for p in modules.parameters() if p.requires_grad]
        self.optimiser = torch.optim.Adam(learnt, lr=learning_rate)
        self.bound = gpytorch.mlls.VariationalELBO(
            self.likelihood, self.model, num_data=len(self.y)
        )

    def epoch(self) -> float:
        """One full-batch step; the negative bound per row before it, in nats."""
        self.model.train()
        self.likelihood.train()
        self.optimiser.zero_grad()
        loss = -self.bound(self.model(self.X), self.y)
        loss.backward()
        self.optimiser.step()
        return loss.item()

    def fit(self, n_epochs: int) -> SVGP:
        """Run ``n_epochs`` epochs and return self."""
        for _ in range(n_epochs):
            self.epoch()
        return self

    def predict(
        self, X: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of y given X, each (n,), noise included."""
        self.model.eval()
        self.likelihood.eval()
        with torch.no_grad():
            law = self.likelihood(self.model(torch.tensor(X)))
        mean, variance = law.mean, law.variance
        if mean.ndim > 1:  # sampled likelihoods come with an axis of draws
            variance = variance.mean(0) + mean.var(0, unbiased=False)
            mean = mean.mean(0)
        return mean.numpy(), variance.numpy()
