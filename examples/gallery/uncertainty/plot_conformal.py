"""
Conformalise the intervals of a wrong model
===========================================

The noise of these data grows with ``x``, but the model assumes a constant noise that is
much too small. Conformal prediction (`MAPIE <https://mapie.readthedocs.io>`_) compares
held-out rows with the standard deviations of the model, and stretches these until the
intervals hold 90 % of such rows: a guarantee for new rows of the same kind, on average
over ``x``.
"""

# %%
# A model that is wrong
# ---------------------
import matplotlib.pyplot as plt
import numpy as np
from mapie.conformity_scores import StdConformityScore
from mapie.regression import CrossConformalRegressor, SplitConformalRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import train_test_split

from skgpx import PLSRegressor
from skgpx.likelihoods import Gaussian
from skgpx.metrics import interval_coverage, interval_score

rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, (3000, 1))
scale = 0.05 + 0.1 * (X[:, 0] + 3.0)
y = np.sin(2.0 * X[:, 0]) + scale * rng.standard_normal(len(X))
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
X_fit, X_kept, y_fit, y_kept = train_test_split(
    X_train, y_train, test_size=0.3, random_state=0
)
wrong = PLSRegressor(
    RBF(1.0), likelihood=Gaussian(noise_variance=0.01), optimizer=None, random_state=0
)
wrong.fit(X_fit, y_fit)

# %%
# Two ways to conformalise it
# ---------------------------
# *Split* conformal prediction stretches the intervals by rows that were held out from
# the fit, *cross* conformal prediction by those of each fold. The score uses
# ``predict(X, return_std=True)``, so that the intervals keep their shape.
how = {"confidence_level": 0.9, "conformity_score": StdConformityScore()}
split = SplitConformalRegressor(wrong, **how).conformalize(X_kept, y_kept)
cross = CrossConformalRegressor(wrong, cv=5, **how).fit_conformalize(X_train, y_train)


def intervals(rows):
    """Intervals of 90 % in three ways."""
    return {
        "the model's own": wrong.predict_interval(rows, 0.9),
        "split conformal": split.predict_interval(rows)[1][:, :, 0],
        "cross conformal": cross.predict_interval(rows)[1][:, :, 0],
    }


left = X_test[:, 0] < 0.0
print(f"{'':16} coverage   x < 0   x > 0   width   score")
for name, bounds in intervals(X_test).items():
    parts = [
        interval_coverage(y_test[rows], bounds[rows])
        for rows in (slice(None), left, ~left)
    ]
    score = interval_score(y_test, bounds, coverage=0.9)
    print(f"{name:16}", *(f"{part:7.3f}" for part in parts), end=" ")
    print(f"{np.mean(np.ptp(bounds, axis=1)):7.2f} {score:7.2f}")

# %%
# Right on average, and not at each x
# -----------------------------------
# The shape is that of the model: the intervals are still too narrow where the noise is
# large, and too wide where it is small. A likelihood of varying noise repairs both (see
# :ref:`sphx_glr_gallery_targets_plot_varying_noise.py`); conformal prediction is for
# models whose noise cannot be described.
grid = np.linspace(-3.0, 3.0, 200)[:, np.newaxis]
ends = np.linspace(-3.0, 3.0, 13)
figure, (above, below) = plt.subplots(
    2, 1, figsize=(8.0, 5.6), sharex=True, height_ratios=(3, 2), layout="constrained"
)
above.plot(X_test[:, 0], y_test, ".", color="0.5", ms=3.0, label="held-out rows")
which = np.digitize(X_test[:, 0], ends[1:-1])
for color, (name, bounds) in zip(("C1", "C0"), intervals(grid).items(), strict=False):
    above.plot(grid, bounds[:, 0], color=color, label=name)
    above.plot(grid, bounds[:, 1], color=color)
    own = intervals(X_test)[name]
    found = [
        interval_coverage(y_test[which == b], own[which == b])
        for b in range(len(ends) - 1)
    ]
    below.stairs(found, ends, color=color, lw=1.5, baseline=None)
above.set(ylabel="y", ylim=(-2.3, 2.7), title="Intervals of 90 %")
above.legend(loc="upper left", ncols=3)
below.axhline(0.9, color="k", ls=":", lw=1.0)
below.set(xlabel="x", ylabel="share inside", ylim=(0.0, 1.05))
plt.show()
