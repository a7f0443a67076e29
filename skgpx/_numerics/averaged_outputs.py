"""The optimal potential of a likelihood of several outputs that has no formula.

An expectation over several latent values at once. A rule of degree three, two nodes for
each output, does while the residual is narrower than the features of the likelihood.
Beyond that it is wrong by up to a nat a row: for a softmax of 3 classes by .02, .1 and
.4 where the residual has a standard deviation of 1, 2 and 5, for 10 classes by .1, .4
and 1.5. Products of Gauss-Hermite rules (two and three outputs) and a sequence of
points serve there. Each is compared with a reference on some rows, and the cheapest
that agrees is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.langevin import Target
from skgpx._numerics.mixture import normal_points
from skgpx._numerics.quadrature import (
    expectation_nodes,
    product_nodes,
    sequence_nodes,
    trapezoidal_nodes,
)
from skgpx.exceptions import ConvergenceWarning, warn

Array = NDArray[np.float64]
Rule = tuple[Array, Array]

# Nodes of each output in a product, points of a sequence, and the most nodes of any:
# each is a gradient of all rows.
_PRODUCTS, _SEQUENCES, _MOST = (4, 6, 12, 25), (64, 128, 256, 512, 1024), 1024
# Nodes of each output in the mesh that rules for two and three are compared with.
_MESH = {2: 65, 3: 24}
# Largest difference from the reference, in nats a row, relative to 1 + nll.
_TOLERANCE = 0.01
# Rows and places of the trial, and how far out these are, in standard deviations of the
# residual; values of f in memory at a time.
_ROWS, _PLACES, _REACH, _CHUNK = 30, 12, 1.5, 1_000_000


def rule_of_outputs(target: Target) -> Rule:
    """The first of the rules that agrees with the reference; warns if none does."""
    order = np.argsort(-np.max(target.std, axis=1), kind="stable")
    rows = order[:: max(1, len(order) // _ROWS)]
    reference = _average(target, rows, _reference(target.n_outputs))
    smallest, best = np.inf, None
    for rule in _rules(target.n_outputs):
        with np.errstate(invalid="ignore"):
            apart = np.abs(_average(target, rows, rule) - reference)
            gap = float(np.max(apart / (1.0 + np.abs(reference))))
        if gap <= _TOLERANCE:
            return rule
        # without a mesh a small gap may be chance: the finest
        if best is None or not gap > smallest or target.n_outputs not in _MESH:
            smallest, best = gap, rule
    assert best is not None
    _warn(target, smallest)
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
    total = np.zeros((len(rows), _PLACES))
    step = max(1, _CHUNK // at.size)
    for first in range(0, len(nodes), step):
        some = slice(first, first + step)
        moved = std[:, :, np.newaxis] * nodes[some].T
        f = at[:, :, :, np.newaxis] + moved[:, :, np.newaxis]
        with np.errstate(all="ignore"):
            nll = target.likelihood.row_nll(y, f.reshape(len(rows), c, -1))
            total += nll.reshape(len(rows), _PLACES, -1) @ weights[some]
    return total


def _places(c: int) -> Array:
    """Where potentials are compared, in standard deviations, (c, places)."""
    return np.asarray(_REACH * normal_points(c, 1, _PLACES)[0][:, 0])


def _warn(target: Target, gap: float) -> None:
    size = f"uncertain by {gap:.2g} of a row's negative log-likelihood"
    warn(
        f"The optimal potential of {type(target.likelihood).__name__} is "
        f"{size if np.isfinite(gap) else 'not finite'}, with rules of up to {_MOST} "
        f"nodes for its {target.n_outputs} outputs: the residual of the inducing "
        "points is far wider than the likelihood. Increase n_inducing, or use "
        'potential="projected".',
        ConvergenceWarning,
    )
