"""Where the step benchmark calls skgpx's compiled sampler."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems import NOISE_VARIANCE, SHIFT, STUDENT_T, Problem
from skgpx._hyperparameters import rough_start, row_target
from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Scheme, Target
from skgpx._numerics.rows import row_slices
from skgpx._pls import _langevin
from skgpx._shell.validation import Rows
from skgpx.likelihoods import (
    Bernoulli,
    Gaussian,
    Likelihood,
    Poisson,
    ShiftedMixture,
    StudentT,
)

# Steps of one call: the estimators' first look at their chains, later ones are longer.
ROUND = _langevin.ROUND


def likelihood_of(problem: Problem) -> Likelihood:
    """Name the likelihood of skgpx that the problem means, ready for use."""
    likelihoods = {
        "gaussian": Gaussian(NOISE_VARIANCE),
        "bernoulli": Bernoulli(),
        "student_t": StudentT(**STUDENT_T),
        "poisson": Poisson(link="square"),
        "shifted_mixture": ShiftedMixture(**SHIFT, noise_variance=NOISE_VARIANCE),
    }
    # the authors' latent functions have mean zero
    return likelihoods[problem.likelihood].prepare(problem.y).with_base(0.0)


def target_of(problem: Problem) -> tuple[Target, NDArray[np.float64]]:
    """Build the target in the weights w, and the root of the coordinates u = root⁻¹ w.

    The paper's prior is u ~ N(0, Λ) and f = Eᵀu: with w = Λ^(-½) u the features
    are Eᵀ Λ^½. A Gaussian likelihood gives the quadratic target.
    """
    vectors, values = problem.nystroem()
    features = problem.kernel(problem.X, problem.Z) @ vectors * np.sqrt(values)
    root = np.diag(1.0 / np.sqrt(values))[np.newaxis]
    if problem.likelihood == "gaussian":
        gram = features.T @ features / NOISE_VARIANCE
        moment = features.T @ problem.y / NOISE_VARIANCE
        return langevin.quadratic_target(gram, moment), root
    rows = Rows(problem.X, problem.y, np.ones(len(problem.y)))
    return row_target(features, rows, likelihood_of(problem)), root


def ours_step(problem: Problem, scheme: str) -> Callable[[], object]:
    """Return a function that moves all particles by `ROUND` steps.

    Parameters
    ----------
    problem : Problem
    scheme : {"ula", "ou_mala"}
        The paper's scheme, in its coordinates and with its step size, whose energy is
        evaluated at the end of the round; or the estimators' default, in the
        coordinates of the Laplace approximation, with the energy of each step.
    """
    target, root = target_of(problem)
    if scheme == "ula":
        moved = langevin.in_coordinates(target, np.zeros((1, len(root[0]))), root)
        move = langevin.euler_maruyama(problem.step_size, metropolis=False)
        return _runner(moved, problem.start[np.newaxis], move)
    moved = langevin.in_coordinates(target, *_laplace(problem, target))
    z = np.random.default_rng(0).standard_normal((1, *problem.start.shape))
    return _runner(moved, z, langevin.ornstein_uhlenbeck(0.6))


def _laplace(
    problem: Problem, target: Target
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Find centre and root of the Laplace approximation."""
    if problem.likelihood == "gaussian":
        L = np.linalg.cholesky(target.features)
        return np.linalg.solve(target.features, target.y)[np.newaxis], np.linalg.inv(
            L
        ).T[np.newaxis]
    mode = laplace.find_mode(target, rough_start(target))
    return mode.weights.T, mode.root


def _runner(
    target: Target, z: NDArray[np.float64], scheme: Scheme
) -> Callable[[], object]:
    """Run rounds over the estimators' blocks of chains and keep their state."""
    blocks = row_slices(z.shape[2], 50)
    states = [langevin.start(target, z[:, :, block]) for block in blocks]
    rng = np.random.default_rng(1)

    def round_of_steps() -> None:
        for i, stream in enumerate(rng.spawn(len(states))):
            states[i], _ = langevin.advance(target, states[i], scheme, ROUND, stream)

    return round_of_steps
