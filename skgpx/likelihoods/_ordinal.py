"""Grades: integers with an order, but no distances."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from skgpx._types import AnyArray, Array, ArrayLike, Generator
from skgpx.likelihoods._averaged import AveragedScales
from skgpx.likelihoods._base import (
    Likelihood,
    check_integers,
    doubles,
)

# Most grades.
_MOST_GRADES = 1000


class Ordinal(Likelihood):
    """Grades 0, ..., K - 1 with an order, but no distances: cumulative probit.

    ``y = k`` where ``f + e`` with ``e ~ N(0, 1)`` lies between the thresholds number k
    and k + 1.

    Parameters
    ----------
    n_grades : int, default=None
        Number of grades K; None is the largest grade of `fit` plus one, or the number
        of categories.
    thresholds : array-like of shape (K - 1,), default=None
        Increasing. None estimates them.

    Attributes
    ----------
    categories_ : ndarray of shape (K,) or None
        In the fitted likelihood, ``model.likelihood_``: the categories in their order,
        if y had categories in `fit`.

    Notes
    -----
    Predictions are of the number of the grade: `predict` is its mean, quantiles are
    grades, and ``predict_dist(X).cdf(k)`` is the probability of the grades up to k. The
    density is log-concave in f.

    y may be an ordered categorical of pandas, an array or a Series: grade k is then its
    category number k, also of categories that have no rows. `score`, `report` and log
    densities take y of the same type, or the numbers of its categories. Predictions
    remain numbers; quantiles and draws are numbers of categories.

    Examples
    --------
    >>> from skgpx.likelihoods import Ordinal
    >>> likelihood = Ordinal(thresholds=[-1.0, 1.0])
    >>> likelihood.cdf([0, 1, 2], 0.0).round(3)
    array([0.159, 0.841, 1.   ])

    Grades that have names, and predictions in these:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from skgpx import PLSRegressor
    >>> X = np.linspace(0.0, 3.0, 30)[:, np.newaxis]
    >>> names = np.repeat(["low", "middle", "high"], 10)
    >>> y = pd.Categorical(names, categories=["low", "middle", "high"], ordered=True)
    >>> model = PLSRegressor(likelihood=Ordinal(), random_state=0).fit(X, y)
    >>> codes = model.predict_quantiles(X[::10], 0.5)[:, 0].astype(int)
    >>> model.likelihood_.categories_[codes].tolist()
    ['low', 'middle', 'high']
    """

    discrete = True
    log_scale = True
    categories_: AnyArray | None = None

    def __init__(
        self,
        n_grades: int | None = None,
        thresholds: ArrayLike | None = None,
    ) -> None:
        self.n_grades = n_grades
        self.thresholds = thresholds

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-log(Φ(b - f) - Φ(a - f))``, a and b the thresholds around the grade."""
        low, high = self._edges(y, f)
        return -self._log_probability(low, high)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``(φ(b - f) - φ(a - f)) / (Φ(b - f) - Φ(a - f))``."""
        low, high = self._edges(y, f)
        at_low, at_high = self._density_ratios(low, high)
        return at_high - at_low

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Return the second derivative, between 0 and 1."""
        low, high = self._edges(y, f)
        at_low, at_high = self._density_ratios(low, high)
        slope = at_high - at_low
        second = high * at_high - low * at_low + slope**2
        return np.clip(second, 0.0, 1.0)

    def mean(self, f: ArrayLike) -> Array:
        """``Σ P(y > k)``."""
        return np.sum(self._above(f), axis=-1)

    def variance(self, f: ArrayLike) -> Array:
        """``Σ (2 k + 1) P(y > k)`` less the square of the mean."""
        above = self._above(f)
        k = np.arange(above.shape[-1])
        # E[y²] - E[y]²
        mean_square = above @ (2.0 * k + 1.0)
        mean = np.sum(above, axis=-1)
        variance = mean_square - mean**2
        return np.maximum(variance, 0.0)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``Φ(b - f)``, b the threshold above the grade."""
        y = np.floor(doubles(y))
        highest = float(len(self._thresholds()))
        _, above = self._edges(np.clip(y, 0.0, highest), f)
        return np.where(y < 0.0, 0.0, ndtr(above))

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw grades, as floats."""
        noise = rng.standard_normal(np.shape(f))
        grades = np.searchsorted(self._thresholds(), np.add(f, noise))
        return grades.astype(np.float64)

    def example_targets(self, rng: Generator, n: int) -> Array:
        """Grades in random order, four of them where their number is not set."""
        n_grades = self.n_grades or 4
        if self.thresholds is not None:
            n_grades = len(self._thresholds()) + 1
        return rng.permutation(np.arange(n) % float(n_grades))

    def initial_latent(self, y: ArrayLike) -> Array:
        """``E[e | y]`` where f is 0."""
        return -self.gradient(y, 0.0)

    def _completed(self, y: Array, weights: Array) -> Self:
        """Copy with thresholds that start at the frequencies of the grades.

        If f has variance one, these are the frequencies of y with half a row added to
        each grade.
        """
        if self.thresholds is not None:
            return self
        grades = np.asarray(y, dtype=np.intp)
        n_grades = self.n_grades
        if not n_grades:
            n_grades = max(int(np.max(grades)) + 1, 2)
            n_seen = len(np.unique(grades))
            # of few grades most may have no row
            if n_grades > max(20, 2 * n_seen) or n_grades > _MOST_GRADES:
                raise ValueError(
                    "Ordinal takes the largest y for the number of grades, at most "
                    f"{_MOST_GRADES} of which half are among the rows; got "
                    f"{np.max(y):g} with {n_seen} different grades. Drop codes of "
                    "missing grades, number those that occur by np.unique(y, "
                    "return_inverse=True)[1], or give n_grades."
                )
        counts = np.bincount(grades, weights, n_grades) + 0.5
        levels = np.cumsum(counts)[:-1] / counts.sum()
        # f + e has variance two
        thresholds = np.sqrt(2.0) * ndtri(levels)
        # bounds of the first threshold, and of the logarithms of the gaps
        bounds = np.repeat([[-6.9, 3.0]], n_grades - 1, axis=0)
        bounds[0] = [-20.0, 20.0]
        return self._replace(
            thresholds=tuple(thresholds.tolist()),
            free_=("thresholds",),
            n_grades=n_grades,
            _log_bounds=bounds,
        )

    @property
    def theta(self) -> Array:
        """First threshold and logarithms of the gaps between them, if they are free."""
        if not self.free_:
            return np.empty(0)
        thresholds = self._thresholds()
        log_gaps = np.log(np.diff(thresholds))
        return np.concatenate((thresholds[:1], log_gaps))

    def with_theta(self, theta: ArrayLike) -> Self:
        """Copy with the thresholds replaced."""
        steps = np.array(theta, dtype=np.float64)
        if not len(steps):
            return self._replace()
        steps[1:] = np.exp(steps[1:])
        thresholds = np.cumsum(steps)
        return self._replace(thresholds=tuple(thresholds.tolist()))

    def check_parameters(self) -> None:
        """Raise a ValueError unless thresholds increase, one fewer than grades."""
        K = self.n_grades
        is_number_of_grades = isinstance(K, int | np.integer) and 2 <= K <= _MOST_GRADES
        if not (K is None or is_number_of_grades):
            raise ValueError(
                f"Ordinal expects n_grades, an integer from 2 to {_MOST_GRADES}, or "
                f"None; got {K!r}."
            )
        if self.thresholds is None:
            return
        thresholds = doubles(self.thresholds)
        is_list = thresholds.ndim == 1 and thresholds.size > 0
        increase = is_list and bool(np.all(np.diff(thresholds) > 0))
        finite = is_list and bool(np.all(np.isfinite(thresholds)))
        if not (increase and finite) or K not in (None, len(thresholds) + 1):
            raise ValueError(
                "Ordinal expects increasing, finite thresholds, one fewer than grades;"
                f" got {self.thresholds!r} and n_grades={K}. Sort them, and leave"
                " n_grades None; or leave thresholds None to estimate them."
            )

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless y holds 0, 1, ..., up to the number of grades."""
        super().check_support(y)
        remedy = "Encode the grades as integers in their order."
        check_integers(self, y, "0, 1, ..., K - 1", remedy)
        n_grades = self.n_grades or np.inf
        if self.thresholds is not None:
            n_grades = len(self._thresholds()) + 1
        if np.max(y, initial=0.0) >= n_grades:
            raise ValueError(
                f"Ordinal expects grades up to {n_grades - 1}; got {np.max(y):g}. Pass"
                " n_grades if the rows of fit need not hold the highest grade."
            )

    def _thresholds(self) -> Array:
        if self.thresholds is None:
            raise ValueError(
                "Ordinal(thresholds=None) is not set yet: call prepare(y), or pass"
                " increasing numbers."
            )
        return doubles(self.thresholds)

    def _above(self, f: ArrayLike) -> Array:
        """``P(y > k)`` for each k, on a last axis."""
        f = doubles(f)
        distance = f[..., np.newaxis] - self._thresholds()
        return ndtr(distance)

    def _edges(self, y: ArrayLike, f: ArrayLike) -> tuple[Array, Array]:
        """Thresholds below and above the grade less f; ±1e9 for the extreme grades."""
        thresholds = np.concatenate(([-1e9], self._thresholds(), [1e9]))
        grade = doubles(y).astype(np.intp)
        low = np.subtract(thresholds[grade], f)
        high = np.subtract(thresholds[grade + 1], f)
        return low, high

    def _log_probability(self, low: Array, high: Array) -> Array:
        """``log(Φ(high) - Φ(low))``, from the tail that is nearer."""
        positive = low > 0.0
        # Φ(high) - Φ(low) = Φ(-low) - Φ(-high)
        log_larger = log_ndtr(np.where(positive, -low, high))
        log_smaller = log_ndtr(np.where(positive, -high, low))
        share = -np.expm1(log_smaller - log_larger)
        return log_larger + np.log(share)

    def _density_ratios(self, low: Array, high: Array) -> tuple[Array, Array]:
        """``φ(low)`` and ``φ(high)`` over the probability between them."""
        log_probability = self._log_probability(low, high)
        log_normaliser = log_probability + 0.5 * np.log(2.0 * np.pi)
        at_low = np.exp(-0.5 * low**2 - log_normaliser)
        at_high = np.exp(-0.5 * high**2 - log_normaliser)
        return at_low, at_high


_ORDER = "pandas.Categorical(y, categories=[...], ordered=True)"


def with_categories_of(likelihood: Likelihood, y: object) -> Likelihood:
    """Likelihood of grades with the categories of y; other likelihoods unchanged.

    Raises
    ------
    ValueError
        If they have no order, or are not as many as the grades.
    """
    dtype = _categorical_dtype(y)
    if dtype is None or not isinstance(likelihood, Ordinal):
        return likelihood
    _check_ordered(dtype)
    categories = np.array(dtype.categories)
    if likelihood.n_grades not in (None, len(categories)):
        raise ValueError(
            f"Ordinal expects as many categories as grades; got {len(categories)} "
            f"categories, {categories.tolist()[:10]}, and n_grades="
            f"{likelihood.n_grades}. Leave n_grades None."
        )
    return likelihood._replace(categories_=categories, n_grades=len(categories))


def codes_of_grades(likelihood: Likelihood | None, y: Any) -> Any:
    """Positions of grades y among the categories of `fit`; other y unchanged.

    Returns
    -------
    codes : ndarray of shape (n,)
        Floats.

    Raises
    ------
    ValueError
        For text, missing values, and categories without an order or different from the
        categories of `fit`.
    """
    if isinstance(likelihood, AveragedScales):
        likelihood = likelihood.likelihoods[0]
    if not isinstance(likelihood, Ordinal):
        return y
    dtype = _categorical_dtype(y)
    if dtype is None:
        _check_numbers(y)
        return y
    _check_ordered(dtype)
    categories = np.array(dtype.categories)
    fitted = likelihood.categories_
    if fitted is None or not np.array_equal(categories, fitted):
        expected = "numbers"
        if fitted is not None:
            expected = f"the categories {fitted.tolist()[:10]}"
        raise ValueError(
            f"y must hold {expected}, as in fit; got the categories "
            f"{categories.tolist()[:10]}. Give y the same type in both, as in "
            f"{_ORDER}."
        )
    # an accessor of a Series has them
    categorical = getattr(y, "cat", y)
    codes = doubles(categorical.codes)
    if n_missing := int(np.sum(codes < 0.0)):
        raise ValueError(
            f"y must have a category in each row; {n_missing} of {len(codes)} are "
            "missing. Drop their rows, those where pandas.isna(y)."
        )
    return codes


def _categorical_dtype(y: object) -> Any:
    """Type of a categorical or a Series of categories, None for other y."""
    dtype = getattr(y, "dtype", None)
    if hasattr(dtype, "ordered"):
        return dtype
    return None


def _check_ordered(dtype: Any) -> None:
    if not dtype.ordered:
        raise ValueError(
            "Ordinal expects numbers 0, 1, ..., K - 1 or categories with an order; got "
            f"categories without one, {dtype.categories.tolist()[:10]}. State it: "
            f"{_ORDER}."
        )


def _check_numbers(y: ArrayLike) -> None:
    try:
        doubles(y)
    except ValueError as error:
        if "could not convert string" not in str(error):
            # the door describes wrong shapes
            return
        raise ValueError(
            "Ordinal expects numbers 0, 1, ..., K - 1 or categories with an order; got "
            f"text: {error}. State the order of the labels: {_ORDER}."
        ) from error
    except TypeError:
        # the door describes missing values
        return
