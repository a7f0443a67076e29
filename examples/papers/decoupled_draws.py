"""Errors of decoupled draws by the number of Fourier features, as in the paper.

Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently sampling functions
from Gaussian process posteriors", ICML 2020, compare the covariance of draws with the
exact one as rows become more: draws from a posterior of weights on random features
starve, draws that are corrected by Matheron's rule do not. Here: the weight-space
draws, decoupled ones with independent frequencies (the paper's), and the defaults.

The figure is the root mean square of the logarithm of the ratio of standard deviations,
at points inside the data and just outside.
"""

from __future__ import annotations

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline

from skgpx import DecoupledSampler, SteinFourierFeatures

DRAWS, NOISE, KERNEL = 1000, 1e-2, Matern(0.3, nu=2.5)


def weight_space(X: np.ndarray, y: np.ndarray, n_basis: int) -> object:
    """Regression on random features, with prior and noise of the process."""
    features = SteinFourierFeatures(
        KERNEL, n_frequencies=n_basis // 2, method="mc", random_state=0
    )
    ridge = BayesianRidge(
        max_iter=1, alpha_init=1.0 / NOISE, lambda_init=1.0, fit_intercept=False,
        alpha_1=1e12, alpha_2=1e12 * NOISE, lambda_1=1e12, lambda_2=1e12,
    )  # fmt: skip
    return make_pipeline(features, ridge).fit(X, y)


def published(gp: GaussianProcessRegressor, n_basis: int, T: np.ndarray) -> np.ndarray:
    """Values of decoupled draws with independent frequencies (eq. 12), (n, s)."""
    rng = np.random.default_rng(0)
    X, y = gp.X_train_, gp.y_train_
    waves = SteinFourierFeatures(
        KERNEL, n_frequencies=n_basis // 2, method="mc", random_state=0
    ).fit(X)
    weights = rng.standard_normal((n_basis, DRAWS))
    noise = np.sqrt(NOISE) * rng.standard_normal((len(X), DRAWS))
    residuals = y[:, np.newaxis] - waves.transform(X) @ weights - noise
    update = np.linalg.solve(gp.L_.T, np.linalg.solve(gp.L_, residuals))
    values: np.ndarray = waves.transform(T) @ weights + KERNEL(T, X) @ update
    return values


def main() -> None:
    """One row for each number of rows and features."""
    print("rows features  weight space  published  defaults")
    for n in (30, 120, 480):
        rng = np.random.default_rng(n)
        X, T = rng.uniform(size=(n, 1)), np.linspace(-0.1, 1.1, 200)[:, np.newaxis]
        y = np.sin(12.0 * X[:, 0]) + np.sqrt(NOISE) * rng.standard_normal(n)
        gp = GaussianProcessRegressor(KERNEL, alpha=NOISE, optimizer=None).fit(X, y)
        _, exact = gp.predict(T, return_std=True)
        for n_basis in (64, 1024):
            _, std = weight_space(X, y, n_basis).predict(T, return_std=True)
            ours = DecoupledSampler(FrozenEstimator(gp), n_basis=n_basis).fit(X, y)
            draws = ours.sample_functions(DRAWS, random_state=0)(T)
            found = [
                np.sqrt(np.maximum(std**2 - NOISE, 1e-12)),
                published(gp, n_basis, T).std(axis=1),
                draws.std(axis=1),
            ]
            errors = [np.sqrt(np.mean(np.log(s / exact) ** 2)) for s in found]
            line = "".join(f"{error:12.3f}" for error in errors)
            print(f"{n:4d} {n_basis:8d} {line}")


if __name__ == "__main__":
    main()
