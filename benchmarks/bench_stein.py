"""Time one step of Stein descent on frequencies against the same step in JAX.

    python -m benchmarks.bench_stein --data FOLDER [--sets concrete ...] [--rounds 5]

One thread each, contenders alternating in one process; CPU seconds, which other
processes disturb less than the clock. The peer computes the same step: a test
compares ten of them. With its own bandwidths, medians over an array of all
differences, most of the peer's time is a sort; "constant" replaces these by ones.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

# before JAX is loaded: one thread
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
)

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import add_data_argument, load
from benchmarks.peers.stein_jax import JaxStein
from benchmarks.report import progress, report
from skgpx._numerics.svgd import svgd_step
from skgpx._numerics.wave_evidence import Waves, wave_gradient

COMPONENTS, FREQUENCIES, NOISE = 6, 100, 0.05
# Rows of the training sets of the paper.
ROWS = {"concrete": 824, "airfoil": 1353}


class OurStein:
    """The step of the library, without its bookkeeping."""

    def __init__(self, X, y, omega, length_scale, noise_variance):
        self._rows = X, y, np.ones(len(y))
        self.frequencies, self._t = omega.copy(), 0
        d = omega.shape[-1]
        self._paces = np.ones((omega.size // d, d))
        self._means = np.zeros((2, *self._paces.shape))
        self._amplitudes = np.full(omega.shape[1], omega.shape[1] ** -0.5)
        self._scale, self._noise = length_scale, noise_variance
        self._space = self._waves()[0].workspace(len(y))

    def _waves(self):
        scaled = self.frequencies / self._scale
        return [Waves(w, self._amplitudes, self._noise) for w in scaled]

    def step(self):
        """Move the frequencies once."""
        omega = self.frequencies
        found = (wave_gradient(*self._rows, w, self._space) for w in self._waves())
        slopes = np.stack([gradient.frequencies for gradient in found])
        d = omega.shape[-1]
        pool, slopes = omega.reshape(-1, d), (slopes / self._scale).reshape(-1, d)
        ones = np.ones(d)
        svgd_step(
            pool, slopes, ones.copy(), ones, True, 1.0, False,
            self._paces, self._means, self._t, 0.1,
        )  # fmt: skip
        self._t += 1


def problem(name: str, folder: str | None) -> tuple[np.ndarray, ...]:
    """Standardised rows, first frequencies and lengthscales of a data set."""
    X, y = load(name, folder)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(y))[: ROWS[name]]
    X, y = X[chosen], y[chosen]
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    omega = rng.standard_normal((COMPONENTS, FREQUENCIES, X.shape[1]))
    return X, y, omega, np.full(X.shape[1], 2.0 * np.sqrt(X.shape[1]))


def seconds(step: Callable[[], object], n_calls: int) -> float:
    """CPU seconds a call."""
    start = time.process_time()
    for _ in range(n_calls):
        step()
    return (time.process_time() - start) / n_calls


def measure(name: str, folder: str | None, n_rounds: int) -> dict[str, object]:
    """Milliseconds a step, and ratios of the peer's to ours."""
    data = problem(name, folder)
    contenders = {
        "ours": (OurStein(*data, NOISE).step, 20),
        "jax": (JaxStein(*data, NOISE).step, 1),
        "jax constant": (JaxStein(*data, NOISE, median=False).step, 3),
    }
    for step, _ in contenders.values():
        seconds(step, 2)
    rounds = [
        {key: seconds(*contender) for key, contender in contenders.items()}
        for _ in range(n_rounds)
    ]
    row: dict[str, object] = {"set": name, "n": len(data[1]), "d": data[0].shape[1]}
    for key in contenders:
        row[f"{key} ms"] = 1e3 * float(np.median([r[key] for r in rounds]))
    for key in ("jax", "jax constant"):
        quotients = [r[key] / r["ours"] for r in rounds]
        row[f"{key} / ours"] = float(np.median(quotients))
        row[f"{key} / ours range"] = (min(quotients), max(quotients))
    return row


def main() -> None:
    """Measure each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_argument(parser)
    parser.add_argument("--sets", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    with threadpool_limits(1):
        for name in options.sets:
            rows.append(measure(name, options.data, options.rounds))
            progress(rows[-1])
    settings = {"components": COMPONENTS, "frequencies": FREQUENCIES}
    shown = [key for key in rows[0] if "range" not in key]
    report("stein", rows, settings, shown)


if __name__ == "__main__":
    main()
