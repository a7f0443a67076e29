"""
Write a basis
=============

Estimators of the library are built on *bases*: functions ``Φ`` whose weights are
independent standard normal a priori, and a residual ``g`` that they leave out. This
example is the basis of Faber and Schauder, tents of ever smaller width, for which
Brownian motion is exactly ``Φ(x)ᵀw + g(x)``. It is for authors of new estimators;
modules whose names begin with an underscore may change.
"""

from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np

from skgpx._draws import linear_draws
from skgpx._latent import LatentModel
from skgpx._numerics.regression import posterior, weight_statistics
from skgpx.bases._kernel_basis import feature_marginals


# %%
# The basis
# ---------
# The functions are ``x`` and, at each level, ``2^level`` tents of height
# ``2^(-level/2 - 1)``. The residual consists of independent Brownian bridges between
# the knots.
@dataclass(frozen=True)
class Schauder:
    """Basis of Brownian motion on [0, 1]: ``2 ** levels`` functions."""

    levels: int
    white_variance = 0.0  # the part of the residual that is independent between rows

    @property
    def n_basis(self):
        return 2**self.levels

    @property
    def floats_per_row(self):
        return 4 * self.n_basis

    def __call__(self, X):
        """Features (n, m), with prior weights N(0, I)."""
        x = X[:, :1]
        columns = [x]
        for level in range(self.levels):
            at = 2**level * x - np.arange(2**level)
            tent = np.maximum(0.0, 1.0 - np.abs(2.0 * at - 1.0))
            columns.append(2.0 ** (-level / 2.0 - 1.0) * tent)
        return np.hstack(columns)

    def residual_covariance(self, X, features):
        """``k(X, X) - Φ Φᵀ`` with ``k(x, x') = min(x, x')``."""
        return np.minimum(X, X.T) - features @ features.T

    def residual_variance(self, X, features):
        return np.maximum(X[:, 0] - np.sum(features**2, axis=1), 0.0)

    def marginals(self, distribution):
        return feature_marginals(self, distribution)

    def draw(self, weights, rng, more=5):
        """Functions ``Φᵀw + g``: the residual is the next levels, of prior weights."""
        fine = replace(self, levels=self.levels + more)
        rest = rng.standard_normal((fine.n_basis - self.n_basis, *weights.shape[1:]))
        return linear_draws(fine, np.concatenate((weights, rest)))


# %%
# The first test of a basis: features and residual sum to the kernel, and draws with
# prior weights have that covariance.
rng = np.random.default_rng(0)
basis, points = Schauder(3), np.linspace(0.1, 0.95, 12)[:, np.newaxis]
features = basis(points)
total = features @ features.T + basis.residual_covariance(points, features)
assert np.allclose(total, np.minimum(points, points.T))
draws = basis.draw(rng.standard_normal((basis.n_basis, 1, 20_000)), rng)(points)
print(f"largest error of the covariance: {np.abs(np.cov(draws) - total).max():.3f}")

# %%
# Regression
# ----------
# Sums over the rows, normal weights and a latent model make a regression. The exact
# posterior, for comparison, uses the covariance of all rows without a basis.
NOISE = 0.01
X = rng.uniform(0.0, 1.0, (60, 1))
y = np.abs(np.sin(9.0 * X[:, 0])) - X[:, 0] + np.sqrt(NOISE) * rng.standard_normal(60)
grid = np.linspace(0.0, 1.0, 401)[:, np.newaxis]
K = np.minimum(X, X.T) + NOISE * np.eye(60)
gain = np.linalg.solve(K, np.minimum(X, grid.T)).T
exact = gain @ y
exact_std = np.sqrt(grid[:, 0] - np.sum(gain * np.minimum(grid, X.T), axis=1))
models = {}
for levels in (3, 5):
    basis = Schauder(levels)
    features = basis(X)
    left_out = basis.residual_variance(X, features)
    sums = weight_statistics(features, y, np.ones(len(y)), left_out)
    models[levels] = LatentModel(basis, posterior(sums, NOISE))

# %%
# Eight functions are too few for these data: near their knots, where the residual is
# zero, the band is too narrow. With 32 functions it is nearly the exact one.
figure, axes = plt.subplots(
    1, 2, figsize=(9.5, 3.8), sharex=True, sharey=True, layout="constrained"
)
for axis, model in zip(axes, models.values(), strict=True):
    moments = model.marginals(grid)
    mean, std = moments.mean[:, 0, 0], np.sqrt(moments.variance[:, 0, 0])
    curves = model.basis.draw(model.weights.draw(4, rng), rng)(grid)
    band = mean - 1.96 * std, mean + 1.96 * std
    axis.fill_between(grid[:, 0], *band, alpha=0.3, lw=0.0, label="95 % band")
    axis.plot(grid, curves, "C0", lw=0.5)
    for sign in (-1.96, 1.96):
        label = "exact 95 % band" if sign > 0.0 else None
        axis.plot(grid, exact + sign * exact_std, "k--", lw=0.8, label=label)
    axis.plot(X, y, "k.", ms=3.0)
    axis.set(title=f"{model.n_basis} functions, four draws", xlabel="x")
axes[0].set_ylabel("y")
axes[0].legend(loc="lower left")
plt.show()
