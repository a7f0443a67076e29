"""Counts, whose rate is a function of the latent value."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, gammaincc, gammaln

from skgpx._numerics import pointwise
from skgpx._numerics.expectations import poisson_cdf
from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods._base import Likelihood, RowForm
from skgpx.likelihoods._predictive import softplus_moments

Array = NDArray[np.float64]

# NumPy draws counts as 64-bit integers.
_LARGEST_RATE = 9e18
# Largest variance of a rate that is reported.
_LARGEST_SQUARE = 1e290
# Largest correction of the base of log rates, in prior standard deviations.
_LARGEST_SHIFT = 1.0


# ---- Links: maps from a latent value to the rate of a count --------------------------


class SoftplusRate:
    """``rate = log(1 + exp(f))``."""

    code = pointwise.POISSON_SOFTPLUS
    symmetric = False
    log_scale = False

    # Below this f, log(1 + exp(f)) equals exp(f) in double precision.
    _LEFT: ClassVar[float] = -37.0

    def rate(self, f: Array) -> Array:
        """``log(1 + exp(f))``."""
        return np.logaddexp(0.0, f)

    def log_rate(self, f: Array) -> Array:
        """``log log(1 + exp(f))``, which tends to f for f → -∞."""
        return np.where(f < self._LEFT, f, np.log(self.rate(np.maximum(f, self._LEFT))))

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """``s = expit(f)`` and ``s / rate``, which tends to 1 for f → -∞."""
        slope = expit(f)
        rate = self.rate(np.maximum(f, self._LEFT))
        return slope, np.where(f < self._LEFT, 1.0, slope / rate)

    def curvature(self, y: Array, f: Array) -> Array:
        """``s (1 - s) + y q (q - (1 - s))`` with ``q = s / rate``; never negative."""
        slope, ratio = self.slopes(f)
        rest = expit(-f)
        return slope * rest + y * ratio * np.maximum(ratio - rest, 0.0)

    def latent(self, rate: Array) -> Array:
        """``log(exp(rate) - 1)``."""
        return rate + np.log(-np.expm1(-rate))


class ExpRate:
    """``rate = exp(f)``, continued by its tangent where ``f > 300``.

    The tangent keeps rates, gradients and their squares finite.
    """

    code = pointwise.POISSON_EXP
    symmetric = False
    log_scale = True

    def rate(self, f: Array) -> Array:
        """``exp(f)``."""
        cap = pointwise.EXPONENT_CAP
        return np.exp(np.minimum(f, cap)) * (1.0 + np.maximum(f - cap, 0.0))

    def log_rate(self, f: Array) -> Array:
        """Return the latent value itself."""
        return f

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """``exp(f)`` and 1."""
        return np.exp(np.minimum(f, pointwise.EXPONENT_CAP)), np.ones_like(f)

    def curvature(self, y: Array, f: Array) -> Array:
        """``exp(f)``."""
        slope, _ = self.slopes(f)
        return slope + np.zeros(np.shape(y))

    def latent(self, rate: Array) -> Array:
        """``log(rate)``."""
        return np.log(rate)


class SquareRate:
    """``rate = f^2 + 1e-8``: f and -f are equally likely; finite gradients at 0."""

    code = pointwise.POISSON_SQUARE
    symmetric = True
    log_scale = False

    def rate(self, f: Array) -> Array:
        """``f^2 + 1e-8``."""
        return f**2 + pointwise.SQUARE_FLOOR

    def log_rate(self, f: Array) -> Array:
        """``log(f^2 + 1e-8)``."""
        return np.log(self.rate(f))

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """``2 f`` and ``2 f / (f^2 + 1e-8)``."""
        return 2.0 * f, 2.0 * f / self.rate(f)

    def curvature(self, y: Array, f: Array) -> Array:
        """``2 + 2 y (f^2 - 1e-8) / rate^2`` where that is positive, else 2."""
        exact = 2.0 + 2.0 * y * (f**2 - pointwise.SQUARE_FLOOR) / self.rate(f) ** 2
        return np.where(exact > 0.0, exact, 2.0)

    def latent(self, rate: Array) -> Array:
        """``sqrt(rate)``, the positive of two solutions."""
        return np.sqrt(rate)


RATE_LINKS: dict[str, Any] = {
    "softplus": SoftplusRate(),
    "exp": ExpRate(),
    "square": SquareRate(),
}


# ---- The likelihood ------------------------------------------------------------------


class Poisson(Likelihood):
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

    discrete = True
    row_quantity: ClassVar[str | None] = "exposure"

    base_rate_: float
    # of given rows (n, 1), see `at_rows`
    _exposure: Array | float = 1.0

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
        log_rate = self._link().log_rate(f) + np.log(self._exposure)
        return np.asarray(self.mean(f) - y * log_rate + gammaln(y + 1.0))

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``rate' - y rate' / rate``."""
        slope, log_slope = self._link().slopes(np.asarray(f, dtype=np.float64))
        return np.asarray(self._exposure * slope - np.asarray(y) * log_slope)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Return the second derivative; for the square link 2 where it is negative."""
        y, f = np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64)
        e = self._exposure
        return np.asarray(e * self._link().curvature(y / e, f))

    def mean(self, f: ArrayLike) -> Array:
        """Return the rate."""
        rate = self._link().rate(np.asarray(f, dtype=np.float64))
        return np.asarray(self._exposure * rate)

    def variance(self, f: ArrayLike) -> Array:
        """Return the rate."""
        return self.mean(f)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``Q(floor(y) + 1, rate)``, the regularised upper incomplete gamma."""
        count = np.floor(np.asarray(y, dtype=np.float64))
        inside = gammaincc(np.maximum(count, 0.0) + 1.0, self.mean(f))
        return np.where(count >= 0.0, inside, 0.0)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw counts, as floats."""
        rate = np.minimum(self.mean(f), _LARGEST_RATE)
        return np.asarray(rng.poisson(rate), dtype=np.float64)

    def base_latent(self, y: Array, weights: Array) -> float:
        """Link of the mean count, with half a count added to the sum."""
        rate = (weights @ y + 0.5) / weights.sum()
        return float(self._link().latent(np.asarray(rate)))

    def initial_latent(self, y: ArrayLike) -> Array:
        """Latent value whose rate is ``(y + 1/2) / (e + 1 / (2 r))``, r the mean count.

        The mean of a gamma distribution with shape 1/2 and mean r, given the count at
        exposure e (one, but for the distribution of given rows); ``(y + 1/2) / e``
        before `prepare`.
        """
        y, exposure = np.asarray(y, dtype=np.float64), np.asarray(self._exposure)
        return self._rough(y, exposure[:, 0] if exposure.ndim else exposure)

    def rough_latent(self, y: Array, known: Array | None) -> Array:
        """`initial_latent` of rows with these exposures."""
        return self.initial_latent(y) if known is None else self._rough(y, known)

    def _rough(self, y: Array, exposure: Array) -> Array:
        time = exposure + 0.5 / getattr(self, "base_rate_", np.inf)
        return self._link().latent((y + 0.5) / time)

    def row_form(self, y: Array, weights: Array, known: Array | None) -> RowForm:
        """Rates ``y / e`` with weights ``ω e``."""
        if known is None:
            return super().row_form(y, weights, known)
        counted = gammaln(y + 1.0) - known * gammaln(y / known + 1.0)
        return RowForm(y / known, weights * known, None, counted - y * np.log(known))

    def at_rows(self, known: Array) -> Self:
        """Distribution of rows with these exposures (n,); latent values are (n, s)."""
        return self._replace(_exposure=known[:, np.newaxis])

    def at_some(self, rows: NDArray[np.intp]) -> Self:
        """Distribution of some of the rows (k,), with their exposures."""
        if isinstance(self._exposure, float):
            return self
        return self._replace(_exposure=self._exposure[rows])

    def prepare(
        self,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        known: Array | None = None,
    ) -> Self:
        """Copy with everything set that depends on the targets; self is unchanged.

        Besides what the base class sets, `base_rate_`: the mean count at exposure one,
        which stays when the base moves.
        """
        prepared = super().prepare(y, sample_weight, known)
        rate = float(prepared.mean(prepared.base_latent_)[0])
        return prepared._replace(base_rate_=rate)

    def centred(self, variance: float) -> Self:
        """Copy whose prior expects the base rate, as far as its base may move.

        Squares expect ``base^2 + variance``: where the variance alone exceeds the rate,
        the base is 0. Exponentials expect ``exp(base + variance / 2)``; the base moves
        by at most one prior standard deviation s, which is what it takes up to s = 2.
        Beyond, the expectation is in the far tail of the log-normal distribution, and a
        base that corrects it is too low for nearly every function that the prior draws,
        between the rows too.
        """
        if self.symmetric:
            return self.with_base(np.sqrt(max(self.base_rate_ - variance, 0.0)))
        if self.link == "exp":
            shift = min(0.5 * variance, _LARGEST_SHIFT * float(np.sqrt(variance)))
            return self.with_base(self.base_latent_ - shift)
        return super().centred(variance)

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is a count."""
        super().check_support(y)
        bad = y[(y < 0.0) | (y != np.floor(y))]
        if bad.size:
            raise ValueError(
                f"Poisson expects y = 0, 1, 2, ...; got {bad.size} negative or"
                f" fractional values, for example {bad[0]:g}. Use Gaussian or StudentT"
                " for real targets."
            )

    def predictive_mean(self, mixture: LatentMixture) -> Array:
        """``E[rate]``."""
        return self.predictive_moments(mixture)[0]

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """``E[rate]`` and ``E[rate] + Var[rate]``."""
        mean, variance = self._rate_moments(mixture)
        return mean, mean + variance

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """``Var[rate]``."""
        return self._rate_moments(mixture)[1]

    def _rate_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """``E[rate]`` and ``Var[rate]``, (n,) each.

        Log-normal moments for the exp link, polynomials for the square link, nodes for
        the softplus link (to 1e-5 of the standard deviation).
        """
        mean, variance = mixture.mean[:, 0], mixture.variance[:, 0]
        exposure = np.ravel(self._exposure)
        if self.link == "softplus":
            total, square = softplus_moments(mixture)
            return exposure * total, exposure**2 * square
        rate = self._link().rate
        if self.link == "exp":
            middle = rate(mean + 0.5 * variance)
            # beyond the doubles where log rates are wide: as large as they hold
            with np.errstate(over="ignore"):
                within = middle**2 * np.expm1(np.minimum(variance, 700.0))
            within = np.minimum(within, _LARGEST_SQUARE)
        else:
            middle = rate(mean) + variance
            within = 2.0 * variance * (variance + 2.0 * mean**2)
        total = middle @ mixture.weights
        square = (within + (middle - total[:, np.newaxis]) ** 2) @ mixture.weights
        return exposure * total, exposure**2 * square

    def _conditions(self, values: Array) -> Array:
        return self.row_mean(values)

    def _average_cdf(self, y: Array, values: Array, weights: Array) -> Array:
        return poisson_cdf(np.floor(y), values, weights)

    def _link(self) -> Any:
        if not (isinstance(self.link, str) and self.link in RATE_LINKS):
            names = sorted(RATE_LINKS)
            raise ValueError(f"Poisson expects link in {names}; got {self.link!r}.")
        return RATE_LINKS[self.link]

    def check_parameters(self) -> None:
        """Raise a ValueError unless the link is known."""
        self._link()
