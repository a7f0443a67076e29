"""What regression on Fourier functions finds by default: cycles, gaps, few rows.

    python -m benchmarks.bench_series_cycles [--quick] [AIR_QUALITY_CSV]

Made-up series with short waves (share of the variance of f that is explained, coverage
of 95 % bands at the rows), for each order of the functions; 1500 hours of the
air-quality series held out, at random and in blocks of 25, against linear interpolation
over time; Fourier functions and inducing points on few rows of two and three inputs; a
million rows. CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.report import progress, report
from skgpx import SpectralVGPRegressor

Array = NDArray[np.float64]
Row = dict[str, Any]

NOISE = 0.3
TONES = [(5000, 10), (5000, 100), (5000, 300), (500, 40), (500, 100)]
DAYS = (30, 120, 365, 730, 3650)
HELD_OUT, BLOCK = 1500, 25


def fitted(X: Array, y: Array, **parameters: Any) -> tuple[Any, Row]:
    """A model, and what it is made of."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SpectralVGPRegressor(**parameters).fit(X, y)
    seconds = time.process_time() - start
    row: Row = {"basis": model.basis_, "m": model.n_basis_}
    row |= {"cycles": len(getattr(model, "cycles_", ())), "CPU s": seconds}
    return model, row


def at_truth(model: Any, X: Array, f: Array) -> Row:
    """Explained share of the variance of f, and coverage."""
    mean, std = model.predict(X, return_std=True, include_noise=False)
    explained = 1.0 - np.mean((mean - f) ** 2) / np.var(f)
    return {"R2": explained, "coverage": np.mean(np.abs(mean - f) < 1.96 * std)}


def series() -> Iterator[tuple[str, Array, Array]]:
    """Names, inputs and functions."""
    rng = np.random.default_rng(0)
    for n, cycles in TONES:
        X = rng.random((n, 1))
        yield f"{cycles} cycles, n={n}", X, np.sin(2.0 * np.pi * cycles * X[:, 0])
    X = rng.random((5000, 1))
    turns = 2.0 * np.pi * X[:, 0]
    yield "30 and 170 cycles", X, np.sin(30 * turns) + 0.5 * np.sin(170 * turns + 1)
    yield "1 and 170 (.2) cycles", X, np.sin(turns) + 0.2 * np.sin(170 * turns + 1)
    for days in DAYS:
        hour = np.arange(24.0 * days)
        f = np.sin(2.0 * np.pi * hour / 24.0) + 0.5 * np.cos(2.0 * np.pi * hour / 168.0)
        yield f"hourly, {days} days", hour[:, np.newaxis], f + hour / hour[-1]


def cycle_rows(orders: tuple[str, ...]) -> Iterator[Row]:
    """Every series and order."""
    for name, X, f in series():
        y = f + NOISE * np.random.default_rng(1).standard_normal(len(f))
        for ordering in orders:
            model, row = fitted(X, y, ordering=ordering)
            yield {"what": name, "ordering": ordering} | row | at_truth(model, X, f)


def held_out(n: int, size: int, seed: int) -> NDArray[np.bool_]:
    """Which rows are held out: as many as HELD_OUT, in blocks of a size."""
    blocks = np.random.default_rng(seed).permutation(n // size)[: HELD_OUT // size]
    return np.isin(np.arange(n) // size, blocks)


def air_rows(path: str, orders: tuple[str, ...]) -> Iterator[Row]:
    """The air-quality series with hours held out."""
    y = pd.read_csv(path)["PT08_S1_CO"].to_numpy(float)
    hour = np.flatnonzero(y > 0.0).astype(float)
    y = y[y > 0.0]
    for size in (1, BLOCK):
        out = held_out(len(y), size, 0)
        X, new = hour[~out, np.newaxis], hour[out, np.newaxis]
        line = np.interp(new[:, 0], X[:, 0], y[~out])
        name = f"air quality, {size} h held out"
        error = np.sqrt(np.mean((line - y[out]) ** 2))
        yield {"what": name, "ordering": "interpolation", "RMSE": error}
        for ordering in orders:
            model, row = fitted(X, y[~out], ordering=ordering)
            mean, std = model.predict(new, return_std=True)
            z = (y[out] - mean) / std
            row["RMSE"] = np.sqrt(np.mean((mean - y[out]) ** 2))
            row["coverage"] = np.mean(np.abs(z) < 1.96)
            row["NLPD"] = np.mean(0.5 * np.log(2.0 * np.pi * std**2) + 0.5 * z**2)
            yield {"what": name, "ordering": ordering} | row


def few_rows(sizes: tuple[int, ...]) -> Iterator[Row]:
    """Two and three inputs, by each basis."""
    for d in (2, 3):
        for n in sizes:
            rng = np.random.default_rng(n)
            X, new = rng.random((n, d)), rng.random((1000, d))

            def truth(Z: Array) -> Array:
                values: Array = np.sin(6 * Z[:, 0]) * np.cos(4 * Z[:, 1]) + Z[:, -1]
                return values

            y = truth(X) + 0.1 * rng.standard_normal(n)
            for basis in ("fourier", "inducing", "auto"):
                model, row = fitted(X, y, basis=basis, random_state=0)
                name = f"{d} inputs, n={n}, {basis}"
                row["bound"] = model.log_evidence_
                yield {"what": name} | row | at_truth(model, new, truth(new))


def million() -> Row:
    """A million rows of a smooth function."""
    rng = np.random.default_rng(0)
    X = rng.random((1_000_000, 1))
    f = np.sin(9.0 * X[:, 0])
    model, row = fitted(X, f + 0.1 * rng.standard_normal(len(X)), random_state=0)
    return {"what": "a million rows"} | row | at_truth(model, X[:10_000], f[:10_000])


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("air", nargs="?")
    asked = parser.parse_args()
    orders = ("auto",) if asked.quick else ("auto", "prior", "power")
    rows: list[Row] = []
    with threadpool_limits(1):
        # compiles
        fitted(np.linspace(0.0, 1.0, 100)[:, np.newaxis], np.arange(100.0) % 7)
        parts = [
            cycle_rows(orders),
            few_rows((100,) if asked.quick else (100, 500, 2000)),
        ]
        if asked.air:
            parts.insert(1, air_rows(asked.air, orders))
        for part in parts:
            for row in part:
                progress(row)
                rows.append(row)
        rows.append(million())
        progress(rows[-1])
    report("series_cycles", rows, {"noise": NOISE})


if __name__ == "__main__":
    main()
