"""Several modes: tempered sequential Monte Carlo, and particles of the other sign."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target, between_runs
from skgpx._numerics.smoothing import smoothed
from skgpx._parallel import parallel_map
from skgpx._pls._chains import LOCAL, ROUND, Report, Sample, adapt, run_chains

Array = NDArray[np.float64]


def next_temperature(
    nll: Array,
    temperature: float,
    kept: float,
    log_weights: Array,
) -> float:
    """Largest β ≤ 1 at which the conditional effective size is still large enough.

    Parameters
    ----------
    nll : ndarray of shape (s,)
        Negative log-likelihood of each particle.
    temperature : float
        Present β in [0, 1).
    kept : float
        Fraction of the particles that the size may not fall below.
    log_weights : ndarray of shape (s,)
        Of the particles at the present β. The conditional size is the effective one of
        the rise alone, ``(ΣWw)² / ΣWw²`` with W the present and w the new weights
        [1]_: steps stay short when weights are uneven already.

    Returns
    -------
    temperature : float

    References
    ----------
    .. [1] Zhou, Johansen and Aston, "Toward automatic model comparison: an adaptive
       sequential Monte Carlo approach", JCGS 2016.
    """
    nll = np.where(np.isfinite(nll), nll, np.inf)
    above = nll - nll.min()
    present = log_weights - _log_sum(log_weights)

    def excess(log_rise: float) -> float:
        # w = exp(-rise * above); an infinite nll has weight 0
        log_w = -np.exp(log_rise) * above
        size = 2.0 * _log_sum(present + log_w) - _log_sum(present + 2.0 * log_w)
        return size - float(np.log(kept))

    whole = float(np.log(1.0 - temperature))
    if excess(whole) >= 0.0:
        return 1.0
    least = whole - 100.0
    if excess(least) < 0.0:  # some particles have likelihood zero
        return temperature + float(np.exp(least))
    return temperature + float(np.exp(optimize.brentq(excess, least, whole, xtol=1e-4)))


def reweighted(log_weights: Array, nll: Array, rise: float) -> tuple[Array, float]:
    """Weights after a rise of the temperature.

    Returns
    -------
    log_weights : ndarray of shape (s,)
        Normalised: their exponentials sum to one.
    log_ratio : float
        Estimate of the log ratio of the two normalising constants.
    """
    log_w = log_weights - _log_sum(log_weights) - rise * nll
    log_ratio = _log_sum(log_w)
    return log_w - log_ratio, log_ratio


def effective_size(log_weights: Array) -> float:
    """``(Σw)² / Σw²``: the number of equal weights that are as good."""
    size = 2.0 * _log_sum(log_weights) - _log_sum(2.0 * log_weights)
    return float(np.exp(size))


def resample(
    log_weights: Array,
    size: int,
    rng: np.random.Generator,
    stratified: bool = False,
) -> NDArray[np.intp]:
    """Systematic resampling: `size` indices, each less than one from its expectation.

    So are all sums over neighbours: where particles are sorted along the direction of
    their largest spread, the numbers in two modes hardly change. Or `stratified`, one
    from each stretch of equal mass, independently of the others: neighbours compete
    with one another.
    """
    cumulative = np.cumsum(np.exp(log_weights - np.max(log_weights)))
    points = (np.arange(size) + rng.random(size if stratified else 1)) / size
    chosen = np.searchsorted(cumulative / cumulative[-1], points)
    return np.minimum(chosen, len(log_weights) - 1)


def _log_sum(x: Array) -> float:
    """``log Σ exp(x)``; SciPy's takes ten times longer for a hundred numbers."""
    largest = np.max(x)
    return float(largest + np.log(np.sum(np.exp(x - largest))))


# ---- The second mode of a likelihood that does not know the sign of f ----------------


def mirror_images(target: Target, w: Array) -> Array:
    """Particles (1, p, s), or their images ``-w - 2u`` whose f is about the negative.

    With ``f = offset + Φw`` and ``Φu ≈ offset``; the map preserves volume and is its
    own inverse.
    """
    shift = laplace.mirror_shift(target).T.reshape(1, -1, 1)
    images: Array = -w - 2.0 * shift
    return images


def of_both_signs(
    target: Target,
    w: Array,
    rng: np.random.Generator,
) -> tuple[Array, NDArray[np.intp], NDArray[np.bool_]]:
    """Particles (1, p, s) of both modes; which they were, and which are images.

    ``nll(y, f) = nll(y, -f)``, but chains stay in the mode in which they start. If w
    follows the posterior within one mode, or within both in any proportion, then w
    with weight 1 and its image w' with weight ``exp(U(w) - U(w'))`` together follow
    the whole posterior, for whatever u. With offset 0 both have the same weight, and
    one of the two is taken at random. `target` must be in the coordinates of the
    weights.
    """
    images = mirror_images(target, w)
    energy, other = (langevin.start(target, x).energy for x in (w, images))
    # each particle beside its image, so that a stratum holds both
    log_weights = np.stack((np.zeros_like(energy), energy - other), axis=1).ravel()
    taken = resample(log_weights, len(energy), rng, stratified=True)
    chosen, mirrored = taken // 2, taken % 2 == 1
    return np.where(mirrored, images[:, :, chosen], w[:, :, chosen]), chosen, mirrored


def upright(target: Target, w: Array) -> Array:
    """Particles (1, p, s), or their images, with f positive where it is largest.

    Particles of either sign have a mean of zero, whatever the signs of f in one
    neighbourhood relative to another; these do not.
    """
    m = target.features.shape[1]
    f = target.features @ w[0, :m] + target.offset[:, :1]
    largest = f[int(np.argmax(np.mean(np.abs(f), axis=1)))]
    return np.where(largest < 0.0, mirror_images(target, w), w)


# ---- Tempered sequential Monte Carlo: particles carried from the prior ---------------

# Independent runs.
_RUNS = 4


def run_smc(
    target: Target,
    n_particles: int,
    rng: np.random.Generator,
    *,
    n_jobs: int | None,
    symmetric: bool = False,
    report: Report | None = None,
) -> tuple[Sample, Array]:
    """Move particles from the prior to the posterior, with the right weights of modes.

    The likelihood is raised to powers β that rise from 0 to 1 as fast as a conditional
    effective sample size of 80 % allows. After each rise the particles are moved by
    Metropolis-adjusted Langevin steps, preconditioned with the Hessian at β whose
    curvatures are averaged over the particles, until they have forgotten where they
    were; they are resampled where their weights have become uneven. Four runs of at
    least 100 particles each (400 on few rows) know nothing of one another, so that they
    can be compared, up to the sign of f where the likelihood does not know it
    (`symmetric`). Their particles are mixed with weights proportional to their
    evidences, which leaves no bias of a run's own.

    Returns
    -------
    sample : Sample
        R-hat and effective sizes compare the independent runs.
    evidences : ndarray of shape (4,)
        Estimates of the log normalising constant over the prior, up to the terms of the
        likelihood that are constant in f.

    Notes
    -----
    Some 20 to 100 temperatures of 5 to 200 steps each, for 400 particles or more.
    """
    # more than a hundred where a step of them all takes less than 1e5 operations
    cheap = min(400, int(1e5 / target.features.size))
    size = max(100, cheap, -(-n_particles // _RUNS))
    runs = parallel_map(
        _temper,
        [(size, stream) for stream in rng.spawn(_RUNS)],
        n_jobs,
        target,
    )
    evidences = np.array([evidence for _, evidence in runs])
    everything = np.concatenate([w for w, _ in runs], axis=2)
    w = everything[:, :, resample(np.repeat(evidences, size), n_particles, rng)]
    local = _around_nothing(target, everything, 1.0)
    z = np.asarray(np.linalg.solve(local.root, w), dtype=np.float64)
    scheme, _ = adapt(local, z, LOCAL, rng, n_jobs=n_jobs)
    sample = run_chains(
        local, z, scheme, rng,
        max_iter=4 * ROUND, tol=0.0, n_jobs=n_jobs, report=report,
    )  # fmt: skip
    compared = upright(target, everything) if symmetric else everything
    values = np.linalg.solve(local.root, compared)[0].reshape(-1, _RUNS, size)
    r_hat, ess = between_runs(values)
    return sample._replace(z=local.root @ sample.z, r_hat=r_hat, ess=ess), evidences


def _temper(target: Target, size: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Equally likely particles (1, p, s) of one run, and its log evidence."""
    w = rng.standard_normal((1, target.root.shape[1], size))
    beta, log_evidence, equal = 0.0, 0.0, np.full(size, -np.log(size))
    log_weights = equal
    for _ in range(2000):
        nll = langevin.start(target, w).energy - 0.5 * np.sum(w**2, axis=(0, 1))
        earlier, beta = beta, next_temperature(nll, beta, 0.8, log_weights)
        log_weights, log_ratio = reweighted(log_weights, nll, beta - earlier)
        log_evidence += log_ratio
        if beta == 1.0 or effective_size(log_weights) < 0.5 * size:
            # in the order of the direction of the largest spread
            centred = w[0] - w[0].mean(axis=1, keepdims=True)
            along = np.linalg.svd(centred, full_matrices=False)[2][0]
            order = np.argsort(along, kind="stable")
            w = w[:, :, order[resample(log_weights[order], size, rng)]]
            log_weights = equal
        w = _moved(target, w, log_weights, beta, rng)
        if beta == 1.0:
            return w, log_evidence
    raise ValueError(
        f"Tempering reached only the power {beta:.3g} of the likelihood in 2000 "
        "temperatures. Increase n_particles, or the noise of the likelihood."
    )


def _around_nothing(target: Target, w: Array, beta: float) -> Target:
    """Coordinates without a centre, by the Hessian at β averaged over w (1, p, s)."""
    c, p = target.n_outputs, w.shape[1]
    weights = w.reshape(c, p // c, -1).transpose(1, 0, 2)
    root = laplace.tempered_root(smoothed(target), weights, beta)
    return target._replace(centre=np.zeros((1, p)), root=root.reshape(1, p, p))


def _moved(
    target: Target,
    w: Array,
    log_weights: Array,
    beta: float,
    rng: np.random.Generator,
) -> Array:
    """Particles (1, p, s) after steps at temperature β that forget their start."""
    typical = resample(log_weights, w.shape[2], rng)
    local = _around_nothing(target, w[:, :, typical], beta)
    z = np.asarray(np.linalg.solve(local.root, w), dtype=np.float64)
    scheme, _ = adapt(local, z, LOCAL, rng, beta)
    first = state = langevin.start(local, z, beta)
    for _ in range(20):
        state, _ = langevin.advance(local, state, scheme, 5, rng, beta)
        # of the potential, and of the coordinates in the mean: which of several modes
        # a particle is in should be remembered, a direction or two of many
        ends = [np.vstack((s.z[0], s.energy[np.newaxis])) for s in (first, state)]
        a, b = (x - x.mean(axis=1, keepdims=True) for x in ends)
        scale = np.sqrt(np.sum(a**2, axis=1) * np.sum(b**2, axis=1))
        correlation = np.sum(a * b, axis=1) / np.maximum(scale, 1e-300)
        if max(correlation[-1], correlation[:-1].mean()) <= 0.3:
            break
    moved: Array = local.root @ state.z
    return moved
