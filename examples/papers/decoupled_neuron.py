"""Figure 5 of the paper on decoupled sampling: a neuron under a sinusoidal current.

Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently sampling functions
from Gaussian process posteriors", ICML 2020. The drift of a FitzHugh-Nagumo neuron with
process noise of covariance 0.01 I is learned from 10 000 noisy increments over a step
of 0.25, at uniform states and currents, by one sparse process of 32 inducing points for
each state. Each of 1000 paths follows its own draw of the drift for 400 steps under a
sinusoidal current. Quartiles of the voltage are compared with those of 1000 paths of
the true system, and the clouds of states by the 2-Wasserstein distance (an exact
assignment; the paper approximates it by the Sinkhorn algorithm). The noise floor is the
distance between two sets of paths of the true system.

The processes are ``PLSRegressor(kernel, n_inducing=32, n_neighbors=0)`` with the
paper's Matern-5/2 kernel: their hyperparameters maximise the evidence with a prior,
those of the paper were found by stochastic gradient descent. The points of the paper
are shared by both states, here each state has its own. Ranges of the states and current
are not printed in the paper; those below are ours.

    python -m examples.papers.decoupled_neuron [--full]

The paper simulated in 20 seconds, where drawing the drift step by step, given the
values that a path has already seen, took 10 hours. The latter is run here for 2 paths
(200 under ``--full``), for its time. Fits take about 30 CPU seconds and the simulation
of 1000 paths about four.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from examples.figure import BLUE, ORANGE
from examples.papers.results import Results, alone
from skgpx import DecoupledSampler, PLSRegressor
from skgpx.simulation import simulate_sde

STEP, DIFFUSION = 0.25, 0.1
N_ROWS, N_INDUCING, N_PATHS, N_STEPS = 10_000, 32, 1000, 400
# voltage, recovery, current
LOW, HIGH = np.array([-2.5, -1.5, 0.0]), np.array([2.5, 2.5, 1.0])
START = np.array([-1.0, -0.5])


def drift(inputs: np.ndarray) -> np.ndarray:
    """Velocity of states with their currents (n, 3), shape (n, 2)."""
    v, w, current = inputs.T
    return np.column_stack((v - v**3 / 3.0 - w + current, 0.08 * (v + 0.7 - 0.8 * w)))


def current(t: float) -> float:
    """Sinusoidal control, in two periods over 100 units of time."""
    return float(0.5 + 0.5 * np.sin(2.0 * np.pi * t / 50.0))


def scaled(inputs: np.ndarray) -> np.ndarray:
    """Inputs in the unit cube."""
    k = inputs.shape[1]
    unit: np.ndarray = (inputs - LOW[:k]) / (HIGH[:k] - LOW[:k])
    return unit


def true_paths(rng: np.random.Generator) -> np.ndarray:
    """Euler-Maruyama paths of the true system, (n_steps + 1, n_paths, 2)."""
    paths = np.empty((N_STEPS + 1, N_PATHS, 2))
    paths[0] = START
    for i in range(N_STEPS):
        control = np.full((N_PATHS, 1), current(STEP * i))
        velocity = drift(np.hstack((paths[i], control)))
        kick = DIFFUSION * np.sqrt(STEP) * rng.standard_normal((N_PATHS, 2))
        paths[i + 1] = paths[i] + STEP * velocity + kick
    return paths


class Learned(NamedTuple):
    """Paths of draws of the learned drift, CPU seconds of fits and simulation."""

    models: list[DecoupledSampler]
    paths: np.ndarray
    fit_seconds: float
    simulation_seconds: float


def learned_paths(rng: np.random.Generator) -> Learned:
    """Fit both processes and simulate."""
    X = rng.uniform(LOW, HIGH, size=(N_ROWS, 3))
    noise = DIFFUSION / np.sqrt(STEP) * rng.standard_normal((N_ROWS, 2))
    increments = drift(X) + noise
    begin = time.process_time()
    width = (HIGH - LOW)[:2]
    # velocities of the states in the unit square
    models = [
        DecoupledSampler(
            PLSRegressor(
                ConstantKernel() * Matern(np.ones(3), nu=2.5),
                n_inducing=N_INDUCING,
                n_neighbors=0,
                random_state=0,
            )
        ).fit(scaled(X), column)
        for column in (increments / width).T
    ]
    fitted = time.process_time()
    draws = [
        model.sample_functions(N_PATHS, random_state=i)
        for i, model in enumerate(models)
    ]
    paths = simulate_sde(
        draws,
        scaled(START[np.newaxis])[0],
        STEP * np.arange(N_STEPS + 1),
        DIFFUSION / width,
        controls=lambda t: [current(t)],
        random_state=0,
    )
    simulated = time.process_time()
    return Learned(models, LOW[:2] + width * paths, fitted - begin, simulated - fitted)


def iterative_path(
    models: list[DecoupledSampler], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A path whose drift is drawn step by step, and CPU seconds after each step.

    The drift at a state is normal given those that the path has seen before.
    """
    width = (HIGH - LOW)[:2]
    path = np.empty((N_STEPS + 1, 2))
    path[0] = scaled(START[np.newaxis])[0]
    inputs = np.empty((N_STEPS, 3))
    white = rng.standard_normal((N_STEPS, 2))
    seconds = np.empty(N_STEPS)
    begin = time.process_time()
    for i in range(N_STEPS):
        # the scaled current is the current
        inputs[i] = *path[i], current(STEP * i)
        seen = inputs[: i + 1]
        velocity = np.empty(2)
        for j, model in enumerate(models):
            mean, covariance = model.estimator_.predict(
                seen, return_cov=True, include_noise=False
            )
            # the same white noise gives the same values of the earlier states
            root = np.linalg.cholesky(covariance + 1e-8 * np.eye(i + 1))
            velocity[j] = mean[i] + root[i] @ white[: i + 1, j]
        kick = DIFFUSION / width * np.sqrt(STEP) * rng.standard_normal(2)
        path[i + 1] = path[i] + STEP * velocity + kick
        seconds[i] = time.process_time() - begin
    return LOW[:2] + width * path, seconds


def distance(first: np.ndarray, second: np.ndarray) -> float:
    """2-Wasserstein distance of two clouds of scaled states (s, 2)."""
    cost = cdist(scaled(first), scaled(second), "sqeuclidean")
    return float(np.sqrt(cost[linear_sum_assignment(cost)].mean()))


def run(results: Results, full: bool) -> None:
    """Quartiles of the voltage, distances of the clouds, times."""
    rng = np.random.default_rng(0)
    truth, again = true_paths(rng), true_paths(rng)
    found = learned_paths(rng)
    ours = found.paths
    t = STEP * np.arange(N_STEPS + 1)
    quartiles = [
        np.quantile(paths[:, :, 0], (0.25, 0.5, 0.75), axis=1)
        for paths in (truth, ours)
    ]
    every = np.arange(20, N_STEPS + 1, 20)
    far, floor = (
        np.array([distance(truth[i], other[i]) for i in every])
        for other in (ours, again)
    )
    error = np.mean(np.abs(quartiles[0] - quartiles[1]), axis=1)
    spread = truth[:, :, 0].std()
    results.step(f"Figure 5, distance {far.mean():.3f}, floor {floor.mean():.3f}")
    n_iterative = 200 if full else 2
    iterative = [iterative_path(found.models, rng) for _ in range(n_iterative)]
    clocks = np.mean([seconds for _, seconds in iterative], axis=0)
    estimate = clocks[-1] * N_PATHS
    results.step(f"Figure 5, step by step {clocks[-1]:.1f} s a path")
    results.add(
        "Figure 5",
        "seconds of 1000 paths, decoupled",
        20.0,
        published=found.simulation_seconds,
        digits=1,
        seconds=found.fit_seconds + found.simulation_seconds,
    )
    results.add(
        "Figure 5",
        f"hours of 1000 paths, step by step (from {n_iterative} paths)",
        10.0,
        published=estimate / 3600.0,
        digits=1,
        seconds=float(clocks[-1] * n_iterative),
    )
    exponent = np.polyfit(np.log(np.arange(100, N_STEPS)), np.log(clocks[100:]), 1)[0]
    results.claim(
        "Figure 5",
        "time of the step-by-step draws with the number of steps",
        "cubic; decoupled linear",
        f"power {exponent:.1f} between 100 and 400 steps",
        holds=exponent > 1.5,
        reason="paths of 400 steps are too short for the cubic term",
    )
    results.claim(
        "Figure 5",
        "quartiles of the voltage beside the true ones",
        "agree",
        f"mean differences {error[0]:.3f}, {error[1]:.3f}, {error[2]:.3f}; standard "
        f"deviation of the voltage {spread:.2f}",
        holds=bool(error.max() < 0.1 * spread),
        seconds=found.fit_seconds,
    )
    results.claim(
        "Figure 5",
        "2-Wasserstein distance of the states beside the noise floor",
        "near the floor",
        f"{far.mean():.3f}, floor {floor.mean():.3f}",
        holds=bool(far.mean() < 2.0 * floor.mean()),
    )
    plot(results, t, quartiles, clocks, found.simulation_seconds, (every, far, floor))


def plot(
    results: Results,
    t: np.ndarray,
    quartiles: list[np.ndarray],
    clocks: np.ndarray,
    simulation_seconds: float,
    distances: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Drift, voltage, times and distances, in the order of the paper."""
    with results.figure("004_figure_5", 1, 4, (13.0, 3.0)) as axes:
        drifts, voltages, times, clouds = axes[0]
        v, w = np.meshgrid(np.linspace(-2.5, 2.5, 15), np.linspace(-1.5, 2.5, 13))
        inputs = np.column_stack((v.ravel(), w.ravel(), np.full(v.size, 0.5)))
        drifts.quiver(v, w, *drift(inputs).T, color="0.4")
        drifts.set(xlabel="voltage", ylabel="recovery", title="true drift, I = 0.5")
        for name, color, parts in zip(
            ("true", "decoupled"), ("0.4", BLUE), quartiles, strict=True
        ):
            voltages.fill_between(t, parts[0], parts[2], color=color, alpha=0.3)
            voltages.plot(t, parts[1], color=color, label=name)
        controls = [current(now) for now in t]
        voltages.plot(t, controls, "k--", lw=0.8, label="current")
        voltages.set(xlabel="time", ylabel="voltage", title="quartiles of voltages")
        voltages.legend(loc="lower left", fontsize=6)
        steps = np.arange(1, N_STEPS + 1)
        times.loglog(steps, N_PATHS * clocks, color=ORANGE, label="step by step")
        share = steps / N_STEPS
        times.loglog(steps, simulation_seconds * share, color=BLUE, label="decoupled")
        times.set(xlabel="steps", ylabel="CPU seconds of 1000 paths")
        times.legend()
        every, far, floor = distances
        clouds.plot(t[every], far, "o-", color=BLUE, label="decoupled")
        clouds.plot(t[every], floor, "o-", color="0.5", label="noise floor")
        clouds.set(xlabel="time", ylabel="2-Wasserstein distance", ylim=(0.0, None))
        clouds.legend()


if __name__ == "__main__":
    alone("004", "decoupled_neuron", run)
