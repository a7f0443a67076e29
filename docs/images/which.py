"""The chart of docs/which.md: from the kind of y to the estimator.

Run ``python docs/images/which.py``; it writes which.png beside itself.
"""

from pathlib import Path

import matplotlib.pyplot as plt

CHART = {
    "a class": {
        "two to about nine classes": "PLSClassifier",
        "ten classes or more": "GWIClassifier",
        "around a network or a classifier": "GWIClassifier",
    },
    "a count, grade or share,\nwith outliers, your own density": {
        "any number of inputs": "PLSRegressor(likelihood=…)",
    },
    "a number with\nGaussian noise": {
        "any number of inputs": "PLSRegressor",
        "a trend to extrapolate": "PLSRegressor",
        "known noise of each row": "PLSRegressor",
        "one input, or large maps; no trend": "SpectralVGPRegressor",
        "10⁴ to 10⁵ rows, smooth, minutes": "ExactGPRegressor",
        "more inputs, in chunks": "SteinRFFRegressor",
        "around a network or a regressor": "GWIRegressor",
    },
    "a fitted Gaussian process": {
        "draws for optima or simulation": "DecoupledSampler",
    },
    "a regressor whose standard\ndeviations are inaccurate": {
        "calibration on held-out errors": "TemperedRegressor",
    },
}
BLUE, GREY = "#1f6fb5", "#5b6b7f"
ROOT, KIND, FORK, ESTIMATOR = 0.0, 1.75, 5.0, 9.0


def draw(chart):
    """A figure of the chart: kinds of y, conditions along lines, estimators."""
    figure, axes = plt.subplots(figsize=(10.0, 7.6), dpi=160)
    axes.set(xlim=(-0.1, 11.9), ylim=(-14.6, 0.9))
    axes.axis("off")
    framed = {"boxstyle": "round,pad=0.35", "ec": BLUE, "fc": "white"}
    filled = {"boxstyle": "round,pad=0.35", "ec": BLUE, "fc": BLUE}
    centres, row = [], 0.0
    for kind, conditions in chart.items():
        rows = [row - i for i in range(len(conditions))]
        centre = sum(rows) / len(rows)
        centres.append(centre)
        axes.plot([KIND - 0.4, FORK], [centre, centre], color=GREY, lw=1.2, zorder=0)
        axes.plot([FORK, FORK], [rows[0], rows[-1]], color=GREY, lw=1.2, zorder=0)
        for (condition, estimator), y in zip(conditions.items(), rows, strict=True):
            axes.plot([FORK, ESTIMATOR], [y, y], color=GREY, lw=1.2, zorder=0)
            axes.text(FORK + 0.1, y + 0.12, condition, color=GREY, fontsize=10.5)
            axes.text(ESTIMATOR, y, estimator, color="white", va="center", bbox=filled)
        axes.text(KIND - 0.1, centre, kind, va="center", bbox=framed)
        row = rows[-1] - 1.3
    middle = 0.5 * (centres[0] + centres[-1])
    axes.plot([ROOT, KIND - 0.4], [middle, middle], color=GREY, lw=1.2, zorder=0)
    axes.plot([KIND - 0.4] * 2, [centres[0], centres[-1]], color=GREY, lw=1.2, zorder=0)
    axes.text(ROOT, middle, "What is y?", va="center", bbox=framed)
    return figure


if __name__ == "__main__":
    draw(CHART).savefig(Path(__file__).with_suffix(".png"), bbox_inches="tight")
