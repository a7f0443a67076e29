"""Two classes."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from skgpx._numerics.mixture import LatentMixture
from skgpx._types import Array, ArrayLike, Generator, Index
from skgpx.likelihoods import _predictive
from skgpx.likelihoods._base import doubles
from skgpx.likelihoods._links import (
    PROBABILITY_LINKS,
    Linked,
    log_probability_above_zero,
)


class Bernoulli(Linked):
    """Two classes, encoded 0 and 1, with ``P(y = 1 | f)`` given by a link.

    Parameters
    ----------
    link : {"logit", "probit"}, default="logit"
        ``1 / (1 + exp(-f))`` or the normal distribution function. With the probit link
        the probabilities under a normal latent value have a closed form.

    Examples
    --------
    >>> from skgpx.likelihoods import (Bernoulli)
    >>> Bernoulli().mean([0.0, 2.0]).round(3)
    array([0.5  , 0.881])
    >>> float(Bernoulli(link="probit").nll(1, -40.0).round(2))
    804.61
    """

    _links = PROBABILITY_LINKS
    discrete = True
    log_scale = True

    def __init__(self, link: str = "logit") -> None:
        self.link = link

    def takes_classes(self, n_classes: int) -> bool:
        """Whether there are two."""
        return n_classes == 2

    @property
    def kernel_code(self) -> int:  # type: ignore[override]
        """Code of the compiled formula."""
        return self._link().code

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-log p((2 y - 1) f)``: both links are symmetric."""
        signed_latent = np.multiply(_sign(y), f)
        return -self._link().log_probability(signed_latent)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-t (log p)'(t f)`` with ``t = 2 y - 1``."""
        sign = _sign(y)
        signed_latent = np.multiply(sign, f)
        return -sign * self._link().log_slope(signed_latent)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Return the second derivative, between 0 and 1 for both links."""
        signed_latent = np.multiply(_sign(y), f)
        return self._link().log_curvature(signed_latent)

    def mean(self, f: ArrayLike) -> Array:
        """``P(y = 1 | f)``."""
        return self._link().probability(doubles(f))

    def variance(self, f: ArrayLike) -> Array:
        """``p (1 - p)``."""
        f = doubles(f)
        link = self._link()
        return link.probability(f) * link.probability(-f)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """0 below 0, ``1 - p`` below 1, then 1."""
        y = doubles(y)
        f = doubles(f)
        zero = self._link().probability(-f)
        below_one = np.where(y >= 0.0, zero, 0.0)
        return np.where(y >= 1.0, 1.0, below_one)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw zeros and ones."""
        uniform = rng.random(np.shape(f))
        return (uniform < self.mean(f)).astype(np.float64)

    def base_latent(self, y: Array, weights: Array) -> float:
        """Link of the frequency of class 1, with half a row added to each class."""
        count = weights @ y + 0.5
        total = float(weights.sum()) + 1.0
        return float(self._link().latent(count / total))

    def initial_latent(self, y: ArrayLike) -> Array:
        """``base + 2 (y - P(y = 1 | base))``: -1 and 1 where the base is 0."""
        base = self._base(1)
        return base + 2.0 * (doubles(y) - self.mean(base))

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is 0 or 1."""
        super().check_support(y)
        invalid = y[(y != 0.0) & (y != 1.0)]
        if invalid.size:
            raise ValueError(
                f"Bernoulli expects y in {{0, 1}}; got {invalid.size} other values, for"
                f" example {invalid[0]:g}. Encode the classes as 0 and 1, or use"
                " Categorical."
            )

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """``p`` and ``p (1 - p)`` with ``p = P(y = 1)``."""
        ones = np.ones(len(mixture.mean))
        # sums of rounded weights may exceed one
        p = np.minimum(np.exp(self.predictive_log_density(ones, mixture)), 1.0)
        return p, p * (1.0 - p)

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """Log probability of the observed class; in closed form for the probit link."""
        y = doubles(y)
        sign = _sign(y)[:, np.newaxis]
        if self.link == "probit":
            # P(t (f + e) > 0) with t = 2 y - 1 and e ~ N(0, 1)
            return log_probability_above_zero(
                mean=sign * mixture.mean[:, 0],
                variance=1.0 + mixture.variance[:, 0],
                weights=mixture.weights,
            )

        def evaluate(rows: Index, f: Array) -> tuple[Array, float]:
            probability = expit(sign[rows] * f[:, 0])
            return probability, 0.0

        probability, _, _ = _predictive.moments(evaluate, mixture)
        with np.errstate(divide="ignore"):
            log_density = np.log(probability)
        # nodes beyond the bulk of f matter for small probabilities
        rows = np.flatnonzero(log_density < -12.0)
        tail = super().predictive_log_density(y[rows], mixture.rows(rows))
        log_density[rows] = tail
        return log_density

    def predict_proba(self, mixture: LatentMixture) -> Array:
        """Probabilities of the classes 0 and 1, shape (n, 2)."""
        p = self.predictive_mean(mixture)
        return np.stack([1.0 - p, p], axis=1)


def _sign(y: ArrayLike) -> Array:
    """``2 y - 1``: -1 for class 0 and 1 for class 1."""
    return 2.0 * doubles(y) - 1.0
