"""Series by state space: seconds and errors by rows, beside statsmodels and celerite2.

    python -m benchmarks.bench_state_space [--rows N ...] [--likelihoods NAME ...]
                                           [--peer-rows N] [--celerite]

A path of a Matern 3/2 process with a lengthscale of one at 100 uniform times a
lengthscale, with noise of standard deviation 0.3 or drawn from another likelihood.
`PLSRegressor()` learns everything; "rmse" is the error of the latent function at the
rows, "rms z" that in its posterior standard deviations. The peer is a local linear
trend of `UnobservedComponents`, whose times are even, with its search.

`--celerite` times the same work by celerite2's solver of the Matern 3/2 process: the
log likelihood of given hyperparameters, a fit of three, means at 20 000 times, and
variances at a hundred. Each is the smallest of three CPU times, taken in turns.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from threadpoolctl import threadpool_limits

from benchmarks.report import peak_gib, progress, report
from skgpx import PLSRegressor
from skgpx._numerics.paths import path_values
from skgpx._numerics.state_space import Cascades, Series
from skgpx.likelihoods import Gamma, Gaussian, Likelihood, Poisson, StudentT

# The most rows of the peer.
PEER_ROWS = 20_000
VARIANCES = 100
CHECKED_ROWS = 20_000
MODELS: dict[str, Likelihood] = {
    "normal": Gaussian(),
    "Student-t": StudentT(),
    "Poisson": Poisson(link="exp"),
    "gamma": Gamma(),
}


def series(n: int, name: str) -> tuple[Any, Any, Any]:
    """Times, the function, and targets under a likelihood."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, n / 100.0, n))
    process = Cascades(np.array([2]), np.sqrt([3.0]), np.zeros(1), np.ones(1))
    first = np.zeros(n, dtype=np.int64)
    seeds = rng.integers(0, 2**32, (1, 2))
    f = path_values(process, seeds, t, first, first + 1)[0][:, 0]
    if name == "Student-t":
        y = f + 0.2 * rng.standard_t(4.0, n)
    elif name == "Poisson":
        y = rng.poisson(np.exp(f)).astype(float)
    elif name == "gamma":
        y = np.exp(f) * rng.gamma(2.0, 0.5, n)
    else:
        y = f + 0.3 * rng.standard_normal(n)
    return t, f, y


def ours(n: int, name: str) -> dict[str, Any]:
    """A default fit and predictions."""
    t, f, y = series(n, name)
    X = t[:, np.newaxis]
    likelihood = None if name == "normal" else MODELS[name]
    model = PLSRegressor(likelihood=likelihood, random_state=0)
    start = time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    chosen = np.linspace(0, n - 1, min(n, CHECKED_ROWS)).astype(int)
    mean, variance = model.posterior_.marginals(X[chosen]).moments()
    predicted = time.process_time()
    error = mean[:, 0] - f[chosen]
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "rms z": float(np.sqrt(np.mean(error**2 / variance[:, 0]))),
        "fit CPU s": fitted - start,
        "predict CPU s": predicted - fitted,
        "peak GiB": peak_gib(),
    }


def peer(n: int) -> dict[str, Any]:
    """A local linear trend of statsmodels."""
    import statsmodels.api as sm

    _, f, y = series(n, "normal")
    start = time.process_time()
    result = sm.tsa.UnobservedComponents(y, "local linear trend").fit(disp=False)
    level = result.smoothed_state[0]
    seconds = time.process_time() - start
    rmse = float(np.sqrt(np.mean((level - f) ** 2)))
    return {"rmse": rmse, "fit CPU s": seconds}


def smallest_seconds(works: dict[str, Callable[[], Any]], rounds: int) -> Any:
    """CPU seconds of works that take turns, and what they return."""
    seconds = dict.fromkeys(works, np.inf)
    results = {}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.process_time()
            results[name] = work()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds, results


def beside_celerite(n: int) -> list[dict[str, Any]]:
    """The same work by both solvers."""
    from benchmarks.peers import celerite

    t, _, y = series(n, "normal")
    true = np.log([1.0, 1.0, 0.09])
    start = np.log([np.std(y), 3.0, 0.5 * np.var(y)])
    cascades = Cascades(np.array([2]), np.sqrt([3.0]), np.zeros(1), np.ones(1))
    rows = Series(cascades, t, np.empty((n, 0)), np.full(n, 0.09))
    constant = 0.5 * n * np.log(2.0 * np.pi)
    kernel = ConstantKernel() * Matern(3.0, nu=1.5)
    model = PLSRegressor(kernel, likelihood=Gaussian(), random_state=0)
    X, chosen = t[:, np.newaxis], np.linspace(0, n - 2, CHECKED_ROWS).astype(int)
    times = 0.5 * (t[chosen] + t[chosen + 1])
    few = times[:: CHECKED_ROWS // VARIANCES]

    seconds, results = smallest_seconds(
        {
            "ours": lambda: rows.filtered(y).value - constant,
            "celerite2": lambda: celerite.log_likelihood(t, y, true),
            "ours, gradient": lambda: rows.filtered(y).smoothed(True).slopes,
        },
        rounds=3,
    )
    gap = abs(results["ours"] - results["celerite2"])
    table = [
        {"rows": n, "work": "log likelihood", **seconds, "largest difference": gap}
    ]
    seconds, results = smallest_seconds(
        {
            "ours": lambda: model.fit(X, y),
            "celerite2": lambda: celerite.fit(t, y, start),
        },
        rounds=1,
    )
    theirs, evaluations = results["celerite2"]
    table.append({"rows": n, "work": "fit", **seconds, "evaluations": evaluations})
    predict = celerite.predictor(theirs, y)
    for work, at, with_variance in (("mean", times, False), ("variance", few, True)):
        new = at[:, np.newaxis]
        seconds, results = smallest_seconds(
            {
                "ours": partial(model.predict, new, return_std=with_variance),
                "celerite2": partial(predict, at, with_variance),
            },
            rounds=3,
        )
        ours_mean = results["ours"][0] if with_variance else results["ours"]
        gap = float(np.max(np.abs(ours_mean - results["celerite2"][0])))
        table.append({"rows": n, "work": work, **seconds, "largest difference": gap})
    return table


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000]
    )
    parser.add_argument("--likelihoods", nargs="+", default=list(MODELS))
    parser.add_argument("--peer-rows", type=int, default=PEER_ROWS)
    parser.add_argument("--celerite", action="store_true", help="only its table")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.celerite:
        with threadpool_limits(1):
            beside_celerite(50_000)
            for n in options.rows:
                for row in beside_celerite(n):
                    rows.append(row)
                    progress(row)
        report("celerite", rows)
        return
    for name in options.likelihoods:
        # kernels are compiled before
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours(5000, name)
            for n in options.rows:
                models = {"PLSRegressor": ours(n, name)}
                if name == "normal" and n <= options.peer_rows:
                    models["statsmodels"] = peer(n)
                for model, figures in models.items():
                    row = {"likelihood": name, "rows": n, "model": model, **figures}
                    rows.append(row)
                    progress(row)
    shown = ["likelihood", "rows", "model", "rmse", "rms z", "fit CPU s"]
    report("state_space", rows, {}, [*shown, "predict CPU s", "peak GiB"])


if __name__ == "__main__":
    main()
