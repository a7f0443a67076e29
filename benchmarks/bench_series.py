"""Time the sums, the predictions and the memory of regression on Fourier functions.

    python -m benchmarks.bench_series [--quick] [--rows N]

One thread. References are the plain formulas in NumPy and BLAS: features in blocks of
20 000 rows, ``Φᵀ Φ`` by a product, variances as quadratic forms.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks.report import progress, report
from benchmarks.timing import alternate
from skgpx._numerics.fourier_sums import direct_statistics, n_bins, sketched_statistics
from skgpx._numerics.regression import series_evidence
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases import (
    Box,
    FourierSeries,
    KernelEigenvalues,
    PolynomialEigenvalues,
    SeriesMarginals,
)

Array = NDArray[np.float64]
Row = dict[str, object]

RULE = PolynomialEigenvalues()
LINE = Box(np.zeros(1), np.ones(1))
BLOCK = 20_000


def numpy_statistics(x: Array, y: Array, m: int) -> tuple[Array, Array]:
    """``ΦᵀΦ`` and ``Φᵀy`` of the Fourier functions, block by block."""
    waves = 2.0 * np.pi * np.arange(1, m // 2 + 1)
    gram, moment = np.zeros((m, m)), np.zeros(m)
    for start in range(0, len(x), BLOCK):
        phase = np.outer(x[start : start + BLOCK], waves)
        ones = np.ones((len(phase), 1))
        phi = np.hstack((ones, np.sqrt(2) * np.sin(phase), np.sqrt(2) * np.cos(phase)))
        gram += phi.T @ phi
        moment += phi.T @ y[start : start + BLOCK]
    return gram, moment


def compared(
    name: str, reference: Callable[[], object], ours: Callable[[], object], rounds: int
) -> Row:
    """Milliseconds of both, alternating, and the ratio with its quartiles."""
    timing = alternate({"reference": reference, "ours": ours}, rounds)
    low, middle, high = timing.ratio("reference", "ours")
    row: Row = {"what": name}
    row |= {f"{key} ms": 1e3 * timing.median(key) for key in ("reference", "ours")}
    return row | {"ratio": middle, "quartiles": f"{low:.3g}-{high:.3g}"}


def statistics_row(n: int, m: int, rounds: int) -> Row:
    """Sums and normal equations of m functions in one dimension."""
    rng = np.random.default_rng(0)
    X, y = rng.random((n, 1)), rng.standard_normal(n)
    index = RULE.index(LINE, m)
    bins = n_bins(2 * int(index.reach()[0]))

    def ours() -> object:
        sums = sketched_statistics(X, y, None, LINE, 0.0, bins)
        return sums.normal_equations(index)

    row = compared(
        "statistics 1-D", lambda: numpy_statistics(X[:, 0], y, m), ours, rounds
    )
    equations, spectrum = ours(), RULE.spectrum(index, LINE)
    one = alternate({"evidence": lambda: series_evidence(equations, spectrum, 0.1)}, 5)
    return {"n": n, "m": m} | row | {"evidence ms": 1e3 * one.median("evidence")}


def gram_row(n: int, m: int, rounds: int) -> Row:
    """Gram matrix in two dimensions against syrk on features that are there."""
    rng = np.random.default_rng(0)
    X, y = rng.random((n, 2)), rng.standard_normal(n)
    box, rule = Box(np.full(2, -0.1), np.full(2, 2.0)), KernelEigenvalues(RBF(0.1))
    basis = FourierSeries.from_rule(rule, box, m)
    features = np.ascontiguousarray(basis(X))
    reach = basis.index.reach()

    def syrk() -> object:
        gram = np.zeros((m, m), order="F")
        for start in range(0, n, 4096):
            gram = dsyrk(
                1.0, features[start : start + 4096].T, 1.0, gram, overwrite_c=1
            )
        return gram

    def ours() -> object:
        sums = direct_statistics(X, y, None, box, 0.0, reach)
        return sums.normal_equations(basis.index)

    return {"n": n, "m": m} | compared("Gram 2-D, without features", syrk, ours, rounds)


def prediction_row(n: int, m: int, d: int, rounds: int) -> Row:
    """Mean and variance at n rows against features and the quadratic form."""
    rng = np.random.default_rng(0)
    X, box = rng.random((n, d)), Box(np.zeros(d), np.ones(d))
    basis = FourierSeries.from_rule(RULE, box, m)
    root = 0.1 * rng.standard_normal((m, m))
    distribution = GaussianWeights(rng.standard_normal((m, 1)), root[np.newaxis])

    def quadratic() -> None:
        for start in range(0, n, BLOCK):
            distribution.latent(basis(X[start : start + BLOCK]))

    row = compared(
        f"mean and variance {d}-D",
        quadratic,
        lambda: SeriesMarginals(basis, distribution)(X),
        rounds,
    )
    return {"n": n, "m": m} | row


def stream_row(n: int, m: int) -> Row:
    """Rows a second, rows made on the fly, and how much the memory grows."""
    rng = np.random.default_rng(0)
    chunk = 1_000_000
    index = RULE.index(LINE, m)
    bins = n_bins(2 * int(index.reach()[0]))
    total, spent, before = None, 0.0, 0
    for i in range(max(2, n // chunk)):
        X = rng.random((chunk, 1))
        y = np.sin(9.0 * X[:, 0]) + 0.1 * rng.standard_normal(chunk)
        start = time.perf_counter()
        part = sketched_statistics(X, y, None, LINE, 0.0, bins)
        total = part if total is None else total + part
        spent += time.perf_counter() - start
        if i == 1:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert total is not None
    total.normal_equations(index)
    row: Row = {"n": int(total.weight), "m": m, "what": "stream in chunks of 10^6"}
    row |= {"ours ms": 1e3 * spent, "rows a second": total.weight / spent}
    return row | {"memory grown MB": grown / 1024}


def main() -> None:
    """Measure everything and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--rows", type=int, default=10**8, help="rows streamed")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    part, rounds = (10 if arguments.quick else 1), arguments.rounds
    rows: list[Row] = []
    with threadpool_limits(1):
        for m in (101, 201, 501, 1001):
            # the reference of many functions takes long
            rows.append(statistics_row(10**6 // part, m, rounds if m < 500 else 1))
            progress(rows[-1])
        for m in (576, 1296):
            rows.append(gram_row(10**5 // part, m, rounds))
            progress(rows[-1])
        for m, d in ((201, 1), (501, 1), (601, 2), (601, 3)):
            rows.append(prediction_row(10**5 // part, m, d, rounds))
            progress(rows[-1])
        rows.append(stream_row(arguments.rows // part, 101))
        progress(rows[-1])
    settings = {"rounds": rounds, "threads": 1}
    shown = ["what", "n", "m", "reference ms", "ours ms", "ratio", "quartiles"]
    report("series", rows, settings, [*shown, "evidence ms", "rows a second"])


if __name__ == "__main__":
    main()
