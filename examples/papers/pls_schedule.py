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

    python -m examples.papers.pls_schedule [--full]

For the shift the rule of one per cent ends the search at 7.1e-6. The modes are not wide
because of the step, but because of Q_0: from N(0, I) particles start between the modes,
and nearly all end with some neighbourhoods of the inputs in one and some in the other,
which they do not leave. Constants that lie over both modes end as two clean groups, as
in the published figure. Either way the shares are those of the start; the default
weighs modes by their evidence.

Figure 5 is on the data of the authors' code: 1000 equidistant inputs without a gap, and
a function that crosses zero nine times, so that the sign of f between two zeros is
unknown. Its start is N(0, I), its time 0.1, its step sizes 1e-3 to 1e-6; the last one,
100 000 steps, is for ``--full``.

Figure 4 is the time of twenty steps by the numbers of particles J, rows N and inducing
points M, as the authors' profiler varies them, where the paper takes ten steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import poisson
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from examples.figure import BLUE
from examples.papers.results import Results, alone, clock
from skgpx import PLSRegressor
from skgpx._pls._langevin import nystroem_root
from skgpx.bases import Nystroem, select_inducing
from skgpx.kernels import GREKernel
from skgpx.likelihoods import Gaussian, Likelihood, Poisson, ShiftedMixture

try:
    from benchmarks.peers.svgp import SVGP
    from benchmarks.problems import Problem
except ImportError:
    SVGP = None

Array = np.ndarray
STEP_SIZES = np.geomspace(1e-3, 5e-8, 5)[:3]
# Of particles that no longer count as stable, as in the code of the authors.
LARGEST_WEIGHT = 1e3
# Of the default, where four runs of these weigh the modes.
OURS = 800
# Between which constant functions lie: both modes.
LEVELS = (-12.0, 12.0)
GRID = np.linspace(-3.0, 3.0, 301)[:, np.newaxis]


class Schedule(NamedTuple):
    """How a published run starts, and its steps.

    `levels` are those between which constant functions start; None is N(0, I).
    """

    step_sizes: Sequence[float]
    duration: float
    n_particles: int = 50
    share: float = 1.0
    levels: tuple[float, float] | None = None


TABLES = Schedule(STEP_SIZES, 0.5)
# Three published step sizes, and two that are stable for this data.
CONSTANTS = Schedule(np.geomspace(1e-1, 1e-5, 5), 0.1, share=0.5, levels=LEVELS)
COUNTS = Schedule(np.geomspace(1e-3, 1e-6, 3), 0.1, n_particles=100)


def published(
    X: Array, y: Array, kernel: Kernel, likelihood: Likelihood, schedule: Schedule
) -> dict[str, Array]:
    """Particles on the grid (301, particles) after each step size of the grid.

    The part of f outside the projections is left out; it is small between the rows.
    """
    rng = np.random.default_rng(0)
    m = round(schedule.share * np.sqrt(len(y)))
    n_particles = schedule.n_particles
    Z = select_inducing("greedy", X, kernel, m, rng, np.ones(len(y)))
    prior = GREKernel(kernel, Z, background=0.0, background_bounds="fixed")
    # Q_0 in the projections u or in the values f(Z), as weights of the estimator
    basis = Nystroem.from_kernel(prior, Z)
    if schedule.levels is None:
        start = nystroem_root(basis) @ rng.standard_normal((m, n_particles))
    else:
        values = np.linspace(*schedule.levels, n_particles) + np.zeros((m, 1))
        values += 1e-4 * rng.standard_normal(values.shape)
        start = np.linalg.solve(basis.root, values)
    runs: dict[str, Array] = {}
    before = np.nan
    origin = "N(0, I)" if schedule.levels is None else "constants"
    for step_size in schedule.step_sizes:
        n_steps = max(int(schedule.duration / step_size), 20)
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
            n_particles=n_particles,
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


def shifted(n: int = 400) -> tuple[Array, Array, Kernel, Likelihood]:
    """Figure 6: y is 2 sin(1.5πx) or that plus 20, less 10: both are as probable."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    y = 2.0 * np.sin(1.5 * np.pi * X[:, 0]) + rng.standard_normal(n) + 10.0
    kernel = ConstantKernel(100.0) * RBF(0.5)
    return X, y, kernel, ShiftedMixture(20.0, 0.5, noise_variance=1.0)


def signal(x: Array, curve: Array) -> Array:
    """Twice the standardised 2 sin(1.5πx) of the authors' second curve."""
    centre = curve.mean()
    unit = curve.std(ddof=1)
    values: Array = 2.0 * (2.0 * np.sin(1.5 * np.pi * x) - centre) / unit
    return values


class Counts(NamedTuple):
    """Rows of training and of the gap of figure 5, and the mean loss of the truth."""

    X: Array
    y: Array
    X_gap: Array
    y_gap: Array
    oracle: float


def counts() -> Counts:
    """Figure 5: counts of the rate f², which do not know the sign of f."""
    x = np.linspace(-3.0, 3.0, 1000)
    f = signal(x, 2.0 * np.sin(1.5 * np.pi * x))
    y = np.random.default_rng(0).poisson(f**2).astype(float)
    # one of twelve intervals, and two at either end, are held out
    interval = np.minimum(np.arange(1000) // 83, 12)
    in_gap = interval == 7
    is_training = ~in_gap & (interval >= 2) & (interval <= 9)
    X = x[:, np.newaxis]
    loss = -poisson.logpmf(y[in_gap], f[in_gap] ** 2)
    return Counts(
        X[is_training], y[is_training], X[in_gap], y[in_gap], float(loss.mean())
    )


class Modes(NamedTuple):
    """Values of draws at one input, and the share of functions in both modes."""

    upper: Array
    lower: Array
    in_both: float

    @property
    def share(self) -> float:
        """Share of the upper mode."""
        return len(self.upper) / (len(self.upper) + len(self.lower))

    def std(self) -> float:
        """Standard deviation of the upper mode."""
        return float(self.upper.std(ddof=1)) if len(self.upper) > 1 else np.nan

    def __str__(self) -> str:
        """Share, mean and standard deviation of the modes."""
        parts = [f"upper share {self.share:.2f}"]
        for mode in (self.upper, self.lower):
            if len(mode) > 1:
                parts.append(f"mean {mode.mean():6.2f} std {mode.std(ddof=1):.3f}")
        return ", ".join([*parts, f"in both {self.in_both:.2f}"])


def modes_at(draws: Array, at: float) -> Modes:
    """Modes of draws on the grid at one input."""
    values = draws[int(np.argmin(np.abs(GRID[:, 0] - at)))]
    in_both = np.any(draws > 0.0, axis=0) & np.any(draws < 0.0, axis=0)
    return Modes(values[values > 0.0], values[values <= 0.0], float(in_both.mean()))


def draw_panels(
    results: Results, name: str, runs: dict[str, Array], at: float, shown: int
) -> None:
    """Draws on the left, and the histogram of their values at x on the right."""
    size = 9.0, 2.4 * len(runs)
    with results.figure(name, len(runs), 2, size) as axes:
        for (left, right), (title, draws) in zip(axes, runs.items(), strict=True):
            left.plot(GRID, draws[:, :shown], color=BLUE, alpha=0.35, lw=0.7)
            left.axvline(at, color="0.4", ls="--", lw=0.8)
            left.set(title=title, xlabel="x", ylabel="f(x)")
            values = draws[int(np.argmin(np.abs(GRID[:, 0] - at)))]
            right.hist(values, 40, color=BLUE, alpha=0.7)
            right.set(title=f"f({at})", xlabel="value", ylabel="draws")


AT_6, AT_5 = -2.35, -0.55


def figure_6(results: Results) -> None:
    """Two clean groups of draws, a distance of the shift apart."""
    X, y, kernel, likelihood = shifted()
    shown: dict[str, Array] = {}
    with clock() as elapsed:
        constants = published(X, y, kernel, likelihood, CONSTANTS)
        seconds = elapsed()
    normal = published(X, y, kernel, likelihood, TABLES)
    for runs in (constants, normal):
        name = list(runs)[-1]
        shown[name] = runs[name]
    shown["the default"] = defaults(X, y, kernel, likelihood)
    found = {name: modes_at(draws, AT_6) for name, draws in shown.items()}
    for name, modes in found.items():
        results.step(f"Figure 6, {name}: {modes}")
    exact = GaussianProcessRegressor(kernel, alpha=1.0, optimizer=None).fit(X, y)
    _, std = exact.predict([[AT_6]], return_std=True)
    ours = found["the default"]
    first, second = (found[name] for name in list(found)[:2])
    distance = first.upper.mean() - first.lower.mean()
    results.claim(
        "Figure 6",
        "two groups of draws from constant functions",
        "two groups, apart by about the shift of 20",
        f"apart by {distance:.1f}; {first.in_both:.0%} of draws in both groups",
        default=f"apart by {ours.upper.mean() - ours.lower.mean():.1f}; "
        f"{ours.in_both:.0%}",
        holds=bool(abs(distance - 20.0) < 1.0 and first.in_both < 0.2),
        seconds=seconds,
        reason="the step sizes that are stable leave draws between the groups",
    )
    results.note(
        "Figure 6 from N(0, I), the start of the paper's tables: "
        f"{second.in_both:.0%} of the draws are in both groups, at all step sizes, "
        "because particles that start between the modes stay between them. The "
        f"standard deviation of the upper group at x = {AT_6} is {first.std():.3f} "
        f"from constants, {second.std():.2f} from N(0, I), {ours.std():.3f} by "
        f"default, and {std[0]:.3f} of the exact process around that mode."
    )
    draw_panels(results, "000_figure_6", shown, AT_6, 50)


def figure_5(results: Results, full: bool) -> None:
    """Draws of both signs, and a histogram with two modes."""
    data = counts()
    kernel = ConstantKernel(4.0) * RBF(0.4)
    likelihood = Poisson(link="square")
    sizes = COUNTS.step_sizes
    # the last one takes 100 000 steps; the first two diverge
    schedule = COUNTS if full else COUNTS._replace(step_sizes=[*sizes[:2], 1e-5])
    with clock() as elapsed:
        runs = published(data.X, data.y, kernel, likelihood, schedule)
        seconds = elapsed()
    with clock() as elapsed:
        draws = defaults(data.X, data.y, kernel, likelihood)
        seconds_ours = elapsed()
    name = list(runs)[-1]
    shown = {name: runs[name], "the default": draws}
    losses = {}
    for title, values in shown.items():
        at_gap = np.stack(
            [np.interp(data.X_gap[:, 0], GRID[:, 0], draw) for draw in values.T]
        )
        chances = poisson.pmf(data.y_gap, at_gap**2).mean(axis=0)
        losses[title] = float(np.mean(-np.log(np.maximum(chances, 1e-300))))
        results.step(f"Figure 5, {title}: {modes_at(values, AT_5)}")
    first, ours = (modes_at(values, AT_5) for values in shown.values())
    results.claim(
        "Figure 5",
        "draws are symmetric around zero, their histogram at x = -0.55 has two modes",
        "symmetric, two modes",
        f"share of positive values {first.share:.2f}",
        default=f"{ours.share:.2f} ({seconds_ours:.1f} s)",
        holds=0.3 < first.share < 0.7,
        seconds=seconds,
        reason="too few particles changed their sign",
    )
    results.note(
        "Figure 5, mean negative log probability of the counts in the gap, where the "
        f"paper prints none: {losses[name]:.2f} as published, "
        f"{losses['the default']:.2f} by default, {data.oracle:.2f} of the true rate."
    )
    draw_panels(results, "000_figure_5", shown, AT_5, 100)


# ---- Figure 4: times -----------------------------------------------------------------

DEFAULTS = {"J": 100, "N": 100, "M": 10}


def timed(J: int, N: int, M: int, seed: int) -> float:
    """CPU seconds of a fit of twenty steps, as the authors' profiler counts them."""
    X = np.linspace(-3.0, 3.0, N)[:, np.newaxis]
    curve = 2.0 * np.sin(0.35 * np.pi * X[:, 0] ** 2)
    noise = 0.2 * np.random.default_rng(seed).standard_normal(N)
    y = (curve - curve.mean()) / curve.std(ddof=1) + noise
    rng = np.random.default_rng(seed)
    kernel = ConstantKernel() * RBF(0.7)
    Z = select_inducing("greedy", X, kernel, M, rng, np.ones(N))
    prior = GREKernel(kernel, Z, background=0.0, background_bounds="fixed")
    model = PLSRegressor(
        prior,
        likelihood=Gaussian(0.2),
        inducing=Z,
        optimizer=None,
        normalize_y=False,
        method="ula",
        init="prior",
        step_size=1e-6,
        max_iter=20,
        tol=0.0,
        n_particles=J,
        random_state=seed,
    )
    with clock() as elapsed:
        model.fit(X, y)
        return elapsed()


def timed_svgp(N: int, M: int, seed: int) -> float:
    """CPU seconds of twenty epochs of GPyTorch's."""
    X = np.linspace(-3.0, 3.0, N)[:, np.newaxis]
    y = np.sin(0.35 * np.pi * X[:, 0] ** 2)
    Z = X[np.linspace(0, N - 1, M).astype(int)]
    problem = Problem("gaussian", X, y, Z, 1.0, 0.7, np.empty((0, 1)), 0.0)
    del seed
    with clock() as elapsed:
        SVGP(problem, learn_hyperparameters=False).fit(20)
        return elapsed()


def figure_4(results: Results, full: bool) -> None:
    """Time by the numbers of particles, rows and inducing points."""
    values = {
        "J": np.arange(100, 1001, 100 if full else 300),
        "N": np.arange(100, 1001, 100 if full else 300),
        "M": np.arange(10, 101, 10 if full else 30),
    }
    seeds = range(10 if full else 5)
    # the first fit compiles
    timed(**DEFAULTS, seed=0)
    curves: dict[str, Array] = {}
    peers: dict[str, Array] = {}
    for name, numbers in values.items():
        settings = [{**DEFAULTS, name: int(number)} for number in numbers]
        # M points need as many rows
        settings = [{**one, "N": max(one["N"], one["M"])} for one in settings]
        curves[name] = np.array(
            [[timed(**one, seed=seed) for seed in seeds] for one in settings]
        )
        if SVGP is not None and name != "J":
            peers[name] = np.array(
                [
                    [timed_svgp(one["N"], one["M"], seed) for seed in seeds]
                    for one in settings
                ]
            )
        medians = np.median(curves[name], axis=1)
        results.step(
            f"Figure 4, {name} {numbers[0]} to {numbers[-1]}: "
            f"{1e3 * medians.round(4)} ms"
        )
    growth = {name: np.median(part, axis=1) for name, part in curves.items()}
    ratios = {name: float(part[-1] / part[0]) for name, part in growth.items()}
    for name, printed, most in (
        ("J", "about linear, small beside M³", 10.0),
        ("N", "linear, barely noticed", 10.0),
        ("M", "M³ dominates", 1000.0),
    ):
        results.claim(
            "Figure 4",
            f"time of ten times as large {name}",
            printed,
            f"{ratios[name]:.1f} times, {1e3 * growth[name][-1]:.1f} ms",
            holds=ratios[name] <= most,
            seconds=float(growth[name][-1]),
            reason="time grows faster than the bound of the paper",
        )
    if SVGP is None:
        results.missing(
            "Figure 4",
            "the curves of SVGP",
            "above those of PLS",
            "GPyTorch is missing",
        )
    with results.figure("000_figure_4", 1, 3, (9.0, 2.6)) as axes:
        for axis, (name, numbers) in zip(axes[0], values.items(), strict=True):
            low, middle, high = np.quantile(curves[name], (0.25, 0.5, 0.75), axis=1)
            axis.fill_between(numbers, 1e3 * low, 1e3 * high, color=BLUE, alpha=0.2)
            axis.plot(numbers, 1e3 * middle, "o-", color=BLUE, label="PLS, 20 steps")
            if name in peers:
                other = 1e3 * np.median(peers[name], axis=1)
                axis.plot(numbers, other, "s-", color="0.5", label="SVGP, 20 epochs")
            axis.set(xlabel=name, ylabel="CPU milliseconds", ylim=(0.0, None))
            axis.legend()


def run(results: Results, full: bool) -> None:
    """Figures 4 to 6."""
    figure_4(results, full)
    figure_5(results, full)
    figure_6(results)


if __name__ == "__main__":
    alone("000", "pls_schedule", run)
