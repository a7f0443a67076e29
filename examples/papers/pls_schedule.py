"""Projected Langevin sampling with the published schedule, beside the defaults.

Wild, Wu, Sejdinovic and Knoblauch, "Near-optimal approximations for Bayesian inference
in function space": particles of the projections u of f on the eigenfunctions of the
kernel move by equation (236),

    u <- u - eta E dc(E^T u, y) - eta u / lambda + sqrt(2 eta) xi,

for a simulated time of 0.5, with the step sizes 1e-3, 8.4e-5, 7.1e-6, ... one after the
other, until the mean energy changes by less than one per cent, from N(0, I): the
setting of the paper's tables. Its figure 6 starts at functions that are constant, with
noise of 1e-4, over both modes, for a time of 0.1, with half as many inducing points and
step sizes from 0.1 to 0.001, which are unstable for the data of this script. Both
starts are run. This is `PLSRegressor` with the prior of the paper, `GREKernel` around
the inducing points, with `method="ula"`, `init` and `step_size`. The last run from
N(0, I) has 70 710 steps; smaller step sizes of the published grid (841 thousand and ten
million steps) are left out.

Two likelihoods of the paper with two modes each: an unknown shift of all observations
(its figure 6), and counts of rate f^2 (its figure 5). Printed at one input: the share
of particles in the upper mode, the mean of the particles of each mode, and their
standard deviation, for the shift beside the exact one of a process around one of the
modes.

    python examples/papers/pls_schedule.py [--plot FILE]

Printed when it was last run (some 40 CPU seconds, one thread of a busy machine), "both"
the share of functions that take values in both modes:

    unknown shift, at x = -2.35     upper share   upper mean, std  lower mean, std  both
      from N(0, I)
      step 1.0e-03                  diverges
      step 8.4e-05, 5946 steps      0.46          10.26  3.251     -8.45  1.926     0.98
      step 7.1e-06, 70 710 steps    0.46          10.20  3.420     -8.38  1.943     0.98
      from constants
      steps 1e-1, 1e-2, 1e-3        unstable
      step 1.0e-04, 1000 steps      0.48          11.69  0.187     -8.31  0.252     0.02
      defaults                      0.44          11.76  0.217     -8.22  0.217     0.00
      exact                                       11.77  0.216
    counts, at x = -0.55
      from N(0, I)
      step 8.4e-05, 5946 steps      0.44           3.40  0.995     -3.06  0.888     0.84
      step 7.1e-06, 70 710 steps    0.44           3.38  1.001     -3.24  1.569     0.94
      defaults                      0.47           3.13  0.139     -3.13  0.141     0.00

For the shift the rule of one per cent ends the search at 7.1e-6: the energy changed by
half a per cent. The modes are not wide because of the step, but because of Q_0: from
N(0, I) particles start between the modes, and nearly all end with some neighbourhoods
of the inputs in one and some in the other, which they do not leave. Constants that lie
over both modes end as two clean groups, as in the published figure. Either way the
shares are those of the start; the default weighs modes by their evidence.
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
# Of the start at constant functions: three step sizes, and one that is stable here.
CONSTANT_STEP_SIZES = np.array([1e-1, 1e-2, 1e-3, 1e-4])
CONSTANT_TIME = 0.1
# Of particles that no longer count as stable, as in the code of the authors.
LARGEST_WEIGHT = 1e3
# Of the published runs, and of the default, where four runs of these weigh the modes.
PARTICLES, OURS = 50, 800
# Between which constant functions lie: both modes.
LEVELS = (-12.0, 12.0)
GRID = np.linspace(-3.0, 3.0, 301)[:, np.newaxis]


def published(
    X: Array,
    y: Array,
    kernel: Kernel,
    likelihood: Likelihood,
    levels: tuple[float, float] | None = None,
) -> dict[str, Array]:
    """Particles on the grid (301, particles) after each step size of the grid.

    Particles start at N(0, I) in the projections or, with `levels`, at functions that
    are constant between these two, as those of figure 6. The part of f outside the
    projections is left out; it is small between the rows.
    """
    rng = np.random.default_rng(0)
    share, step_sizes, time_of_run = 1.0, STEP_SIZES, SIMULATED_TIME
    if levels is not None:
        share, step_sizes, time_of_run = 0.5, CONSTANT_STEP_SIZES, CONSTANT_TIME
    m = round(share * np.sqrt(len(y)))
    Z = select_inducing("greedy", X, kernel, m, rng, np.ones(len(y)))
    prior = GREKernel(kernel, Z, background=0.0, background_bounds="fixed")
    # Q_0 in the projections u or in the values f(Z), as weights of the estimator
    basis = Nystroem.from_kernel(prior, Z)
    if levels is None:
        start = nystroem_root(basis) @ rng.standard_normal((m, PARTICLES))
    else:
        values = np.linspace(*levels, PARTICLES) + np.zeros((m, 1))
        values += 1e-4 * rng.standard_normal(values.shape)
        start = np.linalg.solve(basis.root, values)
    runs: dict[str, Array] = {}
    before = np.nan
    origin = "N(0, I)" if levels is None else "constants"
    for step_size in step_sizes:
        n_steps = max(int(time_of_run / step_size), 20)
        name = f"from {origin}, step {step_size:.1e}, {n_steps} steps"
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
        if np.max(np.abs(model.particles_)) > LARGEST_WEIGHT:
            print(f"  {name}: unstable")
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


def plot(found: dict[str, dict[str, Array]], places: dict[str, int], file: str) -> None:
    """Draws of the last published run and of the default, and their values at x."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(len(found), 3, figsize=(12, 3 * len(found)), squeeze=False)
    for row, (problem, draws) in zip(axes, found.items(), strict=True):
        for ax, (name, values) in zip(row[:2], list(draws.items())[-2:], strict=True):
            ax.plot(GRID, values, color="C0", alpha=0.3, linewidth=0.7)
            ax.set_title(f"{problem}: {name}")
            place = places[problem]
            ax.axvline(GRID[place, 0], color="0.5", linestyle="--", linewidth=0.8)
            row[2].hist(values[place], 40, density=True, alpha=0.5, label=name)
        row[2].set_title(f"f({GRID[place, 0]:.2f})")
        row[2].legend(fontsize="small")
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
    places: dict[str, int] = {}
    for problem, make in {"unknown shift": shifted, "counts": counts}.items():
        X, y, kernel, likelihood, at = make()
        print(f"{problem}, at x = {at}")
        start = time.process_time()
        runs = published(X, y, kernel, likelihood)
        if problem == "unknown shift":
            runs |= published(X, y, kernel, likelihood, levels=LEVELS)
        middle = time.process_time()
        runs["defaults"] = defaults(X, y, kernel, likelihood)
        end = time.process_time()
        found[problem] = runs
        place = places[problem] = int(np.argmin(np.abs(GRID[:, 0] - at)))
        for name, values in runs.items():
            print(described(name, values, place))
        if problem == "unknown shift":
            # given the mode, the likelihood is that of regression
            exact = GaussianProcessRegressor(kernel, alpha=1.0, optimizer=None)
            mean, std = exact.fit(X, y).predict([[at]], return_std=True)
            print(f"{'exact':38s} upper mean {mean[0]:6.2f} std {std[0]:.3f}")
        print(f"  CPU seconds: published {middle - start:.1f}, ours {end - middle:.1f}")
    if file:
        plot(found, places, file)


if __name__ == "__main__":
    main()
