"""
Fit rows that stay with dask
============================

A dask array is fitted where its parts are: a sample chooses the kernel, cells of space
get their rows and a halo of their neighbours, and one regression adds them up.
"""

# %%
# Rows in parts
# -------------
# Each part is made when it is read, as if from a file.
import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSRegressor


def signal(X):
    return np.abs(np.sin(12.0 * X[:, 0] + 2.0 * X[:, 1]))


def part(seed):
    rng = np.random.default_rng(seed)
    X = 0.25 * rng.standard_normal((2000, 2))
    return np.column_stack((X, signal(X) + 0.1 * rng.standard_normal(2000)))


parts = [da.from_delayed(dask.delayed(part)(i), (2000, 3), float) for i in range(4)]
rows = da.concatenate(parts)

# %%
# The fit
# -------
# It reads the rows twice. With a client of dask.distributed it would run on a cluster.
kernel = RBF([0.1, 0.5])
model = PLSRegressor(kernel, n_neighbors=20, optimizer="evidence", random_state=0)
model.fit(rows[:, :2], rows[:, 2])
print(model.kernel_, f"noise {model.noise_variance_:.4f}")

# %%
# Lazy predictions
# ----------------
# They are dask arrays, in the order of the rows.
mean, std = model.predict(rows[:, :2], return_std=True)
inside = abs(rows[:, 2] - mean) < 1.645 * std
print(mean)
print(f"90 % intervals hold {inside.mean().compute():.1%}")

# %%
# The figure shows what the model predicts on a grid, and the standard deviation of the
# function, which is small where rows are dense.
axis = np.linspace(-0.7, 0.7, 60)
grid = np.column_stack([values.ravel() for values in np.meshgrid(axis, axis)])
mean, std = model.predict(grid, return_std=True, include_noise=False)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, values, title in zip(axes, (mean, std), ("mean", "std"), strict=True):
    image = ax.imshow(values.reshape(60, 60), origin="lower", extent=(-0.7, 0.7) * 2)
    ax.set(title=title, xlabel="first column", ylabel="second column")
    fig.colorbar(image, ax=ax)
