"""
Fit slopes and totals
=====================

A row may see the value of a function, its slope, or its mean over a bin. The arguments
``derivative`` and ``widths`` of :meth:`~skgpx.PLSRegressor.fit` say which. All inform
one function, and each prediction has its uncertainty.
"""

# %%
# One function, seen in three ways
# --------------------------------
# Six values; the same values with slopes, as some simulation codes and sensors return;
# and the means over nine bins, which are totals divided by the width of the bin.
import matplotlib.pyplot as plt
import numpy as np

from skgpx import PLSRegressor


def truth(x):
    return np.sin(1.5 * x) + 0.3 * x


def slope(x):
    return 1.5 * np.cos(1.5 * x) + 0.3


def integral(x):
    return -np.cos(1.5 * x) / 1.5 + 0.15 * x**2


x = np.array([0.3, 1.6, 3.1, 4.4, 6.1, 7.7])
edges = np.linspace(0.0, 8.0, 10)
centres = 0.5 * (edges[1:] + edges[:-1])
means = np.diff(integral(edges)) / np.diff(edges)
# nearly without noise; learned from so few rows it would be uncertain
noise = 1e-4

from_values = PLSRegressor(random_state=0)
from_values.fit(x[:, np.newaxis], truth(x), noise_variance=noise)
from_slopes = PLSRegressor(random_state=0)
from_slopes.fit(
    np.concatenate((x, x))[:, np.newaxis],
    np.concatenate((truth(x), slope(x))),
    noise_variance=noise,
    derivative=np.repeat([-1, 0], len(x)),
)
from_bins = PLSRegressor(random_state=0)
from_bins.fit(
    centres[:, np.newaxis],
    means,
    noise_variance=noise,
    widths=np.diff(edges)[:, np.newaxis],
)

# %%
# The band closes between rows where values alone leave it open. Means over bins
# determine the function within the bins, too.
grid = np.linspace(0.0, 8.0, 200)[:, np.newaxis]
figure, axes = plt.subplots(
    1, 3, figsize=(10.0, 3.4), sharex=True, sharey=True, layout="constrained"
)
models = {
    "six values": from_values,
    "six values and slopes": from_slopes,
    "means over nine bins": from_bins,
}
for axis, (name, model) in zip(axes, models.items(), strict=True):
    mean, std = model.predict(grid, return_std=True, include_noise=False)
    low, high = mean - 1.96 * std, mean + 1.96 * std
    axis.fill_between(grid[:, 0], low, high, alpha=0.3, lw=0.0, label="95 % band")
    axis.plot(grid, mean, "C0", lw=1.0)
    axis.plot(grid, truth(grid), "k:", lw=1.0, label="truth")
    error = np.sqrt(np.mean((mean - truth(grid[:, 0])) ** 2))
    axis.set(title=f"{name}: error {error:.2f}", xlabel="x", ylim=(-2.5, 5.0))
for axis in axes[:2]:
    axis.plot(x, truth(x), "ko", ms=4.0)
for start, value, along in zip(x, truth(x), slope(x), strict=True):
    ends = np.array([-0.3, 0.3])
    axes[1].plot(start + ends, value + along * ends, "C3", lw=2.0)
axes[2].stairs(means, edges, color="C3", lw=2.0)
axes[0].legend(loc="upper left", fontsize=8)
plt.show()

# %%
# Predictions take the same arguments. This is the slope at x = 2.4, between two rows,
# and the total from 2 to 3:
for name, model in models.items():
    mean, std = model.predict(
        [[2.4]], return_std=True, include_noise=False, derivative=0
    )
    total, error = model.predict(
        [[2.5]], return_std=True, include_noise=False, widths=[[1.0]]
    )
    print(
        f"{name}: slope {mean[0]:.2f} ± {std[0]:.2f}, "
        f"total {total[0]:.2f} ± {error[0]:.2f}"
    )
print(f"truth: slope {slope(2.4):.2f}, total {integral(3.0) - integral(2.0):.2f}")
