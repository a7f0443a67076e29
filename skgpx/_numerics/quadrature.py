"""Fixed quadrature rules for standard normal variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def expectation_nodes(n_outputs: int, n_nodes: int = 12) -> tuple[Array, Array]:
    """Nodes ξ (q, c) and weights (q,) for ``E[h(ξ)]``, ξ ~ N(0, I).

    Gauss-Hermite with `n_nodes` nodes for one output; for several the spherical rule
    of degree three, ``±√c e_i`` with weights ``1 / (2c)``.
    """
    if n_outputs == 1:
        nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
        return nodes[:, np.newaxis], weights / weights.sum()
    points = np.sqrt(n_outputs) * np.eye(n_outputs)
    return np.concatenate((points, -points)), np.full(2 * n_outputs, 0.5 / n_outputs)
