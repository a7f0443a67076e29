"""Series by state space: seconds, memory and errors by rows, beside statsmodels.

    python -m benchmarks.bench_state_space [--rows N ...] [--likelihoods NAME ...]

A path of a Matern 3/2 process with a lengthscale of one at 100 uniform times a
lengthscale, with noise of standard deviation 0.3 or drawn from another likelihood.
`PLSRegressor()` learns everything; "rmse" is the error of the latent function at the
rows, "rms z" that in its posterior standard deviations. The peer is a local linear
trend of `UnobservedComponents`, whose times are even, with its search.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.report import peak_gib, progress, report
from skgpx import PLSRegressor
from skgpx._numerics.paths import path_values
from skgpx._numerics.state_space import Cascades
from skgpx.likelihoods import Gamma, Gaussian, Likelihood, Poisson, StudentT

# The most rows of the peer, which takes a minute for them.
PEER_ROWS = 20_000
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


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000]
    )
    parser.add_argument("--likelihoods", nargs="+", default=list(MODELS))
    options = parser.parse_args()
    rows = []
    for name in options.likelihoods:
        # kernels are compiled before
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours(5000, name)
            for n in options.rows:
                models = {"PLSRegressor": ours(n, name)}
                if name == "normal" and n <= PEER_ROWS:
                    models["statsmodels"] = peer(n)
                for model, figures in models.items():
                    row = {"likelihood": name, "rows": n, "model": model, **figures}
                    rows.append(row)
                    progress(row)
    shown = ["likelihood", "rows", "model", "rmse", "rms z", "fit CPU s"]
    report("state_space", rows, {}, [*shown, "predict CPU s", "peak GiB"])


if __name__ == "__main__":
    main()
