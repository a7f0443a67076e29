"""Time epochs of Gaussian Wasserstein inference against a plain PyTorch implementation.

    python -m benchmarks.bench_gwi_step --data FOLDER [--sets boston ...] [--rounds 5]

One thread each, contenders alternating in one process; CPU seconds, which other
processes disturb less than the clock. The peer trains mean and covariance by automatic
differentiation; the library trains the mean, and has the best covariance by a formula:
its time is that of the mean alone, and the law, computed once a fit, stands beside.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks.data import add_data_argument, load
from benchmarks.peers.gwi_torch import TorchGWI
from benchmarks.report import progress, report
from skgpx import GWIRegressor
from skgpx._gwi._network import Problem, SquaredError, Training
from skgpx._gwi._settings import NetworkSettings
from skgpx._numerics.perceptron import Perceptron

SETS = ("boston", "concrete", "energy_heating")
BATCH, HIDDEN, NOISE, EPOCHS = 100, (10, 10), 0.05, 1_000_000


def problem(name: str, folder: str | None) -> tuple[np.ndarray, ...]:
    """Nine tenths of the rows, standardised, and root-n inducing points of them."""
    X, y = load(name, folder)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(y))[: round(0.81 * len(y))]
    X, y = X[chosen], y[chosen]
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    return X, y, X[: round(np.sqrt(len(y)))]


class OurEpoch:
    """The training of one network of the library, an epoch at a time."""

    def __init__(self, X: np.ndarray, y: np.ndarray, batch_size: int):
        rng = np.random.default_rng(0)
        how = (HIDDEN, "tanh", 1, 1e-4, 1e-2, batch_size, EPOCHS, 0.0, False)
        network = Perceptron((X.shape[1], *HIDDEN, 1))
        loss = SquaredError(y[:, np.newaxis].copy(), np.ones(len(y)))
        rows, none = np.arange(len(y)), np.empty(0, np.intp)
        settings = NetworkSettings(*how)
        self._problem = Problem(
            np.ascontiguousarray(X), loss, network, settings, EPOCHS
        )
        self._state = Training(network.start(rng), rng, rows, none)

    def epochs(self) -> None:
        """Fifty, as a round of a fit has."""
        self._problem.advance(self._state, self._state.epoch + 50)


def seconds(function: Callable[[], object], n_calls: int) -> float:
    """CPU seconds a call."""
    start = time.process_time()
    for _ in range(n_calls):
        function()
    return (time.process_time() - start) / n_calls


def contenders(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> dict[str, tuple]:
    """Name -> function, number of calls, and epochs of a call."""
    scale = np.full(X.shape[1], np.sqrt(X.shape[1]))
    parts = X, y, Z, scale, NOISE
    own = {"n_epochs": EPOCHS}
    return {
        "full ours": (OurEpoch(X, y, len(y)).epochs, 2, 50),
        "full torch": (TorchGWI(*parts, **own).epoch, 10, 1),
        "batch ours": (OurEpoch(X, y, BATCH).epochs, 2, 50),
        "batch torch": (TorchGWI(*parts, batch_size=BATCH, **own).epoch, 3, 1),
        "batch torch code": (
            TorchGWI(*parts, batch_size=BATCH, loss="code", **own).epoch,
            3,
            1,
        ),
        "batch torch code float32": (
            TorchGWI(
                *parts, batch_size=BATCH, loss="code", dtype=torch.float32, **own
            ).epoch,
            3,
            1,
        ),
    }


def fit_seconds(X: np.ndarray, y: np.ndarray, **given: object) -> float:
    """CPU seconds of a fit of 1000 epochs."""
    model = GWIRegressor(max_iter=1000, random_state=0, **given)
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def measure(name: str, folder: str | None, n_rounds: int) -> dict[str, object]:
    """Milliseconds an epoch, ratios of the peer's to ours, and seconds of fits."""
    X, y, Z = problem(name, folder)
    one = contenders(X, y, Z)
    for function, _, _ in one.values():
        seconds(function, 2)
    rounds = [
        {key: seconds(f, calls) / epochs for key, (f, calls, epochs) in one.items()}
        for _ in range(n_rounds)
    ]
    row: dict[str, object] = {"set": name, "n": len(y), "d": X.shape[1], "m": len(Z)}
    for key in one:
        row[f"{key} ms"] = 1e3 * float(np.median([r[key] for r in rounds]))
    for key in one:
        mode, _, peer = key.partition(" ")
        if peer != "ours":
            quotients = [r[key] / r[f"{mode} ours"] for r in rounds]
            row[f"{key} / ours"] = float(np.median(quotients))
            row[f"{key} / ours range"] = (min(quotients), max(quotients))
    fixed = {"kernel": RBF(np.sqrt(X.shape[1])), "optimizer": None}
    row["fit s"] = fit_seconds(X, y)
    row["fit, one network s"] = fit_seconds(X, y, n_restarts=1)
    row["fit, one network, prior given s"] = fit_seconds(X, y, n_restarts=1, **fixed)
    return row


def main() -> None:
    """Measure each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_argument(parser)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with threadpool_limits(1):
        for name in options.sets:
            rows.append(measure(name, options.data, options.rounds))
            progress(rows[-1])
    settings = {"hidden": HIDDEN, "batch": BATCH, "epochs of fits": 1000}
    shown = [key for key in rows[0] if "range" not in key]
    report("gwi_step", rows, settings, shown)


if __name__ == "__main__":
    main()
