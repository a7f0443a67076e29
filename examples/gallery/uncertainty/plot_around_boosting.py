"""
Put uncertainty around gradient boosting
========================================

Boosting predicts without standard deviations. :class:`~skgpx.GWIRegressor` puts a
Gaussian process around it: clones of the booster are fitted on folds, and their errors
at held-out rows calibrate the variances of the process near the data.
"""

# %%
# Standard deviations grow where there are no data
# ------------------------------------------------
# There are no rows between 4 and 6.5, below 0 or above 10.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.model_selection import KFold, cross_val_predict

from skgpx import GWIRegressor

rng = np.random.default_rng(0)
x = np.concatenate((rng.uniform(0.0, 4.0, 180), rng.uniform(6.5, 10.0, 160)))
y = np.sin(1.5 * x) + 0.2 * x + 0.25 * rng.standard_normal(len(x))
boosting = HistGradientBoostingRegressor(max_iter=60, random_state=0)
model = GWIRegressor(boosting, ConstantKernel() * Matern(1.0, nu=1.5), random_state=0)
model.fit(x[:, np.newaxis], y)

grid = np.linspace(-2.0, 12.0, 500)[:, np.newaxis]
mean = model.predict(grid)
low, high = model.predict_interval(grid, 0.95).T
# the errors on folds, if they were the same everywhere
folds = KFold(5, shuffle=True, random_state=0)
errors = y - cross_val_predict(boosting, x[:, np.newaxis], y, cv=folds)
half = 1.96 * np.sqrt(np.mean(errors**2))

figure, axis = plt.subplots(figsize=(8.0, 4.2), layout="constrained")
axis.fill_between(grid[:, 0], low, high, color="C0", alpha=0.15, lw=0, label="95 %")
draws = model.sample_functions(6, random_state=0)(grid)
axis.plot(grid, draws, color="C0", lw=0.6, alpha=0.6)
axis.plot(grid, mean, color="C0", lw=1.8, label="boosting")
axis.plot(grid, mean - half, "--", color="0.5", lw=1.0, label="constant width")
axis.plot(grid, mean + half, "--", color="0.5", lw=1.0)
axis.plot(x, y, "k.", ms=3.0)
axis.set(xlabel="x", ylabel="y", title="A gap, and no data beyond the edges")
axis.legend(loc="upper left")
plt.show()

# %%
# One input leaves the range of the data
# --------------------------------------
# Of five inputs, the fourth is at most 0.75 in the rows of the fit. Beyond, the errors
# grow with the distance, and so does the standard deviation, though too slowly: the
# kernel learns that ``y`` is smooth, and boosting is not. A constant standard deviation
# that is right inside covers less.
edge = 0.75
X, y = make_friedman1(6000, n_features=5, noise=1.0, random_state=0)
train = np.flatnonzero(X[:, 3] < edge)[:800]
test = np.setdiff1d(np.arange(len(y)), train)
# as rough as boosting: a smooth kernel would take it to extrapolate, too
kernel = ConstantKernel() * Matern(np.ones(5), nu=0.5)
model = GWIRegressor(HistGradientBoostingRegressor(), kernel, random_state=0)
model.fit(X[train], y[train])
mean, std = model.predict(X[test], return_std=True)
position, error = X[test, 3], y[test] - mean
errors = y[train] - cross_val_predict(model.mean, X[train], y[train], cv=folds)
constant = np.sqrt(np.mean(errors**2))

for name, rows in (("inside", position < edge), ("outside", position >= edge)):
    held = np.mean(np.abs(error[rows]) < 1.96 * std[rows])
    flat = np.mean(np.abs(error[rows]) < 1.96 * constant)
    print(f"95 % intervals {name}: {held:.2f} hold y, of constant width {flat:.2f}")

# %%
# Root mean squares in bins of the fourth input:
ends = np.linspace(0.0, 1.0, 17)
which = np.digitize(position, ends[1:-1])


def root_mean_squares(values):
    """Of each bin."""
    return [np.sqrt(np.mean(values[which == b] ** 2)) for b in range(len(ends) - 1)]


middle = 0.5 * (ends[1:] + ends[:-1])
figure, axis = plt.subplots(figsize=(8.0, 4.0), layout="constrained")
axis.axvspan(edge, 1.0, color="C1", alpha=0.1, lw=0)
axis.text(edge + 0.01, 0.15, "no data", color="C1")
axis.plot(middle, root_mean_squares(error), "ko-", ms=4.0, label="error")
axis.plot(middle, root_mean_squares(std), "C0", lw=2.0, label="standard deviation")
axis.axhline(constant, color="0.5", ls="--", lw=1.0, label="constant")
axis.set(xlabel="fourth input", xlim=(0.0, 1.0), ylim=(0.0, None))
axis.set(ylabel="root mean square", title="Errors and standard deviations")
axis.legend(loc="upper left")
plt.show()
