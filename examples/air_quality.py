"""Trend and cycles of an hourly series, with credible bands.

    python examples/air_quality.py [air_quality.csv] [figure.png]

The file has columns ``Date,Time,PT08_S1_CO`` (the tin oxide sensor of the UCI Air
Quality data); without it a series of the same structure is made up: 55 weeks of daily
and yearly cycles under noise that remembers a few hours.
"""

import csv
import gzip
import sys
import time
from pathlib import Path

import numpy as np

from skgpx import SpectralVGPRegressor

HOURS = 55 * 7 * 24


def measured(path):
    """Hourly values of a file, gaps filled with the same hour of the days around."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt") as lines:
        text = [row["PT08_S1_CO"] for row in csv.DictReader(lines)][:HOURS]
    y = np.array([float(value) if value else np.nan for value in text])
    y[y < 0.0] = np.nan
    for day in y.reshape(-1, 24).T:
        known = np.flatnonzero(np.isfinite(day))
        day[:] = np.interp(np.arange(len(day)), known, day[known])
    return y


def made_up():
    """Cycles and autocorrelated noise, in the units of the sensor."""
    rng = np.random.default_rng(0)
    t = np.arange(HOURS) / 24.0
    cycles = 60.0 * np.cos(2.0 * np.pi * t / 365.0) + 90.0 * np.cos(2.0 * np.pi * t)
    cycles += 110.0 * np.cos(4.0 * np.pi * t + 1.0) * (1.0 + 0.3 * np.sin(0.9 * t))
    noise = np.empty(HOURS)
    noise[0] = 0.0
    for hour in range(1, HOURS):
        noise[hour] = 0.85 * noise[hour - 1] + 70.0 * rng.standard_normal()
    return 1100.0 + cycles + noise


def main():
    """Fit for both orders of the basis, print the noise; a figure on request."""
    arguments = [a for a in sys.argv[1:] if not a.endswith(".png")]
    y = measured(arguments[0]) if arguments else made_up()
    t = np.arange(HOURS, dtype=float)[:, np.newaxis]
    settings = {"n_basis": 100, "max_basis": HOURS, "domain": (0.0, float(HOURS))}
    for ordering in ("prior", "power", "coefficients"):
        start = time.perf_counter()
        # the paper's prior: scale 2e5 in the units of y, regularity 1/2
        model = SpectralVGPRegressor(
            ordering=ordering, tau=2e5, normalize_y=False, **settings
        ).fit(t, y)
        seconds = time.perf_counter() - start
        sigma = np.sqrt(model.noise_variance_)
        print(
            f"{ordering:12s} sigma {sigma:6.1f}   ELBO {model.log_evidence_:9.0f}   "
            f"{seconds:.2f} s"
        )
    week = t[4000:4168]
    low, high = model.credible_band(week).T
    print(f"95 % band of the curve: {np.mean(high - low):.0f} wide")
    print(f"radius of the 95 % ball: {model.credible_ball():.1f}")
    figures = [a for a in sys.argv[1:] if a.endswith(".png")]
    if figures:
        draw(model, t, y, figures[0])


def draw(model, t, y, path):
    """The whole series and three weeks of it."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(2, 1, figsize=(9, 6), layout="constrained")
    for axis, rows in zip(axes, (slice(None), slice(4000, 4504)), strict=True):
        low, high = model.credible_band(t[rows]).T
        days = t[rows, 0] / 24.0
        axis.plot(days, y[rows], ".", color="0.7", markersize=2)
        axis.fill_between(days, low, high, color="C0", alpha=0.3)
        axis.plot(days, model.predict(t[rows]), color="k", linewidth=0.7)
        axis.set_ylabel("PT08.S1")
    axes[1].set_xlabel("days")
    plt.savefig(Path(path), dpi=120)


if __name__ == "__main__":
    main()
