"""
Choose a likelihood by log density
==================================

One observation in ten is an outlier. A search over the likelihood of a pipeline is
scored in four ways. R² depends on means only and hardly distinguishes the candidates;
the log density, the CRPS and the interval score depend on the whole distribution.
"""

# %%
# A curve with outliers
# ---------------------
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import PLSRegressor, metrics
from skgpx.exceptions import FitWarning
from skgpx.inspection import CoverageDisplay, PredictiveDisplay
from skgpx.likelihoods import Gaussian, StudentT

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 10.0, (400, 1))
scale = np.where(rng.random(400) < 0.1, 1.5, 0.2)
y = np.sin(X[:, 0]) + 0.3 * X[:, 0] + scale * rng.standard_normal(400)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Four candidates, four scores
# ----------------------------
# The scorers follow the pipeline to the distribution of the model inside. Fits with
# normal noise warn of heavy tails, which the search finds out for itself. Chosen
# hyperparameters suffice to compare likelihoods; averaging them takes much longer.
scores = {
    "R2": "r2",
    "log density": metrics.log_predictive_density_scorer,
    "-CRPS": metrics.neg_crps_scorer,
    "-interval score": metrics.neg_interval_score_scorer,
}
candidates = [Gaussian(), StudentT(df=8), StudentT(df=4), StudentT(df=2)]
model = PLSRegressor(hyperparameters="maximise", n_inducing=30, random_state=0)
search = GridSearchCV(
    make_pipeline(StandardScaler(), model),
    {"plsregressor__likelihood": candidates},
    scoring=scores,
    refit="log density",
    cv=KFold(3, shuffle=True, random_state=0),
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FitWarning)
    search.fit(X_train, y_train)

print(f"{'cross-validated':16}" + "".join(f"{name:>17}" for name in scores))
for i, candidate in enumerate(candidates):
    means = [search.cv_results_[f"mean_test_{name}"][i] for name in scores]
    print(f"{candidate!r:16}" + "".join(f"{mean:17.3f}" for mean in means))

# %%
# The chosen model on held-out rows
# ---------------------------------
found = skgpx.predict_dist(search, X_test)
inside = metrics.interval_coverage(y_test, found.interval(0.9))
print(f"chosen: {search.best_params_['plsregressor__likelihood']!r}")
print(f"log density {found.log_density(y_test).mean():.3f} per row,", end=" ")
print(f"{inside:.0%} of {len(y_test)} rows inside intervals of 90 %")

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.5, 4.0), width_ratios=(3, 2), layout="constrained"
)
PredictiveDisplay.from_estimator(search, X_train, y_train, ax=left)
CoverageDisplay.from_estimator(
    search, X_test, y_test, kind="curve", name="chosen", ax=right
)
plt.show()

# %%
# A report of the fit
# -------------------
# ``report()`` lists the learned model, the rows that chose the hyperparameters, and the
# findings of the diagnostics.
print(search.best_estimator_[-1].report())
