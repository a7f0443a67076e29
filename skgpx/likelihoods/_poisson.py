"""Counts with a rate that is a function of the latent value."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from scipy.special import gammaln, pdtr

from skgpx._numerics.expectations import poisson_cdf
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.quantiles import Cdf
from skgpx._types import Array, ArrayLike, Generator, Selection
from skgpx.likelihoods._base import RowForm, check_integers, doubles
from skgpx.likelihoods._links import RATE_LINKS, Linked, draw_counts
from skgpx.likelihoods._log_rates import NegativeBinomial


class Poisson(Linked):
    """Counts, ``y ~ Poisson(rate(f))``.

    Parameters
    ----------
    link : {"exp", "softplus", "square"}, default="exp"
        ``exp(f)``, ``log(1 + exp(f))`` or ``f^2 + 1e-8``. Effects multiply under the
        first, and add up under softplus where counts are large. The square link gives f
        and -f the same likelihood, so the posterior has at least two modes.

    Notes
    -----
    Rows may have an *exposure* e, the time or the area over which they were counted:
    ``y ~ Poisson(e rate(f))`` for every link. For the exp link this is the offset ``log
    e`` of generalised linear models. In f it is the likelihood of ``y / e`` with weight
    e, so the base rate is ``(Σ y + 1/2) / Σ e``. Without exposures all are one.

    Examples
    --------
    >>> from skgpx.likelihoods import Poisson
    >>> Poisson().mean([0.0, 1.0]).round(3)
    array([1.   , 2.718])
    >>> bool(Poisson(link="square").gradient(3, 0.0) == 0.0)
    True
    """

    _links = RATE_LINKS
    discrete = True
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)
    overdispersed_version = "likelihood=NegativeBinomial()"
    row_quantity: ClassVar[str | None] = "exposure"

    base_rate_: float

    def __init__(self, link: str = "exp") -> None:
        self.link = link

    @property
    def kernel_code(self) -> int:  # type: ignore[override]
        """Code of the compiled formula."""
        return self._link().code

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """Whether f and -f give the same distribution: the square link only."""
        return self._link().symmetric

    @property
    def log_scale(self) -> bool:  # type: ignore[override]
        """Whether f is a log rate: the exp link only."""
        return self._link().log_scale

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``rate - y log(rate) + log(y!)``."""
        y = doubles(y)
        f = doubles(f)
        rate = self.mean(f)
        log_rate = self._link().log_rate(f) + np.log(self.known_)
        log_factorial = gammaln(y + 1.0)
        return rate - y * log_rate + log_factorial

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``rate' - y rate' / rate``."""
        y = doubles(y)
        slope, log_slope = self._link().slopes(doubles(f))
        return self.known_ * slope - y * log_slope

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Return the second derivative; for the square link 2 where it is negative."""
        y = doubles(y)
        f = doubles(f)
        exposure = self.known_
        rate = y / exposure
        curvature = self._link().curvature(rate, f)
        return exposure * curvature

    def mean(self, f: ArrayLike) -> Array:
        """Return the rate."""
        rate = self._link().rate(doubles(f))
        return self.known_ * rate

    def variance(self, f: ArrayLike) -> Array:
        """Return the rate."""
        return self.mean(f)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``Q(floor(y) + 1, rate)``, the regularised upper incomplete gamma."""
        count = np.floor(doubles(y))
        probability = pdtr(np.maximum(count, 0.0), self.mean(f))
        return np.where(count < 0.0, 0.0, probability)

    def _cdf_at(self, f: Array) -> Cdf:
        """`row_cdf` at latent values; their rates are computed once."""
        rates = self.row_mean(f)

        def cdf(y: Array, rows: Selection) -> Array:
            return poisson_cdf(np.floor(y), rates[rows])

        return cdf

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw counts, as floats."""
        return draw_counts(self.mean(f), rng)

    def base_latent(self, y: Array, weights: Array) -> float:
        """Link of the mean count, with half a count added to the sum."""
        count = weights @ y + 0.5
        rate = count / weights.sum()
        return float(self._link().latent(rate))

    def initial_latent(self, y: ArrayLike) -> Array:
        """Latent value of the rate ``(y + 1/2) / (e + 1 / (2 r))``, r the mean count.

        The mean of a gamma distribution with shape 1/2 and mean r, given the count at
        exposure e; ``(y + 1/2) / e`` before `prepare`.
        """
        base_rate = getattr(self, "base_rate_", np.inf)
        exposure = np.ravel(self.known_) + 0.5 / base_rate
        rate = (doubles(y) + 0.5) / exposure
        return self._link().latent(rate.reshape(np.shape(y)))

    def row_form(self, y: Array, weights: Array, known: Array | None) -> RowForm:
        """Rates ``y / e`` with weights ``ω e``."""
        if known is None:
            return super().row_form(y, weights, known)
        rate = y / known
        # log y! - e log (y/e)! - y log e
        log_factorial = gammaln(y + 1.0)
        log_factorial_of_rate = gammaln(rate + 1.0)
        log_factorials = log_factorial - known * log_factorial_of_rate
        return RowForm(
            likelihood=self,
            y=rate,
            weights=weights * known,
            constant=log_factorials - y * np.log(known),
        )

    def _completed(self, y: Array, weights: Array) -> Self:  # noqa: ARG002
        """Copy with the mean count at exposure one, which stays when the base moves."""
        base_rate = self.mean(self.base_latent_)
        return self._replace(base_rate_=float(base_rate[0]))

    def centred(self, variance: float) -> Self:
        """Copy with a prior that expects the base rate, as far as its base may move.

        Squares expect ``base^2 + variance``: where the variance alone exceeds the rate,
        the base is 0. A base of 0, of functions of both signs, stays.
        """
        if self.symmetric and not np.any(self.base_latent_):
            return self
        if self.symmetric:
            square = max(self.base_rate_ - variance, 0.0)
            return self.with_base(np.sqrt(square))
        if self.link == "exp":
            return self.with_base(self._link().centred(self.base_latent_, variance))
        return super().centred(variance)

    def overdispersed_nll(self, y: Array, mean: Array, precision: float) -> Array:
        """`nll` of negative-binomial counts, whose shape is the precision."""
        log_mean = np.log(np.maximum(mean, 1e-12))
        return NegativeBinomial(precision).nll(y, log_mean)

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is a count."""
        super().check_support(y)
        remedy = "Use Gaussian or StudentT for real targets."
        check_integers(self, y, "0, 1, 2, ...", remedy)

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """``E[rate]`` and ``E[rate] + Var[rate]``; in closed form for the exp link."""
        mean, variance = self._moments_of_mean(mixture)
        return mean, mean + variance

    def _moments_of_mean(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of the rate, (n,); in closed form for the exp link."""
        if self.link != "exp":
            return super()._moments_of_mean(mixture)
        return self._link().moments(mixture, self.known_)
