"""Whole fits of SpectralVGPRegressor against peers, and the tables of its paper.

``python -m benchmarks.bench_spectral_vgp [fit peers spectra corollary air]``; "air"
reads a file of columns ``Date,Time,PT08_S1_CO`` that the environment variable
``AIR_QUALITY_CSV`` names.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import gpytorch
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, Kernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline

from benchmarks.report import progress, report
from benchmarks.timing import alternate
from skgpx import SpectralVGPRegressor
from skgpx._numerics.fourier_index import Box
from skgpx._numerics.fourier_sums import sketched_statistics
from skgpx.bases import PolynomialEigenvalues

Array = NDArray[np.float64]
PI = [(-np.pi, np.pi)]
Row = dict[str, Any]


# ---- Time --------------------------------------------------------------------------


def waves(n: int, seed: int = 0) -> tuple[Array, Array]:
    """Rows uniform on [-π, π], noise of standard deviation 0.3."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-np.pi, np.pi, (n, 1))
    f = np.sin(3.0 * X[:, 0]) + 0.5 * np.cos(11.0 * X[:, 0])
    return X, f + 0.3 * rng.standard_normal(n)


def bench_fit(n: int = 1_000_000) -> None:
    """Whole fit with hyperparameters, against one pass over the data."""
    X, y = waves(n)
    weights, box = np.ones(n), Box(np.array([-np.pi]), np.array([2.0 * np.pi]))
    rows = []
    for m in (101, 201, 501):
        model = SpectralVGPRegressor(n_basis=m, domain=PI)
        timing = alternate(
            {
                "pass": lambda: sketched_statistics(X, y, weights, box, 0.0, 1024),
                "fit": lambda model=model: model.fit(X, y),
            },
            n_rounds=7,
        )
        ratio = timing.ratio("fit", "pass")
        rows.append({"m": m, "pass_ms": 1e3 * timing.median("pass"),
                     "fit_ms": 1e3 * timing.median("fit"), "fit/pass": ratio[1],
                     "quartiles": (ratio[0], ratio[2])})  # fmt: skip
        progress(rows[-1])
    report("spectral_vgp_fit", rows, {"n": n})


class _NaturalSVGP(gpytorch.models.ApproximateGP):
    """SVGP for natural gradients, kernel fixed."""

    def __init__(self, Z: torch.Tensor, length_scale: float):
        distribution = gpytorch.variational.NaturalVariationalDistribution(len(Z))
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, Z, distribution, learn_inducing_locations=False
            )
        )
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.RBFKernel()
        self.covar_module.lengthscale = length_scale

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Prior distribution of the latent function at X."""
        distribution = gpytorch.distributions.MultivariateNormal
        return distribution(self.mean_module(X), self.covar_module(X))


def natural_svgp(
    X: Array, y: Array, Z: Array, scale: float, noise: float, epochs: int
) -> float:
    """Epochs of natural gradients, batches of 1024; the bound reached."""
    x, t = (torch.tensor(a, dtype=torch.float64) for a in (X, y))
    model = _NaturalSVGP(torch.tensor(Z, dtype=torch.float64), scale).double()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = noise
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    parameters = list(model.variational_parameters())
    steps = gpytorch.optim.NGD(parameters, num_data=len(y), lr=0.1)
    order = torch.Generator().manual_seed(0)
    batches = [
        batch
        for _ in range(epochs)
        for batch in torch.randperm(len(y), generator=order).split(1024)
    ]
    for batch in batches:
        steps.zero_grad()
        (-bound(model(x[batch]), t[batch])).backward()
        steps.step()
    with torch.no_grad():
        parts = [
            float(bound.likelihood.expected_log_prob(t[b], model(x[b])).sum())
            for b in torch.arange(len(y)).split(8192)
        ]
        return sum(parts) - float(model.variational_strategy.kl_divergence())


def bench_peers(n: int = 100_000) -> None:
    """Same kernel, same noise, 100 inducing variables: time and bound."""
    X, y = waves(n)
    scale, noise = 0.15, 0.09
    Z = np.linspace(-np.pi, np.pi, 100)[:, np.newaxis]
    fixed = {"optimizer": None, "noise_variance": noise, "normalize_y": False}
    ours = SpectralVGPRegressor(RBF(scale), n_basis=101, domain=PI, **fixed)
    nystroem = SpectralVGPRegressor(RBF(scale), basis="inducing", n_basis=100, **fixed)
    ridge = make_pipeline(
        Nystroem(gamma=0.5 / scale**2, n_components=100, random_state=0),
        BayesianRidge(),
    )
    torch.set_num_threads(1)
    bounds: dict[str, float] = {}

    def svgp(epochs: int) -> None:
        bound = natural_svgp(X, y, Z, scale, noise, epochs)
        bounds[f"GPyTorch NGD, {epochs} epochs"] = bound

    steps: dict[str, Callable[[], object]] = {
        "ours": lambda: ours.fit(X, y),
        "Nystroem + BayesianRidge": lambda: ridge.fit(X, y),
        "GPyTorch NGD, 3 epochs": lambda: svgp(3),
        "GPyTorch NGD, 10 epochs": lambda: svgp(10),
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    ours.fit(X, y)
    for _ in range(3):
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(20 if name == "ours" else 1):
                step()
            count = 20 if name == "ours" else 1
            seconds[name].append((time.perf_counter() - start) / count)
    bounds["ours"] = ours.log_evidence_
    # the collapsed bound of 100 kernel functions at any weights
    bounds["Nystroem + BayesianRidge"] = nystroem.fit(X, y).log_evidence_
    base = np.median(seconds["ours"])
    rows = [
        {"method": k, "ms": 1e3 * np.median(v), "ratio": np.median(v) / base,
         "bound": bounds[k]}
        for k, v in seconds.items()
    ]  # fmt: skip
    report("spectral_vgp_peers", rows, {"n": n, "kernel": "RBF(0.15)", "noise": noise})


# ---- Section 6.1 and Corollary 11 ----------------------------------------------------


def functions(x: Array, size: int) -> Array:
    """1, √2 sin x, √2 cos x, √2 sin 2x, ...; the angles start at -π as in the box."""
    angle = np.outer(x + np.pi, np.arange(1, size // 2 + 1))
    both = np.sqrt(2.0) * np.stack((np.sin(angle), np.cos(angle)), axis=2)
    return np.hstack((np.ones((len(x), 1)), both.reshape(len(x), -1)))[:, :size]


class SeriesKernel(Kernel):
    """Covariance ``Σ λ_j φ_j(x) φ_j(z)`` on [-π, π]."""

    def __init__(self, eigenvalues: tuple[float, ...]):
        self.eigenvalues = eigenvalues

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False):
        """Covariance matrix."""
        size, root = len(self.eigenvalues), np.sqrt(self.eigenvalues)
        left = functions(X[:, 0], size) * root
        right = left if Y is None else functions(Y[:, 0], size) * root
        values = left @ right.T
        return (values, np.empty((*values.shape, 0))) if eval_gradient else values

    def diag(self, X: Array) -> Array:
        """Variances."""
        return functions(X[:, 0], len(self.eigenvalues)) ** 2 @ self.eigenvalues

    def is_stationary(self) -> bool:
        """Not, since sine and cosine have different eigenvalues."""
        return False


def truth(x: Array, beta: float, size: int = 3000) -> Array:
    """``Σ_l φ_{3l} (3l)^(-1/2 - β) / log(3l)``, functions counted from one."""
    j = np.arange(3.0, size, 3.0)
    coefficients = np.zeros(size)
    coefficients[j.astype(int) - 1] = j ** (-0.5 - beta) / np.log(j)
    return functions(x, size) @ coefficients


def data_sets(n: int, beta: float, count: int) -> Iterator[tuple[Array, Array]]:
    """Independent data sets, noise of standard deviation 0.1."""
    grid = np.linspace(-np.pi, np.pi, 20_001)
    values = truth(grid, beta)
    for seed in range(count):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-np.pi, np.pi, n)
        yield x[:, None], np.interp(x, grid, values) + 0.1 * rng.normal(size=n)


GRID = (-np.pi + (np.arange(500) + 0.5) * 2.0 * np.pi / 500)[:, np.newaxis]


def judge(model: SpectralVGPRegressor, f: Array, exact: Any = None) -> Row:
    """Coverage, radius and loss of one fit."""
    mean, std = model.predict(GRID, return_std=True, include_noise=False)
    loss = float(np.sqrt(np.mean((mean - f) ** 2)))
    radius = model.credible_ball(0.95)
    row = {
        "pointwise": float(np.mean(np.abs(mean - f) <= 1.96 * std)),
        "ball": float(loss <= radius), "radius": radius, "loss": loss,
        "x1.5": float(loss <= 1.5 * radius), "x2": float(loss <= 2.0 * radius),
    }  # fmt: skip
    if exact is not None:
        row["sd/sd"] = float(np.mean(std / exact))
    return row


def averaged(rows: list[Row]) -> Row:
    """Means over data sets."""
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


FIXED = {"optimizer": None, "noise_variance": 0.01, "normalize_y": False}


def bench_corollary(count: int = 50) -> None:
    """Corollary 11: coverage for four regularities of the prior, truth of 1."""
    f = truth(GRID[:, 0], 1.0)
    rows = []
    for n in (1000, 10_000):
        for alpha in (0.5, 1.0, 2.0, 3.0):
            rate = n ** (1.0 / (1.0 + 2.0 * alpha))
            rules = {"rate/2": max(1, round(rate / 2)), "rate": round(rate)}
            rules["elbow"] = round((100.0 * n) ** (1.0 / (1.0 + 2.0 * alpha)))
            for rule, m in rules.items():
                prior = PolynomialEigenvalues(1.0, alpha)
                model = SpectralVGPRegressor(prior, n_basis=m, domain=PI, **FIXED)
                few = count if m < 400 else 10
                results = [judge(model.fit(X, y), f) for X, y in data_sets(n, 1.0, few)]
                row = {"n": n, "alpha": alpha, "rule": rule, "m": m, "sets": few}
                rows.append(row | averaged(results))
                progress(rows[-1])
    report("spectral_vgp_corollary_11", rows, {"sigma": 0.1, "beta": 1.0})


def bench_regularity(count: int = 50) -> None:
    """Coverage when hyperparameters maximise the bound: two regularities."""
    rows = []
    for n in (1000, 10_000):
        for beta in (0.75, 1.0):
            f = truth(GRID[:, 0], beta)
            for alpha in (0.5, 1.0):
                prior = PolynomialEigenvalues(1.0, alpha)
                model = SpectralVGPRegressor(prior, domain=PI)
                results = [
                    judge(model.fit(X, y), f) for X, y in data_sets(n, beta, count)
                ]
                row = {"n": n, "beta": beta, "alpha": alpha, "sets": count}
                rows.append(row | averaged(results))
                progress(rows[-1])
    report("spectral_vgp_regularity", rows, {"sigma": 0.1})


# ---- Section 6.2 --------------------------------------------------------------------


def air_quality(path: str) -> Array:
    """Hourly series of 55 weeks, gaps filled with the same hour of the days around."""
    table = pd.read_csv(path)
    y = pd.to_numeric(table["PT08_S1_CO"], errors="coerce").to_numpy(float)[:9240]
    y[y < 0.0] = np.nan
    days = pd.DataFrame(y.reshape(-1, 24))
    return days.interpolate("linear", limit_direction="both").to_numpy().ravel()


def bench_air() -> None:
    """Noise of the hourly series for numbers of functions."""
    y = air_quality(os.environ["AIR_QUALITY_CSV"])
    t = np.arange(len(y), dtype=float)[:, np.newaxis]
    rows = []
    for m in (50, 100, 200, 400):
        model = SpectralVGPRegressor(
            PolynomialEigenvalues(2e5), n_basis=m, optimizer=None,
            domain=[(0.0, float(len(y)))], normalize_y=False,
        )  # fmt: skip
        start = time.perf_counter()
        model.fit(t, y)
        rows.append({"m": m, "evidence": model.log_evidence_,
                     "sigma": np.sqrt(model.noise_variance_),
                     "seconds": time.perf_counter() - start})  # fmt: skip
        progress(rows[-1])
    report("spectral_vgp_section_6_2", rows, {"tau": 2e5, "alpha": 0.5})


BENCHMARKS = {
    "fit": bench_fit,
    "peers": bench_peers,
    "corollary": bench_corollary,
    "regularity": bench_regularity,
    "air": bench_air,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or [k for k in BENCHMARKS if k != "air"]:
        BENCHMARKS[chosen]()
