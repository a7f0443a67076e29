"""
See what few rows say of lengthscales
=====================================

With few rows ``PLSRegressor`` does not choose lengthscales, noise and the family of the
kernel: it averages predictions over their posterior. Here 40 rows have four columns, of
which one matters much, one is a trend, and two are without any effect.
"""

# %%
# Columns have names and units of their own, which the display keeps.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skgpx import PLSRegressor
from skgpx.inspection import HyperparameterDisplay

rng = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "speed": rng.uniform(0.0, 300.0, 40),
        "angle": rng.uniform(0.0, 90.0, 40),
        "width": rng.uniform(0.0, 1.0, 40),
        "colour": rng.uniform(0.0, 1.0, 40),
    }
)
signal = np.sin(X["angle"] / 15.0) + X["speed"] / 300.0
y = signal + 0.1 * rng.standard_normal(40)
model = PLSRegressor(random_state=0).fit(X, y)

# %%
# A point is a state of the posterior, a line holds 90 % of them. The lengthscale of the
# angle is known well, and so is the noise. The lengthscales of the other columns are
# long and uncertain: all that the rows say is that f does not bend along these columns.
HyperparameterDisplay.from_estimator(model)
plt.show()

# %%
# The report has the same in numbers, in the units of the columns and of y.
print(model.report()["hyperparameters"]["noise_std"])
print(model.report()["families"])
