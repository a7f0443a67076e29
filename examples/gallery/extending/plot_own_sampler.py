"""
Write a sampler
===============

A fitted model has a basis, a likelihood and weights, which suffice to sample its
posterior by any method. This example uses elliptical slice sampling (Murray, Adams and
MacKay, 2010), which has no step size: each proposal lies on an ellipse through the
present weights and a draw of their prior, N(0, I). It checks the Langevin particles of
:class:`~skgpx.PLSRegressor`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import PLSRegressor
from skgpx.likelihoods import StudentT

# %%
# A model
# -------
# The noise is Student-t. Kernel and scale are fixed, so that both samplers have the
# same target, ``Σ nll(y, Φw) + ½ ‖w‖²``.
rng = np.random.default_rng(0)
X = np.linspace(0.0, 6.0, 16)[:, np.newaxis]
y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_t(3.0, 16)
model = PLSRegressor(
    ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed"),
    likelihood=StudentT(df=3.0, scale=0.3),
    normalize_y=False,
    n_inducing=16,
    n_particles=1000,
    random_state=0,
).fit(X, y)
basis, likelihood = model.posterior_.basis, model.likelihood_
features = basis(X)


# %%
# The sampler
# -----------
def slice_step(w, log_likelihood, rng):
    """One step of elliptical slice sampling from weights (m,)."""
    prior = rng.standard_normal(len(w))
    level = log_likelihood(w) + np.log(rng.uniform())
    angle = rng.uniform(0.0, 2.0 * np.pi)
    low, high = angle - 2.0 * np.pi, angle
    while True:
        proposal = np.cos(angle) * w + np.sin(angle) * prior
        if log_likelihood(proposal) > level:
            return proposal
        # shrink the bracket towards the present weights, at angle zero
        low, high = (angle, high) if angle < 0.0 else (low, angle)
        angle = rng.uniform(low, high)


def log_likelihood(w):
    return -np.sum(likelihood.nll(y, features @ w))


w, chain = model.particles_[:, 0, 0], []
for step in range(25_000):
    w = slice_step(w, log_likelihood, rng)
    if step >= 500 and step % 5 == 0:
        chain.append(w)
chain = np.transpose(chain)

# %%
# The same posterior
# ------------------
# The quantiles of ``Φ(x)ᵀw`` agree. The mean of a thousand independent particles has a
# standard error of 0.03 posterior standard deviations; the states of the chain are
# correlated and count as some hundreds.
grid = np.linspace(-0.5, 6.5, 200)[:, np.newaxis]
phi, levels = basis(grid), (0.025, 0.5, 0.975)
ours = np.quantile(phi @ model.particles_[:, 0], levels, axis=1)
other = np.quantile(phi @ chain, levels, axis=1)
inside = (grid[:, 0] > 0.0) & (grid[:, 0] < 6.0)
std = (phi @ chain)[inside].std(axis=1)
gap = (phi @ model.particles_[:, 0]).mean(axis=1) - (phi @ chain).mean(axis=1)
print(f"largest difference of the means: {np.max(np.abs(gap[inside]) / std):.2f} std")

figure, axis = plt.subplots(figsize=(8.0, 4.0), layout="constrained")
axis.fill_between(grid[:, 0], ours[0], ours[2], alpha=0.3, lw=0.0)
axis.plot(grid, ours[1], "C0", label="particles: median, 95 %")
axis.plot(grid, other.T, "k--", lw=1.0, label=["slice sampling", None, None])
axis.plot(X, y, "k.", ms=4.0)
axis.set(xlabel="x", ylabel="y", ylim=(-2.5, 2.5))
axis.legend()
plt.show()
