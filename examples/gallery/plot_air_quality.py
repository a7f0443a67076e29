"""
Trend and cycles of an hourly series
====================================

Figure 4 of the paper on spectral variational Gaussian processes: 55 weeks of hourly
readings of a tin oxide sensor, regressed on a hundred Fourier functions, with credible
bands of the curve.
"""

# %%
# Data
# ----
# The sensor PT08.S1 of the `Air Quality data
# <https://doi.org/10.24432/C59K5F>`_ of the UCI Machine Learning Repository (S. De
# Vito, CC BY 4.0), 9240 hours from 10 March 2004 on, in the file ``air_quality.txt.gz``
# beside this script. Missing hours are filled from the same hour of the days around.
import matplotlib.pyplot as plt
import numpy as np

from skgpx import SpectralVGPRegressor

y = np.loadtxt("air_quality.txt.gz")
for hours in y.reshape(-1, 24).T:
    known = np.flatnonzero(np.isfinite(hours))
    hours[:] = np.interp(np.arange(len(hours)), known, hours[known])
t = np.arange(len(y), dtype=float)[:, np.newaxis]

# %%
# Three orders of the functions
# -----------------------------
# The paper's prior: ``λ_j = τ j^(-1-2α)`` with τ = 2·10⁵ (in squared units of the
# sensor) and α = 1/2. Which hundred functions come first makes the difference: the
# longest waves, those of the largest power, or single sines and cosines with the
# largest coefficients, as published. The paper finds a noise standard deviation of
# about 124.
models = {}
for ordering in ("prior", "power", "coefficients"):
    models[ordering] = SpectralVGPRegressor(
        ordering=ordering,
        tau=2e5,
        n_basis=100,
        max_basis=len(y),
        domain=(0.0, float(len(y))),
        normalize_y=False,
    ).fit(t, y)
    noise = np.sqrt(models[ordering].noise_variance_)
    print(f"{ordering:14} noise std {noise:6.1f}")

# %%
# The noise of neighbouring hours is correlated, so its estimate falls the more
# functions are taken, and no number is right. Orders that look at ``y`` also use it
# twice: the bands below are a description, without the guarantee of the theory.
#
# The series, and three weeks of it
# ---------------------------------
# Above, the mean of the curve over each day; below, the curve and its band.
model = models["coefficients"]
days, rows = t[:, 0] / 24.0, slice(4000, 4504)
low, high = model.credible_band(t[rows]).T
figure, (above, below) = plt.subplots(2, 1, figsize=(9.0, 6.0), layout="constrained")
above.plot(days, y, ".", color="0.7", ms=1.5)
above.plot(np.arange(385) + 0.5, model.predict(t).reshape(-1, 24).mean(axis=1), "k")
below.plot(days[rows], y[rows], ".", color="0.4", ms=3.0, label="readings")
below.fill_between(days[rows], low, high, alpha=0.4, lw=0.0, label="95 % band")
below.plot(days[rows], model.predict(t[rows]), "k", lw=0.9, label="mean")
above.set(ylabel="PT08.S1", xlim=(days[0], days[-1]))
below.set(ylabel="PT08.S1", xlim=(days[4000], days[4503]), xlabel="days")
handles = below.get_legend_handles_labels()
figure.legend(*handles, loc="outside upper right", ncols=3)
plt.show()
