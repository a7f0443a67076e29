"""Figure 3 of the paper on decoupled sampling: distances of draws from the posterior.

Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently sampling functions
from Gaussian process posteriors", ICML 2020. Functions are drawn from the posterior of
a Matern-5/2 process with lengthscale sqrt(d / 100) and noise of variance 1e-3, given n
observations in the unit cube of d inputs. Their means and covariances at random test
locations are compared with the exact ones by the 2-Wasserstein distance.

The columns are draws

* in weight space: the posterior of the weights of b = n + l independent random features
  (equations 5 to 7), whose variance starves as n grows,
* decoupled, as published (equation 13): a prior of l independent random features,
* of the library with l features, and with as many as it takes by default,
* of the library on a grid (``prior="grid"``), in two dimensions,
* of the exact posterior: the distance that as many draws have from it by chance.

Distances are divided by the root of the number of locations, and are medians over
trials: root mean squares in units of the prior's standard deviation. The paper does not
say how its distances are scaled, and its equation (45) has misprinted signs. Features
here are pairs of a cosine and a sine, those of the paper are cosines with random
phases. As in the paper, the error of weight space grows with n and d, and that of
decoupled draws falls with n in few dimensions and stays at that of the prior in eight.

By default 200 locations, 2000 draws and 3 trials: about 20 CPU seconds. ``--full`` has
the 1024 locations, 64 trials and three numbers of features of the paper, and 10 000
draws instead of its 100 000: several hours.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from skgpx import DecoupledSampler, SteinFourierFeatures
from skgpx.metrics import gaussian_wasserstein_distance

NOISE = 1e-3
COLUMNS = "weight-space", "published", "library, l", "default", "grid", "exact"


def weight_space(
    model: GaussianProcessRegressor,
    T: np.ndarray,
    n_basis: int,
    n_draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Values of draws of the Bayesian linear model on random features, (n, s)."""
    waves = SteinFourierFeatures(
        model.kernel_,
        n_frequencies=n_basis // 2,
        method="mc",
        random_state=int(rng.integers(2**31)),
    ).fit(T)
    Phi = waves.transform(model.X_train_)
    # w | y ~ N(A^-1 Phi' y, noise A^-1), A = Phi' Phi + noise I
    A = Phi.T @ Phi + NOISE * np.eye(Phi.shape[1])
    root = np.linalg.cholesky(A)
    mean = np.linalg.solve(A, Phi.T @ model.y_train_)
    white = rng.standard_normal((len(A), n_draws))
    weights = mean[:, np.newaxis] + np.sqrt(NOISE) * np.linalg.solve(root.T, white)
    values: np.ndarray = waves.transform(T) @ weights
    return values


def distances(
    d: int, n: int, n_basis: int, n_locations: int, n_draws: int, seed: int
) -> list[float]:
    """Distance of each column in one trial."""
    rng = np.random.default_rng([seed, d, n])
    kernel = Matern(np.sqrt(d / 100.0), nu=2.5)
    X = rng.random((n, d))
    T = rng.random((n_locations, d))
    signal = np.linalg.cholesky(kernel(X) + NOISE * np.eye(n))
    y = signal @ rng.standard_normal(n)
    regressor = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None)
    model = regressor.fit(X, y)
    mean, covariance = model.predict(T, return_cov=True)

    def distance(values: np.ndarray) -> float:
        drawn = values.mean(axis=1), np.cov(values)
        exact = gaussian_wasserstein_distance(mean, covariance, *drawn)
        return exact / np.sqrt(n_locations)

    def library(**options: object) -> np.ndarray:
        sampler = DecoupledSampler(FrozenEstimator(model), **options).fit(X)
        values: np.ndarray = sampler.sample_functions(n_draws, random_state=seed)(T)
        return values

    posterior = DecoupledSampler(FrozenEstimator(model)).fit(X).posterior_
    published = posterior.draw(n_draws, rng, n_basis=n_basis, method="mc")
    jitter = 1e-10 * np.eye(n_locations)
    root = np.linalg.cholesky(covariance + jitter)
    by_chance = mean[:, np.newaxis] + root @ rng.standard_normal((n_locations, n_draws))
    box = [(0.0, 1.0)] * d
    return [
        distance(weight_space(model, T, n + n_basis, n_draws, rng)),
        distance(published(T)),
        distance(library(n_basis=n_basis)),
        distance(library()),
        distance(library(prior="grid", domain=box)) if d == 2 else np.nan,
        distance(by_chance),
    ]


def main() -> None:
    """One row for each dimension, number of observations and number of features."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true")
    full = parser.parse_args().full
    rows = (4, 16, 64, 256, 1024) if full else (32, 256)
    features = (1024, 4096, 16384) if full else (1024,)
    setting = (1024, 10_000) if full else (200, 2000)
    trials = 64 if full else 3
    print(f"{'d':>3}{'n':>6}{'l':>7}" + "".join(f"{name:>14}" for name in COLUMNS))
    for d in (2, 4, 8):
        for n in rows:
            for n_basis in features:
                found = [
                    distances(d, n, n_basis, *setting, seed) for seed in range(trials)
                ]
                line = "".join(f"{x:14.3f}" for x in np.median(found, axis=0))
                print(f"{d:3d}{n:6d}{n_basis:7d}{line}", flush=True)


if __name__ == "__main__":
    main()
