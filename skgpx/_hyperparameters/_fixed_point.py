"""Normal observations that stand for a likelihood, and where they reproduce themselves.

The moments of functions given such observations say what these have to be: two steps in
turn, regression and response, up to a fixed point. It does not matter here which
functions there are, and who does the regression: nearest rows in memory, the cells of
rows that are stored elsewhere, or each row from its nearest others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from skgpx._shell.validation import Rows
from skgpx._types import Array, Index, Kernel, Mask

# Rounds of regression and response, at most: rows of many repetitions, whose scale is
# not known, take fifty, most fits five.
MAX_ROUNDS = 60
# Mean change of the moments of a row after which observations stay as they are: a
# third of a percent of a standard deviation, and some percent of it at single rows.
_SETTLED = 1e-5
# The same while a kernel is searched: rounds of the search go on from where they were,
# and a posterior from the result.
SETTLED_IN_SEARCH = 1e-2
# Part of the way to the next observations that a round goes, from the second one on:
# full steps overshoot for classes and scales; half steps take longer.
_PART = 0.7


class NoisyValues(NamedTuple):
    """Values of the latent functions at the rows, and variances of their noise, (n, c).

    Attributes
    ----------
    y, noise : ndarray of shape (n, c)
    """

    y: Array
    noise: Array

    def take(self, chosen: Index) -> NoisyValues:
        """Some of them."""
        return NoisyValues(self.y[chosen], self.noise[chosen])

    def moved(self, other: NoisyValues, part: float | Array = _PART) -> NoisyValues:
        """Their log densities, a part of the way to those of other values [1]_.

        From nothing, the whole way. It is a step along the natural gradient.

        References
        ----------
        .. [1] Khan and Lin, "Conjugate-computation variational inference", AISTATS
           2017.
        """
        if np.all(np.isinf(self.noise)):
            return other
        precision_before = (1.0 - part) / self.noise
        precision_after = part / other.noise
        precision = precision_before + precision_after
        return NoisyValues(
            y=(precision_before * self.y + precision_after * other.y) / precision,
            noise=1.0 / precision,
        )


class LatentMoments(NamedTuple):
    """Moments of the latent functions at the rows, less their bases.

    Attributes
    ----------
    mean, variance : ndarray of shape (n, c)
    """

    mean: Array
    variance: Array

    @classmethod
    def of_prior(cls, kernel: Kernel, rows: Rows, n_functions: int) -> LatentMoments:
        """Of independent functions of mean zero."""
        variance = np.repeat(kernel.diag(rows.X)[:, np.newaxis], n_functions, axis=1)
        return cls(np.zeros_like(variance), variance)

    @classmethod
    def of_functions(cls, *functions: LatentMoments) -> LatentMoments:
        """Of several functions together."""
        means, variances = zip(*functions, strict=True)
        return cls(np.concatenate(means, axis=1), np.concatenate(variances, axis=1))

    def take(self, chosen: Mask) -> LatentMoments:
        """At some of the rows."""
        return LatentMoments(self.mean[chosen], self.variance[chosen])

    def given(
        self,
        values: NoisyValues,
        number: Array | float = 1.0,
    ) -> LatentMoments:
        """These moments, conditioned on so many equal values at the row itself."""
        noise = values.noise
        weighted = number * self.variance
        total = weighted + noise
        mean = (noise * self.mean + weighted * values.y) / total
        return LatentMoments(mean, self.variance * noise / total)

    def change_from(self, previous: LatentMoments) -> float:
        """Mean over the rows of twice the divergence from others, to second order.

        That of a row counts as one at most: rows that jump between two modes, which are
        reported, may do so by hundreds of standard deviations.
        """
        # rows of no prior variance do not change
        tiny = np.finfo(np.float64).tiny
        variance = np.maximum(self.variance, tiny)
        ratio = variance / np.maximum(previous.variance, tiny)
        step = self.mean - previous.mean
        change = step**2 / variance + 0.5 * np.log(ratio) ** 2
        return float(np.mean(np.minimum(change, 1.0)))

    def contrasts(self) -> LatentMoments:
        """Of functions whose means add up to zero."""
        return self._replace(mean=self.mean - self.mean.mean(axis=1, keepdims=True))


class Sites(NamedTuple):
    """Normal observations in the place of a likelihood.

    Attributes
    ----------
    moments : LatentMoments
        Of the functions, around which they stand for it.
    values : NoisyValues
    change : float
        Of these moments since the observations before them; infinite after those that
        say nothing.
    energy : float
        ``-Σ ω E log p(y | f)`` under these moments, where it is of use.
    """

    moments: LatentMoments
    values: NoisyValues
    change: float = np.inf
    energy: float = 0.0

    @classmethod
    def nothing(cls, moments: LatentMoments) -> Sites:
        """Observations that say nothing, around moments."""
        noise = np.full(moments.mean.shape, np.inf)
        return cls(moments, NoisyValues(np.zeros_like(noise), noise))

    def moved(
        self,
        moments: LatentMoments,
        values: NoisyValues,
        energy: float = 0.0,
    ) -> Sites:
        """A part of the way to the observations around other moments."""
        change = np.inf
        if np.any(np.isfinite(self.values.noise)):
            change = moments.change_from(self.moments)
        return Sites(moments, self.values.moved(values), change, energy)


class Observations(Protocol):
    """:class:`Sites`, here or elsewhere."""

    @property
    def values(self) -> Any:
        """At the rows."""

    @property
    def change(self) -> float:
        """Of the moments, see :meth:`LatentMoments.change_from`."""


S = TypeVar("S", bound=Observations)
R = TypeVar("R")


def fixed_point(
    sites: S,
    regress: Callable[[Any], R],
    respond: Callable[[R, S], S],
    report: Callable[[R, S], bool] | None = None,
    settled: float = _SETTLED,
) -> tuple[R, S, bool]:
    """Observations that reproduce the moments of the functions given them.

    Parameters
    ----------
    sites : Sites
        The first observations.
    regress : callable
        ``regress(values)``: the functions given values of the observations.
    respond : callable
        ``respond(regression, sites)``: the observations that follow, a part of the way
        from the present ones to those around the moments of the regression.
    report : callable, optional
        Gets both after each round; True ends them.
    settled : float, default=1e-5
        Change of the moments at which they end.

    Returns
    -------
    regression : object
        Of the functions on the observations.
    sites : Sites
        The next observations, of the moments that it has.
    converged : bool
        Whether these moments no longer change, or a callback has ended the rounds.
    """
    for _ in range(MAX_ROUNDS):
        regression = regress(sites.values)
        sites = respond(regression, sites)
        stop = report is not None and report(regression, sites)
        if stop or sites.change < settled:
            return regression, sites, True
    return regression, sites, False
