"""Successes among a number of trials."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import betainc, betaln

from skgpx._types import Array, ArrayLike, Generator
from skgpx.likelihoods._base import check_integers, doubles
from skgpx.likelihoods._links import PROBABILITY_LINKS, Linked


class Binomial(Linked):
    """Successes among n independent trials, each with a probability given by a link.

    Parameters
    ----------
    link : {"logit", "probit"}, default="logit"
        ``1 / (1 + exp(-f))`` or the normal distribution function.

    Notes
    -----
    y is the *number* of successes, and n is the `exposure` of the row: ``fit(X,
    successes, exposure=trials)``. Without exposures each row is one trial, with y in
    {0, 1}. Predictions without an exposure are of one trial too: `predict`
    returns the probability of a success. Proportions are turned into numbers by
    ``numpy.round(proportion * trials)``. The density is log-concave in f.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.likelihoods import Binomial
    >>> Binomial().at_rows(np.array([10.0])).mean([[0.0, 2.0]]).round(2)
    array([[5.  , 8.81]])
    """

    _links = PROBABILITY_LINKS
    discrete = True
    log_scale = True
    overdispersed_version = (
        "likelihood=Beta() of the shares (y + 0.5) / (exposure + 1), or a kernel with "
        "a further term of very short lengthscale"
    )
    row_quantity: ClassVar[str | None] = "exposure"

    def __init__(self, link: str = "logit") -> None:
        self.link = link

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-y log p - (n - y) log(1 - p) - log C(n, y)``."""
        y = doubles(y)
        f = np.asarray(f)
        n = self.known_
        failures = n - y
        log_p = self._link().log_probability(f)
        log_q = self._link().log_probability(-f)
        return -y * log_p - failures * log_q - _log_choices(n, y)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``(n - y) (log p)'(-f) - y (log p)'(f)``: both links are symmetric."""
        y = doubles(y)
        f = np.asarray(f)
        failures = self.known_ - y
        success_slope = self._link().log_slope(f)
        failure_slope = self._link().log_slope(-f)
        return failures * failure_slope - y * success_slope

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Return the second derivative, between 0 and n for both links."""
        y = doubles(y)
        f = doubles(f)
        failures = self.known_ - y
        success_curvature = self._link().log_curvature(f)
        failure_curvature = self._link().log_curvature(-f)
        return failures * failure_curvature + y * success_curvature

    def mean(self, f: ArrayLike) -> Array:
        """``n p``."""
        p = self._link().probability(doubles(f))
        return self.known_ * p

    def variance(self, f: ArrayLike) -> Array:
        """``n p (1 - p)``."""
        q = self._link().probability(-np.asarray(f))
        return self.mean(f) * q

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``I(n - y, y + 1)`` at ``1 - p``, the incomplete beta function."""
        y = np.floor(doubles(y))
        n = self.known_
        q = self._link().probability(-doubles(f))
        # positive arguments also for y below 0 and above n
        failures = np.maximum(n - y, 0.5)
        successes = np.maximum(y, 0.0)
        probability = betainc(failures, successes + 1.0, q)
        probability = np.where(y < 0.0, 0.0, probability)
        return np.where(y >= n, 1.0, probability)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw numbers of successes, as floats."""
        p = self._link().probability(doubles(f))
        trials = np.asarray(self.known_).astype(np.int64)
        return doubles(rng.binomial(trials, p))

    def base_latent(self, y: Array, weights: Array) -> float:
        """Link of ``Σ y / Σ n``, with half a success and half a failure added."""
        successes = weights @ y + 0.5
        trials = np.sum(weights * np.ravel(self.known_)) + 1.0
        return float(self._link().latent(successes / trials))

    def initial_latent(self, y: ArrayLike) -> Array:
        """Link of ``(y + 1/2) / (n + 1)``."""
        successes = doubles(y) + 0.5
        trials = np.ravel(self.known_) + 1.0
        share = (successes / trials).reshape(np.shape(y))
        return np.asarray(self._link().latent(share))

    def overdispersed_nll(self, y: Array, mean: Array, precision: float) -> Array:
        """`nll` of beta-binomial numbers: the probability of a row varies around p.

        ``log B(a, b) - log B(y + a, n - y + b) - log C(n, y)``, where the precision is
        ``a + b`` and p is ``a / (a + b)``.
        """
        n = np.ravel(self.known_)
        a = precision * np.clip(mean / n, 1e-12, 1.0 - 1e-12)
        b = precision - a
        log_ratio = betaln(y + a, n - y + b) - betaln(a, b)
        return -log_ratio - _log_choices(n, y)

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is an integer between 0 and the trials."""
        super().check_support(y)
        remedy = "Pass the number of successes, and the number of trials as exposure."
        check_integers(self, y, "0, 1, ..., trials", remedy)
        trials = np.broadcast_to(np.ravel(self.known_), y.shape)
        invalid = np.flatnonzero((y > trials) | (trials != np.floor(trials)))
        if invalid.size:
            row = invalid[0]
            raise ValueError(
                "Binomial expects whole numbers of trials, and no more successes than"
                f" trials; got {y[row]:g} of {trials[row]:g} in row {row}. {remedy}"
            )


def _log_choices(n: Array | float, y: Array) -> Array:
    """``log C(n, y)``."""
    return -betaln(n - y + 1.0, y + 1.0) - np.log(np.add(n, 1.0))
