"""The figures of the pages in docs/measured, drawn from the tables on these pages.

Run ``python docs/images/measured.py``; it writes measured_*.png beside itself.
"""

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
COLORS = ["#1f6fb4", "#d9661f", "#2a9d8f", "#8e5bb5", "#9aa5b1", "#1d2733"]
STYLE = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": mpl.cycler(color=COLORS),
    "legend.frameon": False,
}


def table(page, beginning):
    """Header and rows, of strings, of the table whose header begins like this."""
    lines = (HERE.parent / "measured" / f"{page}.md").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(beginning))
    found = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip(" *`") for cell in line.strip("|").split("|")])
    return found[0], [row for row in found[2:] if any(row)]


def number(text, which=0):
    """One of the numbers in a cell, NaN where there is none."""
    found = re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", text.replace("\u202f", ""))
    return float(found[which]) if len(found) > which else np.nan


def numbers(rows, columns, which=0):
    """Numbers of some columns of a table."""
    return np.array([[number(row[c], which) for c in columns] for row in rows])


def save(figure, name):
    """Write a picture of a page."""
    figure.savefig(HERE / f"measured_{name}.png", dpi=120)
    plt.close(figure)


def dots(axis, names, values, label):
    """Values of each name on a line of its own, with their median."""
    for i, row in enumerate(values):
        axis.plot(row, np.full(len(row), i), "o", color=COLORS[0], ms=4, alpha=0.5)
        axis.plot(np.nanmedian(row), i, "|", color=COLORS[5], ms=16, mew=2)
    axis.set(yticks=range(len(names)), yticklabels=names, xlabel=label)
    axis.invert_yaxis()


def bars(axis, groups, names, values, label):
    """Groups of bars, one bar for each name."""
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        places = np.arange(len(groups)) + (k - (len(names) - 1) / 2) * width
        axis.bar(places, values[:, k], width, label=name)
    axis.set(xticks=range(len(groups)), xticklabels=groups, ylabel=label)


def comparison():
    """CRPS beside the best method of each set, and coverage."""
    header, rows = table("comparison", "| data | size")
    crps = numbers(rows, range(2, len(header)))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.0, 3.6), width_ratios=(3, 2), layout="constrained"
    )
    ratio = crps / crps.min(axis=1, keepdims=True)
    dots(left, header[2:], ratio.T, "CRPS / best of each set (bar: median)")
    left.set_xscale("log")
    left.set_xticks([1, 1.5, 2, 3, 6], ["1", "1.5", "2", "3", "6"], minor=False)
    left.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    _, rows = table("comparison", "| method |")
    mean, lowest = numbers(rows, [4, 5]).T
    right.hlines(range(len(rows)), lowest, mean, color=COLORS[4])
    right.plot(mean, range(len(rows)), "o", color=COLORS[0], label="mean")
    right.plot(lowest, range(len(rows)), "o", color=COLORS[1], label="lowest")
    right.axvline(0.9, color=COLORS[5], lw=0.8, ls=":")
    right.set(yticks=range(len(rows)), yticklabels=[row[0] for row in rows])
    right.set(xlabel="coverage of 90 % intervals")
    right.invert_yaxis()
    right.legend(loc="upper left", fontsize=8)
    save(figure, "comparison")


def forecasts():
    """MASE of each series."""
    header, rows = table("forecasts", "| series |")
    series = [row for row in rows if row[0] not in ("median", "mean")]
    mase = numbers(series, range(1, len(header)))
    figure, axis = plt.subplots(figsize=(9.0, 3.4), layout="constrained")
    for marker, name, values in zip("osD^", header[1:], mase.T, strict=True):
        axis.semilogy(values, marker, label=name.strip("`"), ms=6, alpha=0.8)
    axis.set(xticks=range(len(series)), ylabel="MASE, smaller is better")
    axis.set_xticklabels([row[0] for row in series], rotation=30, ha="right")
    axis.legend(ncols=4, loc="upper right", fontsize=8)
    save(figure, "forecasts")


def likelihoods():
    """Gain in log density of models of varying noise."""
    header, rows = table("likelihoods", "| data | rows of a fit | `Gaussian`")
    # the last column is a standard error
    names = [name.strip("`") for name in header[3:-1]]
    nlpd = numbers(rows, range(2, len(header) - 1))
    figure, axis = plt.subplots(figsize=(9.0, 3.4), layout="constrained")
    gain = nlpd[:, :1] - nlpd[:, 1:]
    groups = [row[0].replace(", ", ",\n") for row in rows]
    bars(axis, groups, names, gain, "gain over Gaussian, nats")
    axis.axhline(0.0, color=COLORS[5], lw=0.8)
    axis.set_ylim(-0.7, 0.7)
    axis.tick_params(axis="x", labelsize=8)
    axis.legend(fontsize=8, ncols=2)
    save(figure, "likelihoods")


def draws():
    """Error of the standard deviation of draws by the number of inputs."""
    header, rows = table("draws", "| d | 1 |")
    figure, axis = plt.subplots(figsize=(7.0, 3.4), layout="constrained")
    for row in rows:
        d = [number(text) for text in header[1:]]
        axis.semilogy(d, numbers([row], range(1, len(row)))[0], "o-", label=row[0])
    axis.set(xlabel="inputs", ylabel="rms of log(std / exact)")
    axis.legend(fontsize=8)
    save(figure, "draws")


def scaling():
    """Wall time of one and two workers."""
    header, rows = table("scaling", "| case | one thread")
    figure, axis = plt.subplots(figsize=(7.0, 3.0), layout="constrained")
    seconds = numbers(rows, range(1, len(header)))
    bars(axis, [row[0] for row in rows], header[1:], seconds, "seconds")
    axis.legend(fontsize=8)
    save(figure, "scaling")


def stein_features():
    """Errors of Gram matrices by the number of columns."""
    _, rows = table("stein_features", "| rows | d, R |")
    figure, axes = plt.subplots(
        1, 2, figsize=(9.0, 3.4), sharey=True, layout="constrained"
    )
    names = "best of QMC, ORF", "Stein", "Nyström, 2R columns"
    for axis, R in zip(axes, (50, 200), strict=True):
        some = [row for row in rows if row[0].startswith("normal") and "√" in row[0]]
        some = [row for row in some if number(row[1], 1) == R]
        for name, column in zip(names, (2, 3, 5), strict=True):
            d = [number(row[1]) for row in some]
            axis.semilogy(d, numbers(some, [column])[:, 0], "o-", label=name)
        axis.set(title=f"{R} frequencies", xlabel="columns", xticks=(2, 4, 8, 16))
    axes[0].set(ylabel="relative error of the Gram matrix", ylim=(1e-7, 1.0))
    axes[0].legend(fontsize=8)
    save(figure, "stein_features")


def stein_regressor():
    """RMSE of many rows."""
    header, rows = table("stein_regressor", "| | kin40k")
    rows = [row for row in rows if not row[0].startswith("6 ")]
    figure, axis = plt.subplots(figsize=(9.0, 3.4), layout="constrained")
    names = [re.split(r" \(|:|, width", row[0])[0].replace("`", "") for row in rows]
    rmse = numbers(rows, range(1, len(header))).T
    bars(axis, [one.split(",")[0] for one in header[1:]], names, rmse, "RMSE")
    axis.legend(fontsize=8, ncols=2)
    save(figure, "stein_regressor")


def targets():
    """Seconds of one fit, of five, and of one fit of five targets."""
    _, rows = table("targets", "| rows | lengthscales of the targets | one fit | five")
    figure, axis = plt.subplots(figsize=(7.0, 3.0), layout="constrained")
    groups = [f"{row[0]} rows,\nlengthscales {row[1]}" for row in rows]
    names = "one target", "five fits", "five targets in one fit"
    bars(axis, groups, names, numbers(rows, [2, 3, 4]), "seconds")
    axis.legend(fontsize=8)
    save(figure, "targets")


def many_rows():
    """Errors of held-out rows against CPU seconds, on a panel for each table."""
    _, rows = table("many_rows", "| table | method | RMSE")
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    for axis, data in zip(axes, ("protein", "kin40k"), strict=True):
        for row in (one for one in rows if one[0] == data):
            seconds, error = number(row[5]), number(row[2])
            ours = "Regressor" in row[1]
            axis.plot(seconds, error, "o", color=COLORS[0 if ours else 4])
            below = row[1] == "ExactGPRegressor"
            left = row[1] == "PLSRegressor"
            axis.annotate(
                row[1],
                (seconds, error),
                (-6 if left else 4, -12 if below else -3 if left else 4),
                textcoords="offset points",
                ha="right" if left else "left",
                size=8,
            )
        axis.set(xscale="log", xlabel="CPU seconds", ylabel="RMSE", title=data)
        axis.margins(x=0.35, y=0.12)
    save(figure, "many_rows")


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        for draw in (comparison, forecasts, likelihoods, draws, scaling):
            draw()
        for draw in (stein_features, stein_regressor, targets, many_rows):
            draw()
