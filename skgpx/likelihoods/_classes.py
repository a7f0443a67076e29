"""Likelihoods of classes: softmax (categorical) and robust max."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax

from skgpx._numerics import pointwise
from skgpx._numerics.expectations import softmax_probabilities
from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._numerics.robust_max import largest_probabilities, probability_and_slopes
from skgpx.likelihoods import _predictive
from skgpx.likelihoods._base import Likelihood
from skgpx.likelihoods._scales import is_number

# ---- What likelihoods of class numbers share: one latent output for each class -------


Array = NDArray[np.float64]


class ClassNumbers(Likelihood):
    """K classes, encoded 0, ..., K - 1: f has shape (n, K, s), y has shape (n,).

    A subclass writes `nll`, `gradient`, `curvature`, `sample`, `probabilities` and
    `predict_proba`; none is elementwise, and functions of y and f return (n, s).
    """

    discrete = True

    def probabilities(self, f: Array) -> Array:
        """``P(y = k | f)`` of latent values (n, K, s), of the same shape."""
        raise NotImplementedError(self._missing("probabilities(f)"))

    def predict_proba(self, mixture: LatentMixture) -> Array:
        """Probabilities of the classes, averaged over the mixture, shape (n, K)."""
        raise NotImplementedError(self._missing("predict_proba(mixture)"))

    def mean(self, f: ArrayLike) -> Array:
        """Mean of the class number, shape (n, s)."""
        p = self.probabilities(np.asarray(f, dtype=np.float64))
        return np.einsum("nks,k->ns", p, np.arange(float(p.shape[1])))

    def variance(self, f: ArrayLike) -> Array:
        """Variance of the class number, shape (n, s)."""
        p = self.probabilities(np.asarray(f, dtype=np.float64))
        number = np.arange(float(p.shape[1]))[np.newaxis, :, np.newaxis]
        mean = np.sum(p * number, axis=1, keepdims=True)
        return np.sum(p * (number - mean) ** 2, axis=1)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Probability of the classes up to y, shape (n, s)."""
        y, f = as_arrays(y, f)
        counted = np.arange(f.shape[1]) <= y[:, np.newaxis]
        p = self.probabilities(f)
        return np.einsum("nks,nk->ns", p, counted.astype(np.float64))

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless y holds 0, 1, ..., with at least two classes."""
        super().check_support(y)
        name = type(self).__name__
        bad = y[(y < 0.0) | (y != np.floor(y))]
        if bad.size:
            raise ValueError(
                f"{name} expects y = 0, 1, ..., K - 1; got {bad.size} negative or"
                f" fractional values, for example {bad[0]:g}. Encode the classes as"
                " integers."
            )
        if not y.size or np.max(y) < 1.0:
            raise ValueError(
                f"{name} expects at least two classes; got one class only."
            )

    def _count_outputs(self, y: Array) -> int:
        return int(np.max(y)) + 1

    def row_nll(self, y: Array, f: Array) -> Array:
        """Call `nll`, which works on rows already."""
        return self.nll(y, f)

    def row_gradient(self, y: Array, f: Array) -> Array:
        """Call `gradient`, which works on rows already."""
        return self.gradient(y, f)

    def row_curvature(self, y: Array, f: Array) -> Array:
        """Call `curvature`, which works on rows already."""
        return self.curvature(y, f)

    def row_mean(self, f: Array) -> Array:
        """Call `mean`, which works on rows already."""
        return self.mean(f)

    def row_variance(self, f: Array) -> Array:
        """Call `variance`, which works on rows already."""
        return self.variance(f)

    def row_cdf(self, y: Array, f: Array) -> Array:
        """Call `cdf`, which works on rows already."""
        return self.cdf(y, f)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """Smallest class number with ``P(Y <= y) >= p`` for each p (q,), (n, q)."""
        return _predictive.class_quantile(p, self.predict_proba(mixture))


def as_arrays(y: ArrayLike, f: ArrayLike) -> tuple[Array, Array]:
    """Targets and latent values as arrays of doubles."""
    return np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64)


def of_observed(values: Array, y: Array) -> Array:
    """Values (n, K, ...) of the observed class, shape (n, ...)."""
    return values[np.arange(values.shape[0]), y.astype(np.intp)]


def one_hot(y: Array, n_outputs: int) -> Array:
    """One in the column of the class of each row, (n, n_outputs)."""
    return (y[:, np.newaxis] == np.arange(n_outputs)).astype(np.float64)


# ---- Several classes -----------------------------------------------------------------


# Largest number of iterations of the base to the class frequencies, and the points of
# their expectations, an error of some thousandths.
_FIXED_POINTS, _POINTS = 500, 16_384
# Above this prior variance, the base grows with the prior standard deviation: the
# largest latent value decides. The softness of the maximum counts as the variance of
# the Gumbel noise behind the softmax.
_HARD, _SOFTNESS = 1e3, np.pi**2 / 6.0


class Categorical(ClassNumbers):
    """K classes, encoded 0, ..., K - 1, with softmax probabilities.

    ``P(y = k | f) = exp(f_k) / sum_j exp(f_j)``: one latent output for each class.
    Unlike the likelihoods with one output, its functions are not elementwise: f has
    shape (n, K, s), y has shape (n,), and functions of both return (n, s).

    `mean`, `variance` and `cdf` are those of the class number; probabilities come
    from `predict_proba`.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.likelihoods import Categorical
    >>> likelihood = Categorical().prepare([0, 1, 2])
    >>> likelihood.n_outputs_
    3
    >>> likelihood.nll(np.array([2.0]), np.zeros((1, 3, 1))).round(4)
    array([[1.0986]])
    """

    log_scale = True
    kernel_code = pointwise.CATEGORICAL

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``log sum_j exp(f_j) - f_y``, shape (n, s)."""
        y, f = as_arrays(y, f)
        return np.asarray(logsumexp(f, axis=1) - of_observed(f, y))

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``p_k - [k = y]``, shape (n, K, s)."""
        y, f = as_arrays(y, f)
        return self.probabilities(f) - one_hot(y, f.shape[1])[:, :, np.newaxis]

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``diag(p) - p p^T``, the second derivative, shape (n, K, K, s)."""
        _, f = as_arrays(y, f)
        p = self.probabilities(f)
        result = -p[:, :, np.newaxis] * p[:, np.newaxis]
        diagonal = np.arange(f.shape[1])
        result[:, diagonal, diagonal] += p
        return result

    def probabilities(self, f: Array) -> Array:
        """Softmax over the outputs, of the shape of f (n, K, s)."""
        return np.asarray(softmax(f, axis=1))

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw one class number per row and draw, shape (n, s)."""
        f = np.asarray(f, dtype=np.float64)
        # The largest of f_k plus independent Gumbel noise has softmax probabilities.
        return np.argmax(f + rng.gumbel(size=f.shape), axis=1).astype(np.float64)

    def base_latent(self, y: Array, weights: Array) -> Array:
        """Log frequencies of the classes less their mean, shape (K,).

        Half a row is added to each class. Softmax probabilities do not depend on what
        is added to all outputs.
        """
        rows = weights @ one_hot(y, self._count_outputs(y)) + 0.5
        return np.asarray(np.log(rows) - np.log(rows).mean())

    def centred(self, variance: float) -> Self:
        """Copy whose prior expects the class frequencies.

        By ``base_k <- base_k + log(p_k / E[softmax(f)_k])`` until nothing moves, for a
        variance of at most 1000; beyond, the base of that variance in proportion to
        ``sqrt(variance + pi^2 / 6)``, whose steps would become too small.
        """
        wider = max(1.0, (variance + _SOFTNESS) / (_HARD + _SOFTNESS))
        variance = min(variance, _HARD)
        base, shape = self.base_latent_, (1, self.n_outputs_, 1)
        rates = softmax(base)
        standard = LatentMixture(np.zeros(shape), np.full(shape, variance), np.ones(1))
        noise, weights = atoms(standard, _POINTS)
        for _ in range(_FIXED_POINTS):
            expected = self.probabilities(base[:, np.newaxis] + noise) @ weights
            step = np.log(rates / expected[0])
            base = base + step - step.mean()
            if np.max(np.abs(step)) < 1e-4:
                break
        return self.with_base(np.sqrt(wider) * base)

    def initial_latent(self, y: ArrayLike) -> Array:
        """``base_k + 2 ([k = y] - P(y = k | base))``, shape (n, K)."""
        y = np.asarray(y, dtype=np.float64)
        base = self._base(getattr(self, "n_outputs_", 0) or self._count_outputs(y))
        return base + 2.0 * (one_hot(y, len(base)) - softmax(base))

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """Log probability of the observed class."""
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(divide="ignore"):
            out = np.log(of_observed(self.predict_proba(mixture), y))
        # beyond what a probability can hold
        tiny = np.flatnonzero(out < _predictive.TINY)
        if len(tiny):
            part = mixture.rows(tiny)
            out[tiny] = super().predictive_log_density(y[tiny], part)
        return out

    def predict_proba(self, mixture: LatentMixture) -> Array:
        """Probabilities of the classes, averaged over the mixture, shape (n, K).

        To 2e-5, by integrals over one variable.
        """
        return softmax_probabilities(mixture)


# ---- Several classes, of which the one with the largest latent value is right --------


# Steps to the means at which classes occur as often as they should, and the largest.
_STEPS, _LONGEST = 50, 1.0


class RobustMax(ClassNumbers):
    """K classes, encoded 0, ..., K - 1: the largest latent value, or a mistake.

    ``P(y = k | f) = 1 - epsilon`` if f_k is the largest, otherwise ``epsilon / (K -
    1)``: one latent output for each class, for two classes too. Its functions are those
    of :class:`Categorical`: f has shape (n, K, s), y has shape (n,).

    The logarithm is a step: its gradient and curvature are zero wherever they exist, so
    methods that follow a gradient refuse it. Averages over normal latent distributions
    are smooth, ``epsilon / (K - 1) + (1 - epsilon K / (K - 1)) S_k`` with ``S_k`` the
    probability that f_k is the largest, and are computed to 1e-11.

    Parameters
    ----------
    epsilon : float, default=0.01
        Probability of a mistake, between 0 and one half, for any number of classes. No
        probability is larger than ``1 - epsilon``, and no log loss smaller than about
        `epsilon`.

    Notes
    -----
    Eqs. (64) and (65) of [1]_, with their epsilon; the idea is older [2]_.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022.
    .. [2] Hernández-Lobato, Hernández-Lobato and Dupont, "Robust multi-class Gaussian
       process classification", NIPS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.likelihoods import RobustMax
    >>> likelihood = RobustMax(epsilon=0.02).prepare([0, 1, 2])
    >>> f = np.array([[[0.1], [3.0], [-2.0]]])
    >>> np.exp(-likelihood.nll(np.array([1.0]), f)), likelihood.n_outputs_
    (array([[0.98]]), 3)
    """

    smooth = False

    def __init__(self, epsilon: float = 0.01) -> None:
        self.epsilon = epsilon

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-log(1 - epsilon)`` or ``-log(epsilon / (K - 1))``, shape (n, s)."""
        y, f = as_arrays(y, f)
        return np.asarray(-np.log(of_observed(self.probabilities(f), y)))

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:  # noqa: ARG002
        """Zeros, shape (n, K, s): `nll` is piecewise constant."""
        return np.zeros(np.shape(f))

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:  # noqa: ARG002
        """Zeros, shape (n, K, K, s)."""
        n, c, s = np.shape(f)
        return np.zeros((n, c, c, s))

    def probabilities(self, f: Array) -> Array:
        """``P(y = k | f)`` of latent values (n, K, s); equal values share."""
        largest = f == np.max(f, axis=1, keepdims=True)
        return self._with_mistakes(largest / np.sum(largest, axis=1, keepdims=True))

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw one class number per row and draw, shape (n, s)."""
        f = np.asarray(f, dtype=np.float64)
        below = np.cumsum(self.probabilities(f)[:, :-1], axis=1)
        drawn = rng.random((f.shape[0], 1, f.shape[2]))
        return np.sum(below < drawn, axis=1).astype(np.float64)

    def predict_proba(self, mixture: LatentMixture) -> Array:
        """Probabilities of the classes, averaged over the mixture, shape (n, K).

        Eq. (72); see `skgpx._numerics.robust_max`.
        """
        return self._with_mistakes(largest_probabilities(mixture))

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """Log probability of the observed class, eq. (73) without its sign."""
        p = self.predict_proba(mixture)
        return np.asarray(np.log(of_observed(p, np.asarray(y, dtype=np.float64))))

    def predictive_cdf(self, y: Array, mixture: LatentMixture) -> Array:
        """``P(Y <= y)`` of each row at its own y (n,), shape (n,)."""
        p, y = self.predict_proba(mixture), np.asarray(y, dtype=np.float64)
        counted = np.arange(p.shape[1]) <= y[:, np.newaxis]
        return np.asarray(np.sum(p * counted, axis=1))

    def predictive_mean(self, mixture: LatentMixture) -> Array:
        """Mean of the class number, shape (n,)."""
        return self.predictive_moments(mixture)[0]

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of the class number, shape (n,) each."""
        p = self.predict_proba(mixture)
        number = np.arange(float(p.shape[1]))
        mean = p @ number
        away = number - mean[:, np.newaxis]
        return mean, np.sum(p * away**2, axis=1)

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """``Var E[y | f]``, which depends on which output is the largest only."""
        largest = largest_probabilities(mixture)
        number = np.arange(float(largest.shape[1]))
        means = self._with_mistakes(np.eye(len(number))) @ number
        away = means - (largest @ means)[:, np.newaxis]
        return np.asarray(np.sum(largest * away**2, axis=1))

    def base_latent(self, y: Array, weights: Array) -> Array:
        """Means at which standard normal outputs are largest as often as classes occur.

        Half a row is added to each class; the means sum to zero, shape (K,).
        """
        rows = weights @ one_hot(y, self._count_outputs(y)) + 0.5
        return _matching_means(rows / rows.sum())

    def centred(self, variance: float) -> Self:
        """Copy whose prior of this variance expects the class frequencies.

        The base is in units of the prior standard deviation.
        """
        base = self.base_latent_
        latent = LatentMixture(
            base[np.newaxis, :, np.newaxis], np.ones((1, 1, 1)), np.ones(1)
        )
        rates = largest_probabilities(latent)[0]
        return self.with_base(np.sqrt(variance) * _matching_means(rates))

    def initial_latent(self, y: ArrayLike) -> Array:
        """``base_k + 2 ([k = y] - 1 / K)``, shape (n, K)."""
        y = np.asarray(y, dtype=np.float64)
        base = self._base(getattr(self, "n_outputs_", 0) or self._count_outputs(y))
        return base + 2.0 * (one_hot(y, len(base)) - 1.0 / len(base))

    def check_parameters(self) -> None:
        """Raise a ValueError unless epsilon is between zero and one half."""
        if not (is_number(self.epsilon) and 0.0 < self.epsilon < 0.5):
            raise ValueError(
                "RobustMax expects epsilon strictly between 0 and 0.5; got "
                f"{self.epsilon!r}."
            )

    def _with_mistakes(self, largest: Array) -> Array:
        """Probabilities of classes from those of the largest output, on axis 1."""
        other = self.epsilon / (largest.shape[1] - 1.0)
        return other + (1.0 - self.epsilon - other) * largest


def _matching_means(rates: Array) -> Array:
    """Means (c,) of standard normals of which each is the largest with its rate.

    By Newton's method on the logarithms, which are concave in the means.
    """
    c = len(rates)
    means, one = np.zeros(c), np.ones((c, 1))
    for _ in range(_STEPS):
        largest, slopes, _ = probability_and_slopes(
            np.arange(c), np.tile(means, (c, 1)), one
        )
        gap = np.log(rates / largest)
        # what is added to all means changes nothing: a ridge keeps their sum at zero
        step = np.linalg.solve(slopes / largest[:, np.newaxis] + 1.0 / c, gap)
        means += np.clip(step - step.mean(), -_LONGEST, _LONGEST)
        if np.max(np.abs(gap)) < 1e-10:
            break
    return means - means.mean()
