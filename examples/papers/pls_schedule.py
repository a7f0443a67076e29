"""Projected Langevin sampling with the published schedule, beside the defaults.

Wild, Wu, Sejdinovic and Knoblauch, "Near-optimal approximations for Bayesian inference
in function space": particles of the projections u of f on the eigenfunctions of the
kernel move by equation (236),

    u <- u - eta E dc(Eᵀu, y) - eta u / lambda + sqrt(2 eta) xi,

from N(0, I) for a simulated time of 0.5, with the step sizes 1e-3, ..., 5e-8 one after
the other, until the mean energy changes by less than one per cent. Runs of more than
`LONGEST` steps are left out here.

Two likelihoods of the paper with two modes each: an unknown shift of all observations
(its figure 6), and counts of rate f² (its figure 5). Printed at one input: the share of
draws in the upper mode, the mean of the draws of each mode, and their standard
deviation, for the shift beside the exact one of a process around one of the modes.

    python examples/papers/pls_schedule.py [--plot FILE]
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from skgpx import PLSRegressor
from skgpx.likelihoods import Likelihood, Poisson, ShiftedMixture

Array = np.ndarray
STEP_SIZES = np.geomspace(1e-3, 5e-8, 5)
SIMULATED_TIME, LONGEST = 0.5, 10_000
# Of the published run, and of the default, where four runs of these weigh the modes.
PARTICLES, OURS = 50, 800
# Eigenvalues below this share of the largest would make every step above diverge.
SMALLEST = 1e-3
GRID = np.linspace(-3.0, 3.0, 301)[:, np.newaxis]


def published(
    X: Array, y: Array, kernel: Kernel, likelihood: Likelihood, seed: int = 0
) -> tuple[Array, list[str]]:
    """Draws of the projections on the grid (301, particles), and a line for each run.

    The part of f outside the projections is left out; it is small between the rows.
    """
    rng, m = np.random.default_rng(seed), round(np.sqrt(len(y)))
    Z = X[rng.choice(len(y), m, replace=False)]
    values, vectors = np.linalg.eigh(kernel(Z) / m)
    kept = values > SMALLEST * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    vectors = vectors / np.sqrt(m * values)
    E, precision = vectors.T @ kernel(Z, X), 1.0 / values[:, np.newaxis]
    prepared, targets = likelihood.prepare(y).with_base(0.0), y[:, np.newaxis]
    draws, before, lines = np.full((len(GRID), PARTICLES), np.nan), np.inf, []
    for step_size in STEP_SIZES:
        n_steps = int(SIMULATED_TIME / step_size)
        if n_steps > LONGEST:
            lines.append(f"  step size {step_size:.1e}: {n_steps} steps, left out")
            continue
        u = rng.standard_normal((len(values), PARTICLES))
        with np.errstate(all="ignore"):
            for _ in range(n_steps):
                slope = E @ prepared.gradient(targets, E.T @ u) + precision * u
                noise = rng.standard_normal(u.shape)
                u += np.sqrt(2.0 * step_size) * noise - step_size * slope
            potential = 0.5 * np.sum(precision * u**2, axis=0)
            energy = np.mean(prepared.nll(targets, E.T @ u).sum(axis=0) + potential)
        lines.append(
            f"  step size {step_size:.1e}: {n_steps} steps, energy {energy:.4g}"
        )
        if np.isfinite(energy):
            draws = kernel(GRID, Z) @ vectors @ u
            if abs(energy - before) < 0.01 * abs(before):
                break
            before = energy
    return draws, lines


def defaults(X: Array, y: Array, kernel: Kernel, likelihood: Likelihood) -> Array:
    """Draws of the estimator with the same kernel and likelihood."""
    model = PLSRegressor(
        kernel,
        likelihood=likelihood,
        optimizer=None,
        normalize_y=False,
        n_particles=OURS,
        random_state=0,
    ).fit(X, y)
    values: Array = model.sample_functions(OURS, random_state=0)(GRID)
    return values


def shifted(n: int = 400) -> tuple[Array, Array, Kernel, Likelihood, float]:
    """Figure 6: y is 2 sin(1.5πx) or that plus 20, less 10: both are as probable."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    y = 2.0 * np.sin(1.5 * np.pi * X[:, 0]) + rng.standard_normal(n) + 10.0
    kernel = ConstantKernel(100.0) * RBF(0.5)
    return X, y, kernel, ShiftedMixture(20.0, 0.5, noise_variance=1.0), -2.35


def counts(n: int = 100) -> tuple[Array, Array, Kernel, Likelihood, float]:
    """Figure 5: counts of the rate f², which do not know the sign of f."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    y = rng.poisson((4.0 + np.sin(2.0 * X[:, 0])) ** 2).astype(float)
    return X, y, ConstantKernel(16.0) * RBF(1.0), Poisson(link="square"), -0.55


def described(name: str, values: Array) -> str:
    """Modes of draws at one input."""
    upper, lower = values[values > 0.0], values[values <= 0.0]
    parts = [f"{name:10s} upper share {len(upper) / len(values):.2f}"]
    for mode in (upper, lower):
        if len(mode) > 1:
            parts.append(f"mean {mode.mean():6.2f} std {mode.std(ddof=1):.3f}")
    return ", ".join(parts)


def plot(found: dict[str, dict[str, Array]], file: str) -> None:
    """Draws of both, side by side."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(len(found), 2, figsize=(9, 3 * len(found)), squeeze=False)
    for row, (problem, draws) in zip(axes, found.items(), strict=True):
        for ax, (name, values) in zip(row, draws.items(), strict=True):
            ax.plot(GRID, values, color="C0", alpha=0.3, linewidth=0.7)
            ax.set_title(f"{problem}: {name}")
    plt.tight_layout()
    plt.savefig(file)


def main() -> None:
    """Compare both samplers on both problems."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE")
    file, found = parser.parse_args().plot, {}
    for problem, make in {"unknown shift": shifted, "counts": counts}.items():
        X, y, kernel, likelihood, at = make()
        draws, lines = published(X, y, kernel, likelihood)
        found[problem] = {"published": draws}
        found[problem]["defaults"] = defaults(X, y, kernel, likelihood)
        place = np.argmin(np.abs(GRID[:, 0] - at))
        print(f"{problem}, at x = {at}", *lines, sep="\n")
        for name, values in found[problem].items():
            print(described(name, values[place]))
        if problem == "unknown shift":
            # given the mode, the likelihood is that of regression
            exact = GaussianProcessRegressor(kernel, alpha=1.0, optimizer=None)
            mean, std = exact.fit(X, y).predict([[at]], return_std=True)
            print(f"{'exact':10s} upper mean {mean[0]:6.2f} std {std[0]:.3f}")
    if file:
        plot(found, file)


if __name__ == "__main__":
    main()
