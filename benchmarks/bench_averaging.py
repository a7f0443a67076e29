"""Hyperparameters of few rows: averaged, chosen, and sampled by NUTS.

    python -m benchmarks.bench_averaging [--rows 40 100 250] [--seeds 2]
                                         [--only airfoil ...] [--methods averaged ...]
                                         [--simulated 30]

Negative log density and coverage of 90 % intervals at up to 600 held-out rows, in units
of the standard deviation of y, and CPU seconds of a fit. "worst third" is the lowest
coverage of three groups of rows: those of small, middling and large predicted standard
deviations. Tables with fewer than n + 200 rows are left out. "averaged, RBF" and "NUTS,
RBF" have one family of kernels, one lengthscale a column, and the same priors; NUTS
(numpyro) takes 500 steps of warm-up and 500 draws of one chain, all of which are
averaged. Peers that are not installed are left out. "62 columns" is made up: two of its
columns matter. ``--simulated`` fits so many tables for each number of rows, drawn from
processes of all families under the priors: what averaging and choosing lose against the
truth, in nats a held-out row.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import lognorm, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Kernel,
    Matern,
    WhiteKernel,
)

from benchmarks.data import add_data_argument, load
from benchmarks.report import progress, report
from skgpx import PLSRegressor
from skgpx.kernels import Prior

Array = Any
# Log density of each row, its distribution function there, and its predicted std.
Answer = tuple[Array, Array, Array]

TABLES = (
    "airfoil",
    "boston",
    "concrete",
    "energy_cooling",
    "power",
    "wine",
    "kin8nm",
    "protein",
    "sklearn_diabetes",
)
WIDE = "62 columns"
# Log-normal priors: means and standard deviations of the logarithms. The mean of a
# lengthscale also has ½ log d.
AMPLITUDE = (1.0, 1.5)
LENGTH_SCALE = (np.sqrt(2.0), np.sqrt(3.0))
NOISE = (-2.0, 2.0)


# ---- Data ----------------------------------------------------------------------------


def rows_of(name: str, folder: Any, seed: int) -> tuple[Array, Array]:
    """Rows of a table, in a random order of the seed."""
    rng = np.random.default_rng(seed)
    if name == WIDE:
        X = rng.standard_normal((1000, 62))
        f = np.sin(2.0 * X[:, 0]) + X[:, 1]
        return X, f + 0.3 * rng.standard_normal(1000)
    X, y = load(name, folder)
    order = rng.permutation(len(y))
    return X[order], y[order]


# ---- Methods, for standardised X and y -----------------------------------------------


def of_normals(y: Array, mean: Array, std: Array) -> Answer:
    """An even mixture of normals, (n, s), at targets (n,)."""
    z = (y[:, np.newaxis] - mean) / std
    log_density = logsumexp(norm.logpdf(z) - np.log(std), axis=1)
    variance = np.mean(std**2, axis=1) + np.var(mean, axis=1)
    return (
        log_density - np.log(mean.shape[1]),
        ndtr(z).mean(axis=1),
        np.sqrt(variance),
    )


def ours(hyperparameters: str, kernel_of: Callable[[int], Kernel] | None = None) -> Any:
    """A fit of this library."""

    def answer(X: Array, y: Array, X_new: Array, y_new: Array) -> Answer:
        kernel = None
        if kernel_of is not None:
            kernel = kernel_of(X.shape[1])
        model = PLSRegressor(
            kernel,
            hyperparameters=hyperparameters,
            random_state=0,
        ).fit(X, y)
        distribution = model.predict_dist(X_new)
        return (
            distribution.log_density(y_new),
            distribution.cdf(y_new),
            distribution.std(),
        )

    return answer


def rbf_with_priors(d: int) -> Kernel:
    """An RBF with one lengthscale a column and the priors of NUTS."""
    amplitude = Prior(lognorm(AMPLITUDE[1], scale=np.exp(AMPLITUDE[0])))
    median = np.exp(LENGTH_SCALE[0]) * np.sqrt(d)
    length_scale = Prior(lognorm(LENGTH_SCALE[1], scale=median))
    noise = Prior(lognorm(NOISE[1], scale=np.exp(NOISE[0])))
    signal = ConstantKernel(1.0, amplitude) * RBF(np.ones(d), length_scale)
    return signal + WhiteKernel(0.1, noise)


def exact_process(shape: Callable[[Array], Kernel]) -> Any:
    """Scikit-learn's process with one lengthscale a column and three restarts."""

    def answer(X: Array, y: Array, X_new: Array, y_new: Array) -> Answer:
        kernel = ConstantKernel(1.0) * shape(np.ones(X.shape[1])) + WhiteKernel(0.1)
        model = GaussianProcessRegressor(
            kernel,
            n_restarts_optimizer=3,
            random_state=0,
        ).fit(X, y)
        mean, std = model.predict(X_new, return_std=True)
        return of_normals(y_new, mean[:, np.newaxis], std[:, np.newaxis])

    return answer


def nuts(X: Array, y: Array, X_new: Array, y_new: Array) -> Answer:
    """The no-U-turn sampler on the same posterior, by numpyro."""
    jax, jnp, numpyro, distributions, infer = map(
        importlib.import_module,
        ("jax", "jax.numpy", "numpyro", "numpyro.distributions", "numpyro.infer"),
    )
    numpyro.enable_x64()
    n, d = X.shape
    mean = np.concatenate(
        ([AMPLITUDE[0]], np.full(d, LENGTH_SCALE[0] + 0.5 * np.log(d)), [NOISE[0]])
    )
    std = np.concatenate(([AMPLITUDE[1]], np.full(d, LENGTH_SCALE[1]), [NOISE[1]]))

    def covariance(theta: Array, A: Array, B: Array) -> Array:
        scaled_A = A / jnp.exp(theta[1:-1])
        scaled_B = B / jnp.exp(theta[1:-1])
        difference = scaled_A[:, None] - scaled_B[None]
        return jnp.exp(theta[0] - 0.5 * jnp.sum(difference**2, axis=2))

    def model() -> None:
        prior = distributions.Normal(mean, std).to_event(1)
        theta = numpyro.sample("theta", prior)
        C = covariance(theta, X, X) + (jnp.exp(theta[-1]) + 1e-8) * jnp.eye(n)
        density = distributions.MultivariateNormal(jnp.zeros(n), C)
        numpyro.sample("y", density, obs=y)

    sampler = infer.MCMC(
        infer.NUTS(model),
        num_warmup=500,
        num_samples=500,
        progress_bar=False,
    )
    sampler.run(jax.random.PRNGKey(0))

    @jax.jit
    def predict(theta: Array) -> tuple[Array, Array]:
        C = covariance(theta, X, X) + (jnp.exp(theta[-1]) + 1e-8) * jnp.eye(n)
        L = jnp.linalg.cholesky(C)
        cross = jax.scipy.linalg.solve_triangular(
            L,
            covariance(theta, X, X_new),
            lower=True,
        )
        white = jax.scipy.linalg.solve_triangular(L, y, lower=True)
        prior_variance = jnp.exp(theta[0]) + jnp.exp(theta[-1])
        variance = prior_variance - jnp.sum(cross**2, axis=0)
        return cross.T @ white, jnp.sqrt(variance)

    states = sampler.get_samples()["theta"]
    means, stds = zip(*(predict(theta) for theta in states), strict=True)
    return of_normals(y_new, np.stack(means, axis=1), np.stack(stds, axis=1))


METHODS: dict[str, tuple[Callable[..., Answer], str]] = {
    "default": (ours("auto"), "skgpx"),
    "averaged": (ours("average"), "skgpx"),
    "chosen": (ours("maximise"), "skgpx"),
    "averaged, RBF": (ours("average", rbf_with_priors), "skgpx"),
    "NUTS, RBF": (nuts, "numpyro"),
    "scikit-learn, RBF": (exact_process(RBF), "sklearn"),
    "scikit-learn, Matern 5/2": (
        exact_process(lambda scales: Matern(scales, nu=2.5)),
        "sklearn",
    ),
}


# ---- Tables of processes -------------------------------------------------------------


def drawn_process(seed: int, n: int, d: int = 3) -> tuple[Array, Array, float]:
    """Rows of a random process, 300 new ones after n, and the truth's density of them.

    Returns
    -------
    X : ndarray of shape (n + 300, d)
    y : ndarray of shape (n + 300,)
    nlpd : float
        Of the last 300 rows given the first n, under the process itself.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 300, d))
    amplitude = np.exp(AMPLITUDE[0] + AMPLITUDE[1] * rng.standard_normal())
    log_length_scale = LENGTH_SCALE[0] + 0.5 * np.log(d)
    length_scale = np.exp(log_length_scale + LENGTH_SCALE[1] * rng.standard_normal(d))
    noise = np.exp(NOISE[0] + NOISE[1] * rng.standard_normal())
    families = (
        RBF(length_scale),
        Matern(length_scale, nu=2.5),
        Matern(length_scale, nu=1.5),
    )
    kernel = amplitude * families[seed % 3]
    K = kernel(X) + 1e-9 * np.eye(len(X))
    f = np.linalg.cholesky(K) @ rng.standard_normal(len(X))
    y = f + np.sqrt(noise) * rng.standard_normal(len(X))
    process = GaussianProcessRegressor(kernel + WhiteKernel(noise), optimizer=None)
    mean, std = process.fit(X[:n], y[:n]).predict(X[n:], return_std=True)
    return X, y, -float(np.mean(norm(mean, std).logpdf(y[n:])))


def simulate(n_tables: int, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """What averaging and choosing lose, with standard errors."""
    table = []
    for n in numbers:
        losses: dict[str, list[float]] = {"averaged": [], "chosen": []}
        for seed in range(n_tables):
            X, y, truth = drawn_process(seed, n)
            for name, values in losses.items():
                method, _ = METHODS[name]
                log_density, _, _ = method(X[:n], y[:n], X[n:], y[n:])
                values.append(-float(np.mean(log_density)) - truth)
        row: dict[str, Any] = {"rows": n, "tables": n_tables}
        for name, values in losses.items():
            row[f"{name} loses"] = float(np.mean(values))
            row[f"+- {name}"] = float(np.std(values, ddof=1) / np.sqrt(n_tables))
        table.append(row)
        progress(row)
    return table


# ---- Table ---------------------------------------------------------------------------

FIGURES = ("nlpd", "coverage", "worst third", "CPU s")


def measure(
    X: Array,
    y: Array,
    n: int,
    method: Callable[..., Answer],
) -> dict[str, float]:
    """Negative log density, coverage and CPU seconds of the first n rows."""
    shift = X[:n].mean(axis=0)
    scale = X[:n].std(axis=0)
    X = (X - shift) / np.where(scale > 0.0, scale, 1.0)
    z = (y - y[:n].mean()) / y[:n].std()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log_density, level, std = method(X[:n], z[:n], X[n : n + 600], z[n : n + 600])
    seconds = time.process_time() - start
    inside = (level >= 0.05) & (level <= 0.95)
    thirds = np.array_split(inside[np.argsort(std, kind="stable")], 3)
    return {
        "nlpd": -float(np.mean(log_density)),
        "coverage": float(np.mean(inside)),
        "worst third": float(min(np.mean(third) for third in thirds)),
        "CPU s": seconds,
    }


def means_of(results: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean of each figure."""
    return {
        figure: float(np.mean([result[figure] for result in results]))
        for figure in FIGURES
    }


def main() -> None:
    """Print a line for each table, number of rows and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[40, 100, 250])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[*TABLES, WIDE])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--simulated", type=int, default=0)
    add_data_argument(parser)
    options = parser.parse_args()
    if options.simulated:
        rows = simulate(options.simulated, options.rows)
        report("averaging_simulated", rows, {"tables": options.simulated})
        return
    table = []
    for method in options.methods:
        function, package = METHODS[method]
        if importlib.util.find_spec(package) is None:
            progress({"method": method, "left out": package})
            continue
        # compilation is not what is measured
        X, y = rows_of(WIDE, options.data, 0)
        measure(X[:200, :3], y[:200], 20, function)
        for n in options.rows:
            for name in options.only:
                results = []
                for seed in range(options.seeds):
                    X, y = rows_of(name, options.data, seed)
                    if len(y) >= n + 200:
                        results.append(measure(X, y, n, function))
                if not results:
                    continue
                row = {"rows": n, "data": name, "method": method} | means_of(results)
                row["seeds"] = [round(result["nlpd"], 4) for result in results]
                table.append(row)
                progress(row)
            rows = [
                row for row in table if row["rows"] == n and row["method"] == method
            ]
            table.append({"rows": n, "data": "mean", "method": method} | means_of(rows))
            progress(table[-1])
    shown = ("rows", "data", "method", *FIGURES)
    report("averaging", table, {"seeds": options.seeds}, shown)


if __name__ == "__main__":
    main()
