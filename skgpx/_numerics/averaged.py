"""Likelihoods averaged over what the weights leave open of a latent function.

A dozen nodes do for a residual that is not much wider than the likelihood. Beyond that
a logarithm of a square has a rule whose error does not depend on the ratio, and so have
classes; for other likelihoods of one output the nodes are doubled until two rules
agree, and for those of several there is a ladder of rules.

**Classes.** With independent Gumbel variables G_k the expectation of the largest of
``f_k + G_k`` is ``log Σ exp(f_k)`` plus Euler's constant γ. With a residual ``std
ξ_k``, equal in law for all classes, these sums remain independent, and with F the
distribution function of ``std ξ + G``

    E log Σ exp(f_k + std ξ_k) = E max_k(f_k + std ξ_k + G_k) - γ
                               = u₀ + ∫ 1 - Π_k F(u - f_k) du - γ

from any u₀ below which the product is zero: one smooth integral over one variable,
however many classes there are. It is a sum over an even grid. ``log F = -exp(r)``,
where r is ``-t`` without a residual and bends downward otherwise; it is kept as one
polynomial for each row. Errors are below 1e-4 nats for 2 and 3 classes and a
residual of up to 5; 5, 10 and 30 classes agree with simulation to 2e-4 and its error.

**Several outputs.** A rule of degree three, two nodes for each output, does while the
residual is narrower than the features of the likelihood. Beyond that it is wrong by up
to a nat a row: for a softmax of 3 classes by .02, .1 and .4 where the residual has a
standard deviation of 1, 2 and 5, for 10 classes by .1, .4 and 1.5. Products of
Gauss-Hermite rules (two and three outputs) and a sequence of points serve there. Each
is compared with a reference on some rows, and the cheapest that agrees is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import ndtr

from skgpx._numerics.class_formulas import HAZARD_DEGREE
from skgpx._numerics.langevin import Target
from skgpx._numerics.mixture import normal_points
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
    product_nodes,
    sequence_nodes,
    shifted_nodes,
    trapezoidal_nodes,
)
from skgpx.exceptions import ConvergenceWarning, warn

# ---- The optimal potential of classes: softmax likelihoods averaged over a residual --


Array = NDArray[np.float64]

# Points of the integral; places at which r is fitted; rows of a table at a time.
_POINTS, _SOFTMAX_PLACES, _SOFTMAX_ROWS = 16, 24, 1000
# Standard deviation below which F is averaged over nodes for ξ, not for G.
_NARROW = 0.7


class AveragedSoftmax(NamedTuple):
    """Averages over the residual of a likelihood of classes.

    Targets y (n, 3 + q) hold the classes and what `hazard_table` returns.

    Attributes
    ----------
    likelihood : Likelihood
        Without the average.
    """

    likelihood: Any

    @property
    def parameters(self) -> Array:
        """Parameters of the compiled formula."""
        return np.array([float(_POINTS)])

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
        own = f[np.arange(len(f)), y[:, 0].astype(np.intp)]
        step = y[:, 2:3] / (_POINTS - 1)
        nll = np.max(f, axis=1) + y[:, 1:2] - 0.5 * step - np.euler_gamma - own
        for width, none, _ in _points(y, f):
            nll += width * (1.0 - none)
        return nll

    def row_gradient(self, y: Array, f: Array) -> Array:
        """``P(k is largest) - [k = y]``, (n, c, s)."""
        gradient = np.zeros_like(f)
        for width, none, slope in _points(y, f):
            gradient += (width * none)[:, np.newaxis] * slope
        gradient[np.arange(len(f)), y[:, 0].astype(np.intp)] -= 1.0
        return gradient

    def row_curvature(self, y: Array, f: Array) -> Array:
        """Second derivative, (n, c, c, s), positive semi-definite.

        ``-∫ (log F)'_k (log F)'_l Π F du`` for two classes; rows sum to zero.
        """
        n, c, s = f.shape
        between = np.zeros((n, c, c, s))
        for width, none, slope in _points(y, f):
            weighted = (width * none)[:, np.newaxis] * slope
            between -= weighted[:, :, np.newaxis] * slope[:, np.newaxis]
        diagonal = np.arange(c)
        between[:, diagonal, diagonal] = 0.0
        between[:, diagonal, diagonal] = -between.sum(axis=2)
        return between


def _points(y: Array, f: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Points of the integral: their width, ``Π F`` (n, s) and ``(log F)'`` (n, c, s).

    The last stands for all that follow, where ``1 - Π F`` decreases geometrically.
    """
    width, coefficients = y[:, 2], y[:, 3:, np.newaxis, np.newaxis]
    step = width / (_POINTS - 1)
    # slope of r in z at its end
    end = coefficients[:, 1:, 0, 0] @ np.arange(1.0, HAZARD_DEGREE + 1.0)
    top = np.max(f, axis=1, keepdims=True)
    half = 0.5 * width[:, np.newaxis, np.newaxis]
    for i in range(_POINTS):
        # z = ±1 at the ends of the polynomial; its tangent beyond
        z = (top - f) / half + (2.0 * i / (_POINTS - 1) - 1.0)
        inside = np.minimum(z, 1.0)
        r, slope = coefficients[:, -1] + 0.0 * z, np.zeros_like(z)
        for k in range(HAZARD_DEGREE - 1, -1, -1):
            slope = slope * inside + r
            r = r * inside + coefficients[:, k]
        hazard = np.exp(r + end[:, np.newaxis, np.newaxis] * (z - inside))
        last = i == _POINTS - 1
        tail = -1.0 / np.expm1(2.0 * end / (_POINTS - 1)) if last else 1.0
        none = np.exp(-hazard.sum(axis=1))
        yield (step * tail)[:, np.newaxis], none, -hazard * slope / half


def hazard_table(std: Array) -> Array:
    """Polynomials of ``r = log(-log F)`` for each standard deviation, (n, 2 + q).

    Columns: where F is 1e-5, from there to where it is ``1 - 1e-4``, and the
    coefficients of the powers of z, which is -1 and 1 at these ends.
    """
    low = -4.27 * std - 2.44 / (1.0 + 1.9 * std)
    width = 0.7 + 3.72 * std + 8.51 * np.exp(-0.5 * std) - low
    z = np.cos(np.pi * (np.arange(_SOFTMAX_PLACES) + 0.5) / _SOFTMAX_PLACES)
    # least squares, weighted by what an error of r is to F without a residual
    hazard = np.exp(-3.38 - 5.83 * z)
    weights = 1e-2 + hazard * np.exp(-hazard)
    basis = chebyshev.chebvander(z, HAZARD_DEGREE)
    fit = np.linalg.pinv(basis * weights[:, np.newaxis]) * weights
    powers = [chebyshev.cheb2poly(row) for row in np.eye(HAZARD_DEGREE + 1)]
    to_powers = np.zeros((HAZARD_DEGREE + 1, HAZARD_DEGREE + 1))
    for k, row in enumerate(powers):
        to_powers[: len(row), k] = row
    table = np.empty((len(std), 3 + HAZARD_DEGREE))
    table[:, 0], table[:, 1] = low, width
    for first in range(0, len(std), _SOFTMAX_ROWS):
        rows = slice(first, first + _SOFTMAX_ROWS)
        t = low[rows, np.newaxis] + 0.5 * width[rows, np.newaxis] * (1.0 + z)
        table[rows, 2:] = _log_hazard(std[rows], t) @ (to_powers @ fit).T
    return table


def _log_hazard(std: Array, t: Array) -> Array:
    """``log(-log F(t))`` (n, q) of ``std ξ + G`` for each std (n,)."""
    out = np.empty_like(t)
    x = np.arange(-6.0, 6.01, 0.4)
    normal = np.exp(-0.5 * x**2)
    gumbel = 0.6 * np.arange(-6.0, 26.0)
    masses = np.exp(-gumbel - np.exp(-gumbel))
    for narrow in (True, False):
        rows = np.flatnonzero((std < _NARROW) == narrow)
        s, at = std[rows, np.newaxis, np.newaxis], t[rows][:, :, np.newaxis]
        if narrow:
            e, weights = np.exp(s * x - at), normal / normal.sum()
            below, above = np.exp(-e) @ weights, -np.expm1(-e) @ weights
        else:
            z, weights = (at - gumbel) / s, masses / masses.sum()
            below, above = ndtr(z) @ weights, ndtr(-z) @ weights
        # either is exact where the other is near one
        with np.errstate(divide="ignore"):
            hazard = np.where(below < 0.5, -np.log(below), -np.log1p(-above))
        out[rows] = np.log(hazard)
    return out


# ---- The optimal potential of a likelihood of several outputs that has no formula ----


Rule = tuple[Array, Array]

# Nodes of each output in a product, points of a sequence, and the most nodes of any:
# each is a gradient of all rows.
_PRODUCTS, _SEQUENCES, _MOST = (4, 6, 12, 25), (64, 128, 256, 512, 1024), 1024
# Nodes of each output in the mesh that rules for two and three are compared with.
_MESH = {2: 65, 3: 24}
# Largest difference from the reference, in nats a row, relative to 1 + nll.
_TRIAL_TOLERANCE = 0.01
# Rows and places of the trial, and how far out these are, in standard deviations of the
# residual; values of f in memory at a time.
_TRIAL_ROWS, _TRIAL_PLACES, _REACH, _CHUNK = 30, 12, 1.5, 1_000_000


def rule_of_outputs(target: Target) -> Rule:
    """The first of the rules that agrees with the reference; warns if none does."""
    order = np.argsort(-np.max(target.std, axis=1), kind="stable")
    rows = order[:: max(1, len(order) // _TRIAL_ROWS)]
    reference = _average(target, rows, _reference(target.n_outputs))
    smallest, best = np.inf, None
    for rule in _rules(target.n_outputs):
        with np.errstate(invalid="ignore"):
            apart = np.abs(_average(target, rows, rule) - reference)
            gap = float(np.max(apart / (1.0 + np.abs(reference))))
        if gap <= _TRIAL_TOLERANCE:
            return rule
        # without a mesh a small gap may be chance: the finest
        if best is None or not gap > smallest or target.n_outputs not in _MESH:
            smallest, best = gap, rule
    assert best is not None
    _warn_of_trial(target, smallest)
    return best


def _rules(c: int) -> Iterator[Rule]:
    """Rules for c outputs, of more and more nodes."""
    products = [k for k in _PRODUCTS if c <= 3 and k**c <= _MOST]
    sequences = [q for q in _SEQUENCES if q >= 4 * c]
    sizes = [(k**c, 0, k) for k in products] + [(q, 1, q) for q in sequences]
    yield expectation_nodes(c)
    for _, is_sequence, k in sorted(sizes):
        if is_sequence:
            yield sequence_nodes(c, k)
        else:
            yield product_nodes(c, expectation_nodes(1, k))


def _reference(c: int) -> Rule:
    """Four times the points, whose error is a third; an even mesh for few outputs."""
    if c in _MESH:
        return product_nodes(c, trapezoidal_nodes(_MESH[c]))
    return sequence_nodes(c, 4 * _MOST)


def _average(target: Target, rows: NDArray[np.intp], rule: Rule) -> Array:
    """Potentials of rows at places around their rough latent values, (rows, places)."""
    nodes, weights = rule
    y, std = target.y[rows], target.std[rows]
    c = target.n_outputs
    rough = np.asarray(target.likelihood.initial_latent(y), dtype=np.float64)
    rough = rough.reshape(len(rows), -1, 1)
    at = rough + std[:, :, np.newaxis] * _places(c)
    total = np.zeros((len(rows), _TRIAL_PLACES))
    step = max(1, _CHUNK // at.size)
    for first in range(0, len(nodes), step):
        some = slice(first, first + step)
        moved = std[:, :, np.newaxis] * nodes[some].T
        f = at[:, :, :, np.newaxis] + moved[:, :, np.newaxis]
        with np.errstate(all="ignore"):
            nll = target.likelihood.row_nll(y, f.reshape(len(rows), c, -1))
            total += nll.reshape(len(rows), _TRIAL_PLACES, -1) @ weights[some]
    return total


def _places(c: int) -> Array:
    """Where potentials are compared, in standard deviations, (c, places)."""
    return np.asarray(_REACH * normal_points(c, 1, _TRIAL_PLACES)[0][:, 0])


def _warn_of_trial(target: Target, gap: float) -> None:
    size = f"uncertain by {gap:.2g} of a row's negative log-likelihood"
    warn(
        f"The optimal potential of {type(target.likelihood).__name__} is "
        f"{size if np.isfinite(gap) else 'not finite'}, with rules of up to {_MOST} "
        f"nodes for its {target.n_outputs} outputs: the residual of the inducing "
        "points is far wider than the likelihood. Increase n_inducing, or use "
        'potential="projected".',
        ConvergenceWarning,
    )


# ---- The optimal potential: likelihoods averaged over a residual of any width --------


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
