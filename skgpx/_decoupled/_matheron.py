"""Matheron's rule: from draws of the prior to draws that agree with values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import (
    Conditioning,
    FunctionDraws,
    RememberedTerm,
    draw_prior,
    section_terms,
    update_weights,
)
from skgpx._parallel import parallel_map

Array = NDArray[np.float64]
# Draws updated at a time: fixed, so that results do not depend on the workers.
_DRAWS = 64


class PriorFeatures(NamedTuple):
    """How functions of the prior are drawn; see :func:`skgpx.bases.draw_prior`."""

    n_basis: int | str = "auto"
    frequencies: str = "auto"
    n_groups: int | str = "auto"
    prior: str = "auto"
    dtype: str = "float64"

    def groups(self, size: int) -> int:
        """Sets of frequencies for this number of draws.

        Errors of different sets average out, and the cosines of a set cost as much
        as the product with the weights of a few tens of draws.
        """
        if self.n_groups == "auto":
            return min(8, max(1, size // 64))
        return min(int(self.n_groups), size)

    def options(self, size: int) -> dict[str, Any]:
        """Arguments of `draw_prior` for this number of draws."""
        return self._asdict() | {"n_groups": self.groups(size)}


def draw_from_prior(
    kernel: Any,
    shape: tuple[int, int],
    rng: np.random.Generator,
    features: PriorFeatures,
    points: Array,
    noise: Array,
) -> FunctionDraws:
    """Prior draws to be conditioned at some points.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Without noise.
    shape : pair of ints
        Numbers of outputs and of draws.
    rng : numpy.random.Generator
    features : PriorFeatures
    points : ndarray of shape (m, d)
        Where the values will be given.
    noise : ndarray of shape (m,)
        Variances of their noise.
    """
    given = Conditioning(points, noise) if len(points) else None
    options = features.options(shape[1])
    return draw_prior(kernel, points.shape[1], *shape, rng, given=given, **options)


def remembers(draws: FunctionDraws) -> bool:
    """Whether values depend on what was asked before: to be asked in a fixed order."""
    return any(isinstance(term, RememberedTerm) for term in draws.terms)


def matheron_update(
    prior: FunctionDraws,
    kernel: Any,
    points: Array,
    values: Array,
    solve: Callable[[Array], Array],
    n_jobs: int | None,
) -> FunctionDraws:
    """``f + k(·, P) solve(values - f(P))``, blocks of draws in parallel.

    Parameters
    ----------
    prior : FunctionDraws
        f.
    kernel : sklearn.gaussian_process.kernels.Kernel
        k, without noise.
    points : ndarray of shape (m, d)
        P.
    values : ndarray of shape (m, c, s)
    solve : callable
        Maps (m, q) to (m, q).
    n_jobs : int or None
    """
    blocks = [slice(i, i + _DRAWS) for i in range(0, prior.n_draws, _DRAWS)]
    items = [(prior[b], points, values[:, :, b], solve) for b in blocks]
    # threads: draws that remember their values must do so for all
    weights = parallel_map(update_weights, items, n_jobs, shared_memory=True)
    return prior.plus(section_terms(kernel, points, np.concatenate(weights, axis=2)))
