"""Coverage of credible balls of spectral features, as in the paper's section 6.

Nieman, Szabó and van Zanten, "Uncertainty quantification for sparse spectral
variational approximations in Gaussian process regression", 2023: y = f + noise of
standard deviation 0.1 at uniform inputs, f of regularity 1 in the coefficients of
Fourier functions, a prior of regularity α. Balls should cover where α <= 1 and fail
where α > 1 (corollary 11), with m = n^(1 / (1 + 2α)) functions (the published rate) and
with all those of prior variance above noise variance / n, whose balls are smaller: the
rate drops the noise.

Printed: share of balls of 95 % that hold f, and their mean radius, over 20 data sets.
"""

from __future__ import annotations

import numpy as np

from skgpx import SpectralVGPRegressor
from skgpx.bases import PolynomialEigenvalues

NOISE, ROWS, SETS = 0.1, 2000, 20
GRID = (np.arange(4000)[:, np.newaxis] + 0.5) / 4000


def truth(x: np.ndarray) -> np.ndarray:
    """A function of regularity 1: coefficients j^(-3/2) of the j-th function."""
    j = np.arange(1, 500)
    angles = 2.0 * np.pi * x * j
    waves = np.sin(angles) * np.sin(j**2) + np.cos(angles) * np.cos(j**2)
    values: np.ndarray = 2.0 * waves @ (2.0 * j) ** -1.5
    return values


def ball(regularity: float, n_basis: int, seed: int) -> tuple[float, float]:
    """Distance of the posterior mean from f, and radius of the ball."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(ROWS, 1))
    y = truth(X) + NOISE * rng.standard_normal(ROWS)
    model = SpectralVGPRegressor(
        PolynomialEigenvalues(regularity=regularity),
        n_basis=n_basis,
        domain=(0.0, 1.0),
        noise_variance=NOISE**2,
        optimizer=None,
        normalize_y=False,
    ).fit(X, y)
    error = model.predict(GRID) - truth(GRID)
    return float(np.sqrt(np.mean(error**2))), model.credible_ball(0.95)


def main() -> None:
    """One row for each regularity of the prior, for both numbers of functions."""
    print("regularity    functions  coverage  radius   loss")
    for regularity in (0.5, 1.0, 2.0, 3.0):
        decay = 1.0 + 2.0 * regularity
        sizes = ROWS ** (1.0 / decay), (ROWS / NOISE**2) ** (1.0 / decay)
        for n_basis in (int(np.ceil(size)) for size in sizes):
            balls = np.array([ball(regularity, n_basis, seed) for seed in range(SETS)])
            covered = np.mean(balls[:, 0] <= balls[:, 1])
            loss, radius = balls.mean(axis=0)
            print(
                f"{regularity:10} {n_basis:12} {covered:9.2f} {radius:7.4f} {loss:6.4f}"
            )


if __name__ == "__main__":
    main()
