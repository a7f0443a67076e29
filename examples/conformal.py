"""Intervals that cover even where the model is wrong: MAPIE around a regressor.

    python examples/conformal.py

Needs MAPIE (pip install mapie). The noise of the data grows with x, the model believes
that it is the same everywhere, and much too small. Conformal prediction compares rows
that the model did not see with its standard deviations, and stretches these until the
intervals hold 90 % of such rows: a guarantee for new rows of the same kind, on average
over x. It does not repair the shape: where the noise is large the intervals are still
too narrow, and where it is small too wide.
"""

import numpy as np
from mapie.conformity_scores import StdConformityScore
from mapie.regression import CrossConformalRegressor, SplitConformalRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import train_test_split

from skgpx import PLSRegressor
from skgpx.likelihoods import Gaussian
from skgpx.metrics import interval_coverage, interval_score, interval_width

COVERAGE = 0.9


def main():
    """Fit, conformalise in two ways, print coverage and width."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(3000, 1))
    scale = 0.05 + 0.1 * (X[:, 0] + 3.0)
    y = np.sin(2.0 * X[:, 0]) + scale * rng.standard_normal(len(X))
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    X_fit, X_kept, y_fit, y_kept = train_test_split(
        X_train, y_train, test_size=0.3, random_state=0
    )
    wrong = PLSRegressor(
        RBF(1.0), likelihood=Gaussian(noise_variance=0.01), optimizer=None
    )

    intervals = {}
    model = wrong.fit(X_fit, y_fit)
    intervals["the model's own"] = model.predict_interval(X_test, COVERAGE)
    split = SplitConformalRegressor(
        model, confidence_level=COVERAGE, conformity_score=StdConformityScore()
    ).conformalize(X_kept, y_kept)
    intervals["split conformal"] = split.predict_interval(X_test)[1][:, :, 0]
    cross = CrossConformalRegressor(
        wrong,
        confidence_level=COVERAGE,
        conformity_score=StdConformityScore(),
        cv=5,
    ).fit_conformalize(X_train, y_train)
    intervals["cross conformal"] = cross.predict_interval(X_test)[1][:, :, 0]

    left = X_test[:, 0] < 0.0
    print(f"{'90 % intervals':18}{'coverage':>10}{'x < 0':>8}{'x > 0':>8}", end="")
    print(f"{'width':>8}{'score':>8}")
    for name, bounds in intervals.items():
        parts = [
            interval_coverage(y_test[rows], bounds[rows])
            for rows in (slice(None), left, ~left)
        ]
        width = interval_width(bounds)
        score = interval_score(y_test, bounds, coverage=COVERAGE)
        print(f"{name:18}{parts[0]:10.3f}{parts[1]:8.3f}{parts[2]:8.3f}", end="")
        print(f"{width:8.2f}{score:8.2f}")


if __name__ == "__main__":
    main()
