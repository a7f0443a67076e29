"""Figure 4 of the paper on decoupled sampling: parallel Thompson sampling.

Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently sampling functions
from Gaussian process posteriors", ICML 2020. Functions drawn from a Matern-5/2 process
with lengthscale sqrt(d / 100) are minimised over the unit cube of d = 2, 4 and 8
inputs, with observation noise of variance 1e-3 and d evaluations at a time. The process
is known. The methods are

* random search,
* DIRECT (Jones et al., 1993), one evaluation at a time,
* Thompson sampling in function space: a mesh of random points, of which those that are
  smallest in independent draws are the active set of a joint draw,
* Thompson sampling in weight space, with b = n + l independent random features,
* decoupled Thompson sampling as published, with a prior of l independent features,
* ``ThompsonSampler`` with its defaults, but for the known process.

All methods but DIRECT start from the same d random points. The figure is the regret:
the value, free of noise, of the best input that was evaluated (by its observation),
above the minimum. That is the smallest value that a long search or any method finds.

By default 3 functions, meshes of 2000 points and an active set of 512: about 2.5 CPU
minutes. ``--full`` has the paper's 32 functions, meshes of 250 000 points (10^6 in
function space) and active set of 2048: many hours, not run here. The text of the paper
does not print the numbers of evaluations and features of its figure; those below are
ours. Three functions are too few to rank methods that are close: see ``--functions``,
and ``--inputs`` for one of the three dimensions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import direct
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from skgpx import DecoupledSampler, FunctionDraws
from skgpx._draws import linear_draws
from skgpx.bases import draw_prior
from skgpx.thompson import ThompsonSampler

NOISE, N_STARTS = 1e-3, 32
# inputs: evaluations, features of the prior
PROBLEMS = {2: (64, 256), 4: (128, 256), 8: (400, 256)}
LONGER = {2: (128, 1024), 4: (256, 1024), 8: (1024, 1024)}


class Setting(NamedTuple):
    """Sizes of the searches."""

    n_mesh: int
    n_mesh_function_space: int
    n_active: int


class Problem:
    """A function of the unit cube that is drawn from the process, and its noise."""

    def __init__(self, d: int, n_basis: int, setting: Setting, seed: int):
        self.d = d
        self.n_basis = n_basis
        self.setting = setting
        self.kernel = Matern(np.sqrt(d / 100.0), nu=2.5)
        self.box = [(0.0, 1.0)] * d
        self.rng = np.random.default_rng([seed, d])
        self.function = draw_prior(self.kernel, d, 1, 1, self.rng, n_basis=2**14)
        self.start = self.rng.random((d, d))

    def minimum(self) -> float:
        """Smallest value that a long search finds."""
        search = self.function.minimize(self.box, 256, 2**17, random_state=0)
        return float(search.fun[0])

    def values(self, X: np.ndarray) -> np.ndarray:
        """Values free of noise, (n,)."""
        values: np.ndarray = self.function(X)[:, 0]
        return values

    def observe(self, X: np.ndarray) -> np.ndarray:
        """Noisy values, (n,)."""
        return self.values(X) + np.sqrt(NOISE) * self.rng.standard_normal(len(X))

    def model(self) -> GaussianProcessRegressor:
        """The known process."""
        return GaussianProcessRegressor(self.kernel, alpha=NOISE, optimizer=None)

    def minima(self, draws: FunctionDraws) -> np.ndarray:
        """Minimum of each draw by descent from the best points of a mesh."""
        n_mesh = self.setting.n_mesh
        x: np.ndarray = draws.minimize(self.box, N_STARTS, n_mesh, self.rng).x
        return x


Propose = Callable[[Problem, np.ndarray, np.ndarray], np.ndarray]

# ---- Proposals: d inputs given those evaluated ---------------------------------------


def at_random(problem: Problem, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Uniform points."""
    del X, y
    return problem.rng.random((problem.d, problem.d))


def in_function_space(problem: Problem, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Smallest of joint draws at the active set of each (Appendix C)."""
    model, rng = problem.model().fit(X, y), problem.rng
    mesh = rng.random((problem.setting.n_mesh_function_space, problem.d))
    blocks = np.array_split(mesh, max(1, len(mesh) // 10_000))
    moments = [model.predict(block, return_std=True) for block in blocks]
    mean = np.concatenate([moment[0] for moment in moments])
    std = np.concatenate([moment[1] for moment in moments])
    n_active = problem.setting.n_active
    proposals = np.empty((problem.d, problem.d))
    for i in range(problem.d):
        independent = mean + std * rng.standard_normal(len(mesh))
        active = mesh[np.argpartition(independent, n_active)[:n_active]]
        centre, covariance = model.predict(active, return_cov=True)
        root = np.linalg.cholesky(covariance + 1e-8 * np.eye(n_active))
        joint = centre + root @ rng.standard_normal(n_active)
        proposals[i] = active[np.argmin(joint)]
    return proposals


def in_weight_space(problem: Problem, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Minima of draws of the linear model on b = n + l features (eqs. 5 to 7)."""
    rng, n_basis = problem.rng, problem.n_basis + len(X)
    prior = draw_prior(
        problem.kernel, problem.d, 1, 1, rng, n_basis=n_basis, method="mc"
    )
    waves = prior.terms[0].features
    Phi = waves(X)
    A = Phi.T @ Phi + NOISE * np.eye(Phi.shape[1])
    root = np.linalg.cholesky(A)
    mean = np.linalg.solve(A, Phi.T @ y)
    white = rng.standard_normal((len(A), problem.d))
    weights = mean[:, np.newaxis] + np.sqrt(NOISE) * np.linalg.solve(root.T, white)
    return problem.minima(linear_draws(waves, weights[:, np.newaxis]))


def decoupled(problem: Problem, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Minima of decoupled draws with a prior of l independent features (eq. 13)."""
    model = FrozenEstimator(problem.model().fit(X, y))
    posterior = DecoupledSampler(model).fit(X).posterior_
    options = {"n_basis": problem.n_basis, "method": "mc"}
    return problem.minima(posterior.draw(problem.d, problem.rng, **options))


# ---- Runs: inputs in the order of their evaluation, and observations -----------------


def run(
    propose: Propose, problem: Problem, n_evaluations: int
) -> tuple[np.ndarray, np.ndarray]:
    """Batches of d proposals."""
    X, y = problem.start, problem.observe(problem.start)
    while len(X) < n_evaluations:
        batch = propose(problem, X, y)
        X, y = np.concatenate((X, batch)), np.concatenate((y, problem.observe(batch)))
    return X, y


def run_library(problem: Problem, n_evaluations: int) -> tuple[np.ndarray, np.ndarray]:
    """The same by ThompsonSampler."""
    optimizer = ThompsonSampler(
        problem.box,
        DecoupledSampler(problem.model()),
        n_initial=1,
        acquisition="thompson",
        refit_every=None,
        n_mesh=problem.setting.n_mesh,
        n_starts=N_STARTS,
        random_state=0,
    )
    optimizer.tell(problem.start, problem.observe(problem.start))
    while len(optimizer.y_) < n_evaluations:
        batch = optimizer.ask(problem.d)
        optimizer.tell(batch, problem.observe(batch))
    return optimizer.X_, optimizer.y_


def run_direct(problem: Problem, n_evaluations: int) -> tuple[np.ndarray, np.ndarray]:
    """DIRECT, one evaluation at a time."""
    inputs: list[np.ndarray] = []
    observations: list[float] = []

    def objective(x: np.ndarray) -> float:
        inputs.append(x.copy())
        observations.append(float(problem.observe(x[np.newaxis])[0]))
        return observations[-1]

    direct(
        objective, problem.box, maxfun=n_evaluations, maxiter=n_evaluations, eps=1e-4
    )
    return np.array(inputs[:n_evaluations]), np.array(observations[:n_evaluations])


RUNS = {
    "random": lambda problem, n: run(at_random, problem, n),
    "DIRECT": run_direct,
    "function space": lambda problem, n: run(in_function_space, problem, n),
    "weight space": lambda problem, n: run(in_weight_space, problem, n),
    "decoupled, published": lambda problem, n: run(decoupled, problem, n),
    "ThompsonSampler": run_library,
}


def main() -> None:
    """Quartiles of the regret of each method, and its CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--functions", type=int)
    parser.add_argument("--inputs", type=int, nargs="+", default=[2, 4, 8])
    options = parser.parse_args()
    full = options.full
    setting = Setting(250_000, 10**6, 2048) if full else Setting(2000, 2000, 512)
    seeds = range(options.functions or (32 if full else 3))
    print("regret: lower quartile, median, upper quartile, mean; CPU seconds a run")
    for d in options.inputs:
        n_evaluations, n_basis = (LONGER if full else PROBLEMS)[d]
        print(f"d = {d}, {n_evaluations} evaluations, l = {n_basis}", flush=True)
        regrets = np.empty((len(RUNS), len(seeds)))
        seconds = np.zeros(len(RUNS))
        for j, seed in enumerate(seeds):
            values = np.empty(len(RUNS))
            minimum = Problem(d, n_basis, setting, seed).minimum()
            for i, runner in enumerate(RUNS.values()):
                problem = Problem(d, n_basis, setting, seed)
                begin = time.process_time()
                X, y = runner(problem, n_evaluations)
                seconds[i] += time.process_time() - begin
                values[i] = problem.values(X[[np.argmin(y)]])[0]
                minimum = min(minimum, problem.values(X).min())
            regrets[:, j] = values - minimum
        for i, name in enumerate(RUNS):
            quartiles = np.quantile(regrets[i], (0.25, 0.5, 0.75))
            line = "".join(f"{x:8.3f}" for x in (*quartiles, regrets[i].mean()))
            print(f"  {name:22s}{line}{seconds[i] / len(seeds):10.1f}", flush=True)


if __name__ == "__main__":
    main()
