"""Do samplers end at the posterior, and do they say so where they do not?

    python -m benchmarks.bench_calibration [--fits 100] [--only counts modes ...]

*counts*: simulation-based calibration of the spread of f under the square link: data
are drawn from the prior, and ranks of the true spread among those of the particles
should be uniform. *modes*: two groups of rows at +1 and -1 under Student's t; half of
the particles belong to either. *outliers*: tempering against chains where the posterior
has one mode, far from the prior. *search*: random problems of likelihoods that are not
log-concave, the default against tempering with 1600 particles. *particles*: errors of
means and variances of J particles against exact ones. *classes*: do chains converge?
*hyperparameters*: simulation-based calibration of averaged hyperparameters: they are
drawn from the priors that a kernel states, then a function and noise, and ranks of the
true ones among the states should be uniform; a p-value is that of Kolmogorov's test.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import kstest, lognorm, uniform
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.report import progress, report
from skgpx import PLSClassifier, PLSRegressor
from skgpx.kernels import Prior
from skgpx.likelihoods import Gaussian, Poisson, ShiftedMixture, StudentT

Row = dict[str, Any]


def fitted(kernel: Any, likelihood: Any, X: Any, y: Any, **settings: Any) -> Any:
    """Fit with the kernel as it is; the model, whether it warned, CPU seconds."""
    chosen = {"n_inducing": len(X), "random_state": 0} | settings
    model = PLSRegressor(
        kernel, likelihood=likelihood, optimizer=None, normalize_y=False, **chosen
    )
    return watched(model, X, y)


def watched(model: Any, X: Any, y: Any) -> tuple[Any, bool, float]:
    """A fit, whether it warned, and its CPU seconds."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y)
    return model, bool(told), time.process_time() - start


def latent(model: Any, X: Any) -> Any:
    """Latent values of the particles, (n, s)."""
    return model.posterior_.marginals(X).mean[:, 0]


def prior_draw(rng: np.random.Generator, n: int, variance: float) -> tuple[Any, ...]:
    """Rows on a line, a function of the prior there, and its kernel."""
    X = np.sort(rng.uniform(0.0, 6.0, n))[:, np.newaxis]
    kernel = variance * RBF(1.0)
    root = np.linalg.cholesky(kernel(X) + 1e-10 * np.eye(n))
    return X, root @ rng.standard_normal(n), kernel


def counts(n_fits: int) -> list[Row]:
    """Calibration of the spread of f under the square link."""
    table = []
    for method in ("ou_mala", "auto"):
        for n, variance in ((8, 4.0), (15, 4.0), (15, 16.0), (30, 4.0)):
            ranks, told, seconds = [], 0, 0.0
            for seed in range(n_fits):
                rng = np.random.default_rng(seed)
                X, f, kernel = prior_draw(rng, n, variance)
                y, poisson = rng.poisson(f**2).astype(float), Poisson("square")
                model, warned, cpu = fitted(
                    kernel, poisson, X, y, method=method, random_state=seed
                )
                ranks.append(np.mean(latent(model, X).std(axis=0) < f.std()))
                told, seconds = told + warned, seconds + cpu
            rank = np.array(ranks)
            z = (rank.mean() - 0.5) * np.sqrt(12.0 * n_fits)
            table.append(
                {"method": method, "rows": n, "variance": variance, "fits": n_fits}
                | {"z of mean rank": z, "flatter than truth": int(np.sum(rank > 0.5))}
                | {"extreme tenth": float(np.mean(np.abs(rank - 0.5) > 0.45))}
                | {"warned": told, "CPU s": seconds / n_fits}
            )
            progress(table[-1])
    return table


def modes(n_fits: int) -> list[Row]:
    """Shares of two equal modes."""
    table, y = [], np.tile([1.0, -1.0], 7)
    for name, X in (("constant", np.zeros((14, 1))), ("line", np.c_[:14] / 13.0)):
        for method in ("ou_mala", "auto", "smc"):
            shares, told, seconds = [], 0, 0.0
            for seed in range(n_fits):
                model, warned, cpu = fitted(
                    1.0 * RBF(2.0), StudentT(4.0, 0.03), X, y,
                    method=method, random_state=seed,
                )  # fmt: skip
                shares.append(float(np.mean(latent(model, X[:1]) > 0.0)))
                told, seconds = told + warned, seconds + cpu
            table.append(
                {"inputs": name, "method": method, "fits": n_fits}
                | {"mean share": np.mean(shares), "sd": np.std(shares)}
                | {"least": min(shares), "largest": max(shares), "warned": told}
                | {"CPU s": seconds / n_fits}
            )
            progress(table[-1])
    return table


def outliers(n_fits: int) -> list[Row]:
    """Potentials and means of tempering and of chains."""
    rng, table = np.random.default_rng(0), []
    X = np.sort(rng.uniform(-3.0, 3.0, 150))[:, np.newaxis]
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_t(4.0, 150)
    y[rng.random(150) < 0.1] += 20.0
    for method in ("ou_mala", "smc"):
        ends, told, seconds = [], 0, 0.0
        for seed in range(max(n_fits // 5, 2)):
            model, warned, cpu = fitted(
                1.0 * RBF(1.0), StudentT(4.0, 0.3), X, y, n_inducing=5,
                method=method, random_state=seed,
            )  # fmt: skip
            ends.append(model.energy_curve_[-1])
            told, seconds = told + warned, seconds + cpu
        table.append(
            {"method": method, "fits": len(ends)}
            | {"mean": np.mean(ends), "least": min(ends), "largest": max(ends)}
            | {"warned": told, "CPU s": seconds / len(ends)}
        )
        progress(table[-1])
    return table


def search(n_fits: int) -> list[Row]:
    """The default against tempering with many particles."""
    problems: dict[str, Callable[..., Any]] = {
        "StudentT, 30 % outliers": lambda rng, f: (
            StudentT(4.0, 0.1),
            f + 0.1 * rng.standard_t(4.0, len(f))
            + (rng.random(len(f)) < 0.3) * rng.normal(0.0, 2.0, len(f)),
        ),
        "ShiftedMixture(2)": lambda rng, f: (
            ShiftedMixture(2.0, 0.5, 0.04),
            f + 2.0 * (rng.random(len(f)) < 0.5) + 0.2 * rng.standard_normal(len(f)),
        ),
    }  # fmt: skip
    table = []
    for name, problem in problems.items():
        wrong, told, tempered, seconds = 0, 0, 0, 0.0
        for seed in range(n_fits):
            rng = np.random.default_rng(seed)
            X, f, kernel = prior_draw(rng, 25, 1.0)
            likelihood, y = problem(rng, f)
            model, warned, cpu = fitted(kernel, likelihood, X, y, random_state=seed)
            other, _, _ = fitted(
                kernel, likelihood, X, y, method="smc", n_particles=1600
            )
            (mean, std), (truth, width) = (
                (v.mean(axis=1), v.std(axis=1))
                for v in (latent(model, X), latent(other, X))
            )
            error = width / np.sqrt(min(100.0, float(model.ess_.min())))
            missed = np.max(np.abs(mean - truth) / error) > 5.0
            wrong += bool(missed or np.max(np.abs(np.log(std / width))) > np.log(2.0))
            tempered += len(model.energy_curve_) == 4 and model.n_iter_ == 40
            told, seconds = told + warned, seconds + cpu
        table.append(
            {"problem": name, "fits": n_fits, "tempered": tempered, "wrong": wrong}
            | {"warned": told, "CPU s": seconds / n_fits}
        )
        progress(table[-1])
    return table


def particles(n_fits: int) -> list[Row]:
    """Moments of J particles against the exact distribution."""
    rng, table = np.random.default_rng(1), []
    X = rng.uniform(-3.0, 3.0, (25, 1))
    y = np.sin(X[:, 0]) + 0.5 * rng.standard_normal(25)
    new = np.linspace(-4.0, 4.0, 9)[:, np.newaxis]
    problem = (1.0 * RBF(1.0), Gaussian(0.25), X, y)
    exact, _, _ = fitted(*problem, n_inducing=6)
    mean, std = exact.predict(new, return_std=True)
    phi = exact.posterior_.basis(new)
    spread = np.sqrt(np.diagonal(exact.posterior_.weights.covariance(phi)))
    for J in (10, 100):
        squares, ratios = [], []
        for seed in range(10 * n_fits):
            model, _, _ = fitted(
                *problem, n_inducing=6, method="ou_mala", n_particles=J,
                random_state=seed,
            )  # fmt: skip
            m, s = model.predict(new, return_std=True)
            squares.append(np.mean((m - mean) ** 2 / spread**2) * model.ess_.min())
            ratios.append(np.mean(1.0 + (s**2 - std**2) / spread**2))
        root = np.sqrt(len(ratios))
        table.append(
            {"particles": J, "fits": len(ratios)}
            | {"variance ratio": np.mean(ratios), "+-": np.std(ratios) / root}
            | {"error² x ess_": np.mean(squares), "+- ": np.std(squares) / root}
        )
        progress(table[-1])
    return table


def classes(n_fits: int) -> list[Row]:
    """Do chains converge within defaults?"""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 5, 8))
    X, y = StandardScaler().fit_transform(X[chosen][::2]), y[chosen][::2]
    digits = {"kernel": 1.0 * RBF(8.0), "n_inducing": 50}
    sets: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "digits 3, 5, 8": (X, y, digits),
        "iris": (*load_iris(return_X_y=True), {}),
        "wine": (*load_wine(return_X_y=True), {}),
    }
    table = []
    for name, (X, y, settings) in sets.items():
        worst, steps, told, seconds = 0.0, [], 0, 0.0
        for seed in range(max(n_fits // 5, 2)):
            model = PLSClassifier(random_state=seed, **settings)
            model, warned, cpu = watched(model, X, y)
            worst, told = max(worst, float(model.rhat_.max())), told + warned
            steps, seconds = [*steps, model.n_iter_], seconds + cpu
        table.append(
            {"data": name, "fits": len(steps), "worst R-hat": worst, "warned": told}
            | {"mean n_iter_": np.mean(steps), "CPU s": seconds / len(steps)}
        )
        progress(table[-1])
    return table


def hyperparameters(n_fits: int) -> list[Row]:
    """Ranks of true hyperparameters among the states that a fit averages."""
    n_columns = 2
    priors = {
        "amplitude": lognorm(0.7),
        "lengthscale": lognorm(0.7, scale=1.5),
        "noise": lognorm(1.0, scale=0.05),
    }
    table = []
    for n in (20, 60, 200):
        ranks: dict[str, list[float]] = {name: [] for name in priors}
        seconds = 0.0
        for seed in range(n_fits):
            rng = np.random.default_rng(seed)
            amplitude = priors["amplitude"].rvs(random_state=rng)
            length_scale = priors["lengthscale"].rvs(n_columns, random_state=rng)
            noise = priors["noise"].rvs(random_state=rng)
            X = rng.uniform(-2.0, 2.0, (n, n_columns))
            K = amplitude * RBF(length_scale)(X) + noise * np.eye(n)
            y = np.linalg.cholesky(K) @ rng.standard_normal(n)
            kernel = ConstantKernel(1.0, Prior(priors["amplitude"]))
            kernel *= RBF(np.ones(n_columns), Prior(priors["lengthscale"]))
            kernel += WhiteKernel(0.1, Prior(priors["noise"]))
            model = PLSRegressor(kernel, normalize_y=False, random_state=seed)
            model, _, cpu = watched(model, X, y)
            seconds += cpu
            states = model.hyperparameter_states_
            weights = np.array([state.weight for state in states])
            thetas = np.exp([state.kernel.theta for state in states])
            noises = [state.likelihood.noise_variance for state in states]
            ranks["amplitude"].append(weights @ (thetas[:, 0] < amplitude))
            ranks["lengthscale"].append(weights @ (thetas[:, 1] < length_scale[0]))
            ranks["noise"].append(weights @ (np.array(noises) < noise))
        for name, values in ranks.items():
            z = (np.mean(values) - 0.5) * np.sqrt(12.0 * n_fits)
            extreme = float(np.mean(np.abs(np.array(values) - 0.5) > 0.45))
            row: Row = {"rows": n, "hyperparameter": name, "fits": n_fits}
            row |= {"z of mean rank": z, "extreme tenth": extreme}
            row |= {"p": kstest(values, uniform.cdf).pvalue}
            row |= {"CPU s": seconds / n_fits}
            table.append(row)
            progress(row)
    return table


PARTS = {
    part.__name__: part
    for part in (counts, modes, outliers, search, particles, classes, hyperparameters)
}


def main() -> None:
    """Measure the parts asked for and report a table of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--fits", type=int, default=100)
    arguments = parser.parse_args()
    with threadpool_limits(1):
        for name in arguments.only:
            rows = PARTS[name](arguments.fits)
            report(f"calibration_{name}", rows, {"fits": arguments.fits})


if __name__ == "__main__":
    main()
