"""Exact draws of Matérn processes of one input, which remember their states."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.markov_regression import MaternProcess, draw_between

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class StateMemory:
    """Draws of a Markov process that remember where they were evaluated.

    The state at a new point is drawn given those of its two neighbours: nothing else
    matters. The values depend on the order in which points are evaluated; a pickled
    copy continues with the same random numbers.

    Parameters
    ----------
    process : MaternProcess
    times : ndarray of shape (n,)
        Knots at which the states are known, increasing.
    states : ndarray of shape (n, p, s)
        Draws of the states there.
    rng : numpy.random.Generator
        Source of the other states; kept, and advanced by every new point.

    Notes
    -----
    O(p^3 + p^2 s) time and O(p s) memory for each new point, and O(n) for each call
    with new points.
    """

    n_features = 1

    def __init__(
        self,
        process: MaternProcess,
        times: Array,
        states: Array,
        rng: np.random.Generator,
    ):
        self.process = process
        self.known = states
        self.more = states[:0]
        self.times = times
        self.place = np.arange(len(times))
        self._rng = rng
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {k: v for k, v in self.__dict__.items() if k != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def values(self, X: Array) -> Array:
        """Values at the rows of X, shape (n, 1, s)."""
        return self._states(X)[:, :1]

    def gradients(self, X: Array) -> Array:
        """Derivatives at the rows of X, shape (n, 1, 1, s).

        Raises
        ------
        ValueError
            For a process of order 1/2, whose functions have none.
        """
        if self.process.n_states == 1:
            raise ValueError(
                "Functions of a Matern process of order 1/2 have no derivative "
                "anywhere. Fit with a kernel of order 3/2 or 5/2, such as "
                "ConstantKernel() * Matern(nu=1.5)."
            )
        return self.process.rate * self._states(X)[:, np.newaxis, 1:2]

    def _states(self, X: Array) -> Array:
        """States at the rows of X, shape (n, p, s)."""
        x = X[:, 0]
        with self._lock:
            new = np.setdiff1d(x, self.times)
            if len(new):
                self._extend(new)
            return self._at(self.place[np.searchsorted(self.times, x)])

    def _at(self, places: Index) -> Array:
        """States by the order in which they became known."""
        n, out = len(self.known), np.empty((len(places), *self.known.shape[1:]))
        later = places >= n
        out[~later] = self.known[places[~later]]
        out[later] = self.more[places[later] - n]
        return out

    def _extend(self, new: Array) -> None:
        """Draw the states at new increasing points and remember them."""
        at, last = np.searchsorted(self.times, new), len(self.times) - 1
        neighbours = (
            self._at(self.place[np.maximum(at - 1, 0)]),
            self._at(self.place[np.minimum(at, last)]),
        )
        drawn = draw_between(self.process, self.times, new, neighbours, self._rng)
        places = len(self.place) + np.arange(len(new))
        self.more = np.concatenate((self.more, drawn))
        self.times = np.insert(self.times, at, new)
        self.place = np.insert(self.place, at, places)
