"""
Write a likelihood
==================

This negative binomial likelihood, for counts that vary more than a Poisson distribution
allows, takes some forty lines of NumPy. (The library has
:class:`~skgpx.likelihoods.NegativeBinomial` of its own.)
:func:`~skgpx.likelihoods.check_likelihood` reports errors in it; everything else (mode,
chains, evidence, quantiles) is inherited.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import gammaln
from scipy.stats import nbinom

from skgpx import PLSRegressor
from skgpx.likelihoods import Likelihood, Poisson, check_likelihood


# %%
# The likelihood
# --------------
# The mean is ``exp(f)`` and the variance ``mean + mean² / shape``. Functions are
# elementwise: ``y`` and ``f`` broadcast against each other.
class NegativeBinomial(Likelihood):
    """Counts with mean ``exp(f)`` and variance ``mean + mean ** 2 / shape``."""

    scale_names = ("shape",)  # positive parameters that are learned where None
    log_scale = True  # f is on a logarithmic scale: the default kernel is bounded
    discrete = True  # quantiles are integers

    def __init__(self, shape=None):
        self.shape = shape

    def starting_scales(self, y, weights):
        mean = np.average(y, weights=weights)
        excess = np.average((y - mean) ** 2, weights=weights) - mean
        start = np.clip(mean**2 / max(excess, 1e-9), 0.1, 100.0)
        return {"shape": (start, 1e-2, 1e4)}  # with its bounds

    def nll(self, y, f):
        # Γ(y + a) / (Γ(a) y!) p^a (1 - p)^y with p = a / (a + e^f)
        y, a = np.asarray(y, dtype=float), self.shape
        log_sum = np.logaddexp(np.log(a), f)
        constant = gammaln(y + 1.0) + gammaln(a) - gammaln(y + a)
        return constant + (a + y) * log_sum - a * np.log(a) - y * np.asarray(f)

    def gradient(self, y, f):
        a, share = self.shape, 1.0 / (1.0 + self.shape * np.exp(-np.clip(f, -500, 500)))
        return (a + np.asarray(y)) * share - y

    def mean(self, f):
        return np.exp(f)

    def variance(self, f):
        return np.exp(f) + np.exp(2.0 * np.asarray(f)) / self.shape

    def cdf(self, y, f):  # for quantiles and intervals
        return nbinom.cdf(y, self.shape, self.shape / (self.shape + np.exp(f)))

    def sample(self, f, rng):
        return rng.poisson(rng.gamma(self.shape, np.exp(f) / self.shape)).astype(float)

    def base_latent(self, y, weights):  # the level far from the data
        return np.log(np.average(y, weights=weights) + 1e-3)

    def initial_latent(self, y):  # rough values of f, for its scale
        return np.log(np.asarray(y) + 0.5)

    def check_support(self, y):
        super().check_support(y)
        if np.any(y < 0) or np.any(y != np.round(y)):
            raise ValueError("NegativeBinomial expects counts: integers from 0 on.")


# %%
# The check compares gradients with differences, moments and the distribution function
# with samples, and tests broadcasting, overflow and declarations. It returns silently
# if nothing is wrong. Here it reports a gradient of the wrong sign:
check_likelihood(NegativeBinomial())


class Wrong(NegativeBinomial):
    def gradient(self, y, f):
        return -super().gradient(y, f)


try:
    check_likelihood(Wrong())
except ValueError as error:
    print(str(error)[:300])

# %%
# Beside a Poisson likelihood
# ---------------------------
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.0, 10.0, 150))
rate = np.exp(1.5 + np.sin(x))
y = NegativeBinomial(3.0).sample(np.log(rate), rng)
X, grid = x[:, np.newaxis], np.linspace(0.0, 10.0, 200)[:, np.newaxis]
models = {}
for likelihood in (Poisson("exp"), NegativeBinomial()):
    model = PLSRegressor(likelihood=likelihood, n_inducing=30, random_state=0)
    # the Poisson model warns that the counts are overdispersed
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        models[type(likelihood).__name__] = model.fit(X, y)
    print(*(str(warning.message)[:79] for warning in given))
print(f"shape: {models['NegativeBinomial'].likelihood_.shape:.2f} (truth 3)")

# %%
# The figures show 90 % intervals, and their titles the share of new counts in them.
# Under the Poisson likelihood the extra variation of the counts looks like a rough
# function, which the intervals follow instead of the rate.
fresh = NegativeBinomial(3.0).sample(np.log(np.tile(rate, (200, 1))), rng)
figure, axes = plt.subplots(
    1, 2, figsize=(9.0, 3.8), sharex=True, sharey=True, layout="constrained"
)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    low, high = model.predict_interval(X, 0.9).T
    inside = np.mean((low <= fresh) & (fresh <= high))
    low, high = model.predict_interval(grid, 0.9).T
    axis.fill_between(grid[:, 0], low, high, step="mid", alpha=0.3, lw=0.0)
    axis.plot(grid, model.predict(grid), "C0", label="mean")
    axis.plot(x, rate, "k:", label="true rate")
    axis.plot(x, y, "k.", ms=3.0)
    axis.set(title=f"{name}: {inside:.0%} within 90 % intervals", xlabel="x")
axes[0].set_ylabel("count")
axes[0].legend()
plt.show()
