"""Projected Langevin sampling with the published schedule, beside the defaults.

Wild, Wu, Sejdinovic and Knoblauch, "Near-optimal approximations for Bayesian inference
in function space": particles of the projections u of f on the eigenfunctions of the
kernel move by equation (236),

    u <- u - eta E dc(E^T u, y) - eta u / lambda + sqrt(2 eta) xi,

from N(0, I) for a simulated time of 0.5, with the step sizes 1e-3, 8.4e-5, 7.1e-6, ...
one after the other, until the mean energy changes by less than one per cent. This is
`PLSRegressor` with the prior of the paper, `GREKernel` around the inducing points, with
`method="ula"`, `init` and `step_size`. The last run has 70 710 steps; smaller step
sizes of the published grid (841 thousand and ten million steps) are left out.

Two likelihoods of the paper with two modes each: an unknown shift of all observations
(its figure 6), and counts of rate f^2 (its figure 5). Printed at one input: the share
of particles in the upper mode, the mean of the particles of each mode, and their
standard deviation, for the shift beside the exact one of a process around one of the
modes.

    python examples/papers/pls_schedule.py [--plot FILE]

Printed when it was last run (30 CPU seconds published, 10 ours, one thread of a busy
machine), "in both" the share of functions that take values in both modes:

    unknown shift, at x = -2.35     upper share   upper mean, std  lower mean, std  both
      step 1.0e-03                  diverges
      step 8.4e-05, 5946 steps      0.46          10.26  3.251     -8.45  1.926     0.98
      step 7.1e-06, 70 710 steps    0.46          10.20  3.420     -8.38  1.943     0.98
      defaults                      0.44          11.76  0.217     -8.22  0.217     0.00
      exact                                       11.77  0.216
    counts, at x = -0.55
      step 8.4e-05, 5946 steps      0.44           3.40  0.995     -3.06  0.888     0.84
      step 7.1e-06, 70 710 steps    0.44           3.38  1.001     -3.24  1.569     0.94
      defaults                      0.47           3.13  0.138     -3.14  0.142     0.00

For the shift the rule of one per cent ends the search at 7.1e-6: the energy changed by
half a per cent. The modes are not wide because of the step. Particles start between the
modes, and nearly all end with some neighbourhoods of the inputs in one and some in the
other, which they have not left after 0.5 units of time, whatever the step. The shares
of the published run are those of the start; the default weighs modes by their evidence.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from skgpx import PLSRegressor
from skgpx._pls._langevin import nystroem_root
from skgpx.bases import Nystroem, select_inducing
from skgpx.kernels import GREKernel
from skgpx.likelihoods import Likelihood, Poisson, ShiftedMixture

Array = np.ndarray
STEP_SIZES = np.geomspace(1e-3, 5e-8, 5)[:3]
SIMULATED_TIME = 0.5
# Of the published runs, and of the default, where four runs of these weigh the modes.
PARTICLES, OURS = 50, 800
GRID = np.linspace(-3.0, 3.0, 301)[:, np.newaxis]


def published(
    X: Array, y: Array, kernel: Kernel, likelihood: Likelihood
) -> dict[str, Array]:
    """Particles on the grid (301, particles) after each step size of the grid.

    The part of f outside the projections is left out; it is small between the rows.
    """
    rng = np.random.default_rng(0)
    m = round(np.sqrt(len(y)))
    Z = select_inducing("greedy", X, kernel, m, rng, np.ones(len(y)))
    prior = GREKernel(kernel, Z, background=0.0, background_bounds="fixed")
    # Q_0 = N(0, I) in the projections u, as weights of the estimator
    root = nystroem_root(Nystroem.from_kernel(prior, Z))
    start = root @ rng.standard_normal((m, PARTICLES))
    runs: dict[str, Array] = {}
    before = np.nan
    for step_size in STEP_SIZES:
        n_steps = int(SIMULATED_TIME / step_size)
        name = f"published, step {step_size:.1e}, {n_steps} steps"
        model = PLSRegressor(
            prior,
            likelihood=likelihood,
            inducing=Z,
            optimizer=None,
            normalize_y=False,
            method="ula",
            init=start[:, np.newaxis],
            step_size=step_size,
            max_iter=n_steps,
            tol=0.0,
            n_particles=PARTICLES,
            random_state=0,
        )
        try:
            model.fit(X, y)
        except ValueError:
            print(f"  {name}: diverges")
            continue
        energy = model.energy_curve_[-1]
        change = abs(energy - before) / abs(before)
        print(f"  {name}: energy {energy:.1f}, relative change {change:.4f}")
        runs[name] = model.posterior_.basis(GRID) @ model.particles_[:, 0]
        before = energy
    return runs


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


def described(name: str, draws: Array, place: int) -> str:
    """Modes of draws at one input, and the share of functions that are in both."""
    values = draws[place]
    upper, lower = values[values > 0.0], values[values <= 0.0]
    parts = [f"{name:38s} upper share {len(upper) / len(values):.2f}"]
    for mode in (upper, lower):
        if len(mode) > 1:
            parts.append(f"mean {mode.mean():6.2f} std {mode.std(ddof=1):.3f}")
    in_both = np.any(draws > 0.0, axis=0) & np.any(draws < 0.0, axis=0)
    parts.append(f"in both {in_both.mean():.2f}")
    return ", ".join(parts)


def plot(found: dict[str, dict[str, Array]], file: str) -> None:
    """Draws of the last published run and of the default, side by side."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(len(found), 2, figsize=(9, 3 * len(found)), squeeze=False)
    for row, (problem, draws) in zip(axes, found.items(), strict=True):
        for ax, (name, values) in zip(row, list(draws.items())[-2:], strict=True):
            ax.plot(GRID, values, color="C0", alpha=0.3, linewidth=0.7)
            ax.set_title(f"{problem}: {name}")
    plt.tight_layout()
    plt.savefig(file)


def main() -> None:
    """Compare both samplers on both problems."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE")
    file = parser.parse_args().plot
    # chains that have not converged are the subject
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, Array]] = {}
    for problem, make in {"unknown shift": shifted, "counts": counts}.items():
        X, y, kernel, likelihood, at = make()
        print(f"{problem}, at x = {at}")
        start = time.process_time()
        runs = published(X, y, kernel, likelihood)
        middle = time.process_time()
        runs["defaults"] = defaults(X, y, kernel, likelihood)
        end = time.process_time()
        found[problem] = runs
        place = np.argmin(np.abs(GRID[:, 0] - at))
        for name, values in runs.items():
            print(described(name, values, place))
        if problem == "unknown shift":
            # given the mode, the likelihood is that of regression
            exact = GaussianProcessRegressor(kernel, alpha=1.0, optimizer=None)
            mean, std = exact.fit(X, y).predict([[at]], return_std=True)
            print(f"{'exact':38s} upper mean {mean[0]:6.2f} std {std[0]:.3f}")
        print(f"  CPU seconds: published {middle - start:.1f}, ours {end - middle:.1f}")
    if file:
        plot(found, file)


if __name__ == "__main__":
    main()
