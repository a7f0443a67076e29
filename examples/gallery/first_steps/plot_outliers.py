"""
Fit a curve through outliers
============================

A few outliers pull a Gaussian model towards themselves and widen its intervals
everywhere. A Student-t likelihood gives an outlier little weight, and its scale is
learned from the data.
"""

# %%
# Data
# ----
# One reading in ten is wrong.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skgpx import PLSRegressor
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Gaussian, StudentT


def truth(x):
    return np.sin(x) + 0.3 * x


rng = np.random.default_rng(3)
x = np.sort(rng.uniform(0.0, 10.0, 120))
y = truth(x) + 0.15 * rng.standard_normal(len(x))
wild = rng.choice(len(x), 12, replace=False)
y[wild] += rng.choice([-1.0, 1.0], 12) * rng.uniform(1.5, 4.0, 12)
X, grid = x[:, np.newaxis], np.linspace(0.0, 10.0, 300)[:, np.newaxis]

# %%
# Two likelihoods
# ---------------
# The two models differ in their likelihood only. ``df=4`` is the usual choice. The fit
# with normal noise has a finding, which names the other one.
models = {
    "normal noise": PLSRegressor(likelihood=Gaussian(), random_state=0),
    "Student-t noise": PLSRegressor(likelihood=StudentT(4.0), random_state=0),
}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FitWarning)
    for model in models.values():
        model.fit(X, y)
print(models["normal noise"].findings_[0].message)

# %%
# Fits
# ----
# The dark bands are 95 % intervals of the curve, the light ones of new readings.
figure, axes = plt.subplots(
    1, 2, figsize=(9.0, 3.8), sharex=True, sharey=True, layout="constrained"
)
good = np.delete(np.arange(len(x)), wild)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    mean, std = model.predict(grid, return_std=True, include_noise=False)
    low, high = model.predict_interval(grid, 0.95).T
    axis.fill_between(grid[:, 0], low, high, color="C0", alpha=0.15, lw=0.0)
    band = mean - 1.96 * std, mean + 1.96 * std
    axis.fill_between(grid[:, 0], *band, color="C0", alpha=0.5, lw=0.0)
    axis.plot(grid, mean, "C0", lw=1.0)
    axis.plot(grid, truth(grid), "k:", lw=1.0, label="truth")
    axis.plot(x[good], y[good], "k.", ms=3.0)
    axis.plot(x[wild], y[wild], "rx", ms=5.0, label="wrong readings")
    error = np.sqrt(np.mean((mean - truth(grid[:, 0])) ** 2))
    axis.set(title=f"{name}: error of the mean {error:.3f}", xlabel="x")
axes[0].set_ylabel("y")
axes[0].legend(loc="upper left")
plt.show()
