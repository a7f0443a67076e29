"""Frequencies moved by Stein variational gradient descent (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.wave_evidence import WaveGradient, WaveRows, wave_gradient
from skgpx._parallel import worker_pool
from skgpx._stein._descent import Descent, Pullback
from skgpx._stein._judge import Judge, Verdict
from skgpx._stein._prior import WaveMixture
from skgpx._stein._settings import SteinSettings

Array = NDArray[np.float64]

# Steps of a round: after each held-out rows judge, and callbacks are asked.
ROUND = 10
# Rounds without a better judgement after which learning ends.
_PATIENCE = 10


@dataclass
class Learning:
    """Where learning is, and the best mixture so far.

    Parameters
    ----------
    mixture : WaveMixture
        As it is; its frequencies and its network are moved in place.
    best : WaveMixture
        By the judge's density if that chooses, otherwise the last one.
    loss_curve : list of float
        Mean negative log evidence of the components, in nats a row, before each step.
    held_out_curve : list of Verdict
        At the beginning of each round.
    n_iter : int
        Steps that led to the best mixture.
    """

    mixture: WaveMixture
    best: WaveMixture
    loss_curve: list[float] = field(default_factory=list)
    held_out_curve: list[Verdict] = field(default_factory=list)
    n_iter: int = 0

    def judged(self, verdict: Verdict | None, step: int, choose: bool) -> bool:
        """Note a judgement; whether learning should go on, if judges choose."""
        if verdict is not None:
            self.held_out_curve.append(verdict)
        if verdict is not None and choose:
            densities = [v.density for v in self.held_out_curve]
            behind = len(densities) - 1 - int(np.argmax(densities))
            if behind > 0:
                return behind < _PATIENCE
        self.best = self.mixture.copied()
        self.n_iter = step
        return True


def learn(
    rows: WaveRows,
    start: WaveMixture,
    kernel: Any,
    settings: SteinSettings,
    judge: Judge | None,
    n_jobs: int | None,
    stop: Callable[[Learning], bool],
    n_steps: int | None = None,
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
        Held-out rows, which choose where to stop if `early_stopping` is set.
    n_jobs : int or None
        Threads over components; the same bits for every number.
    stop : callable
        Asked after each round.
    n_steps : int, optional
        Steps to take of the schedule; all by default.

    Notes
    -----
    A step costs ``3 n m² + m³`` operations a component and ``(M R)² d`` for the force.
    """
    state = Learning(start.copied(), start)
    descent = Descent(state.mixture, kernel, settings)
    last = settings.max_iter if n_steps is None else n_steps
    choose, total = settings.early_stopping, float(rows.weights.sum())
    space = state.mixture.waves(0).workspace
    spaces = [space(len(rows.y)) for _ in start.frequencies]
    with worker_pool(n_jobs) as each:
        for step in range(last):
            found, pullback = _gradients(rows, state.mixture, spaces, each)
            loss = -float(np.mean([gradient.value for gradient in found]))
            state.loss_curve.append(loss / total)
            if step % ROUND == 0:
                verdict = _verdict(judge, state.mixture, found)
                if not state.judged(verdict, step, choose) or (step and stop(state)):
                    return state
            state.mixture = descent.moved(state.mixture, found, pullback, step)
        verdict = None
        if judge is not None:
            found, _ = _gradients(rows, state.mixture, spaces, each)
            verdict = _verdict(judge, state.mixture, found)
    state.judged(verdict, last, choose)
    return state


def _gradients(
    rows: WaveRows,
    mixture: WaveMixture,
    spaces: list[Array],
    each: Callable[..., list[Any]],
) -> tuple[list[WaveGradient], Pullback | None]:
    """Gradients of the components, and what pulls those in inputs to the network."""
    seen, pullback = rows, None
    if mixture.warp is not None:
        mapped, pullback = mixture.warp.with_parameter_pullback(rows.points.T)
        seen = WaveRows.of(mapped, rows.y, rows.weights)
    items = (
        (seen, mixture.waves(k), space, mixture.warp is not None)
        for k, space in enumerate(spaces)
    )
    return each(wave_gradient, items), pullback


def _verdict(
    judge: Judge | None, mixture: WaveMixture, found: list[WaveGradient]
) -> Verdict | None:
    if judge is None:
        return None
    judge = judge.seen_through(mixture.warp)
    moments = [
        judge.moments(mixture.waves(k), gradient.mean, gradient.covariance)
        for k, gradient in enumerate(found)
    ]
    return judge.verdict(moments, mixture.noise_variance)
