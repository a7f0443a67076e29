"""Time function draws against BoTorch's, scikit-learn's sample_y and the bare product.

    python -m benchmarks.bench_draws [--quick] [--rounds 5] [--avx2] [--evaluation]

Matern-5/2 posterior of n points in d dimensions, l Fourier features, S draws at N rows;
double precision, one thread, contenders alternating in one process, processor seconds.
BoTorch has the same points, as many features, and evaluates under no_grad in the
chunks of rows that are fastest for it. The bare product is that of features which are
already there, (N, l + n) by (l + n, S), in chunks of 2048 rows. ``--avx2`` keeps all
contenders to registers of 256 bits.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from threadpoolctl import threadpool_limits

from benchmarks.peers import paths
from benchmarks.report import progress, report
from benchmarks.timing import Timing, alternate
from benchmarks.vectors import restart_with_avx2, vectors
from skgpx import DecoupledSampler, FunctionDraws

Array = NDArray[np.float64]
NOISE_VARIANCE = 1e-3
# n, l, S, N; BoTorch gets a tenth of the rows, and its time is per row
EVALUATIONS = (
    (100, 1024, 1, 250_000),
    (1000, 1024, 64, 100_000),
    (1000, 4096, 1000, 10_000),
)
GRADIENTS = ((100, 1024, 2), (100, 1024, 8), (1000, 1024, 8), (1000, 4096, 8))
N_MESH, N_STARTS = 10_000, 32


def posterior(n: int, d: int, seed: int = 0) -> GaussianProcessRegressor:
    """KernelProcess with the hyperparameters that the data were drawn with."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    kernel = Matern(length_scale(d), nu=2.5)
    K = kernel(X) + NOISE_VARIANCE * np.eye(n)
    y = np.linalg.cholesky(K) @ rng.standard_normal(n)
    return GaussianProcessRegressor(kernel, alpha=NOISE_VARIANCE, optimizer=None).fit(
        X, y
    )


def length_scale(d: int) -> float:
    """That of the paper: the same number of neighbours in every dimension."""
    return float(np.sqrt(d / 100.0))


def sampler(gp: GaussianProcessRegressor, n_basis: int) -> DecoupledSampler:
    """Return ours, with as many features as the peer."""
    ours = DecoupledSampler(FrozenEstimator(gp), n_basis=n_basis)
    return ours.fit(gp.X_train_, gp.y_train_)


def peer(gp: GaussianProcessRegressor) -> Any:
    """BoTorch's model of the same process."""
    d = gp.X_train_.shape[1]
    return paths.model(gp.X_train_, gp.y_train_, length_scale(d), NOISE_VARIANCE)


def bare_product(n_columns: int, n_draws: int, n_rows: int) -> Callable[[], object]:
    """Return the product that is left when features cost nothing."""
    rng = np.random.default_rng(0)
    size = min(2048, n_rows)
    features = rng.standard_normal((size, n_columns))
    weights, out = rng.standard_normal((n_columns, n_draws)), np.empty((size, n_draws))

    def multiply() -> None:
        for _ in range(n_rows // size):
            np.dot(features, weights, out)

    return multiply


def measure_evaluation(
    n: int, l: int, n_draws: int, n_rows: int, d: int, n_rounds: int
) -> dict[str, object]:
    """Microseconds a row of drawing once and evaluating everywhere."""
    gp, X = posterior(n, d), np.random.default_rng(1).uniform(size=(n_rows, d))
    ours = sampler(gp, l).sample_functions(n_draws, random_state=0)
    theirs = paths.draw(peer(gp), l, n_draws, seed=0)
    chunk = paths.fastest_chunk(theirs, X[: 4096 if n_draws < 500 else 1024], 3)
    few = X[: max(1, n_rows // 10 // chunk) * chunk]
    contenders = {
        "ours": lambda: ours(X),
        "botorch": paths.evaluation(theirs, few, chunk),
        "product": bare_product(l + n, n_draws, len(few)),
    }
    rows = {"ours": len(X), "botorch": len(few), "product": len(few) // 2048 * 2048}
    rows["product"] = rows["product"] or len(few)
    seconds = alternate(contenders, n_rounds, clock=time.process_time).seconds
    timing = Timing({k: 1e6 * s / rows[k] for k, s in seconds.items()})
    row: dict[str, object] = {"n": n, "l": l, "draws": n_draws, "rows": n_rows, "d": d}
    row |= {f"{k} us/row": timing.median(k) for k in contenders}
    row |= {"chunk": chunk} | spread(timing)
    row["ours/product"] = timing.ratio("ours", "product")[1]
    return row


def spread(timing: Timing) -> dict[str, float]:
    """Median ratio of the rounds, and their quartiles."""
    low, middle, high = timing.ratio("botorch", "ours")
    return {"botorch/ours": middle, "quartile 1": low, "quartile 3": high}


def measure_sample_y(n_rows: int, n_rounds: int) -> dict[str, object]:
    """Seconds for 64 draws at some rows, drawing included."""
    gp, X = posterior(100, 2), np.random.default_rng(1).uniform(size=(n_rows, 2))
    ours = sampler(gp, 1024)
    contenders = {
        "ours": lambda: ours.sample_y(X, 64, random_state=0),
        "sample_y": lambda: gp.sample_y(X, 64, random_state=0),
    }
    timing = alternate(contenders, n_rounds)
    row: dict[str, object] = {"rows": n_rows}
    row |= {f"{k} s": timing.median(k) for k in contenders}
    return row | {"sample_y/ours": timing.ratio("sample_y", "ours")[1]}


def measure_gradient(n: int, l: int, d: int, n_rounds: int) -> dict[str, object]:
    """Value and gradient of one draw at 32 points, and its minimum."""
    gp, X = posterior(n, d), np.random.default_rng(1).uniform(size=(32, d))
    draws = sampler(gp, l).sample_functions(12, random_state=0)
    theirs = paths.draw(peer(gp), l, 1, seed=0)
    one = draws[0]
    timing = alternate(
        {
            "ours": lambda: one.value_and_grad(X),
            "botorch": paths.differentiation(theirs, X),
        },
        n_rounds,
    )
    row: dict[str, object] = {"n": n, "l": l, "d": d}
    row["ours, us"] = 1e6 * timing.median("ours")
    row["botorch/ours"] = timing.ratio("botorch", "ours")[1]
    return row | compare_minima(draws, d)


def compare_minima(draws: FunctionDraws, d: int) -> dict[str, object]:
    """Search each draw as ours and, mirrored in PyTorch, with BoTorch's optimiser."""
    box, seconds, minima = [(0.0, 1.0)] * d, [], []
    for i in range(len(draws)):
        one = draws[i]
        mirror = paths.Mirror(one, length_scale(d))
        searches = (
            lambda one=one, i=i: one.minimize(box, N_STARTS, N_MESH, i).fun[0],
            paths.minimisation(mirror, d, N_MESH, N_STARTS),
        )
        for search in searches:
            start = time.perf_counter()
            minima.append(search())
            seconds.append(time.perf_counter() - start)
    pairs, values = np.reshape(seconds, (-1, 2)), np.reshape(minima, (-1, 2))
    gap = values[:, 0] - values[:, 1]
    return {
        "minimum, ms": 1e3 * float(np.median(pairs[:, 0])),
        "minimum, botorch/ours": float(np.median(pairs[:, 1] / pairs[:, 0])),
        "ours - botorch, mean": float(gap.mean()),
        "ours worse, better": f"{np.sum(gap > 1e-4)}, {np.sum(gap < -1e-4)}",
    }


def main() -> None:
    """Measure evaluation, sample_y and gradients, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smallest cases")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--avx2", action="store_true", help="vectors of 256 bits")
    parser.add_argument("--evaluation", action="store_true", help="nothing else")
    arguments = parser.parse_args()
    if arguments.avx2:
        restart_with_avx2("benchmarks.bench_draws")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    suffix = "_avx2" if arguments.avx2 else ""
    n_rounds, few = arguments.rounds, 1 if arguments.quick else None
    settings = {"rounds": n_rounds, "threads": 1, "vectors": vectors()}
    progress(settings["vectors"])
    with threadpool_limits(1):
        report(f"draws_evaluation{suffix}", evaluations(n_rounds, few), settings)
        if arguments.evaluation:
            return
        rows = [measure_sample_y(size, 3) for size in (500, 1000, 1500)[:few]]
        report(f"draws_sample_y{suffix}", rows, settings | {"rounds": 3})
        rows = []
        for case in GRADIENTS[:few]:
            rows.append(measure_gradient(*case, n_rounds))
            progress(rows[-1])
        settings |= {"mesh": N_MESH, "starts": N_STARTS}
        report(f"draws_gradients{suffix}", rows, settings)


def evaluations(n_rounds: int, few: int | None) -> list[dict[str, object]]:
    """Measure the cases of `EVALUATIONS`, or few of them, in two and eight inputs."""
    rows = []
    for case in EVALUATIONS[:few]:
        for d in (2, 8):
            rows.append(measure_evaluation(*case, d, n_rounds))
            progress(rows[-1])
    return rows


if __name__ == "__main__":
    main()
