"""
Find trend and cycles of an hourly series
=========================================

This is Figure 4 of the paper on spectral variational Gaussian processes: a regression
of 55 weeks of hourly sensor readings on a hundred Fourier functions, with credible
bands of the curve. The default prior finds the cycles of days and weeks.
"""

# %%
# Data
# ----
# The sensor PT08.S1 of the `Air Quality data
# <https://doi.org/10.24432/C59K5F>`_ of the UCI Machine Learning Repository (S. De
# Vito, CC BY 4.0), 9240 hours from 10 March 2004 on, in the file ``air_quality.txt.gz``
# beside this script. Missing hours are filled from the same hour of the days around.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skgpx import SpectralVGPRegressor
from skgpx.bases import PolynomialEigenvalues
from skgpx.exceptions import SkgpxWarning

y = np.loadtxt("air_quality.txt.gz")
for hours in y.reshape(-1, 24).T:
    known = np.flatnonzero(np.isfinite(hours))
    hours[:] = np.interp(np.arange(len(hours)), known, hours[known])
t = np.arange(len(y), dtype=float)[:, np.newaxis]

# %%
# The paper's prior and the default
# ---------------------------------
# The paper's prior is ``λ_j = τ j^(-1-2α)`` with τ = 2·10⁵ (in squared units of the
# sensor) and α = 1/2, on a hundred functions. The paper orders these by the size of
# their coefficients, sines and cosines one by one, and finds a noise standard deviation
# of about 124; ``order="data"`` does the same, with pairs of sine and cosine unless the
# prior has ``paired=False``. With the hundred longest waves days would be noise. The
# default chooses a kernel, raises the waves that stand out (days and weeks), and adds
# functions while the bound of the evidence grows. It also finds that the variation
# grows with the level and advises logarithms, and that more functions could follow the
# series; the figure of the paper is of the
# readings themselves.
warnings.simplefilter("ignore", SkgpxWarning)
domain = (0.0, float(len(y)))
settings = {"domain": domain, "optimizer": None, "normalize_y": False}
models = {
    "longest waves": SpectralVGPRegressor(
        PolynomialEigenvalues(2e5), n_basis=101, **settings
    ),
    "paper": SpectralVGPRegressor(
        PolynomialEigenvalues(2e5, paired=False), n_basis=101, order="data", **settings
    ),
    "largest pairs": SpectralVGPRegressor(
        PolynomialEigenvalues(2e5), n_basis=101, order="data", **settings
    ),
    "default": SpectralVGPRegressor(random_state=0),
}
for name, model in models.items():
    model.fit(t, y)
    noise = np.sqrt(model.noise_variance_)
    print(f"{name:14} {model.n_basis_:5} functions, noise std {noise:6.1f}")
print("hours of the strongest cycles:", (1.0 / model.cycles_[:3, 0]).round(1))

# %%
# The noise of neighbouring hours is correlated, so that its estimate falls with the
# number of functions, and no number is right. The search for waves uses ``y`` twice.
#
# The series, and three weeks of it
# ---------------------------------
# The upper figure shows daily means of the curve, the lower one the curve and its band.
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
