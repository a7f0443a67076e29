"""GWI-net as published: mean and covariance trained jointly, two splits of boston.

    SKGPX_PAPER_DATA=FOLDER python examples/papers/gwi_net.py

Wild, Hu and Sejdinovic, "Generalized variational inference in function spaces: Gaussian
measures meet Bayesian deep learning", NeurIPS 2022, Appendix A.7. FOLDER has
boston.csv, the target last; without it the data are 506 rows of a made-up function.

The published setting: 80 % of the rows train, 10 % validate, 10 % test; y is
standardised; M random training rows are the inducing points Z, with M of 0.5, 1, 1.5
and 2 times the root of their number chosen by the validation rows; the hyperparameters
of an ARD kernel and the noise maximise the evidence (76) of (Z, y_Z); the network has
two layers of ten units; it and the root of Σ, from (77), minimise for 1000 epochs of
Adam

    paper: Σ [(y - m)² + r] / (2 σ²) + W²
    code:  Σ [(y - m)² + r] / (2 σ²) / N + W

with W² by (62) on 100 rows drawn anew at each step; the variance r + σ² has the factor
T in [0, 1] that is best for the validation rows. Different are: columns of X are
standardised, since units of hundreds saturate the network; the noise is at least 0.001;
the estimator of W² is the symmetric one, not (60); the step size is 0.01, which the
appendix does not name.

Prints the negative log density of the test rows plus the logarithm of the standard
deviation of y, which is how Table 1 of the paper counts, and the RMSE in units of y,
beside GWIRegressor with the published prior and inducing points, without calibration,
and by default. About 70 seconds of processor time; docs/gwi.md has the figures of a
run.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgpx import GWIRegressor
from skgpx._numerics.adam import adam_step
from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.perceptron import Perceptron
from skgpx._numerics.regression import precision_root
from skgpx.bases import Nystroem
from skgpx.metrics import gaussian_wasserstein_distance

N_EPOCHS, N_COMPARED, RATE, LEAST_NOISE = 1000, 100, 1e-2, 1e-3
FACTORS = (0.5, 1.0, 1.5, 2.0)


class Rows(NamedTuple):
    """Inputs and targets."""

    X: np.ndarray
    y: np.ndarray


class Prior(NamedTuple):
    """Kernel, noise variance and inducing points."""

    kernel: object
    noise: float
    Z: np.ndarray


def data():
    """Inputs and targets of boston, or made up."""
    folder = os.environ.get("SKGPX_PAPER_DATA")
    if folder is None:
        return make_friedman1(506, n_features=8, noise=1.0, random_state=0)
    table = np.genfromtxt(Path(folder) / "boston.csv", delimiter=",", skip_header=1)
    return table[:, :-1], table[:, -1]


def evidence_prior(rows, n_points, rng):
    """Equation (76): hyperparameters by the evidence of random rows Z."""
    chosen = rng.choice(len(rows.y), n_points, replace=False)
    d = rows.X.shape[1]
    kernel = ConstantKernel() * RBF(np.full(d, np.sqrt(d))) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows.X[chosen], rows.y[chosen])
    noise = max(model.kernel_.k2.noise_level, LEAST_NOISE)
    return Prior(model.kernel_.k1, noise, rows.X[chosen])


def distance(basis, X, features, root):
    """Equation (62) on rows X, and its derivative in the root of S."""
    residual = basis.residual_covariance(X, features)
    half = features @ root
    zero = np.zeros(len(X))
    found, slopes = gaussian_wasserstein_distance(
        zero,
        residual + half @ half.T,
        zero,
        residual + features @ features.T,
        return_gradient=True,
    )
    slope = 2.0 * features.T @ (slopes.first_covariance @ half)
    return found**2 / len(X), slope / len(X)


def train(rows, basis, noise, objective, rng):
    """Network and root of S after the steps of Adam."""
    network = Perceptron((rows.X.shape[1], 10, 10, 1))
    theta = network.start(rng)
    n = len(rows.y)
    Phi = basis(rows.X)
    # (77), in whitened coordinates
    L = precision_root(Phi.T @ Phi / noise, 1.0)
    root = np.ascontiguousarray(solve_lower_transpose(L, np.eye(len(L))))
    moments = [np.zeros_like(p) for p in (theta, theta, root, root)]
    # weight of the likelihood of a row
    weight = (1.0 if objective == "paper" else 1.0 / n) / (2.0 * noise)
    for step in range(N_EPOCHS):
        m, pullback = network.with_pullback(theta, rows.X)
        compared = rng.choice(n, min(N_COMPARED, n), replace=False)
        squared, slope = distance(basis, rows.X[compared], Phi[compared], root)
        squared += float(np.mean(m**2))
        gap = 2.0 * m / n
        if objective == "code":
            D = np.sqrt(max(squared, 1e-12))
            slope = slope / (2.0 * D)
            gap = gap / (2.0 * D)
        gradient = pullback(2.0 * weight * (m - rows.y[:, np.newaxis]) + gap)[0]
        slope = slope + 2.0 * weight * Phi.T @ (Phi @ root)
        adam_step(theta, gradient, *moments[:2], step + 1, RATE)
        adam_step(root, np.ascontiguousarray(slope), *moments[2:], step + 1, RATE)
    return lambda X_new: network(theta, X_new)[:, 0], root


def variance_of(basis, root, X):
    """Variance r of the process."""
    features = basis(X)
    explained = np.sum((features @ root) ** 2, axis=1)
    return explained + basis.residual_variance(X, features)


def published(parts, n_points, objective, rng):
    """Negative log densities of validation and test rows, RMSE, and T."""
    training, validation, test = parts
    prior = evidence_prior(training, n_points, rng)
    basis = Nystroem.from_kernel(prior.kernel, prior.Z)
    mean, root = train(training, basis, prior.noise, objective, rng)
    v = variance_of(basis, root, validation.X) + prior.noise
    # (78) to (80): the minimiser of the density, in [0, 1]
    T = min(float(np.mean((validation.y - mean(validation.X)) ** 2 / v)), 1.0)
    scores = [
        -np.mean(
            norm.logpdf(
                rows.y,
                mean(rows.X),
                np.sqrt(T * (variance_of(basis, root, rows.X) + prior.noise)),
            )
        )
        for rows in (validation, test)
    ]
    error = np.sqrt(np.mean((test.y - mean(test.X)) ** 2))
    return (*scores, error, T)


def main():
    """Train both objectives and the estimators on two splits."""
    X, y = data()
    print(f"{'split':5s} {'method':44s} {'NLL':>6s} {'RMSE':>6s} {'CPU s':>6s}")
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(y))
        sizes = [round(0.8 * len(y)), round(0.9 * len(y))]
        at = np.split(order, sizes)
        unit = y[at[0]].std()
        X_unit = (X - X[at[0]].mean(axis=0)) / X[at[0]].std(axis=0)
        y_unit = (y - y[at[0]].mean()) / unit
        parts = [Rows(X_unit[part], y_unit[part]) for part in at]
        training, validation, test = parts

        def line(name, nll, error, start, seed=seed, unit=unit):
            seconds = time.process_time() - start
            shown = f"{nll + np.log(unit):6.3f} {error * unit:6.2f} {seconds:6.1f}"
            print(f"{seed:<5d} {name:44s} {shown}", flush=True)

        n = len(training.y)
        for objective in ("paper", "code"):
            start = time.process_time()
            results = {}
            for factor in FACTORS:
                rng = np.random.default_rng(seed)
                m = round(factor * np.sqrt(n))
                results[m] = published(parts, m, objective, rng)
            best = min(results, key=lambda m: results[m][0])
            _, nll, error, T = results[best]
            line(
                f"objective of the {objective}, M {best}, T {T:.2f}", nll, error, start
            )
        both = Rows(*map(np.concatenate, zip(training, validation, strict=True)))
        rng = np.random.default_rng(seed)
        prior = evidence_prior(training, round(np.sqrt(n)), rng)
        given = {
            "kernel": prior.kernel,
            "optimizer": None,
            "noise_variance": prior.noise * both.y.std() ** 2,
            "n_inducing": len(prior.Z),
            "inducing": "random",
            "n_estimators": 1,
        }
        settings = {
            "net, prior by (76), one network, random Z": {"mean": "net", **given},
            "net, calibrate=False": {"mean": "net", "calibrate": False},
            "net": {"mean": "net"},
            "default": {},
        }
        for name, options in settings.items():
            start = time.process_time()
            model = GWIRegressor(random_state=seed, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(*both)
            nll = -np.mean(model.log_predictive_density(*test))
            error = np.sqrt(np.mean((model.predict(test.X) - test.y) ** 2))
            line(f"GWIRegressor, {name}", nll, error, start)


if __name__ == "__main__":
    main()
