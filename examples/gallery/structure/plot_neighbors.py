"""
Fine detail in many rows
========================

A hundred inducing points summarise a smooth function, but no feasible number of them
follows ridges that are much narrower than the map. ``PLSRegressor`` therefore also
conditions the residual at each location on the nearest rows (``n_neighbors``), by
default above 1500 rows if inducing points alone do not suffice.

Here 6000 noisy heights are measured at random places of a terrain with narrow ridges.
"""

import matplotlib.pyplot as plt
import numpy as np

from skgpx import PLSRegressor


def height(X):
    """A smooth hill, and ridges along bent lines."""
    hill = np.exp(-2.0 * np.sum((X - 0.5) ** 2, axis=1))
    bent = X[:, 0] + 0.15 * np.sin(6.0 * X[:, 1])
    return hill + 0.3 * np.abs(np.sin(40.0 * bent))


rng = np.random.default_rng(0)
X = rng.uniform(size=(6000, 2))
y = height(X) + 0.05 * rng.standard_normal(6000)
ticks = np.linspace(0.0, 1.0, 80)
grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)

# %%
# Two fits with the same kernel, which the first one learns. The second one has as many
# inducing points, and no neighbours.
near = PLSRegressor(n_inducing=300, n_neighbors=40, random_state=0).fit(X, y)
sparse = PLSRegressor(
    near.kernel_, n_inducing=300, n_neighbors=0, optimizer=None, random_state=0
)
sparse.set_params(likelihood=near.likelihood_).fit(X, y)

truth = height(grid)
maps = {"truth": truth}
for name, model in (("300 inducing points", sparse), ("and 40 neighbours", near)):
    mean = model.predict(grid)
    error = np.sqrt(np.mean((mean - truth) ** 2))
    maps[f"{name}: error {error:.3f}"] = mean

fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for ax, (title, values) in zip(axes, maps.items(), strict=True):
    ax.imshow(values.reshape(80, 80), origin="lower", extent=(0, 1, 0, 1), vmax=1.3)
    ax.set_title(title, fontsize=10)
plt.show()

# %%
# Standard deviations and drawn functions come from the same model: a draw agrees with
# the nearest rows wherever it is evaluated.
draws = near.sample_functions(3, random_state=0)
print(draws(grid[:2]).round(2), near.predict(grid[:2], return_std=True)[1].round(2))
