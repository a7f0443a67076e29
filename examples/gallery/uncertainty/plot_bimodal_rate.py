"""
Sample a posterior with two signs
=================================

Counts whose rate is the square of a Gaussian process, as in Figure 5 of the paper on
projected Langevin sampling. The likelihood is the same for the latent function ``f``
and for ``-f``, so that the posterior has two mirror images. Where the rate is nearly
zero the function may cross zero or turn back: each of these doubles the modes. A
Gaussian variational posterior must choose one of them; particles need not.
"""

# %%
# Data
# ----
# There are fifteen counts, few enough for a wide posterior.
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import PLSRegressor
from skgpx.likelihoods import Poisson


def rate(x):
    return (3.0 * np.cos(2.0 * x)) ** 2


rng = np.random.default_rng(1)
x = np.sort(rng.uniform(-2.0, 2.0, 15))
X, y = x[:, np.newaxis], rng.poisson(rate(x))

# %%
# Particles
# ---------
# ``normalize_y=False`` is the paper's prior, with mean zero: both signs then have the
# same prior probability. The particles are tempered from the prior to the posterior in
# four independent runs, and R-hat measures whether these agree.
kernel = ConstantKernel(4.0, "fixed") * RBF(0.7, "fixed")
model = PLSRegressor(
    kernel,
    likelihood=Poisson("square"),
    method="smc",
    normalize_y=False,
    n_particles=400,
    random_state=0,
).fit(X, y)
print(f"largest R-hat: {model.rhat_.max():.2f}")

# %%
# The best Gaussian
# -----------------
# With the same basis and likelihood, this is the normal distribution of the weights
# closest to the posterior in Kullback-Leibler divergence. The bound averages over the
# value ``f`` of each row by Gauss-Hermite quadrature.
basis, likelihood = model.posterior_.basis, model.likelihood_
features = basis(X)
m = basis.n_basis
lower = np.tril_indices(m)
nodes, weights = np.polynomial.hermite_e.hermegauss(40)
weights /= weights.sum()


def negative_bound(parameters):
    mean, root = parameters[:m], np.zeros((m, m))
    root[lower] = parameters[m:]
    std = np.linalg.norm(features @ root, axis=1, keepdims=True)
    f = features @ mean[:, np.newaxis] + std * nodes
    slope = likelihood.gradient(y[:, np.newaxis], f)
    value = np.sum(likelihood.nll(y[:, np.newaxis], f) @ weights)
    value += 0.5 * (mean @ mean + np.sum(root**2))
    value -= np.sum(np.log(np.abs(root.diagonal())))
    of_std = (slope * nodes) @ weights / std[:, 0]
    of_root = features.T @ (of_std[:, np.newaxis] * (features @ root)) + root
    of_root -= np.diag(1.0 / root.diagonal())
    of_mean = features.T @ (slope @ weights) + mean
    return value, np.concatenate((of_mean, of_root[lower]))


start = np.concatenate((model.particles_[:, 0, 0], 0.1 * np.eye(m)[lower]))
found = minimize(negative_bound, start, jac=True, method="L-BFGS-B").x
mean, root = found[:m], np.zeros((m, m))
root[lower] = found[m:]

# %%
# Both posteriors
# ---------------
# Dotted lines are the two square roots of the true rate, and ticks the inputs of the
# counts. The particles have both signs, in equal numbers. All cross zero on the left,
# where there are counts on both sides of it. On the right, where there are none, some
# cross and some turn back. The Gaussian keeps the signs with which it started, and they
# are wrong on the right.
grid = np.linspace(-2.5, 2.5, 300)
phi = basis(grid[:, np.newaxis])
gaussian = mean[:, np.newaxis] + root @ rng.standard_normal((m, 100))
draws = {
    "particles": model.sample_functions(100, random_state=0)(grid[:, np.newaxis]),
    "Gaussian variational posterior": phi @ gaussian,
}
at = 0.0
values = model.sample_functions(2000, random_state=1)(np.array([[at]]))[0]
center = basis(np.array([[at]]))[0]
std = np.linalg.norm(center @ root)

figure, axes = plt.subplots(
    1, 3, figsize=(11.0, 3.6), width_ratios=(3, 3, 2), sharey=True, layout="constrained"
)
for axis, (name, curves), color in zip(axes, draws.items(), ("C0", "C1"), strict=False):
    axis.plot(grid, curves, color=color, lw=0.6, alpha=0.4)
    for sign in (-1.0, 1.0):
        axis.plot(grid, sign * np.sqrt(rate(grid)), "k:", lw=1.2)
    axis.plot(x, np.full(len(x), -4.7), "k|", ms=8)
    axis.axvline(at, color="0.5", lw=0.8, ls="--")
    axis.set(title=name, xlabel="x", ylim=(-5.0, 5.0))
axes[0].set_ylabel("f(x), rate = f(x)²")
axes[2].hist(
    values, 80, density=True, orientation="horizontal", alpha=0.5, label="particles"
)
f = np.linspace(-5.0, 5.0, 400)
density = np.exp(-0.5 * ((f - center @ mean) / std) ** 2) / (std * np.sqrt(2.0 * np.pi))
axes[2].plot(density, f, "C1", label="Gaussian")
axes[2].set(title="f(0)", xlabel="density")
axes[2].legend(loc="center right")
plt.show()
