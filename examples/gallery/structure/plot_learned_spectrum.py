"""
Bridge a gap with learned frequencies
=====================================

A series consists of three cycles and has a gap. :class:`~skgpx.SteinRFFRegressor`
begins with frequencies from the spectral density of a kernel, which describes only how
fast the function may vary, and moves them by the evidence of the data. The learned
frequencies gather at the three cycles, so that the fit continues across the gap.
"""

# %%
# Data
# ----
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skgpx import SteinRFFRegressor

cycles, sizes = np.array([0.31, 0.83, 1.27]), np.array([1.0, 0.7, 0.5])


def signal(t):
    return np.sin(2.0 * np.pi * np.outer(t, cycles)) @ sizes


rng = np.random.default_rng(0)
t = np.sort(rng.uniform(0.0, 20.0, 300))
t = t[(t < 9.0) | (t > 12.0)]
X, y = t[:, np.newaxis], signal(t) + 0.3 * rng.standard_normal(len(t))

# %%
# Two models
# ----------
# They differ in the number of steps only: without steps the frequencies stay where they
# start.
settings = {"kernel": RBF(0.2), "optimizer": None, "noise_variance": 0.09}
settings |= {"n_frequencies": 30, "random_state": 0}
models = {
    "fixed": SteinRFFRegressor(max_iter=0, **settings).fit(X, y),
    "learned": SteinRFFRegressor(repulsion=0.1, **settings).fit(X, y),
}

# %%
# Fits and spectra
# ----------------
# Left: mean and 95 % interval, with the true curve dotted. Right: the posterior mean
# square of each wave against its frequency; triangles are the true cycles.
grid = np.linspace(0.0, 20.0, 800)
figure, axes = plt.subplots(2, 2, figsize=(9.0, 5.0), sharex="col")
for (name, model), (left, right) in zip(models.items(), axes, strict=True):
    mean = model.predict(grid[:, np.newaxis])
    low, high = model.predict_interval(grid[:, np.newaxis], 0.95).T
    left.fill_between(grid, low, high, alpha=0.25, lw=0.0)
    left.plot(grid, mean)
    left.plot(grid, signal(grid), "k:", lw=0.8)
    left.plot(t, y, "k.", ms=2.0)
    error = np.sqrt(np.mean((mean - signal(grid)) ** 2))
    left.set_title(f"{name} frequencies: RMSE {error:.2f}", fontsize=10)
    found = np.abs(model.frequencies_).ravel() / (2.0 * np.pi)
    right.vlines(found, 0.0, model.spectrum_.ravel(), lw=1.2)
    right.plot(cycles, np.zeros(3), "r^", clip_on=False)
    right.set_ylabel("mean square")
axes[1, 0].set_xlabel("time")
axes[1, 1].set_xlabel("cycles per unit of time")
axes[1, 1].set_xlim(0.0, 2.5)
figure.tight_layout()
plt.show()
