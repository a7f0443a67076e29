"""How well Fourier features approximate a kernel, by how frequencies are chosen.

    python -m benchmarks.bench_stein_kernel [--quick]

Relative Frobenius errors of Gram matrices of 500 rows in double precision (Figure 2 of
"Stein random feature regression"), means over seeds of rows and frequencies, and their
ratio to the smallest of those of Halton, Sobol and orthogonal frequencies: the
textbook's constructions, written here, and the library's. Nystroem's features depend on
the rows that are approximated; R and 2 R of them stand beside. A table of its own has
the least error that features of equal weights can have.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import ortho_group, qmc
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic
from sklearn.kernel_approximation import Nystroem
from threadpoolctl import threadpool_limits

from benchmarks.peers.optimal_frequencies import optimal
from benchmarks.report import progress, report
from skgpx import SteinFourierFeatures

Array = NDArray[Any]
Row = dict[str, Any]

N_ROWS, N_SEEDS = 500, 3
PEERS = ("halton", "sobol", "orthogonal")

INPUTS: dict[str, Callable[[np.random.Generator, int], tuple[Array, float]]] = {
    "normal, l = sqrt d": lambda rng, d: (rng.normal(size=(N_ROWS, d)), np.sqrt(d)),
    "unit cube, l = 1": lambda rng, d: (rng.random((N_ROWS, d)), 1.0),
    "normal, l = 2/3": lambda rng, d: (rng.normal(size=(N_ROWS, d)), 2.0 / 3.0),
}
KERNELS: dict[str, Callable[[float], Any]] = {
    "RBF": RBF,
    "Matern 1/2": lambda scale: Matern(scale, nu=0.5),
    "Matern 3/2": lambda scale: Matern(scale, nu=1.5),
    "Matern 5/2": lambda scale: Matern(scale, nu=2.5),
    "RationalQuadratic 1": lambda scale: RationalQuadratic(scale, 1.0),
}


def error(K: Array, Z: Array) -> float:
    """Relative Frobenius error of ``Z Zᵀ``."""
    return float(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))


def textbook(name: str, R: int, d: int, seed: int) -> Array:
    """Frequencies (R, d) of an RBF of lengthscale one, without the library."""
    if name == "orthogonal":
        rng = np.random.default_rng(seed)
        rotations = [np.atleast_2d(rng.choice([-1.0, 1.0]))] * R if d == 1 else [
            ortho_group.rvs(d, random_state=rng) for _ in range(-(-R // d))
        ]  # fmt: skip
        radii = np.sqrt(rng.chisquare(d, size=(R, 1)))
        return radii * np.concatenate(rotations)[:R]
    if name == "halton":
        points = qmc.Halton(d, seed=seed).random(R)
    else:
        points = qmc.Sobol(d, seed=seed).random_base2((R - 1).bit_length())[:R]
    return ndtri(np.clip(points, 1e-10, 1.0 - 1e-10))


def waves(X: Array, frequencies: Array) -> Array:
    """Cosines and sines of equal amplitudes."""
    phases = X @ frequencies.T
    both = np.hstack((np.cos(phases), np.sin(phases)))
    return both / np.sqrt(len(frequencies))


def features(kernel: Any, X: Array, R: int, seed: int, **how: Any) -> Array:
    """The library's."""
    model = SteinFourierFeatures(kernel, n_frequencies=R, random_state=seed, **how)
    return np.asarray(model.fit_transform(X))


def nystroem(kernel: Any, X: Array, n: int, seed: int) -> Array:
    """Scikit-learn's, in double precision."""
    return np.asarray(
        Nystroem(kernel, n_components=n, random_state=seed).fit_transform(X)
    )


def compared(inputs: str, name: str, d: int, R: int, seeds: int) -> Row:
    """One row of the table."""
    errors: dict[str, list[float]] = {}
    seconds = []
    for seed in range(seeds):
        X, scale = INPUTS[inputs](np.random.default_rng(100 + seed), d)
        kernel = KERNELS[name](scale)
        K = kernel(X)

        def add(label: str, Z: Array, K: Array = K) -> None:
            errors.setdefault(label, []).append(error(K, Z))

        for peer in PEERS:
            if name == "RBF":
                add(f"textbook {peer}", waves(X, textbook(peer, R, d, seed) / scale))
            add(peer, features(kernel, X, R, seed, method=peer))
        add("mc", features(kernel, X, R, seed, method="mc"))
        start = time.process_time()
        Z = features(kernel, X, R, seed)
        seconds.append(time.process_time() - start)
        add("stein", Z)
        add("Nystroem R", nystroem(kernel, X, R, seed))
        add("Nystroem 2R", nystroem(kernel, X, 2 * R, seed))
    means = {label: float(np.mean(values)) for label, values in errors.items()}
    best = min(value for label, value in means.items() if label.endswith(PEERS))
    ratios = {"ratio": means["stein"] / best}
    where = {"inputs": inputs, "kernel": name, "d": d, "R": R}
    return where | means | ratios | {"cpu s": float(np.median(seconds))}


def single_precision(seed: int = 0) -> Iterator[Row]:
    """Nystroem on inputs and kernel matrices in single precision, beside double."""
    X = np.random.default_rng(seed).random((N_ROWS, 2))
    for R in (10, 50, 100, 200):
        row: Row = {"d": 2, "R": R}
        for dtype in (np.float32, np.float64):
            columns = np.random.default_rng(seed).permutation(N_ROWS)[:R]
            K = np.exp(-0.5 * _squares(X.astype(dtype)))
            inner, cross = K[np.ix_(columns, columns)], K[:, columns]
            values, vectors = np.linalg.eigh(inner)
            kept = values > np.finfo(dtype).eps * values[-1] * R
            Z = cross @ (vectors[:, kept] / np.sqrt(values[kept]))
            row[f"Nystroem {np.dtype(dtype).name}"] = error(K, Z)
        row["stein float64"] = error(RBF(1.0)(X), features(RBF(1.0), X, R, seed))
        yield row


def _squares(X: Array) -> Array:
    """Squared distances by the inner products, as published."""
    squares = np.sum(X**2, axis=1)
    return np.maximum(squares[:, np.newaxis] + squares - 2.0 * X @ X.T, 0.0)


def least(seeds: int) -> Iterator[Row]:
    """Errors of the best equal-weight frequencies, from two starts each."""
    for d, R in ((2, 50), (4, 50), (8, 50), (8, 200), (16, 50), (16, 100), (16, 200)):
        errors: dict[str, list[float]] = {}
        for seed in range(seeds):
            X, scale = INPUTS["normal, l = sqrt d"](
                np.random.default_rng(100 + seed), d
            )
            kernel = RBF(scale)
            model = SteinFourierFeatures(kernel, n_frequencies=R, random_state=seed)
            moved = model.fit(X).frequencies_ * scale
            starts = {"orthogonal": textbook("orthogonal", R, d, seed), "stein": moved}
            for name, start in starts.items():
                found = {name: start, f"least, from {name}": optimal(start, 2.0 / d)}
                for label, frequencies in found.items():
                    Z = waves(X / scale, frequencies)
                    errors.setdefault(label, []).append(error(kernel(X), Z))
        means = {label: float(np.mean(values)) for label, values in errors.items()}
        row = {"d": d, "R": R} | means
        progress(row)
        yield row


def cases() -> Iterator[tuple[str, str, int, int]]:
    """Inputs, kernel, columns and frequencies of each row."""
    for inputs in INPUTS:
        for d in (2, 4, 8, 16):
            for R in (50, 100, 200):
                yield inputs, "RBF", d, R
    for inputs in list(INPUTS)[:2]:
        for d in (24, 32, 64):
            for R in (20, 50, 200):
                yield inputs, "RBF", d, R
    for name in list(KERNELS)[1:]:
        for d in (2, 8):
            for R in (50, 200):
                yield "normal, l = sqrt d", name, d, R


def main() -> None:
    """Measure everything and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, R = 50 only")
    quick = parser.parse_args().quick
    SteinFourierFeatures(n_steps=2).fit(np.eye(2))  # compiles
    rows = []
    with threadpool_limits(1):
        for inputs, name, d, R in cases():
            if not quick or R == 50:
                row = compared(inputs, name, d, R, 1 if quick else N_SEEDS)
                rows.append(row)
                progress(row)
        floor = list(single_precision())
        best = list(least(1 if quick else N_SEEDS))
    shown = ["inputs", "kernel", "d", "R", "mc", *PEERS]
    shown += ["stein", "ratio"]
    shown += ["Nystroem R", "Nystroem 2R", "cpu s"]
    report("stein_kernel", rows, {"rows": N_ROWS, "seeds": N_SEEDS}, shown)
    report("stein_kernel_least", best, {"inputs": "normal, l = sqrt d"})
    report("stein_kernel_precision", floor, {"rows": N_ROWS, "inputs": "unit cube"})


if __name__ == "__main__":
    main()
