"""
Move from scikit-learn in two lines
===================================

Kernels, ``predict`` and ``sample_y`` keep the names and the meaning that they have in
GaussianProcessRegressor, so that only an import and a constructor change. With normal
noise, the gains are a time that grows linearly with the number of rows, and draws that
are functions.
"""

# %%
# The two lines
# -------------
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgpx import DecoupledSampler, PLSRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 10.0, (500, 1))
y = np.sin(2.0 * X[:, 0]) + 0.1 * X[:, 0] ** 2 + 0.3 * rng.standard_normal(500)
kernel = 1.0 * RBF(1.0) + WhiteKernel(0.1)

exact = GaussianProcessRegressor(kernel, normalize_y=True)
model = PLSRegressor(kernel, random_state=0)
for name, estimator in (("GaussianProcessRegressor", exact), ("PLSRegressor", model)):
    start = time.perf_counter()
    estimator.fit(X, y)
    print(f"{name:26} fitted in {time.perf_counter() - start:.2f} s")

# %%
# The same predictions
# --------------------
grid = np.linspace(-1.0, 11.0, 300)[:, np.newaxis]
figure, axis = plt.subplots(figsize=(7.0, 3.8), layout="constrained")
axis.plot(X, y, ".", color="0.75", ms=3.0)
styles = {"GaussianProcessRegressor": (exact, "k-"), "PLSRegressor": (model, "C1--")}
for name, (estimator, style) in styles.items():
    mean, std = estimator.predict(grid, return_std=True)
    axis.plot(grid, mean, style, lw=1.5, label=name)
    for sign in (-1.96, 1.96):
        axis.plot(grid, mean + sign * std, style, lw=0.8)
axis.set(xlabel="x", ylabel="y", title="mean and 95 % interval")
axis.legend(loc="upper left")

# %%
# Draws
# -----
# ``sample_y`` of scikit-learn factorises the covariance matrix of all requested rows.
# :class:`~skgpx.DecoupledSampler` around the fitted regressor, which it does not
# change, draws functions once; evaluating them takes a time proportional to the rows.
sampler = DecoupledSampler(FrozenEstimator(exact)).fit(X, y)
sampler.sample_functions(20, random_state=0)(X)  # compiles on first use
sizes = (200, 400, 800, 1600)
seconds = {"sample_y": [], "functions": []}
for size in sizes:
    rows = np.linspace(0.0, 10.0, size)[:, np.newaxis]
    start = time.perf_counter()
    exact.sample_y(rows, 20, random_state=0)
    seconds["sample_y"].append(time.perf_counter() - start)
    start = time.perf_counter()
    functions = sampler.sample_functions(20, random_state=0)
    functions(rows)
    seconds["functions"].append(time.perf_counter() - start)

figure, axis = plt.subplots(figsize=(7.0, 3.8), layout="constrained")
axis.loglog(sizes, seconds["sample_y"], "ks-", label="sample_y of scikit-learn")
axis.loglog(
    sizes, seconds["functions"], "C0o--", label="drawing and evaluating functions"
)
axis.set(xlabel="rows", ylabel="seconds for twenty draws", xticks=sizes)
axis.set_xticklabels(sizes)
axis.minorticks_off()
axis.legend(loc="upper left")

# %%
# The value of a function at a row does not depend on the other rows:
print(np.allclose(functions(rows)[7], functions(rows[[7]])[0]))
plt.show()
