"""
Fit counts with exposure
========================

Insured drivers are observed for different times: two claims are many in a month and few
in ten years. ``exposure`` is the time over which each count was taken, and the latent
function is the rate at exposure one.
"""

# %%
# Data
# ----
# A thousand drivers are observed for five weeks to six years. The rate depends on age.
import matplotlib.pyplot as plt
import numpy as np

from skgpx import PLSRegressor
from skgpx.likelihoods import Poisson


def rate(age):
    return 0.15 + 0.5 * np.exp(-(age - 18.0) / 12.0) + 0.3 * np.exp((age - 90.0) / 12.0)


rng = np.random.default_rng(0)
age = rng.uniform(18.0, 90.0, 1000)
# old drivers have been with the insurer for longer
years = rng.uniform(0.1, 1.0 + 5.0 * (age - 18.0) / 72.0)
claims = rng.poisson(years * rate(age))
X = age[:, np.newaxis]

# %%
# With and without
# ----------------
# A model of the bare counts confuses the rate with the time of observation: it finds
# that claims increase with age.
with_exposure = PLSRegressor(likelihood=Poisson(), random_state=0)
with_exposure.fit(X, claims, exposure=years)
without = PLSRegressor(likelihood=Poisson(), random_state=0).fit(X, claims)

# %%
# Rates, and intervals of counts
# ------------------------------
# Predictions without an exposure are claims per year. With an exposure, intervals are
# those of counts over that time, and their bounds are whole numbers.
grid = np.linspace(18.0, 90.0, 200)[:, np.newaxis]
mean, std = with_exposure.predict(grid, return_std=True, include_noise=False)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
left.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.3, lw=0.0)
left.plot(grid, mean, label="with exposure, ± 2 std")
left.plot(grid, without.predict(grid), "C1--", label="bare counts, per driver")
left.plot(grid, rate(grid), "k:", label="truth")
left.set(xlabel="age", ylabel="claims per year", ylim=(0.0, None))
left.legend(loc="upper center")
for time, style in ((10.0, "C0-"), (3.0, "C1--")):
    exposure = np.full(len(grid), time)
    low, high = with_exposure.predict_interval(grid, 0.9, exposure=exposure).T
    label = f"90 % interval, {time:.0f} years"
    right.step(grid, high, style, where="mid", label=label)
    right.step(grid, low, style, where="mid")
right.set(xlabel="age", ylabel="claims", ylim=(-0.3, 12.0))
right.legend()
plt.show()
