"""Time predictive intervals against predict(return_std=True) of the same model.

    python -m benchmarks.bench_intervals [--rows N] [--rounds N]

One thread, alternating in one process, medians of per-round ratios.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.report import progress, report
from benchmarks.timing import alternate
from skgpx import PLSRegressor, SpectralVGPRegressor
from skgpx.likelihoods import Gaussian, Poisson, ShiftedMixture, StudentT

Array = NDArray[np.float64]
TRAINING = 1000


def models(rng: np.random.Generator) -> dict[str, object]:
    """Fitted models by name: every likelihood with intervals, four inputs, and one."""
    X = rng.random((TRAINING, 4))
    f = np.sin(4.0 * X[:, 0]) + X[:, 1]
    counts = rng.poisson(np.exp(f)).astype(np.float64)
    noise = 0.1 * rng.standard_normal(TRAINING)
    targets = (
        (Gaussian(), f + noise),
        (StudentT(), f + 0.1 * rng.standard_t(4.0, TRAINING)),
        (ShiftedMixture(1.0), f + noise + (rng.random(TRAINING) < 0.5)),
        (Poisson(), counts),
        (Poisson("exp"), counts),
        (Poisson("square"), counts),
    )
    fitted: dict[str, object] = {
        f"PLS {distribution!r}": PLSRegressor(
            likelihood=distribution, random_state=0
        ).fit(X, y)
        for distribution, y in targets
    }
    one = np.sin(4.0 * X[:, 0]) + 0.1 * rng.standard_t(4.0, TRAINING)
    robust = PLSRegressor(likelihood=StudentT(df=4.0), random_state=0)
    fitted["PLS StudentT, one input"] = robust.fit(X[:, :1], one)
    series = SpectralVGPRegressor(random_state=0)
    fitted["SpectralVGP"] = series.fit(X[:, :1], f + noise)
    return fitted


def measure(name: str, model: object, X: Array, n_rounds: int) -> dict[str, object]:
    """Microseconds a row, and what an interval or a density costs in stds."""
    y = np.ones(len(X))
    contenders: dict[str, Callable[[], object]] = {
        "mean": lambda: model.predict(X),  # type: ignore[attr-defined]
        "std": lambda: model.predict(X, return_std=True),  # type: ignore[attr-defined]
        "interval": lambda: model.predict_interval(X),  # type: ignore[attr-defined]
        "density": lambda: model.log_predictive_density(X, y),  # type: ignore[attr-defined]
    }
    timing = alternate(contenders, n_rounds)
    row: dict[str, object] = {"model": name}
    row |= {f"{k} us": 1e6 * timing.median(k) / len(X) for k in contenders}
    for k in ("interval", "density"):
        low, middle, high = timing.ratio(k, "std")
        row[f"{k}/std"] = middle
        row[f"{k}/std quartiles"] = f"{low:.3g}-{high:.3g}"
    return row


def main() -> None:
    """Measure every model and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    rows = []
    with threadpool_limits(1):
        fitted = models(rng)
        for name, model in fitted.items():
            X = rng.random((arguments.rows, model.n_features_in_))  # type: ignore[attr-defined]
            rows.append(measure(name, model, X, arguments.rounds))
            progress(rows[-1])
    settings = {"rounds": arguments.rounds, "rows": arguments.rows, "threads": 1}
    shown = [key for key in rows[0] if "quartiles" not in key]
    report("intervals", rows, settings, shown)


if __name__ == "__main__":
    main()
