"""
Search over a pipeline and predict distributions
================================================

The estimators of this library work in pipelines, searches and cross-validation like any
other. These wrappers of scikit-learn pass on ``predict`` only;
:func:`skgpx.predict_dist` follows them to the model inside and returns the whole
distribution of ``y``.
"""

# %%
# A search over a pipeline with a transformed target
# --------------------------------------------------
# The targets are positive and skewed, so the model is fitted to their logarithm. The
# log density of held-out rows chooses the likelihood. Fits with normal noise warn of
# heavy tails, which the search finds out for itself.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import PLSRegressor
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Gaussian, StudentT
from skgpx.metrics import log_predictive_density_scorer

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 100.0, (180, 2))
log_y = np.sin(X[:, 0] / 20.0) + 0.01 * X[:, 1] + 0.15 * rng.standard_t(3, 180)
y = np.exp(log_y)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)


regressor = make_pipeline(StandardScaler(), PLSRegressor(random_state=0))
search = GridSearchCV(
    TransformedTargetRegressor(regressor, func=np.log, inverse_func=np.exp),
    {"regressor__plsregressor__likelihood": [Gaussian(), StudentT(df=4.0)]},
    scoring=log_predictive_density_scorer,
    cv=3,
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FitWarning)
    search.fit(X_train, y_train)
for likelihood, score in zip(
    search.cv_results_["param_regressor__plsregressor__likelihood"],
    search.cv_results_["mean_test_score"],
    strict=True,
):
    print(f"{likelihood!s:15} log density {score:.3f} per row")

# %%
# The distribution of y
# ---------------------
# Quantiles, distribution functions and draws are transformed back exactly: intervals
# are positive and skewed, as ``y`` is.
found = skgpx.predict_dist(search, X_test)
low, high = found.interval(0.9).T
print(f"90 % intervals hold {np.mean((low <= y_test) & (y_test <= high)):.0%}")
print("three draws of the first row:", found.sample(3, random_state=0)[0].round(2))

# %%
# Intervals and ranks
# -------------------
# The histogram on the right shows the distribution function at the held-out ``y``. It
# is uniform if the predictive distributions are right.
median = found.quantile([0.5])[:, 0]
order = np.argsort(median)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.0, 3.6), width_ratios=(3, 2), layout="constrained"
)
ranks = np.arange(len(order))
left.vlines(ranks, low[order], high[order], color="C0", alpha=0.4, lw=3.0)
left.plot(ranks, median[order], "C0_", ms=6.0, label="median, 90 % interval")
left.plot(ranks, y_test[order], "k.", ms=4.0, label="held-out y")
left.set(xlabel="test rows, ordered by the median", ylabel="y")
left.legend(loc="upper left")
right.hist(found.cdf(y_test), np.linspace(0.0, 1.0, 7), color="C0", alpha=0.4, ec="C0")
right.axhline(len(y_test) / 6.0, color="k", ls=":", label="uniform")
right.set(xlabel="distribution function at y", ylabel="test rows")
right.legend()
plt.show()
