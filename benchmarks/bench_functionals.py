"""Runs with gradients, bins and monotone functions, beside SMT and boosting.

    python -m benchmarks.bench_functionals [--seeds N] [--parts NAME ...]

"gradients": functions of two and eight inputs at a few runs of a Latin hypercube, each
with its gradient; RMSE over 2000 points, in standard deviations of the function. SMT's
gradient-enhanced Kriging GEKPLS is the peer, with two components and with as many as
inputs, where that works.
"bins": a rate from its means over 30 bins, and from as many values.
"many_bins": a million bins, of equal widths and of other ones, on Fourier functions.
"monotone": five functions of one dose.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import qmc
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process.kernels import RBF

from benchmarks.report import progress, report
from skgpx import PLSRegressor, SpectralVGPRegressor

Function = Callable[[Any], Any]

# Ranges of the borehole function, and noise of the monotone functions.
BOREHOLE = (
    (0.05, 0.15),
    (100.0, 50000.0),
    (63070.0, 115600.0),
    (990.0, 1110.0),
    (63.1, 116.0),
    (700.0, 820.0),
    (1120.0, 1680.0),
    (9855.0, 12045.0),
)
NOISE = 0.3


def branin(X: Any) -> Any:
    """On [-5, 10] x [0, 15]."""
    a, b = X.T
    curve = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return curve**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0


def rosenbrock(X: Any) -> Any:
    """On [-2, 2]²."""
    return (1.0 - X[:, 0]) ** 2 + 100.0 * (X[:, 1] - X[:, 0] ** 2) ** 2


def borehole(X: Any) -> Any:
    """Flow through a borehole, of eight inputs."""
    rw, r, Tu, Hu, Tl, Hl, L, Kw = X.T
    log_ratio = np.log(r / rw)
    resistance = 1.0 + 2.0 * L * Tu / (log_ratio * rw**2 * Kw) + Tu / Tl
    return 2.0 * np.pi * Tu * (Hu - Hl) / (log_ratio * resistance)


FUNCTIONS: dict[str, tuple[Function, tuple[tuple[float, float], ...], int]] = {
    "Branin, 15 runs": (branin, ((-5.0, 10.0), (0.0, 15.0)), 15),
    "Rosenbrock, 15 runs": (rosenbrock, ((-2.0, 2.0), (-2.0, 2.0)), 15),
    "borehole, 20 runs": (borehole, BOREHOLE, 20),
    "borehole, 40 runs": (borehole, BOREHOLE, 40),
}
DOSES: dict[str, Function] = {
    "hill": lambda x: 3.0 * x**3 / (1.0 + x**3),
    "step": lambda x: 2.0 / (1.0 + np.exp(-8.0 * (x - 1.5))),
    "line": lambda x: 0.5 * x,
    "late": lambda x: np.where(x > 2.0, (x - 2.0) ** 2, 0.0),
    "saturation": lambda x: 2.0 * (1.0 - np.exp(-2.0 * x)),
}


def gradient(function: Function, X: Any, spans: Any) -> Any:
    """Derivatives along each column, by central differences."""
    slopes = []
    for j, span in enumerate(spans):
        step = np.zeros(X.shape[1])
        step[j] = 1e-5 * span
        slopes.append((function(X + step) - function(X - step)) / (2e-5 * span))
    return np.column_stack(slopes)


def ours(model: Any, X: Any, y: Any, slopes: Any, X_new: Any) -> Any:
    """Predictions of a fit to values and slopes."""
    n, d = X.shape
    rows = np.tile(X, (d + 1, 1))
    targets = np.concatenate((y, slopes.T.ravel()))
    derivative = np.repeat(np.arange(-1, d), n)
    model.fit(rows, targets, derivative=derivative)
    return model.predict(X_new)


def kriging(X: Any, y: Any, slopes: Any, X_new: Any, bounds: Any, n: int) -> Any:
    """Predictions of GEKPLS with so many components."""
    from smt.surrogate_models import GEKPLS

    model = GEKPLS(
        xlimits=bounds,
        n_comp=n,
        theta0=[1e-2] * n,
        delta_x=1e-4,
        extra_points=min(2, X.shape[1]),
        print_global=False,
    )
    model.set_training_values(X, y)
    for j in range(X.shape[1]):
        model.set_training_derivatives(X, slopes[:, [j]], j)
    model.train()
    return model.predict_values(X_new)[:, 0]


def gradients(seeds: int) -> dict[str, Any]:
    """RMSE by function and method, means over seeds."""
    rows: dict[str, Any] = {}
    for name, (function, limits, n) in FUNCTIONS.items():
        bounds = np.array(limits)
        spans = np.ptp(bounds, axis=1)
        errors: dict[str, list[float]] = {}
        seconds = []
        for seed in range(seeds):
            progress({"function": name, "seed": seed})
            sampler = qmc.LatinHypercube(len(bounds), seed=seed)
            X = bounds[:, 0] + spans * sampler.random(n)
            rng = np.random.default_rng(seed)
            X_new = bounds[:, 0] + spans * rng.random((2000, len(bounds)))
            y = function(X)
            truth = function(X_new)
            slopes = gradient(function, X, spans)

            def rmse(mean: Any, truth: Any = truth) -> float:
                return float(np.sqrt(np.mean((mean - truth) ** 2)) / np.std(truth))

            start = time.process_time()
            mean = ours(PLSRegressor(random_state=0), X, y, slopes, X_new)
            seconds.append(time.process_time() - start)
            errors.setdefault("skgpx", []).append(rmse(mean))
            if len(bounds) <= 3:
                kernel = 1.0 * RBF(spans)
                waves = SpectralVGPRegressor(kernel, random_state=0)
                mean = ours(waves, X, y, slopes, X_new)
                errors.setdefault("skgpx, waves", []).append(rmse(mean))
            values = PLSRegressor(random_state=0).fit(X, y).predict(X_new)
            errors.setdefault("skgpx, values only", []).append(rmse(values))
            for n_components in (2, len(bounds)):
                try:
                    mean = kriging(X, y, slopes, X_new, bounds, n_components)
                except (ImportError, ValueError, np.linalg.LinAlgError):
                    continue
                key = "GEKPLS, two components"
                if n_components > 2:
                    key = "GEKPLS, all components"
                errors.setdefault(key, []).append(rmse(mean))
        rows[name] = {key: float(np.mean(found)) for key, found in errors.items()}
        rows[name]["CPU s"] = float(np.mean(seconds))
    return rows


def bins(seeds: int) -> dict[str, Any]:
    """RMSE of a rate from 30 bins and from 30 values of the same noise."""
    edges = np.linspace(0.0, 10.0, 31)
    middles = 0.5 * (edges[1:] + edges[:-1])[:, np.newaxis]
    grid = np.linspace(0.2, 9.8, 400)[:, np.newaxis]
    errors = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        noise = 0.1 * rng.standard_normal(30)
        integral = -np.cos(edges) + 0.05 * edges**2
        means = np.diff(integral) / np.diff(edges)
        values = np.sin(middles[:, 0]) + 0.1 * middles[:, 0]
        truth = np.sin(grid[:, 0]) + 0.1 * grid[:, 0]
        widths = np.full((30, 1), edges[1])
        model = PLSRegressor(random_state=0)
        of_bins = model.fit(middles, means + noise, widths=widths).predict(grid)
        of_values = model.fit(middles, values + noise).predict(grid)
        as_values = model.fit(middles, means + noise).predict(grid)
        errors.append(
            [
                np.sqrt(np.mean((mean - truth) ** 2))
                for mean in (of_bins, of_values, as_values)
            ]
        )
    of_bins, of_values, as_values = np.mean(errors, axis=0).tolist()
    return {
        "30 bins": {
            "means over bins": of_bins,
            "values": of_values,
            "means taken for values": as_values,
        }
    }


def many_bins(seeds: int, n: int = 1_000_000) -> dict[str, Any]:
    """Seconds of a fit to many bins, and RMSE, means over seeds."""
    rows: dict[str, Any] = {}
    grid = np.linspace(0.2, 19.8, 500)[:, np.newaxis]
    truth = np.sin(grid[:, 0]) + 0.5 * np.sin(3.0 * grid[:, 0] + 1.0)
    for name in ("equal", "random"):
        figures = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            edges = np.linspace(0.0, 20.0, n + 1)
            if name == "random":
                edges = np.sort(rng.uniform(0.0, 20.0, n + 1))
            integral = -np.cos(edges) - np.cos(3.0 * edges + 1.0) / 6.0
            widths = np.diff(edges)[:, np.newaxis]
            y = np.diff(integral) / widths[:, 0] + 0.3 * rng.standard_normal(n)
            X = edges[:-1, np.newaxis] + 0.5 * widths
            start = time.perf_counter()
            model = SpectralVGPRegressor(random_state=0).fit(X, y, widths=widths)
            seconds = time.perf_counter() - start
            error = np.sqrt(np.mean((model.predict(grid) - truth) ** 2))
            figures.append([seconds, error])
        mean = np.mean(figures, axis=0).tolist()
        rows[f"{n} bins of {name} widths"] = dict(
            zip(("seconds", "RMSE"), mean, strict=True)
        )
    return rows


def monotone(seeds: int) -> dict[str, Any]:
    """RMSE and negative log density by number of rows, means over functions."""
    rows: dict[str, Any] = {}
    grid = np.linspace(0.0, 3.0, 200)[:, np.newaxis]
    for n in (15, 40):
        figures = []
        for seed in range(seeds):
            for function in DOSES.values():
                rng = np.random.default_rng(seed)
                X = rng.uniform(0.0, 3.0, (n, 1))
                y = function(X[:, 0]) + NOISE * rng.standard_normal(n)
                truth = function(grid[:, 0])
                y_new = truth + NOISE * rng.standard_normal(len(truth))
                figure = []
                for cst in (None, [1]):
                    model = PLSRegressor(monotonic_cst=cst, random_state=0).fit(X, y)
                    density = model.log_predictive_density(grid, y_new).mean()
                    error = np.sqrt(np.mean((model.predict(grid) - truth) ** 2))
                    figure += [error, -density]
                boosting = HistGradientBoostingRegressor(
                    monotonic_cst=[1], min_samples_leaf=5
                ).fit(X, y)
                error = np.sqrt(np.mean((boosting.predict(grid) - truth) ** 2))
                figures.append([*figure, error])
        free, free_nlpd, error, nlpd, boosted = np.mean(figures, axis=0).tolist()
        rows[f"monotone, {n} rows"] = {
            "RMSE": error,
            "RMSE, free": free,
            "RMSE, boosting": boosted,
            "NLPD": nlpd,
            "NLPD, free": free_nlpd,
        }
    return rows


PARTS = {
    "gradients": gradients,
    "bins": bins,
    "many_bins": many_bins,
    "monotone": monotone,
}


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", nargs="*", default=[*PARTS])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.parts:
        rows = [
            {"case": case} | figures
            for case, figures in PARTS[name](arguments.seeds).items()
        ]
        report(f"functionals_{name}", rows, {"seeds": arguments.seeds})


if __name__ == "__main__":
    main()
