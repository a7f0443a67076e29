"""
Separate the effects of columns
===============================

``Columns(kernel, columns)`` is a kernel of some columns only, and a sum of such kernels
is an additive model whose terms can be inspected one by one. Here 150 noisy rows
separate a smooth effect, a linear one and that of four categories.
"""

# %%
# Columns are given as numbers, slices, masks, or names of the columns of a DataFrame. A
# column of the type category needs no encoding; its kernel is a
# ``CategoricalKernel``, with one correlation between any two categories.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSRegressor
from skgpx.inspection import EffectsDisplay, sobol_indices
from skgpx.kernels import CategoricalKernel, Columns, Linear

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
    + 1.0 * Columns(CategoricalKernel(0.5), "site")
)
model = PLSRegressor(kernel=kernel, random_state=0).fit(X, y)
print(model.kernel_)

# %%
# The effect of a column is the average of the function over the other columns, less its
# mean. Bands and bars are 90 % intervals. Red points are the true effects at the rows.
# The column with the largest share of the variance comes first.
display = EffectsDisplay.from_estimator(model, X, n_pairs=0)
for axis, name in zip(display.axes_, display.effects, strict=True):
    truth = truths[name]
    axis.plot(X[name].to_numpy(), truth - truth.mean(), "r.", ms=3.0)
plt.show()

# %%
# The same shares as a table, with posterior standard deviations. No pair of columns has
# an effect, since the kernel has no such term.
print(pd.DataFrame(sobol_indices(model, X)).round(3))
