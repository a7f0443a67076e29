"""Draw the chart of docs/which.md: python docs/images/which.py."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

INK, MUTED, BLUE = "#1d2733", "#5c6a79", "#1f6fb4"
# what y is, what else is known, the estimator
BRANCHES = {
    "What is y?": {
        "a class": {
            "nothing but the data": "PLSClassifier",
            "uncertainty around a net or a classifier": "GWIClassifier",
        },
        "a count, a number with outliers,\na law of your own": {
            "any number of inputs": "PLSRegressor(likelihood=...)",
        },
        "a number, noise about normal": {
            "up to a thousand rows": "GaussianProcessRegressor",
            "one to three inputs: series, maps": "SpectralVGPRegressor",
            "more inputs": "PLSRegressor",
            "more inputs, many rows, data in chunks": "SteinRFFRegressor",
            "uncertainty around a net or a regressor": "GWIRegressor",
        },
        "anything: a fitted Gaussian process,\nor a sparse one of another library": {
            "you need functions: optima, simulation": "DecoupledSampler",
        },
    }
}
# left ends of the boxes, and where lines turn
COLUMNS, TURNS = (0.0, 1.6, 8.4), (1.35, 4.95)


def box(axis, x, y, text, *, filled=False):
    """Text in a rounded box that begins at x."""
    style = {"boxstyle": "round,pad=0.4", "linewidth": 1.0}
    style |= {"edgecolor": BLUE, "facecolor": BLUE if filled else "white"}
    color = "white" if filled else INK
    axis.text(x, y, text, va="center", color=color, bbox=style)


def branch(axis, column, y, to):
    """Draw a line from a box of a column to one of the next; boxes cover its ends."""
    first, turn, last = COLUMNS[column], TURNS[column], COLUMNS[column + 1]
    axis.plot([first, turn, turn, last], [y, y, to, to], color=MUTED, lw=1.0, zorder=0)


def main():
    """Draw the tree, its leaves one below the other."""
    figure, axis = plt.subplots(figsize=(11.0, 5.6), layout="constrained")
    axis.set_axis_off()
    (question, kinds), level = next(iter(BRANCHES.items())), 0.0
    middles = []
    for kind, choices in kinds.items():
        levels = [level - i for i in range(len(choices))]
        middle = sum(levels) / len(levels)
        for at, (known, estimator) in zip(levels, choices.items(), strict=True):
            branch(axis, 1, middle, at)
            axis.text(TURNS[1] + 0.1, at + 0.1, known, color=MUTED, size=9)
            box(axis, COLUMNS[2], at, estimator, filled=True)
        box(axis, COLUMNS[1], middle, kind)
        middles.append(middle)
        level = levels[-1] - 1.3
    root = sum(middles) / len(middles)
    for middle in middles:
        branch(axis, 0, root, middle)
    box(axis, COLUMNS[0], root, question)
    axis.set(xlim=(-0.2, 10.9), ylim=(level + 0.7, 0.6))
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
