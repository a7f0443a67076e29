"""
Weigh several explanations of the same data
===========================================

Each reading may be too high by a known shift, with probability one half. One curve then
explains the readings as they are, and another, lower by the shift, explains all of them
as shifted. Figure 6 of the paper on projected Langevin sampling shows both groups of
curves in equal numbers. Their probabilities follow from the prior, and tempered
particles estimate them.
"""

# %%
# The paper's data
# ----------------
# ``f(x) = 2 sin(1.5 π x)``, shift 20, noise variance 1; as in the published code, no
# reading is shifted. Given that all readings are shifted, or that none is, the model is
# Gaussian, so the odds of the two explanations are a ratio of exact evidences.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import PLSRegressor
from skgpx.likelihoods import ShiftedMixture

SHIFT = 20.0


def log_odds(kernel, X, y):
    """Of no reading being shifted against all of them, in nats."""
    distribution = multivariate_normal(np.zeros(len(y)), kernel(X) + np.eye(len(y)))
    return distribution.logpdf(y) - distribution.logpdf(y - SHIFT)


rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-3.0, 3.0, 100))[:, np.newaxis]
noise = rng.standard_normal(100)
y = 2.0 * np.sin(1.5 * np.pi * X[:, 0]) + noise
for std in (2.0, 7.0, 50.0):
    odds = log_odds(std**2 * RBF(0.5), X, y)
    print(f"prior standard deviation {std:4.0f}: log odds {odds:7.1f}")

# %%
# Under a prior about as wide as the curve, the unshifted explanation has all of the
# weight. The other one is as probable only if the prior is many times as wide. Equal
# groups of particles therefore reflect where the particles were started.
#
# Data with two explanations
# --------------------------
# Where the readings lie about half-way between zero and the shift, both curves are
# about as far from the prior mean, and both explanations are probable.
# ``method="smc"`` tempers particles from the prior to the posterior, which gives each
# explanation its weight.
kernel = ConstantKernel(8.0**2, "fixed") * RBF(2.0, "fixed")
X = X[::4]
wave = 2.0 * np.sin(1.5 * X[:, 0]) + noise[::4]
likelihood = ShiftedMixture(SHIFT, 0.5, noise_variance=1.0)
levels = np.array([6.0, 8.0, 10.0, 12.0, 14.0])
models, exact = [], []
for level in levels:
    model = PLSRegressor(
        kernel,
        likelihood=likelihood,
        method="smc",
        n_particles=1000,
        normalize_y=False,
        random_state=0,
    )
    models.append(model.fit(X, wave + level))
    exact.append(expit(log_odds(kernel, X, wave + level)))

# %%
# Weights
# -------
# Left: draws for one level; solid ones explain the readings as they are, dashed ones as
# shifted. Right: the share of particles of the first kind, with two standard errors
# from the effective sample size ``ess_``, beside the exact weight.
shares, errors = [], []
for model in models:
    particles = model.posterior_.marginals(X).mean[:, 0]
    share = np.mean(particles.mean(axis=0) > 0.0)
    shares.append(share)
    errors.append(2.0 * np.sqrt(share * (1.0 - share) / model.ess_.min()))

grid = np.linspace(-3.5, 3.5, 300)[:, np.newaxis]
draws = models[2].sample_functions(60, random_state=0)(grid)
upper = draws.mean(axis=0) > 0.0
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.0, 3.6), width_ratios=(3, 2), layout="constrained"
)
left.plot(grid, draws[:, upper], "C0-", lw=0.7, alpha=0.6)
left.plot(grid, draws[:, ~upper], "C1--", lw=0.7, alpha=0.6)
left.plot(X, wave + levels[2], "k.", ms=4.0)
left.set(xlabel="x", ylabel="y and f(x)", title=f"level {levels[2]:.0f}: draws")
right.plot(levels, exact, "k_", ms=16, label="exact")
right.errorbar(levels, shares, errors, fmt="o", ms=4.0, label="particles")
right.set(xlabel="level of the readings", ylabel="weight of 'not shifted'")
right.set(ylim=(0.0, 1.0), xticks=levels)
right.legend()
plt.show()
