"""Time products of a kernel matrix with vectors, the matrix not being stored.

    python -m benchmarks.bench_product [--rows 36000] [--columns 8] [--vectors 33]

The peers are NumPy in single precision: squared distances from one matrix product, the
kernel in place, the product with the vectors. "numpy" takes square blocks, of which
each serves both sides of the symmetric matrix, of the size that is fastest; "rows"
takes blocks of 1024 rows and all columns, the usual way; so does GPyTorch, and KeOps
compiles a reduction, if they are installed. On one thread CPU seconds are
compared. With the threads of the machine the clock is; those of the peers are the
threads of their BLAS. Errors are relative to the largest entry of the product in double
precision.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern
from threadpoolctl import threadpool_limits

from benchmarks.report import progress, report
from benchmarks.timing import alternate
from skgpx._iterative._product import KernelProduct

SIZES = (512, 1024, 2048, 4096)
KERNELS = {"rbf": RBF, "matern 3/2": partial(Matern, nu=1.5)}


def rbf(squares: np.ndarray) -> None:
    """Overwrite squared distances by kernel values."""
    squares *= np.float32(-0.5)
    np.exp(squares, out=squares)


def matern(squares: np.ndarray) -> None:
    """Overwrite squared distances by values of the Matern kernel of order 3/2."""
    squares *= np.float32(3.0)
    np.sqrt(squares, out=squares)
    decay = np.exp(-squares)
    squares += np.float32(1.0)
    squares *= decay


def numpy_product(
    profile: Callable[[np.ndarray], None], X: np.ndarray, V: np.ndarray, size: int
) -> np.ndarray:
    """Product in single precision, by symmetric blocks."""
    n, out = len(X), np.zeros(V.shape, np.float32)
    norms = np.einsum("ij,ij->i", X, X)
    for first in range(0, n, size):
        one = slice(first, first + size)
        for second in range(0, first + 1, size):
            other = slice(second, second + size)
            K = X[one] @ X[other].T
            K *= np.float32(-2.0)
            K += norms[one, np.newaxis]
            K += norms[other]
            np.maximum(K, np.float32(0.0), out=K)
            profile(K)
            out[one] += K @ V[other]
            if first != second:
                out[other] += K.T @ V[one]
    return out


def rows_product(
    profile: Callable[[np.ndarray], None], X: np.ndarray, V: np.ndarray
) -> np.ndarray:
    """Product in single precision, by blocks of rows."""
    norms, parts = np.einsum("ij,ij->i", X, X), []
    for first in range(0, len(X), 1024):
        rows = slice(first, first + 1024)
        K = norms[rows, np.newaxis] + norms - np.float32(2.0) * (X[rows] @ X.T)
        np.maximum(K, np.float32(0.0), out=K)
        profile(K)
        parts.append(K @ V)
    return np.concatenate(parts)


def library_products(
    name: str, X: np.ndarray, V: np.ndarray
) -> dict[str, Callable[[], np.ndarray]]:
    """Products by GPyTorch, in blocks of rows, and by KeOps, where they are there."""
    found: dict[str, Callable[[], np.ndarray]] = {}
    if importlib.util.find_spec("gpytorch"):
        torch, gpytorch = map(importlib.import_module, ("torch", "gpytorch"))
        matern = gpytorch.kernels.MaternKernel(nu=1.5)
        kernel = gpytorch.kernels.RBFKernel() if name == "rbf" else matern
        kernel.lengthscale = 1.0
        points, vectors = torch.tensor(X), torch.tensor(V)

        def by_rows() -> np.ndarray:
            with torch.no_grad():
                blocks = points.split(1024)
                parts = [kernel(one, points).to_dense() @ vectors for one in blocks]
                return torch.cat(parts).numpy()

        found["gpytorch"] = by_rows
    if importlib.util.find_spec("pykeops"):
        LazyTensor = importlib.import_module("pykeops.numpy").LazyTensor
        one, other = LazyTensor(X[:, None, :]), LazyTensor(X[None, :, :])

        def reduction() -> np.ndarray:
            squares = ((one - other) ** 2).sum(-1)
            if name == "rbf":
                return (-0.5 * squares).exp() @ V
            root = (3.0 * squares).sqrt()
            return ((1.0 + root) * (-root).exp()) @ V

        found["keops"] = reduction
    return found


def measure(
    name: str, n: int, d: int, k: int, n_rounds: int
) -> list[dict[str, object]]:
    """Seconds of both, and ratios of the peer's to ours."""
    rng = np.random.default_rng(0)
    X, V = rng.standard_normal((n, d)), rng.standard_normal((n, k))
    kernel, profile = KERNELS[name](np.sqrt(d)), rbf if name == "rbf" else matern
    scaled, single = (X / np.sqrt(d)).astype(np.float32), V.astype(np.float32)
    some = slice(0, min(n, 4096))
    peer = {
        size: partial(numpy_product, profile, scaled[some], single[some], size)
        for size in SIZES
    }
    rows = []
    for n_threads in sorted({1, min(2, os.cpu_count() or 1)}):
        clock = time.process_time if n_threads == 1 else time.perf_counter
        ours = KernelProduct(kernel, X, n_threads)
        with threadpool_limits(n_threads):
            trial = alternate(peer, 3, clock=clock)
            best = min(SIZES, key=trial.median)
            contenders = {
                "ours": partial(ours, V),
                "double": partial(ours, V, exact=True),
                "numpy": partial(numpy_product, profile, scaled, single, best),
                "rows": partial(rows_product, profile, scaled, single),
            } | library_products(name, scaled, single)
            timing = alternate(contenders, n_rounds, clock=clock)
        exact = ours(V, exact=True)
        error = {one: np.abs(contenders[one]() - exact).max() for one in contenders}
        row: dict[str, object] = {"kernel": name, "n": n, "d": d, "vectors": k}
        row |= {"threads": n_threads, "block of numpy": best}
        row |= {f"{one} s": timing.median(one) for one in contenders}
        for one in sorted(set(contenders) - {"ours", "double"}):
            low, middle, high = timing.ratio(one, "ours")
            row |= {f"{one} / ours": middle, f"{one} / ours range": (low, high)}
        for one in ("ours", "numpy"):
            row[f"error of {one}"] = float(error[one] / np.abs(exact).max())
        progress(row)
        rows.append(row)
    return rows


def main() -> None:
    """Measure each kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=36_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--vectors", type=int, default=33)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    size = options.rows, options.columns, options.vectors
    rows = [row for name in KERNELS for row in measure(name, *size, options.rounds)]
    shown = [key for key in rows[0] if "range" not in key]
    report("product", rows, shown=shown)


if __name__ == "__main__":
    main()
