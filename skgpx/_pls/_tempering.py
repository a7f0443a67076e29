"""Sequential Monte Carlo: tempered particles, and those of the other sign."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skgpx._numerics import langevin, laplace, smc
from skgpx._numerics.diagnostics import between_runs
from skgpx._numerics.langevin import Chains, Target
from skgpx._numerics.smc import stratified
from skgpx._numerics.smoothing import smoothed
from skgpx._parallel import parallel_map
from skgpx._pls._chains import LOCAL, ROUND, Report, Sample, adapt, run_chains

# ---- The second mode of a likelihood that does not know the sign of f ----------------


Array = NDArray[np.float64]


def mirror_images(target: Target, w: Array) -> Array:
    """Particles (1, p, s), or their images ``-w - 2u`` whose f is about the negative.

    With ``f = offset + Φw`` and ``Φu ≈ offset``; the map preserves volume and is its
    own inverse.
    """
    shift = laplace.mirror_shift(target).T.reshape(1, -1, 1)
    images: Array = -w - 2.0 * shift
    return images


def with_mirror_images(
    target: Target, w: Array, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Which particles follow both modes, themselves or replaced by their images.

    ``nll(y, f) = nll(y, -f)``, but chains stay in the mode in which they start. If w
    follows the posterior within one mode, or within both in any proportion, then w
    with weight 1 and its image w' with weight ``exp(U(w) - U(w'))`` together follow
    the whole posterior, for whatever u. With offset 0 both have the same weight, and
    one of the two is taken at random.

    Parameters
    ----------
    target : Target
        In the coordinates of the weights.
    w : ndarray of shape (1, p, s)
    rng : numpy.random.Generator

    Returns
    -------
    chosen : ndarray of shape (s,)
    mirrored : ndarray of shape (s,)
        Indices of particles, by stratified resampling, and whether each is replaced.
    """
    s = w.shape[2]
    energy = langevin.start(target, w).energy
    other = langevin.start(target, mirror_images(target, w)).energy
    # each particle beside its image, so that a stratum holds both
    log_weights = np.stack((np.zeros(s), energy - other), axis=1).ravel()
    chosen = stratified(log_weights, s, rng)
    return chosen // 2, chosen % 2 == 1


def upright(target: Target, w: Array) -> Array:
    """Particles (1, p, s), or their images, with f positive where it is largest.

    Particles of either sign have a mean of zero, whatever the signs of f in one
    neighbourhood relative to another; these do not.
    """
    m = target.features.shape[1]
    f = target.features @ w[0, :m] + target.offset[:, :1]
    largest = f[int(np.argmax(np.mean(np.abs(f), axis=1)))]
    return np.where(largest < 0.0, mirror_images(target, w), w)


def flip(
    target: Target, w: Array, temperature: float, rng: np.random.Generator
) -> Array:
    """One Metropolis step of particles (1, p, s) to their images or not.

    The proposal is made with probability ½, which mixes signs at once with offset 0.
    """
    images = mirror_images(target, w)
    energy, other = (langevin.start(target, x, temperature).energy for x in (w, images))
    accepted = 2.0 * rng.random(w.shape[2]) < np.exp(np.minimum(energy - other, 0.0))
    return np.where(accepted, images, w)


# ---- Tempered sequential Monte Carlo: particles carried from the prior ---------------


# Independent runs, the fewest particles of one, and how many there are where they cost
# little: a number of operations of a step, for one weight and row of all particles.
_RUNS, _LEAST, _MANY, _STEP = 4, 100, 400, 1e5
# Conditional effective size that each rise of the temperature keeps, as a fraction, and
# effective size below which particles are resampled.
_KEPT, _RESAMPLED = 0.8, 0.5
# Moves after each rise, in stretches until the correlation with the start is small.
_MOVES, _MAX_STRETCHES, _FORGOTTEN = 5, 20, 0.3
_MAX_TEMPERATURES = 2000
_FINAL_MOVES = 4 * ROUND


class Tempered(NamedTuple):
    """Result of tempered sequential Monte Carlo.

    Attributes
    ----------
    sample : Sample
        R-hat and effective sizes compare the independent runs.
    log_evidence : float
        Estimate of the log normalising constant over the prior, up to the terms of
        the likelihood that are constant in f.
    run_evidences : ndarray of shape (b,)
        The same from each run.
    temperatures : ndarray of shape (t,)
        From above 0 to 1; of the first run.
    """

    sample: Sample
    log_evidence: float
    run_evidences: Array
    temperatures: Array


class _Run(NamedTuple):
    """Equally likely particles w (1, p, s) of one run, and how it went."""

    w: Array
    log_evidence: float
    temperatures: list[float]


def run_smc(
    target: Target,
    n_particles: int,
    rng: np.random.Generator,
    *,
    n_jobs: int | None,
    symmetric: bool = False,
    report: Report | None = None,
) -> Tempered:
    """Move particles from the prior to the posterior, with the right weights of modes.

    The likelihood is raised to powers β that rise from 0 to 1 as fast as a conditional
    effective sample size of 80 % allows. After each rise the particles are moved by
    Metropolis-adjusted Langevin steps, preconditioned with the Hessian at β whose
    curvatures are averaged over the particles, until they have forgotten where they
    were; they are resampled where their weights have become uneven. Four runs of at
    least 100 particles each (400 on few rows) know nothing of one another, so that they
    can be compared;
    their particles are mixed with weights proportional to their evidences, which leaves
    no bias of a run's own. Where the likelihood does not know the sign of f
    (`symmetric`), particles and their mirror images are exchanged.

    Notes
    -----
    Some 20 to 100 temperatures of 5 to 200 steps each, for 400 particles or more.
    """
    one = target.features.size * len(target.nodes)
    cheap = min(_MANY, int(_STEP / one))
    size = max(_LEAST, cheap, -(-n_particles // _RUNS))
    items = [(size, stream, symmetric) for stream in rng.spawn(_RUNS)]
    runs = parallel_map(_temper, items, n_jobs, target)
    evidences = np.array([run.log_evidence for run in runs])
    everything = np.concatenate([run.w for run in runs], axis=2)
    log_weights = np.repeat(evidences, size)
    chosen = smc.systematic(log_weights, n_particles, rng)
    root = _tempered_root(target, everything, 1.0)
    local = _around_nothing(target, root)
    sample = _last_moves(local, everything[:, :, chosen], rng, n_jobs, report)
    compared = upright(target, everything) if symmetric else everything
    values = np.linalg.solve(root[0], compared[0]).reshape(-1, _RUNS, size)
    r_hat, ess = between_runs(values)
    sample = sample._replace(r_hat=r_hat, ess=np.minimum(ess, float(n_particles)))
    evidence = float(logsumexp(evidences)) - float(np.log(_RUNS))
    return Tempered(sample, evidence, evidences, np.array(runs[0].temperatures))


def _temper(
    target: Target, size: int, rng: np.random.Generator, symmetric: bool
) -> _Run:
    """One run from the prior to the posterior."""
    p = target.features.shape[1] * target.n_outputs
    w = rng.standard_normal((1, p, size))
    plain = _around_nothing(target, np.eye(p)[np.newaxis])
    beta, log_evidence, temperatures = 0.0, 0.0, []
    log_weights = np.full(size, -np.log(size))
    while beta < 1.0:
        if len(temperatures) == _MAX_TEMPERATURES:
            raise ValueError(
                f"Tempering reached only the power {beta:.3g} of the likelihood in "
                f"{_MAX_TEMPERATURES} temperatures. Increase n_particles, or the noise "
                "of the likelihood."
            )
        nll = langevin.start(plain, w).energy - 0.5 * np.sum(w**2, axis=(0, 1))
        earlier, beta = beta, smc.next_temperature(nll, beta, _KEPT, log_weights)
        log_weights, log_ratio = smc.reweighted(log_weights, nll, beta - earlier)
        log_evidence += log_ratio
        temperatures.append(beta)
        if beta == 1.0 or smc.effective_size(log_weights) < _RESAMPLED * size:
            w = w[:, :, _sorted_choice(w[0], log_weights, rng)]
            log_weights = np.full(size, -np.log(size))
        w = _moved(target, w, log_weights, beta, rng)
        w = flip(plain, w, beta, rng) if symmetric else w
    return _Run(w, log_evidence, temperatures)


def _sorted_choice(
    w: Array, log_weights: Array, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Systematic resampling in the order of the direction of the largest spread."""
    centred = w - w.mean(axis=1, keepdims=True)
    _, _, along = np.linalg.svd(centred, full_matrices=False)
    order = np.argsort(along[0], kind="stable")
    return order[smc.systematic(log_weights[order], len(order), rng)]


def _around_nothing(target: Target, root: Array) -> Target:
    """Coordinates with this root (1, p, p) and no centre."""
    return target._replace(centre=np.zeros(root.shape[:2]), root=root)


def _tempered_root(target: Target, w: Array, beta: float) -> Array:
    """Root (1, p, p) of the inverse Hessian at β, averaged over particles (1, p, s)."""
    c, p = target.n_outputs, w.shape[1]
    weights = w.reshape(c, p // c, -1).transpose(1, 0, 2)
    root: Array = laplace.tempered_root(smoothed(target), weights, beta).reshape(
        1, p, p
    )
    return root


def _last_moves(
    target: Target,
    w: Array,
    rng: np.random.Generator,
    n_jobs: int | None,
    report: Report | None,
) -> Sample:
    """Moves at the full likelihood, with diagnostics; particles (1, p, s) back."""
    z = np.linalg.solve(target.root[0], w[0])[np.newaxis]
    scheme, _ = adapt(target, z, LOCAL, rng)
    sample = run_chains(
        target, z, scheme, rng,
        max_iter=_FINAL_MOVES, tol=0.0, n_jobs=n_jobs, report=report,
    )  # fmt: skip
    weights = langevin.weights_of(target, sample.z)
    return sample._replace(z=weights.transpose(1, 0, 2).reshape(w.shape))


def _moved(
    target: Target, w: Array, log_weights: Array, beta: float, rng: np.random.Generator
) -> Array:
    """Particles (1, p, s) after steps at temperature β that forget their start."""
    typical = smc.systematic(log_weights, w.shape[2], rng)
    root = _tempered_root(target, w[:, :, typical], beta)
    local = _around_nothing(target, root)
    z = np.linalg.solve(root[0], w[0])[np.newaxis]
    scheme, _ = adapt(local, z, LOCAL, rng, beta)
    first = state = langevin.start(local, z, beta)
    for _ in range(_MAX_STRETCHES):
        state, _ = langevin.advance(local, state, scheme, _MOVES, rng, beta)
        if _memory(first, state) <= _FORGOTTEN:
            break
    moved: Array = root @ state.z
    return moved


def _memory(first: Chains, last: Chains) -> float:
    """Correlation of two states: of the potential, or of the coordinates in the mean.

    Which of several modes a particle is in should be remembered: that is a direction or
    two of many.
    """
    rows = [
        np.vstack((state.z[0], state.energy[np.newaxis])) for state in (first, last)
    ]
    a, b = (x - x.mean(axis=1, keepdims=True) for x in rows)
    scale = np.sqrt(np.sum(a**2, axis=1) * np.sum(b**2, axis=1))
    correlation = np.sum(a * b, axis=1) / np.maximum(scale, 1e-300)
    return float(max(correlation[-1], correlation[:-1].mean()))
