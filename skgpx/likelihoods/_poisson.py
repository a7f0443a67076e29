"""Counts, whose rate is a function of the latent value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, pdtr

from skgpx._numerics.expectations import poisson_cdf
from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods import _predictive
from skgpx.likelihoods._base import RowForm, check_integers
from skgpx.likelihoods._links import RATE_LINKS, Linked

Array = NDArray[np.float64]


class Poisson(Linked):
    """Counts, ``y ~ Poisson(rate(f))``.

    Parameters
    ----------
    link : {"softplus", "exp", "square"}, default="softplus"
        ``log(1 + exp(f))``, ``exp(f)`` or ``f^2 + 1e-8``. The square link gives f and
        -f the same likelihood, so the posterior has at least two modes.

    Notes
    -----
    Rows may have an *exposure* e, the time or the area over which they were counted:
    ``y ~ Poisson(e rate(f))`` for every link. For the exp link this is the offset ``log
    e`` of generalised linear models. In f it is the likelihood of ``y / e`` with weight
    e, so the base rate is ``(Σ y + 1/2) / Σ e``. Without exposures all are one.

    Examples
    --------
    >>> from skgpx.likelihoods import Poisson
    >>> Poisson(link="exp").mean([0.0, 1.0]).round(3)
    array([1.   , 2.718])
    >>> Poisson(link="square").gradient(3, 0.0)
    array(-0.)
    """

    _links = RATE_LINKS
    discrete = True
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)
    has_dispersion_test = True
    row_quantity: ClassVar[str | None] = "exposure"

    base_rate_: float

    def __init__(self, link: str = "softplus") -> None:
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
        y, f = np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64)
        log_rate = self._link().log_rate(f) + np.log(self.known_)
        return np.asarray(self.mean(f) - y * log_rate + gammaln(y + 1.0))

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``rate' - y rate' / rate``."""
        slope, log_slope = self._link().slopes(np.asarray(f, dtype=np.float64))
        return np.asarray(self.known_ * slope - np.asarray(y) * log_slope)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Return the second derivative; for the square link 2 where it is negative."""
        y, f = np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64)
        e = self.known_
        return np.asarray(e * self._link().curvature(y / e, f))

    def mean(self, f: ArrayLike) -> Array:
        """Return the rate."""
        rate = self._link().rate(np.asarray(f, dtype=np.float64))
        return np.asarray(self.known_ * rate)

    def variance(self, f: ArrayLike) -> Array:
        """Return the rate."""
        return self.mean(f)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``Q(floor(y) + 1, rate)``, the regularised upper incomplete gamma."""
        count = np.floor(np.asarray(y, dtype=np.float64))
        return np.where(count < 0.0, 0.0, pdtr(np.maximum(count, 0.0), self.mean(f)))

    def _cdf_at(self, f: Array) -> Callable[[Array, Any], Array]:
        """`row_cdf` at latent values, whose rates are computed once."""
        rates = self.row_mean(f)
        return lambda y, rows: poisson_cdf(np.floor(y), rates[rows])

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw counts, as floats."""
        # NumPy draws counts as 64-bit integers
        rate = np.minimum(self.mean(f), 9e18)
        return np.asarray(rng.poisson(rate), dtype=np.float64)

    def base_latent(self, y: Array, weights: Array) -> float:
        """Link of the mean count, with half a count added to the sum."""
        rate = (weights @ y + 0.5) / weights.sum()
        return float(self._link().latent(np.asarray(rate)))

    def initial_latent(self, y: ArrayLike) -> Array:
        """Latent value whose rate is ``(y + 1/2) / (e + 1 / (2 r))``, r the mean count.

        The mean of a gamma distribution with shape 1/2 and mean r, given the count at
        exposure e; ``(y + 1/2) / e`` before `prepare`.
        """
        time = np.ravel(self.known_) + 0.5 / getattr(self, "base_rate_", np.inf)
        rate = (np.asarray(y, dtype=np.float64) + 0.5) / time
        return self._link().latent(rate.reshape(np.shape(y)))

    def row_form(self, y: Array, weights: Array, known: Array | None) -> RowForm:
        """Rates ``y / e`` with weights ``ω e``."""
        if known is None:
            return super().row_form(y, weights, known)
        counted = gammaln(y + 1.0) - known * gammaln(y / known + 1.0)
        constant = counted - y * np.log(known)
        return RowForm(self, y / known, weights * known, None, constant)

    def _completed(self, y: Array, weights: Array) -> Self:  # noqa: ARG002
        """With the mean count at exposure one, which stays when the base moves."""
        return self._replace(base_rate_=float(self.mean(self.base_latent_)[0]))

    def centred(self, variance: float) -> Self:
        """Copy whose prior expects the base rate, as far as its base may move.

        Squares expect ``base^2 + variance``: where the variance alone exceeds the rate,
        the base is 0.
        """
        if self.symmetric:
            return self.with_base(np.sqrt(max(self.base_rate_ - variance, 0.0)))
        if self.link == "exp":
            return self.with_base(self._link().centred(self.base_latent_, variance))
        return super().centred(variance)

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is a count."""
        super().check_support(y)
        remedy = "Use Gaussian or StudentT for real targets."
        check_integers(self, y, "0, 1, 2, ...", remedy)

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """``E[rate]`` and ``E[rate] + Var[rate]``; in closed form for the exp link."""
        mean, variance = self._rate_moments(mixture)
        return mean, mean + variance

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """``Var[rate]``."""
        return self._rate_moments(mixture)[1]

    def _rate_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        if self.link != "exp":
            mean, spread, _ = _predictive.moments(
                lambda rows, f: (self.at_some(rows).row_mean(f), 0.0),
                mixture,
            )
            return mean, spread
        mean, variance = self._link().moments(mixture)
        exposure = np.ravel(self.known_)
        return exposure * mean, exposure**2 * variance
