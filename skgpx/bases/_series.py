"""Markov processes of one column: no functions, all of f is the residual."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from skgpx._types import Array, Kernel
from skgpx.bases._kernel_basis import Nystroem
from skgpx.kernels import StateSpace


class SeriesBasis(Nystroem):
    """Basis without functions: ``f = g``, a Markov process of one column.

    The posterior of all values given all rows takes O(n) by the filter and the smoother
    of a state space, so that no functions stand for f.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With a :class:`~skgpx.kernels.StateSpace`.
    """

    @classmethod
    def of(cls, kernel: Kernel) -> SeriesBasis:
        """Basis of this kernel."""
        return cls(kernel, np.empty((0, 1)), np.empty((0, 0)))

    @classmethod
    def _again(cls, kernel: Kernel, inducing_points: Array) -> SeriesBasis:
        """The basis from what a pickle holds."""
        del inducing_points
        return cls.of(kernel)

    @cached_property
    def form(self) -> StateSpace:
        """State space of the kernel."""
        form = StateSpace.of(self.kernel, 1)
        assert form is not None
        return form
