"""
Fit counts, trials, grades and bounded numbers
==============================================

One function of one input is observed in six ways. Each way needs its own likelihood;
the estimator and its methods of prediction are the same.
"""

# %%
# Six kinds of targets
# --------------------
# The likelihoods themselves draw the data. ``given`` holds quantities of each row: the
# number of trials, or whether y is only a lower bound of the true value.
import matplotlib.pyplot as plt
import numpy as np

from skgpx import PLSRegressor
from skgpx.likelihoods import (
    Beta,
    Binomial,
    Gamma,
    LogNormal,
    NegativeBinomial,
    Ordinal,
)

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.0, 6.0, 150))
f = 1.5 * np.sin(1.5 * x)[:, np.newaxis]
trials = rng.integers(2, 30, 150)

counts = NegativeBinomial(shape=3.0).sample(f + 1.0, rng)[:, 0]
passed = Binomial().at_rows(trials).sample(f, rng)[:, 0]
grades = Ordinal(thresholds=[-1.0, 0.0, 1.5]).sample(f, rng)[:, 0]
shares = Beta(precision=10.0).sample(f, rng)[:, 0]
amounts = Gamma(shape=4.0).sample(f, rng)[:, 0]
# survival times, of which those beyond the end of a study are not observed
times, end = LogNormal(scale=0.5).sample(f, rng)[:, 0], rng.uniform(0.5, 5.0, 150)
alive = times > end

cases = {
    "NegativeBinomial: counts": (NegativeBinomial(), counts, {}),
    "Binomial: successes": (Binomial(), passed, {"exposure": trials}),
    "Ordinal: grades": (Ordinal(), grades, {}),
    "Beta: shares": (Beta(), shares, {}),
    "Gamma: amounts": (Gamma(), amounts, {}),
    "LogNormal: times, some censored": (
        LogNormal(),
        np.minimum(times, end),
        {"censoring": alive},
    ),
}

# %%
# Fits
# ----
# The parameters of the likelihoods are learned together with the kernel.
X, grid = x[:, np.newaxis], np.linspace(0.0, 6.0, 120)[:, np.newaxis]
models = {}
for name, (likelihood, y, given) in cases.items():
    model = PLSRegressor(likelihood=likelihood, n_inducing=15, random_state=0)
    models[name] = model.fit(X, y, **given)
    print(f"{name}: {' '.join(repr(model.likelihood_).split())}")

# %%
# Predictions
# -----------
# The figures show the mean of y and its 90 % interval, whose bounds are integers for
# counts and grades. The interval of successes is that of 20 trials, as a share of them.
# Triangles are censored times: the true time is above.
figure, axes = plt.subplots(2, 3, figsize=(10.0, 5.6), layout="constrained")
for axis, (name, (_, y, given)) in zip(axes.flat, cases.items(), strict=True):
    of_rows = {"exposure": 20.0} if "exposure" in given else {}
    unit = np.asarray(given.get("exposure", 1.0))
    part = 20.0 if of_rows else 1.0
    low, high = models[name].predict_interval(grid, 0.9, **of_rows).T / part
    axis.fill_between(grid[:, 0], low, high, alpha=0.3, lw=0.0, label="90 %")
    axis.plot(grid, models[name].predict(grid), label="mean")
    bound = given.get("censoring", np.zeros(150, dtype=bool))
    axis.plot(x[~bound], (y / unit)[~bound], "k.", ms=3.0)
    axis.plot(x[bound], (y / unit)[bound], "k^", ms=3.0, mfc="none")
    axis.set(title=name, xlabel="x")
axes[0, 0].legend()
axes[0, 1].set_ylabel("share of trials")
plt.show()

# %%
# Probabilities of grades
# -----------------------
# The probability of each grade is a difference of the distribution function.
figure, axis = plt.subplots(figsize=(6.0, 3.2), layout="constrained")
distribution = models["Ordinal: grades"].predict_dist(grid)
below = [np.zeros(120)] + [distribution.cdf(np.full(120, float(k))) for k in range(4)]
axis.stackplot(grid[:, 0], np.diff(below, axis=0), labels=range(4), alpha=0.7)
axis.set(xlabel="x", ylabel="probability", ylim=(0.0, 1.0))
axis.legend(title="grade", loc="upper right")
plt.show()
