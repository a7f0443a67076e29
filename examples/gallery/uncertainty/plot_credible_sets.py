"""
Judge credible sets from few functions
======================================

A posterior on few functions or inducing points leaves a part of the prior out. The
variance of that part is included in every standard deviation. The credible sets of
Figures 1 to 3 of the paper on spectral variational Gaussian processes therefore cover
the truth, but are wider than the exact ones: coverage alone is not a sign of accuracy.
(The published curve, priors and four kinds of inducing variables are in the script
``spectral_balls.py`` of ``examples/papers``.)
"""

# %%
# Data
# ----
# The curve is about as rough as the prior, a Matérn process of order 1/2. Kernel and
# noise are fixed, so that only the number of functions differs.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgpx import SpectralVGPRegressor

NOISE = 0.01
kernel = ConstantKernel(0.3, "fixed") * Matern(0.2, "fixed", nu=0.5)
grid = np.linspace(0.0, 1.0, 500)[:, np.newaxis]


def truth(X):
    x = X[:, 0]
    return np.abs(np.sin(9.0 * x)) + 0.4 * np.abs(np.cos(31.0 * x)) - 0.9


rng = np.random.default_rng(0)
X = rng.uniform(size=(1000, 1))
y = truth(X) + np.sqrt(NOISE) * rng.standard_normal(len(X))


# %%
# Posteriors
# ----------
# Fourier functions, features of the empirical covariance and inducing points are
# compared with the exact posterior.
kinds = {
    "Fourier": {"basis": "fourier"},
    "empirical": {"basis": "empirical"},
    "inducing": {"basis": "inducing"},
}
settings = {"noise_variance": NOISE, "optimizer": None, "normalize_y": False}
settings |= {"domain": (0.0, 1.0), "random_state": 0}
exact = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X, y)
posteriors = {("exact", ""): exact.predict(grid, return_std=True)}
for name, kind in kinds.items():
    for m in (30, 60, 120):
        model = SpectralVGPRegressor(kernel, n_basis=m, **kind, **settings).fit(X, y)
        found = model.predict(grid, return_std=True, include_noise=False)
        posteriors[name, m] = found

# %%
# The table shows the share of the curve inside the pointwise 95 % bands, and their
# standard deviation divided by that of the exact posterior:
f = truth(grid)
exact_std = posteriors["exact", ""][1]
print(f"{'':12}{'m':>5}{'coverage':>10}{'std / exact':>13}")
for (name, m), (mean, std) in posteriors.items():
    coverage = np.mean(np.abs(mean - f) <= 1.96 * std)
    print(f"{name:12}{m:5}{coverage:10.3f}{np.mean(std / exact_std):13.2f}")

# %%
# Bands
# -----
chosen = [("exact", ""), ("Fourier", 30), ("Fourier", 120), ("inducing", 120)]
figure, axes = plt.subplots(
    2, 2, figsize=(9.0, 5.5), sharex=True, sharey=True, layout="constrained"
)
for axis, key in zip(axes.ravel(), chosen, strict=True):
    mean, std = posteriors[key]
    axis.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, alpha=0.3)
    axis.plot(grid, mean, lw=0.8, label="mean and 95 % band")
    axis.plot(grid, f, "k:", lw=1.0, label="truth")
    axis.set_title(key[0] if key[1] == "" else f"{key[0]}, m = {key[1]}")
figure.supxlabel("x", fontsize=10)
figure.supylabel("f(x)", fontsize=10)
figure.legend(
    *axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2
)
plt.show()
