"""
Draw functions without variance starvation
==========================================

A Bayesian linear model on Fourier features approximates a Gaussian process as long as
it has many more features than data. With more data its draws lose their variance where
there are no data, which is called *variance starvation*. Decoupled draws keep it,
because they use features for the prior only and kernel functions for the data (Figures
1 and 2 of the paper on decoupled sampling).
"""

# %%
# Data with a gap
# ---------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import RBFSampler

from skgpx import DecoupledSampler

LENGTH_SCALE, NOISE = 0.04, 0.01


def data(n):
    rng = np.random.default_rng(n)
    x = np.concatenate((rng.uniform(0, 0.35, n // 2), rng.uniform(0.65, 1, n // 2)))
    f = np.sin(30.0 * x) + 0.5 * np.cos(67.0 * x)
    return x[:, np.newaxis], f + np.sqrt(NOISE) * rng.standard_normal(len(x))


def posterior_weights(Z, y, rng, size):
    """Draws of the weights ``w ~ N(0, I)`` of a linear model with known noise."""
    precision = Z.T @ Z / NOISE + np.eye(Z.shape[1])
    root = np.linalg.cholesky(precision)
    mean = np.linalg.solve(precision, Z.T @ y / NOISE)
    normal = rng.standard_normal((len(mean), size))
    return mean[:, np.newaxis] + np.linalg.solve(root.T, normal)


# %%
# Both kinds of draws
# -------------------
# Both have the same kernel and noise, and 100 Fourier features.
grid = np.linspace(0.0, 1.0, 400)[:, np.newaxis]
kernel = RBF(LENGTH_SCALE, "fixed")
draws, exact = {}, {}
for n in (20, 2000):
    X, y = data(n)
    features = RBFSampler(gamma=0.5 / LENGTH_SCALE**2, n_components=100, random_state=0)
    Z, rng = features.fit_transform(X), np.random.default_rng(0)
    weights = posterior_weights(Z, y, rng, 1000)
    draws["linear model on features", n] = features.transform(grid) @ weights

    regressor = GaussianProcessRegressor(kernel, alpha=NOISE)
    sampler = DecoupledSampler(regressor, n_basis=100, random_state=0).fit(X, y)
    draws["decoupled", n] = sampler.sample_functions(1000)(grid)
    exact[n] = sampler.predict(grid, return_std=True)

# %%
# Draws and exact intervals
# -------------------------
# Solid lines are draws, dashed ones the exact 95 % interval. The linear model is right
# with 20 rows; with 2000 rows its draws agree on a wrong curve in the gap.
figure, axes = plt.subplots(
    2, 2, figsize=(9.0, 5.5), sharex=True, sharey=True, layout="constrained"
)
for row, n in zip(axes, (20, 2000), strict=True):
    for axis, name in zip(row, ("linear model on features", "decoupled"), strict=True):
        mean, std = exact[n]
        axis.plot(grid, draws[name, n][:, :15], "C0", lw=0.6, alpha=0.6)
        for sign in (-1.96, 1.96):
            axis.plot(grid, mean + sign * std, "k--", lw=1.0)
        gap = np.abs(grid[:, 0] - 0.5) < 0.1
        ratio = np.mean(draws[name, n][gap].std(axis=1) / std[gap])
        axis.set_title(f"{name}, {n} rows: std / exact in the gap {ratio:.2f}", size=9)
figure.supxlabel("x", fontsize=10)
figure.supylabel("f(x)", fontsize=10)
plt.show()
