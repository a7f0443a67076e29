"""
Fit noise that varies with the inputs
=====================================

``HeteroscedasticGaussian`` has two latent functions: the mean of y, and the logarithm
of the standard deviation of its noise. Where the noise does not vary, the second one is
constant, and predictions are those of constant noise.
"""

# %%
# The same rows are fitted with constant noise, the default, and with noise that varies.
# The first fit warns that the residuals differ in size.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skgpx import PLSRegressor
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import HeteroscedasticGaussian


def rows(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2.0, 2.0, n)
    noise = 0.05 + 0.5 / (1.0 + np.exp(-4.0 * x))
    return x[:, np.newaxis], np.sin(2.0 * x) + noise * rng.standard_normal(n)


X, y = rows(300, 0)
new, held_out = rows(2000, 1)
grid = np.linspace(-2.0, 2.0, 200)[:, np.newaxis]
models = {
    "constant noise": PLSRegressor(random_state=0),
    "noise that varies": PLSRegressor(
        likelihood=HeteroscedasticGaussian(), random_state=0
    ),
}
figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.5), sharey=True, layout="constrained")
for axis, (name, model) in zip(axes, models.items(), strict=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model.fit(X, y)
    low, high = model.predict_interval(grid, 0.9).T
    axis.plot(X, y, ".", color="0.6", ms=3.0)
    axis.fill_between(grid[:, 0], low, high, alpha=0.3, lw=0.0)
    axis.plot(grid, model.predict(grid), "k")
    density = np.mean(model.log_predictive_density(new, held_out))
    axis.set_title(f"{name}: log density {density:.2f} an observation", size=10)
    low, high = model.predict_interval(new, 0.9).T
    inside = (low < held_out) & (held_out < high)
    left, right = (np.mean(inside[side]) for side in (new[:, 0] < 0, new[:, 0] > 0))
    axis.set_xlabel(f"90 % bands hold {left:.0%} left of zero, {right:.0%} right of it")
axes[0].set_ylabel("y")
plt.show()

# %%
# The finding of the fit with constant noise names the column, the effect and the
# remedy:
print(models["constant noise"].findings_[0].message)
