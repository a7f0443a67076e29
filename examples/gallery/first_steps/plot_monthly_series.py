"""
Forecast a monthly series with trend, season and gaps
=====================================================

The series resembles the CO₂ record of Mauna Loa: it rises, follows the seasons, and has
a gap of a year and a half. :class:`~skgpx.PLSRegressor` finds the trend and the period
from the data.
"""

# %%
# Data
# ----
# Forty years of synthetic monthly values in parts per million. The gap, single months
# at random and the last eight years are held out.
import matplotlib.pyplot as plt
import numpy as np

from skgpx import PLSRegressor

rng = np.random.default_rng(0)
year = 1980.0 + (np.arange(480) + 0.5) / 12.0
passed = year - 1980.0
season = (3.0 + 0.02 * passed) * np.sin(2.0 * np.pi * passed)
season += 0.8 * np.cos(4.0 * np.pi * passed)
trend = 338.0 + 1.35 * passed + 0.013 * passed**2
slow = np.convolve(rng.standard_normal(503), np.hanning(24) / 3.5, mode="valid")
truth = trend + season + 0.6 * slow
y = truth + 0.3 * rng.standard_normal(480)
seen = (year < 2012.0) & ((year < 1994.0) | (year > 1995.5)) & (rng.random(480) < 0.93)

# %%
# Model
# -----
# A wave of one year stands out of the spectrum and becomes a quasi-periodic term beside
# a smooth function, a linear trend and an autoregression. The kernel refers to the
# standardised y.
model = PLSRegressor(random_state=0).fit(year[seen][:, np.newaxis], y[seen])
print(model.kernel_)

# %%
# Fit, gap and forecast
# ---------------------
# About 95 % of the held-out months lie in their 95 % intervals.
held_out = year[~seen][:, np.newaxis]
low, high = model.predict_interval(held_out, 0.95).T
share = np.mean((low <= y[~seen]) & (y[~seen] <= high))
print(f"months not seen that lie in their 95 % intervals: {share:.0%}")

grid = np.linspace(1980.0, 2020.0, 1921)
mean = model.predict(grid[:, np.newaxis])
low, high = model.predict_interval(grid[:, np.newaxis], 0.95).T
figure, (above, below) = plt.subplots(2, 1, figsize=(9.0, 6.5), layout="constrained")
for axis, (first, last) in zip(
    (above, below), ((1980, 2020), (1990, 2000)), strict=True
):
    axis.fill_between(grid, low, high, alpha=0.3, lw=0.0, label="95 % interval")
    axis.plot(grid, mean, "C0", lw=1.0, label="mean")
    axis.plot(year[seen], y[seen], "k.", ms=2.5, label="months seen")
    axis.plot(year[~seen], y[~seen], "C1x", ms=3.5, label="months not seen")
    axis.set(xlim=(first, last), ylabel="ppm")
below.set(ylim=(345.0, 372.0), xlabel="year")
above.legend(loc="upper left")
plt.show()
