"""How far regression on Fourier functions is from the exact process it stands for.

    python -m benchmarks.bench_series_elbow [--quick]

Hyperparameters are fixed. Ratios of the standard deviation of f to that of the exact
process with the same kernel and noise, at random rows within the range of the data, and
differences of the means in units of the exact standard deviation: for the elbow
``#{j : n λ_j >= σ²}``, for ``n_basis="auto"`` and for 2000 functions.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern
from threadpoolctl import threadpool_limits

from benchmarks.report import progress, report
from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp._series_choice import elbow

Array = NDArray[np.float64]
Row = dict[str, Any]

NOISE, LENGTH, MOST = 0.05, 0.3, 2000
KERNELS = {
    "RBF": RBF(LENGTH),
    "Matern 1/2": Matern(LENGTH, nu=0.5),
    "Matern 3/2": Matern(LENGTH, nu=1.5),
    "Matern 5/2": Matern(LENGTH, nu=2.5),
}


def elbow_of(model: SpectralVGPRegressor, n: int) -> int:
    """Number of functions with ``n λ_j >= σ²`` on the box of a fitted model."""
    rule, box = model.prior_, model.posterior_.basis.box
    eigenvalues = rule.spectrum(rule.index(box, MOST), box).eigenvalues
    return min(elbow(eigenvalues, n, NOISE), MOST)


def compared(name: str, d: int, n: int, seed: int = 0) -> Iterator[Row]:
    """Rows of the table for one kernel and one size."""
    rng = np.random.default_rng(seed)
    X, new = rng.random((n, d)), rng.random((400, d))
    y = np.sin(6.0 * X.sum(axis=1)) + np.sqrt(NOISE) * rng.standard_normal(n)
    kernel = KERNELS[name]
    exact = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X, y)
    mean, std = exact.predict(new, return_std=True)
    settings = {"noise_variance": NOISE, "optimizer": None, "normalize_y": False}
    auto = SpectralVGPRegressor(kernel, max_basis=MOST, **settings).fit(X, y)
    sizes = {"elbow": elbow_of(auto, n), "auto": auto.n_basis_, "most": MOST}
    for choice, m in sizes.items():
        model = SpectralVGPRegressor(kernel, n_basis=m, max_basis=MOST, **settings)
        start = time.process_time()
        model.fit(X, y)
        spent = time.process_time() - start
        found, found_std = model.predict(new, return_std=True, include_noise=False)
        ratio = found_std / std
        low, middle, high = np.quantile(ratio, [0.05, 0.5, 0.95])
        yield {
            "kernel": name, "d": d, "n": n, "functions": choice,
            "m": model.n_basis_, "median": middle, "5 %": low, "95 %": high,
            "mean": np.sqrt(np.mean(((found - mean) / std) ** 2)),
            "tail": np.sqrt(model.posterior_.basis.tail) / np.median(std),
            "cpu s": spent,
        }  # fmt: skip


def main() -> None:
    """Measure everything and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="300 rows only")
    sizes = (300,) if parser.parse_args().quick else (300, 1500)
    rows: list[Row] = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for d in (1, 2, 3):
            for n in sizes:
                for name in KERNELS:
                    for row in compared(name, d, n):
                        rows.append(row)
                        progress(row)
    report("series_elbow", rows, {"noise": NOISE, "length_scale": LENGTH})


if __name__ == "__main__":
    main()
