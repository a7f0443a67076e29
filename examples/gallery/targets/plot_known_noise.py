"""
Fit rows whose noise is known
=============================

Instruments report their own errors, and averages come with standard errors. The noise
variance of each row is an argument of ``fit`` and is split with the rows in
cross-validation, unlike the array ``alpha`` in the constructor of scikit-learn's
GaussianProcessRegressor.
"""

# %%
# Two instruments
# ---------------
# An accurate instrument was used rarely, and a cheap one often.
import matplotlib.pyplot as plt
import numpy as np

from skgpx import PLSRegressor


def truth(x):
    return np.sin(2.0 * x) * np.exp(-0.15 * x)


rng = np.random.default_rng(4)
x = np.sort(rng.uniform(0.0, 8.0, 100))
good = np.arange(len(x)) % 6 == 0
std = np.where(good, 0.05, 0.6)
y = truth(x) + std * rng.standard_normal(len(x))
X, grid = x[:, np.newaxis], np.linspace(0.0, 8.0, 300)[:, np.newaxis]

# %%
# One noise for all rows, or that of each
# ---------------------------------------
models = {
    "noise learned, one for all": PLSRegressor(random_state=0).fit(X, y),
    "noise of each row": PLSRegressor(random_state=0).fit(X, y, noise_variance=std**2),
}
figure, axes = plt.subplots(
    1, 2, figsize=(9.0, 3.8), sharex=True, sharey=True, layout="constrained"
)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    mean, spread = model.predict(grid, return_std=True, include_noise=False)
    band = mean - 1.96 * spread, mean + 1.96 * spread
    axis.fill_between(grid[:, 0], *band, alpha=0.3, lw=0.0, label="95 % band of f")
    axis.plot(grid, mean, "C0", lw=1.0)
    axis.plot(grid, truth(grid), "k:", lw=1.0, label="truth")
    axis.plot(x[~good], y[~good], ".", color="0.6", ms=4.0, label="cheap, std 0.6")
    axis.plot(x[good], y[good], "kD", ms=3.5, label="good, std 0.05")
    error = np.sqrt(np.mean((mean - truth(grid[:, 0])) ** 2))
    axis.set(title=f"{name}: error {error:.3f}", xlabel="x", ylim=(-2.7, 2.7))
axes[0].set_ylabel("y")
axes[0].legend(ncols=2, loc="upper center", fontsize=8)

# %%
# A prediction of ``y`` also needs the noise of the new reading. These are the standard
# deviations at ``x = 4`` with each instrument:
model = models["noise of each row"]
for name, error in (("good", 0.05), ("cheap", 0.6)):
    _, total = model.predict([[4.0]], return_std=True, noise_variance=[error**2])
    print(f"{name:6} {total[0]:.3f}")
plt.show()
