"""Forecasts of ten series of statsmodels beside its exponential smoothing.

    python -m benchmarks.bench_forecasts [--only co2 nile ...]

The last tenth of each series is held out, of the CO2 record also the last five years.
Peers are `ETSModel` (additive errors, damped additive trend, additive season where the
series has months) and `UnobservedComponents` (local linear trend, stochastic season),
which are told the length of the season; defaults of this library are not. MASE is the
mean absolute error over that of the seasonal naive forecast inside of the rows before;
coverage is that of 95 % intervals.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm
from statsmodels.tsa.exponential_smoothing.ets import ETSModel
from statsmodels.tsa.statespace.structural import UnobservedComponents

from benchmarks.report import progress, report
from skgpx import PLSRegressor, SpectralVGPRegressor

Array = Any
# Mean, and lower and upper end of 95 % intervals.
Forecast = tuple[Array, Array]
MACRODATA = ("realgdp", "realinv", "unemp", "infl", "tbilrate", "cpi")


class Series(NamedTuple):
    """Values at even steps, NaN where they are missing, and steps in a season."""

    t: Array
    y: Array
    season: int = 1

    @property
    def scale(self) -> float:
        """Mean absolute error of the seasonal naive forecast."""
        steps = self.y[self.season :] - self.y[: -self.season]
        return float(np.nanmean(np.abs(steps)))


def all_series() -> Iterator[tuple[str, Series]]:
    """The series by name, time in years."""
    co2 = sm.datasets.co2.load_pandas().data["co2"].resample("MS").mean()
    years = co2.index.year + (co2.index.month - 0.5) / 12.0
    yield "co2", Series(years.to_numpy(float), co2.to_numpy(float), 12)
    table = sm.datasets.elnino.load_pandas().data
    months = table["YEAR"].to_numpy()[:, np.newaxis] + (np.arange(12) + 0.5) / 12.0
    values = table.drop(columns="YEAR").to_numpy(float)
    yield "elnino", Series(months.ravel(), values.ravel(), 12)
    for name in ("sunspots", "nile"):
        table = getattr(sm.datasets, name).load_pandas().data
        yield name, Series(*table.to_numpy(float).T)
    table = sm.datasets.macrodata.load_pandas().data
    quarters = (table["year"] + (table["quarter"] - 0.5) / 4.0).to_numpy(float)
    for name in MACRODATA:
        yield name, Series(quarters, table[name].to_numpy(float))


def ets(train: Series, new: Array) -> Forecast:
    """Exponential smoothing; missing values are interpolated."""
    y = pd.Series(train.y).interpolate(limit_direction="both")
    season = {"seasonal": "add", "seasonal_periods": train.season}
    how = season if train.season > 1 else {}
    model = ETSModel(y, error="add", trend="add", damped_trend=True, **how)
    first, last = len(y), len(y) + len(new) - 1
    found = model.fit(disp=0).get_prediction(start=first, end=last)
    return found.predicted_mean.to_numpy(), found.pred_int(0.05).to_numpy()


def components(train: Series, new: Array) -> Forecast:
    """Structural model, by the Kalman filter."""
    season = train.season if train.season > 1 else None
    model = UnobservedComponents(train.y, "local linear trend", seasonal=season)
    found = model.fit(disp=0, maxiter=200).get_forecast(len(new))
    return found.predicted_mean, np.asarray(found.conf_int(alpha=0.05))


def default(make: Callable[..., Any]) -> Callable[[Series, Array], Forecast]:
    """An estimator of this library as it is."""

    def forecast(train: Series, new: Array) -> Forecast:
        known = np.isfinite(train.y)
        model = make(random_state=0)
        model.fit(train.t[known, np.newaxis], train.y[known])
        X = new[:, np.newaxis]
        return model.predict(X), model.predict_interval(X, 0.95)

    return forecast


METHODS = {"ETS": ets, "UnobservedComponents": components}
METHODS |= {one.__name__: default(one) for one in (PLSRegressor, SpectralVGPRegressor)}


def measured(series: Series, cut: int) -> dict[str, float]:
    """Scores of all methods of what comes after the cut."""
    train = Series(series.t[:cut], series.y[:cut], series.season)
    new, y = series.t[cut:], series.y[cut:]
    known, row = np.isfinite(y), {}
    for name, method in METHODS.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean, ends = method(train, new)
        seconds = time.process_time() - start
        errors = np.abs(y - mean)[known]
        inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
        row |= {
            f"MASE {name}": float(np.mean(errors)) / train.scale,
            f"RMSE {name}": float(np.sqrt(np.mean(errors**2))),
            f"coverage {name}": float(np.mean(inside[known])),
            f"CPU s {name}": seconds,
        }
    return row


def main() -> None:
    """Print one line for each series, and their median and mean."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="names of series")
    options, rows = parser.parse_args(), []
    for name, series in all_series():
        if options.only and name not in options.only:
            continue
        n = len(series.y)
        row = {"series": name, "rows": n} | measured(series, n - n // 10)
        rows.append(row)
        progress(row)
    scores = [key for key in rows[0] if key not in ("series", "rows")]
    values = {key: [row[key] for row in rows] for key in scores}
    for name, summary in (("median", np.median), ("mean", np.mean)):
        summed = {key: float(summary(values[key])) for key in scores}
        rows.append({"series": name, "rows": ""} | summed)
    if not options.only or "co2" in options.only:
        series = dict(all_series())["co2"]
        cut = len(series.y) - 60
        row = {"series": "co2, five years", "rows": len(series.y)}
        rows.append(row | measured(series, cut))
    shown = [f"{score} {name}" for score in ("MASE", "coverage") for name in METHODS]
    report("forecasts", rows, {}, ["series", "rows", *shown])


if __name__ == "__main__":
    main()
