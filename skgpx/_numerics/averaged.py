"""The optimal potential: likelihoods averaged over a residual of any width.

A dozen nodes do for a residual that is not much wider than the likelihood. Beyond that
a logarithm of a square has a rule whose error does not depend on the ratio, and so have
classes, see `averaged_softmax`; for other likelihoods of one output the nodes are
doubled until two rules agree, and for those of several there is a ladder of rules, see
`averaged_outputs`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.averaged_outputs import rule_of_outputs
from skgpx._numerics.averaged_softmax import AveragedSoftmax, hazard_table
from skgpx._numerics.langevin import Target
from skgpx._numerics.pointwise import (
    AVERAGED_LOG,
    AVERAGED_SOFTMAX,
    CATEGORICAL,
    POISSON_SQUARE,
    SQUARE_FLOOR,
    STUDENT_T,
)
from skgpx._numerics.quadrature import (
    expectation_nodes,
    shifted_nodes,
    trapezoidal_nodes,
)
from skgpx.exceptions import ConvergenceWarning, warn

Array = NDArray[np.float64]

# Numbers of nodes that are tried after Gauss-Hermite's 12, and the difference of two
# rules that is too large: nats a row, relative to 1 + nll.
_TRIED = (25, 49, 97, 193)
_TOLERANCE = 3e-3
# Rows and places of the trial, in standard deviations of the residual from the target.
_ROWS, _PLACES = 100, np.array([-4.0, -1.5, -0.6, 0.0, 0.3, 1.1, 2.7])


class AveragedLog(NamedTuple):
    """Averages over the residual of a likelihood that is a logarithm of a square.

    ``E[nll] = square (f² + std² + a²) + m E ½ log((f + std ξ - μ)² + a²) + const``:
    StudentT with ``square = 0, m = df + 1, μ = y, a² = df scale²``; Poisson with the
    square link with ``square = 1, m = -2 y, μ = 0, a² = 1e-8``. The logarithm is the
    real part of ``log(z + i a)``, see `shifted_nodes`: 1e-7 m at every ratio.

    Targets y (n, 2) hold the targets and the standard deviations of the residual.

    Attributes
    ----------
    likelihood : Likelihood
        Without the average.
    square, a, multiplier : float
    """

    likelihood: Any
    square: float
    a: float
    multiplier: float

    @property
    def parameters(self) -> Array:
        """Parameters of the compiled formula."""
        x, weights, shift = shifted_nodes()
        head = [self.square, self.a, self.multiplier, shift]
        return np.concatenate([head, x, weights.real, weights.imag])

    @property
    def theta(self) -> Array:
        """Free log-parameters."""
        theta: Array = self.likelihood.theta
        return theta

    def initial_latent(self, y: Array) -> Array:
        """Rough latent values of the targets."""
        rough: Array = self.likelihood.initial_latent(y[:, 0])
        return rough

    def row_nll(self, y: Array, f: Array) -> Array:
        """``E[nll]`` of each row and draw, (n, s)."""
        z, weights = self._shifted(y, f)
        m, square = self._multiplier(y), f[:, 0] ** 2 + y[:, 1:] ** 2 + self.a**2
        average = self.square * square + m * np.real(np.log(z) @ weights)
        # the constants of the likelihood, from its value where f = μ
        at = y[:, 0] if self.square else np.zeros(len(y))
        known = self.likelihood.row_nll(at, np.zeros((len(y), 1, 1)))
        nll: Array = average + known - m * np.log(self.a) - self.square * self.a**2
        return nll

    def row_gradient(self, y: Array, f: Array) -> Array:
        """Derivative of `row_nll`, (n, 1, s)."""
        z, weights = self._shifted(y, f)
        slope = self._multiplier(y) * np.real((1.0 / z) @ weights)
        return 2.0 * self.square * f + slope[:, np.newaxis]

    def row_curvature(self, y: Array, f: Array) -> Array:
        """Non-negative substitute for the second derivative, (n, 1, 1, s).

        For StudentT ``(df + 1) / ((df + 3) scale² + 2 std²)``, between the Fisher
        information and what it tends to; otherwise the second derivative where it is
        positive, else 2.
        """
        if self.square:
            z, weights = self._shifted(y, f)
            second = 2.0 - self._multiplier(y) * np.real((1.0 / z**2) @ weights)
            curvature = np.where(second > 0.0, second, 2.0)
        else:
            df = self.multiplier - 1.0
            width = (df + 3.0) / df * self.a**2 + 2.0 * y[:, 1:] ** 2
            curvature = self.multiplier / width + 0.0 * f[:, 0]
        return curvature[:, np.newaxis, np.newaxis]

    def _multiplier(self, y: Array) -> Array:
        one: Array = y[:, :1] if self.square else np.ones((len(y), 1))
        return self.multiplier * one

    def _shifted(self, y: Array, f: Array) -> tuple[Any, Any]:
        """``z + i (a + shift std)`` at the nodes, (n, s, q), and their weights."""
        x, weights, shift = shifted_nodes()
        centre, std = (0.0 if self.square else y[:, :1]), y[:, 1:]
        real = (f[:, 0] - centre)[:, :, np.newaxis] + std[:, :, np.newaxis] * x
        return real + 1j * (self.a + shift * std)[:, :, np.newaxis], weights


def averaged(target: Target) -> Target:
    """The target with a rule for its residual that suits the ratio of the two widths.

    Targets without a residual are returned as they are.
    """
    if len(target.nodes) == 1 or not np.any(target.std):
        return target
    if target.code == CATEGORICAL:
        return _of_classes(target)
    if target.n_outputs > 1:
        nodes, weights = rule_of_outputs(target)
        return target._replace(nodes=nodes, node_weights=weights)
    law = None
    if target.code == STUDENT_T:
        df, scale = target.parameters
        law = AveragedLog(target.likelihood, 0.0, np.sqrt(df) * scale, df + 1.0)
    elif target.code == POISSON_SQUARE:
        law = AveragedLog(target.likelihood, 1.0, np.sqrt(SQUARE_FLOOR), -2.0)
    if law is None:
        nodes, weights = _enough_nodes(target)
        return target._replace(nodes=nodes, node_weights=weights)
    return target._replace(
        likelihood=law,
        code=AVERAGED_LOG,
        parameters=law.parameters,
        y=np.column_stack((target.y, target.std[:, 0])),
        std=np.zeros_like(target.std),
        nodes=np.zeros((1, 1)),
        node_weights=np.ones(1),
    )


def _of_classes(target: Target) -> Target:
    """The target of a softmax likelihood with one integral in place of nodes."""
    law = AveragedSoftmax(target.likelihood)
    return target._replace(
        likelihood=law,
        code=AVERAGED_SOFTMAX,
        parameters=law.parameters,
        y=np.column_stack((target.y, hazard_table(target.std[:, 0]))),
        std=np.zeros_like(target.std),
        nodes=np.zeros((1, target.n_outputs)),
        node_weights=np.ones(1),
    )


def _enough_nodes(target: Target) -> tuple[Array, Array]:
    """The first of the rules that agrees with the next on some rows.

    At latent values around the rough ones, in nats a row.
    """
    order = np.argsort(-target.std[:, 0], kind="stable")
    rows = order[:: max(1, len(order) // _ROWS)]
    y, std = target.y[rows], target.std[rows, 0]
    rough = np.asarray(target.likelihood.initial_latent(y), dtype=np.float64)
    at = rough.reshape(len(rows), 1) + std[:, np.newaxis] * _PLACES

    def mean(nodes: Array, weights: Array) -> Array:
        f = at[:, :, np.newaxis] + std[:, np.newaxis, np.newaxis] * nodes[:, 0]
        with np.errstate(all="ignore"):
            nll = target.likelihood.row_nll(y, f.reshape(len(rows), 1, -1))
        average: Array = nll.reshape(f.shape) @ weights
        return average

    rules = [expectation_nodes(1), *(trapezoidal_nodes(q) for q in _TRIED)]
    coarse = mean(*rules[0])
    for rule, finer in pairwise(rules):
        fine = mean(*finer)
        gap = float(np.max(np.abs(fine - coarse) / (1.0 + np.abs(fine))))
        if not gap > _TOLERANCE:
            return rule
        coarse = fine
    _warn(target, gap)
    return rules[-1]


def _warn(target: Target, gap: float) -> None:
    warn(
        f"The optimal potential of {type(target.likelihood).__name__} is uncertain by "
        f"{gap:.2g} of a row's negative log-likelihood: the residual of the inducing "
        "points is far wider than the likelihood. Increase n_inducing, or use "
        'potential="projected".',
        ConvergenceWarning,
    )
