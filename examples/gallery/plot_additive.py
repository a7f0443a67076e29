"""
Additive models: the effect of each column, with its interval
=============================================================

``Columns(kernel, columns)`` is a kernel that sees some columns only, and a sum of such
kernels is an additive model, whose terms can be looked at one by one. Here a smooth
effect, a linear one and one of four categories are separated, from 150 noisy rows.
"""

# %%
# Columns are numbers, slices, masks, or names of the columns of a DataFrame.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSRegressor
from skgpx.kernels import Categorical, Columns, Linear

rng = np.random.default_rng(0)
hour, dose = rng.uniform(0.0, 24.0, 150), rng.uniform(0.0, 5.0, 150)
site = rng.integers(0, 4, 150)
offsets = np.array([0.0, 1.0, -1.0, 0.4])
X = np.column_stack((hour, dose, site))
f = np.sin(2.0 * np.pi * hour / 24.0) + 0.3 * dose + offsets[site]
y = f + 0.3 * rng.standard_normal(150)

kernel = (
    1.0 * Columns(RBF(5.0), [0])
    + Columns(Linear(0.5), [1])
    + 1.0 * Columns(Categorical(0.5, n_categories=4), [2])
)
model = PLSRegressor(kernel=kernel, random_state=0).fit(X, y)
print(model.kernel_)

# %%
# The effect of a column is the function along it less its value at a reference row,
# with the other columns as there. Functions drawn from the posterior give its
# distribution: bands hold 90 % of them, red is the truth.
draws = model.sample_functions(400, random_state=0)
reference = np.array([[12.0, 2.5, 0.0]])
grids = {
    "hour": np.linspace(0.0, 24.0, 100),
    "dose": np.linspace(0.0, 5.0, 100),
    "site": np.arange(4.0),
}
truths = {
    "hour": np.sin(2.0 * np.pi * grids["hour"] / 24.0),
    "dose": 0.3 * (grids["dose"] - 2.5),
    "site": offsets,
}
figure, axes = plt.subplots(1, 3, figsize=(10.0, 3.2), layout="constrained")
for column, (axis, (name, grid)) in enumerate(zip(axes, grids.items(), strict=True)):
    rows = np.repeat(reference, len(grid), axis=0)
    rows[:, column] = grid
    low, middle, high = np.quantile(
        draws(rows) - draws(reference), [0.05, 0.5, 0.95], axis=1
    )
    if name == "site":
        axis.errorbar(grid, middle, [middle - low, high - middle], fmt="ko", capsize=4)
        axis.plot(grid, truths[name], "r_", ms=16.0)
        axis.set_xticks(grid)
    else:
        axis.fill_between(grid, low, high, alpha=0.3, lw=0.0)
        axis.plot(grid, middle, "k")
        axis.plot(grid, truths[name], "r--")
    axis.set(xlabel=name, ylabel="effect on y")
plt.show()
