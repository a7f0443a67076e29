"""
Separate the effects of columns
===============================

``Columns(kernel, columns)`` is a kernel that sees some columns only, and a sum of such
kernels is an additive model, whose terms can be looked at one by one. Here a smooth
effect, a linear one and one of four categories are separated, from 150 noisy rows.
"""

# %%
# Columns are numbers, slices, masks, or names of the columns of a DataFrame. A column
# whose type is category goes straight in; its kernel is a ``Categorical``, with one
# correlation between any two categories.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSRegressor
from skgpx.inspection import TermEffectDisplay
from skgpx.kernels import Categorical, Columns, Linear

rng = np.random.default_rng(0)
offsets = {"north": 0.0, "east": 1.0, "south": -1.0, "west": 0.4}
X = pd.DataFrame(
    {
        "hour": rng.uniform(0.0, 24.0, 150),
        "dose": rng.uniform(0.0, 5.0, 150),
        "site": pd.Categorical(rng.choice(list(offsets), 150)),
    }
)
truths = {
    "hour": np.sin(2.0 * np.pi * X["hour"] / 24.0),
    "dose": 0.3 * X["dose"],
    "site": X["site"].map(offsets).astype(float),
}
y = sum(truths.values()) + 0.3 * rng.standard_normal(150)

kernel = (
    1.0 * Columns(RBF(5.0), "hour")
    + Columns(Linear(0.5), "dose")
    + 1.0 * Columns(Categorical(0.5), "site")
)
model = PLSRegressor(kernel=kernel, random_state=0).fit(X, y)
print(model.kernel_)

# %%
# The effect of a term is its function less the mean over the rows, because constants
# can move from one term to another. Its posterior is in closed form: bands and bars
# hold 90 % of it. Red is the truth at the rows.
display = TermEffectDisplay.from_estimator(model, X)
for axis, (name, truth) in zip(display.axes_, truths.items(), strict=True):
    axis.plot(X[name].to_numpy(), truth - truth.mean(), "r.", ms=3.0)
plt.show()
