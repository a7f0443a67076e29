"""Frequencies moved by Stein variational gradient descent (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.wave_evidence import (
    WaveGradient,
    WaveRows,
    Waves,
    WaveSpace,
    wave_gradient,
)
from skgpx._parallel import Workers, workers
from skgpx._stein._descent import Descent, Pullback
from skgpx._stein._judge import Judge, Verdict
from skgpx._stein._prior import WaveMixture
from skgpx._stein._settings import SteinSettings

Array = NDArray[np.float64]

# Steps of a round: after each held-out rows judge, and callbacks are asked.
ROUND = 10
# Learning ends where the score of so many rounds is at most this many nats a row above
# that of all rounds before.
_PATIENCE, _TOLERANCE = 4, 0.01
# Operations of a step of one component, some 70 ms, that are worth sending to another
# process: a round of tasks on a cluster takes as long.
_WORTH_SENDING = 2e9


@dataclass
class Learning:
    """Where learning is.

    Parameters
    ----------
    mixture : WaveMixture
        As it is; its frequencies and its network are moved in place.
    loss_curve : list of float
        Mean negative log evidence of the components, in nats a row, before each step.
    held_out_curve : list of Verdict
        At the beginning of each round.
    n_iter : int
        Steps that led to the mixture.
    """

    mixture: WaveMixture
    loss_curve: list[float] = field(default_factory=list)
    held_out_curve: list[Verdict] = field(default_factory=list)
    n_iter: int = 0

    def improves(self) -> bool:
        """Whether the score still improves.

        The score is the density of held-out rows, or without such rows the evidence.
        """
        scores = [verdict.density for verdict in self.held_out_curve]
        scores = scores or [-loss for loss in self.loss_curve[::ROUND]]
        before, recent = scores[:-_PATIENCE], scores[-_PATIENCE:]
        return not before or max(recent) > max(before) + _TOLERANCE


def learn(
    rows: WaveRows,
    start: WaveMixture,
    kernel: Any,
    settings: SteinSettings,
    judge: Judge | None,
    n_jobs: int | None,
    stop: Callable[[Learning], bool],
) -> Learning:
    """Move frequencies, and what else is learned, by the evidence of the rows.

    Parameters
    ----------
    rows : WaveRows
        Without those of the judge.
    start : WaveMixture
    kernel : sklearn.gaussian_process.kernels.Kernel
        Whose spectral density is the prior of frequencies, if the settings want one.
    settings : SteinSettings
    judge : Judge or None
        Held-out rows.
    n_jobs : int or None
        Workers over components, in threads where a step is short; the same bits for
        every number.
    stop : callable
        Asked after each round.

    Notes
    -----
    A step costs ``3 n m² + m³`` operations a component and ``(M R)² d`` for the force.
    """
    state, total = Learning(start.copied()), float(rows.weights.sum())
    descent = Descent(state.mixture, kernel, settings, rows)
    # what a network makes of the rows would have to be sent in every step
    short = start.warp is not None or _operations(rows, start) < _WORTH_SENDING
    with workers(n_jobs, rows, in_threads=short) as some:
        spaces: list[WaveSpace] = []
        for step in range(settings.max_iter):
            judged = judge is not None and step % ROUND == 0
            found, pullback = _gradients(rows, state.mixture, spaces, some, judged)
            loss = -float(np.mean([gradient.value for gradient in found]))
            state.loss_curve.append(loss / total)
            if judge is not None and judged:
                state.held_out_curve.append(_verdict(judge, state.mixture, found))
            if step > 0 and step % ROUND == 0:
                ends = settings.early_stopping and not state.improves()
                if ends or stop(state):
                    return state
            state.mixture = descent.moved(state.mixture, found, pullback, step)
            state.n_iter += 1
        if judge is not None:
            found, _ = _gradients(rows, state.mixture, spaces, some, True)
            state.held_out_curve.append(_verdict(judge, state.mixture, found))
    return state


def _operations(rows: WaveRows, mixture: WaveMixture) -> float:
    """Operations of a step of one component, ``3 n m²``."""
    m = 2 * mixture.frequencies.shape[1]
    return 3.0 * len(rows.y) * m**2


def _gradients(
    rows: WaveRows,
    mixture: WaveMixture,
    spaces: list[WaveSpace],
    some: Workers,
    judged: bool,
) -> tuple[list[WaveGradient], Pullback | None]:
    """Gradient of each component, with the law of the weights if it is judged.

    And what pulls gradients in inputs back to the network, if there is one. `spaces`
    are what threads of this process may use and give back.
    """
    seen, pullback = None, None
    if mixture.warp is not None:
        mapped, pullback = mixture.warp.with_parameter_pullback(rows.points.T)
        seen = WaveRows.of(mapped, rows.y, rows.weights)
    waves = map(mixture.waves, range(len(mixture.frequencies)))
    items = ((one, spaces, judged, seen) for one in waves)
    return some.each(_gradient, items), pullback


def _gradient(
    rows: WaveRows,
    waves: Waves,
    spaces: list[WaveSpace],
    judged: bool,
    seen: WaveRows | None,
) -> WaveGradient:
    """Gradient at the rows, or at what a network makes of them."""
    here, inputs = rows if seen is None else seen, seen is not None
    try:
        # the last one that was used is the one in the cache
        space = spaces.pop()
    except IndexError:
        space = waves.workspace(len(here.y))
    found = wave_gradient(here, waves, space, inputs)
    # in the workspace, and the largest part of what another process would send
    covariance = found.covariance.copy() if judged else np.empty((0, 0))
    spaces.append(space)
    return found._replace(covariance=covariance)


def _verdict(judge: Judge, mixture: WaveMixture, found: list[WaveGradient]) -> Verdict:
    judge = judge.seen_through(mixture.warp)
    moments = [
        judge.moments(mixture.waves(k), gradient.mean, gradient.covariance)
        for k, gradient in enumerate(found)
    ]
    return judge.verdict(moments, mixture.noise_variance)
