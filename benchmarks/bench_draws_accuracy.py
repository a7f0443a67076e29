"""How well do conditioned draws with Fourier features follow the exact posterior?

    python -m benchmarks.bench_draws_accuracy [--table std sparse wasserstein]

Given its features, a conditioned draw ``f + k(·, X)(K + σ²I)⁻¹(y - f(X) - e)`` has a
Gaussian law with the exact mean and a covariance that is computed here, not estimated.
Inputs are uniform on the unit cube, lengthscales ``√(d/100)``, noise variance 1e-3.

std
    Pointwise standard deviation over the exact one at fresh inputs: quantiles and the
    root mean square of its logarithm.
sparse
    The same for draws given 32 inducing values, of the drift of the FitzHugh-Nagumo
    equations learnt from 10 000 points.
wasserstein
    2-Wasserstein distance of the joint law of the values at 512 fresh inputs from the
    exact one, over √512, for a Matern 5/2 kernel. *weight space* is the posterior of
    the linear model with n + l features, mean included.

mc, qmc: independent frequencies, and a Sobol net. student: half of the net from a wider
(5 times) Student t with 2 degrees of freedom. tail κ: a fixed power. auto: as shipped.
groups: eight sets of l = 1024 features, which serve an eighth of the draws each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaincinv, gammaln, ndtri
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic
from threadpoolctl import threadpool_limits

from benchmarks.report import progress, report
from skgpx._draws import FourierFeatures
from skgpx._draws._frequency_choice import choose_settings
from skgpx._draws._prior_parts import Setting, decompose
from skgpx.bases import Conditioning, select_inducing

Array = NDArray[np.float64]
Features = Callable[[Array], Array]

NOISE = 1e-3
KERNELS = {
    "matern 1/2": lambda scale: Matern(scale, nu=0.5),
    "matern 3/2": lambda scale: Matern(scale, nu=1.5),
    "matern 5/2": lambda scale: Matern(scale, nu=2.5),
    "matern 7/2": lambda scale: Matern(scale, nu=3.5),
    "rbf": RBF,
    "rational": lambda scale: RationalQuadratic(scale, 1.0),
}
METHODS = ("mc", "qmc", "student", "tail 2", "tail 4", "auto")
QUANTILES = (0.1, 0.5, 0.9)


class Posterior(NamedTuple):
    """Weights ``v`` of the values at the points in each prediction, and covariances.

    `extra` is the part of the covariance of draws that features do not touch: from the
    noise, or from the law of the inducing values.
    """

    kernel: Any
    points: Array
    noise: float
    fresh: Array
    gain: Array
    exact: Array
    extra: Array


def dense(kernel: Any, n: int, d: int, n_fresh: int, rng: np.random.Generator):
    """Posterior given n noisy values."""
    X, T = rng.random((n, d)), rng.random((n_fresh, d))
    cross = kernel(X, T)
    gain = cho_solve(cho_factor(kernel(X) + NOISE * np.eye(n)), cross)
    exact = kernel(T) - gain.T @ cross
    return Posterior(kernel, X, NOISE, T, gain, exact, NOISE * gain.T @ gain)


def make_features(
    method: str, posterior: Posterior, size: int, rng: np.random.Generator
) -> Features:
    """Feature map of ``size`` features by a method."""
    kernel, d = posterior.kernel, posterior.points.shape[1]
    (part,) = decompose(kernel, d)
    if method == "student":
        return student_features(kernel, d, size // 2, rng)
    if method == "auto":
        given = Conditioning(posterior.points, posterior.noise)
        (setting,) = choose_settings(
            kernel, [part], size, "auto", given, 0.02, rng
        ).settings
    else:
        power = float(method.split()[1]) if method.startswith("tail") else 1.0
        setting = Setting(size // 2, "mc" if method == "mc" else "qmc", power)
    features, scale = part.feature_map(setting, rng), np.sqrt(part.variance)
    return lambda X: scale * features(X)


def student_features(
    kernel: Matern, d: int, n: int, rng: np.random.Generator, wider: float = 5.0
) -> Features:
    """Half of the frequencies from a wider t; weights by the balance heuristic."""

    def net(nu: float) -> Array:
        U = np.clip(qmc.Sobol(d + 1, seed=rng).random(n // 2), 1e-12, 1 - 1e-12)
        return ndtri(U[:, :d]) / np.sqrt(gammaincinv(nu, U[:, d:]) / nu)

    def log_density(w: Array, nu: float, scale: float) -> Array:
        square = np.sum((w / scale) ** 2, axis=1)
        constant = gammaln(nu + d / 2) - gammaln(nu) - d / 2 * np.log(2 * nu)
        return constant - d * np.log(scale) - (nu + d / 2) * np.log1p(square / 2 / nu)

    nu = kernel.nu
    w = np.concatenate((net(nu), wider * net(1.0)))
    weights = 2 / (1 + np.exp(log_density(w, 1.0, wider) - log_density(w, nu, 1.0)))
    return FourierFeatures(w / kernel.length_scale, np.sqrt(weights / weights.sum()))


def drawn_covariance(posterior: Posterior, features: Features) -> Array:
    """Covariance of conditioned draws at the fresh inputs, given the features."""
    F = features(posterior.fresh) - posterior.gain.T @ features(posterior.points)
    return F @ F.T + posterior.extra


def std_row(ratios: Iterable[Array]) -> dict[str, float]:
    """Quantiles of std ratios, and the root mean square of their logarithms."""
    ratio = np.concatenate(list(ratios))
    found = {
        f"{q:.0%}": v
        for q, v in zip(QUANTILES, np.quantile(ratio, QUANTILES), strict=True)
    }
    return found | {"rms log": float(np.sqrt(np.mean(np.log(ratio) ** 2)))}


def std_ratio(posterior: Posterior, features: Features) -> Array:
    """Standard deviations of draws over exact ones at the fresh inputs."""
    drawn = np.diag(drawn_covariance(posterior, features))
    return np.sqrt(drawn / np.diag(posterior.exact))


def measure_std(n_trials: int, dimensions: Iterable[int]) -> list[dict[str, Any]]:
    """One row for each kernel, dimension, number of points and method."""
    rows = []
    for name, make in KERNELS.items():
        for d in dimensions:
            for n in (256, 1024):
                kernel = make(np.sqrt(d / 100))
                posteriors = [
                    dense(kernel, n, d, 400, np.random.default_rng(trial))
                    for trial in range(n_trials)
                ]
                for method in METHODS:
                    if method == "student" and not isinstance(kernel, Matern):
                        continue
                    row = {"kernel": name, "d": d, "n": n, "l": 1024, "method": method}
                    rows.append(row | compare_std(method, posteriors))
                    progress(rows[-1])
    return rows


def compare_std(method: str, posteriors: list[Posterior]) -> dict[str, float]:
    """Ratios of one method over the trials, and its time to make features."""
    ratios, spent = [], []
    for trial, posterior in enumerate(posteriors):
        start = time.perf_counter()
        rng = np.random.default_rng(1000 + trial)
        features = make_features(method, posterior, 1024, rng)
        spent.append(time.perf_counter() - start)
        ratios.append(std_ratio(posterior, features))
    return std_row(ratios) | {"ms": 1e3 * float(np.median(spent))}


def inducing(kernel: Any, X: Array, m: int, noise: float, n_fresh: int) -> Posterior:
    """Posterior given the optimal Gaussian law of m inducing values."""
    rng = np.random.default_rng(5)
    Z = select_inducing("greedy", X, kernel, m, rng)
    T = X[rng.choice(len(X), n_fresh, replace=False)]
    # jitter is noise: draws subtract f(Z) plus a draw of it from the inducing values
    jitter = 1e-6 * float(kernel.diag(Z)[0])
    K = kernel(Z) + jitter * np.eye(m)
    cross = kernel(Z, X)
    # q(u) has covariance K (K + K_zx K_xz / σ²)⁻¹ K
    S = K @ np.linalg.solve(K + cross @ cross.T / noise, K)
    gain = np.linalg.solve(K, kernel(Z, T))
    extra = gain.T @ S @ gain
    exact = kernel(T) - gain.T @ K @ gain + extra
    return Posterior(kernel, Z, jitter, T, gain, exact, extra + jitter * gain.T @ gain)


def measure_sparse(n_trials: int) -> list[dict[str, Any]]:
    """The drift of v in FitzHugh-Nagumo, v - v³/3 - w: m = 32 of 10 000 points."""
    rng = np.random.default_rng(3)
    X = rng.uniform([-2.5, -1.0], [2.5, 2.0], (10_000, 2))
    rows = []
    # smooth, as such a drift is; the noise has a standard deviation of 0.1
    kernels = {"rbf": RBF([1.5, 4.0]), "matern 5/2": Matern([3.0, 9.0], nu=2.5)}
    for name, shape in kernels.items():
        posterior = inducing(4.0 * shape, X, 32, 0.01, 400)
        for method in ("mc", "qmc", "tail 2", "tail 4", "auto"):
            ratios = []
            for trial in range(3 * n_trials):
                rng = np.random.default_rng(trial)
                features = make_features(method, posterior, 1024, rng)
                ratios.append(std_ratio(posterior, features))
            row = {"kernel": name, "m": 32, "l": 1024, "method": method}
            inside = np.mean([np.abs(np.log(r)) < np.log(1.1) for r in ratios])
            rows.append(row | std_row(ratios) | {"within 10 %": float(inside)})
            progress(rows[-1])
    return rows


def bures(root: Array, exact: Array, drawn: Array, shift: Array | float = 0.0) -> float:
    """W2 distance of two Gaussians over √n; ``root`` is the square root of exact."""
    n = len(exact)
    values = np.linalg.eigvalsh(root @ drawn @ root)
    cross = 2.0 * np.sum(np.sqrt(np.maximum(values, 0.0)))
    squared = np.sum(np.square(shift)) + np.trace(exact) + np.trace(drawn) - cross
    return float(np.sqrt(max(squared, 0.0) / n))


def square_root(S: Array) -> Array:
    """Symmetric square root."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def weight_space(
    posterior: Posterior, size: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Error of the mean, and covariance, of the linear model with n + l features."""
    n = len(posterior.points)
    features = make_features("mc", posterior, n + size, rng)
    P, F = features(posterior.points), features(posterior.fresh)
    solve = cho_factor(P @ P.T + NOISE * np.eye(n))
    covariance = F @ F.T - (F @ P.T) @ cho_solve(solve, P @ F.T)
    C = posterior.kernel(posterior.points) + NOISE * np.eye(n)
    y = np.linalg.cholesky(C) @ rng.standard_normal(n)
    return F @ (P.T @ cho_solve(solve, y)) - posterior.gain.T @ y, covariance


def wasserstein(
    method: str, posterior: Posterior, root: Array, size: int, trial: int
) -> float:
    """Distance of one method in one trial."""
    rng = np.random.default_rng(1000 + trial)
    if method == "weight space":
        shift, drawn = weight_space(posterior, size, rng)
        return bures(root, posterior.exact, drawn, shift)
    n_sets = 8 if method == "groups" else 1
    kind = "auto" if method == "groups" else method
    drawn = np.zeros_like(posterior.exact)
    for _ in range(n_sets):
        features = make_features(kind, posterior, size, rng)
        drawn += drawn_covariance(posterior, features) / n_sets
    return bures(root, posterior.exact, drawn)


def measure_wasserstein(n_trials: int) -> list[dict[str, Any]]:
    """One row for each dimension, number of points and of features."""
    methods = ("weight space", "mc", "qmc", "student", "auto", "groups")
    rows = []
    for d in (2, 4, 8):
        for n in (32, 256, 1024):
            found: dict[tuple[int, str], list[float]] = {}
            for trial in range(n_trials):
                rng = np.random.default_rng(trial)
                posterior = dense(Matern(np.sqrt(d / 100), nu=2.5), n, d, 512, rng)
                root = square_root(posterior.exact)
                for size, method in ((s, m) for s in (1024, 4096) for m in methods):
                    if method != "groups" or size == 1024:
                        w = wasserstein(method, posterior, root, size, trial)
                        found.setdefault((size, method), []).append(w)
            for size in (1024, 4096):
                row: dict[str, Any] = {"d": d, "n": n, "l": size}
                row |= {
                    m: float(np.median(w)) for (s, m), w in found.items() if s == size
                }
                row["weight space / auto"] = row["weight space"] / row["auto"]
                rows.append(row)
                progress(row)
    return rows


def main() -> None:
    """Measure the tables asked for and report."""
    tables = ("std", "sparse", "wasserstein")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", nargs="+", choices=tables, default=list(tables))
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--dimensions", type=int, nargs="+", default=range(1, 11))
    arguments = parser.parse_args()
    settings = {"noise": NOISE, "trials": arguments.trials, "threads": 1}
    with threadpool_limits(1):
        for table in arguments.table:
            if table == "std":
                rows = measure_std(arguments.trials, arguments.dimensions)
            elif table == "sparse":
                rows = measure_sparse(arguments.trials)
            else:
                rows = measure_wasserstein(arguments.trials)
            report(f"draws_accuracy_{table}", rows, settings)


if __name__ == "__main__":
    main()
