"""A likelihood chosen by log density, where R² cannot tell one from the other.

    python examples/model_selection.py [figure.png]

One observation in ten is an outlier. A pipeline is searched over the likelihood and
scored in five ways: R² looks at means alone, and sees little difference; the log
density, the CRPS and the interval score look at the whole predictive law. The best
pipeline is then checked on rows kept out.
"""

import sys

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import PLSRegressor, metrics
from skgpx.inspection import CoverageDisplay, PredictiveDisplay
from skgpx.likelihoods import Gaussian, StudentT

SCORES = {
    "R2": "r2",
    "log density": metrics.log_predictive_density_scorer,
    "-CRPS": metrics.neg_crps_scorer,
    "-interval score": metrics.neg_interval_score_scorer,
    "-coverage error": metrics.neg_coverage_error_scorer,
}
CANDIDATES = [Gaussian(), StudentT(df=8), StudentT(df=4), StudentT(df=2)]


def data():
    """A curve with noise of .2, and outliers of 1.5."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, size=(400, 1))
    scale = np.where(rng.random(400) < 0.1, 1.5, 0.2)
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 0] + scale * rng.standard_normal(400)


def main():
    """Search, print the table, check the winner; a figure on request."""
    X, y = data()
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    pipeline = make_pipeline(
        StandardScaler(), PLSRegressor(n_inducing=30, random_state=0)
    )
    search = GridSearchCV(
        pipeline,
        {"plsregressor__likelihood": CANDIDATES},
        scoring=SCORES,
        refit="log density",
        cv=KFold(5, shuffle=True, random_state=0),
    ).fit(X_train, y_train)

    print(f"{'cross-validated':18}" + "".join(f"{name:>17}" for name in SCORES))
    for i, candidate in enumerate(CANDIDATES):
        means = [search.cv_results_[f"mean_test_{name}"][i] for name in SCORES]
        print(f"{candidate!r:18}" + "".join(f"{mean:17.3f}" for mean in means))

    law = skgpx.predict_dist(search, X_test)
    inside = metrics.interval_coverage(y_test, law.interval(0.9))
    print(f"\nchosen: {search.best_params_['plsregressor__likelihood']!r}")
    density = law.log_density(y_test).mean()
    print(f"on {len(y_test)} rows kept out: log density {density:.3f}", end="")
    print(f", {inside:.0%} inside intervals of 90 %\n")
    print(search.best_estimator_[-1].report())

    if len(sys.argv) > 1:
        display = PredictiveDisplay.from_estimator(search, X_train, y_train)
        display.figure_.savefig(sys.argv[1], dpi=120)
        coverage = CoverageDisplay.from_estimator(search, X_test, y_test, name="chosen")
        coverage.figure_.savefig(sys.argv[1].replace(".", "_coverage."), dpi=120)


if __name__ == "__main__":
    main()
