"""Likelihoods of classes: softmax (categorical) and robust max."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from scipy.special import logsumexp, softmax

from skgpx._numerics import pointwise
from skgpx._numerics.expectations import softmax_probabilities
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.quantiles import UseOfCdf
from skgpx._numerics.robust_max import largest_probabilities
from skgpx._types import Array, ArrayLike, Generator, Selection
from skgpx.likelihoods._base import (
    Likelihood,
    check_integers,
    doubles,
    is_number,
    several_outputs,
)

# ---- What likelihoods of class numbers share: one latent output for each class -------


class ClassNumbers(Likelihood):
    """K classes, encoded 0, ..., K - 1: f has shape (n, K, s), y has shape (n,).

    A subclass writes `nll`, `gradient`, `curvature`, `sample`, `probabilities` and
    `predict_proba`; none is elementwise, and functions of y and f return (n, s).
    """

    discrete = True

    def takes_classes(self, n_classes: int) -> bool:
        """Whether there are at least two."""
        return n_classes >= 2

    def example_targets(self, rng: Generator, n: int) -> Array:
        """Class numbers in random order, of three classes before `prepare`."""
        n_classes = getattr(self, "n_outputs_", 3)
        return rng.permutation(np.arange(n) % float(n_classes))

    def probabilities(self, f: Array) -> Array:
        """``P(y = k | f)`` of latent values (n, K, s), of the same shape."""
        raise NotImplementedError(self._missing("probabilities(f)"))

    def predict_proba(self, mixture: LatentMixture) -> Array:
        """Probabilities of the classes, averaged over the mixture, shape (n, K)."""
        raise NotImplementedError(self._missing("predict_proba(mixture)"))

    def mean(self, f: ArrayLike) -> Array:
        """Mean of the class number, shape (n, s)."""
        p = self.probabilities(several_outputs(f))
        number = np.arange(float(p.shape[1]))
        return np.einsum("nks,k->ns", p, number)

    def variance(self, f: ArrayLike) -> Array:
        """Variance of the class number, shape (n, s)."""
        p = self.probabilities(several_outputs(f))
        n_classes = float(p.shape[1])
        number = np.arange(n_classes)[:, np.newaxis]
        mean = np.sum(p * number, axis=1, keepdims=True)
        squares = (number - mean) ** 2
        return np.sum(p * squares, axis=1)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Probability of the classes up to y, shape (n, s)."""
        y, f = as_arrays(y, f)
        up_to_y = np.arange(f.shape[1]) <= y[:, np.newaxis]
        p = self.probabilities(f)
        return np.einsum("nks,nk->ns", p, up_to_y.astype(np.float64))

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless y holds 0, 1, ..., with at least two classes."""
        super().check_support(y)
        remedy = "Encode the classes as integers."
        check_integers(self, y, "0, 1, ..., K - 1", remedy)
        if not y.size or np.max(y) < 1.0:
            raise ValueError(
                f"{type(self).__name__} expects at least two classes; got one class"
                " only."
            )

    def _count_outputs(self, y: Array) -> int:
        return int(np.max(y)) + 1

    def _base_of_classes(self, y: Array) -> Array:
        """Prior mean (K,); zeros for the classes of y before `prepare`."""
        n_classes = getattr(self, "n_outputs_", 0) or self._count_outputs(y)
        return self._base(n_classes)

    def _class_counts(self, y: Array, weights: Array) -> Array:
        """Weighted rows of each class, half a row added, (K,)."""
        is_class = one_hot(y, self._count_outputs(y))
        return weights @ is_class + 0.5

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """Log probability of the observed class."""
        p = self.predict_proba(mixture)
        observed = of_observed(p, doubles(y))
        with np.errstate(divide="ignore"):
            return np.log(observed)

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of the class number, shape (n,) each."""
        p = self.predict_proba(mixture)
        number = np.arange(float(p.shape[1]))
        mean = p @ number
        squares = (number - mean[:, np.newaxis]) ** 2
        return mean, np.sum(p * squares, axis=1)

    def _by_cdf(
        self,
        evaluate: UseOfCdf,
        mixture: LatentMixture,
    ) -> None:
        p = self.predict_proba(mixture)

        def cdf(y: Array, rows: Selection) -> Array:
            up_to_y = np.arange(p.shape[1]) <= y[:, np.newaxis]
            return np.sum(p[rows] * up_to_y, axis=1)

        evaluate(cdf, slice(None))


def matching_base(
    rates: Array,
    unit: float,
    probabilities: Callable[[Array], Array],
) -> Array:
    """Means (K,) of latent values of one variance that expect these class frequencies.

    The iteration is ``base += step (log rates - log expected)`` until the base stays.
    The logarithm of a small probability p has a slope of about ``√(1 + 2 log(1/p))`` in
    units of the standard deviation of a latent value and its noise.
    """
    step = unit / np.sqrt(1.0 - 2.0 * np.log(rates))
    base = np.zeros(len(rates))
    for _ in range(500):
        means = base[np.newaxis, :, np.newaxis]
        expected = np.maximum(probabilities(means)[0], 1e-300)
        change = step * np.log(rates / expected)
        # a number that is added to all outputs has no effect
        change -= change.mean()
        base += change
        if np.max(np.abs(change)) < 1e-6 * unit:
            break
    return base


def as_arrays(y: ArrayLike, f: ArrayLike) -> tuple[Array, Array]:
    """Targets and latent values as arrays of doubles."""
    targets = doubles(y)
    latent = several_outputs(f)
    return targets, latent


def of_observed(values: Array, y: Array) -> Array:
    """Values (n, K, ...) of the observed class, shape (n, ...)."""
    rows = np.arange(values.shape[0])
    return values[rows, y.astype(np.intp)]


def one_hot(y: Array, n_outputs: int) -> Array:
    """One in the column of the class of each row, (n, n_outputs)."""
    is_class = y[:, np.newaxis] == np.arange(n_outputs)
    return is_class.astype(np.float64)


# ---- Several classes -----------------------------------------------------------------


class Categorical(ClassNumbers):
    """K classes, encoded 0, ..., K - 1, with softmax probabilities.

    ``P(y = k | f) = exp(f_k) / sum_j exp(f_j)``: one latent output for each class.
    Unlike the likelihoods with one output, its functions are not elementwise: f has
    shape (n, K, s), y has shape (n,), and functions of both return (n, s).

    `mean`, `variance` and `cdf` describe the class number; probabilities come from
    `predict_proba`.

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
        return logsumexp(f, axis=1) - of_observed(f, y)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``p_k - [k = y]``, shape (n, K, s)."""
        y, f = as_arrays(y, f)
        observed = one_hot(y, f.shape[1])
        return self.probabilities(f) - observed[:, :, np.newaxis]

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
        return softmax(f, axis=1)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw one class number per row and draw, shape (n, s)."""
        f = several_outputs(f)
        # The largest of f_k plus independent Gumbel noise has softmax probabilities.
        noise = rng.gumbel(size=f.shape)
        return np.argmax(f + noise, axis=1).astype(np.float64)

    def base_latent(self, y: Array, weights: Array) -> Array:
        """Log frequencies of the classes less their mean, shape (K,).

        Half a row is added to each class. Softmax probabilities do not change if a
        number is added to all outputs.
        """
        log_counts = np.log(self._class_counts(y, weights))
        return log_counts - log_counts.mean()

    def centred(self, variance: float) -> Self:
        """Copy with a prior that expects the class frequencies."""
        variances = np.full((1, 1, 1), variance)

        def expected(means: Array) -> Array:
            prior = LatentMixture(means, variances, np.ones(1))
            return self.predict_proba(prior)

        # the Gumbel noise behind a softmax has the variance π²/6
        total_variance = variance + np.pi**2 / 6.0
        base = matching_base(
            rates=softmax(self.base_latent_),
            unit=float(np.sqrt(total_variance)),
            probabilities=expected,
        )
        return self.with_base(base)

    def initial_latent(self, y: ArrayLike) -> Array:
        """``base_k + 2 ([k = y] - P(y = k | base))``, shape (n, K)."""
        y = doubles(y)
        base = self._base_of_classes(y)
        residual = one_hot(y, len(base)) - softmax(base)
        return base + 2.0 * residual

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """Log probability of the observed class."""
        y = np.asarray(y)
        log_density = super().predictive_log_density(y, mixture)
        # by logarithms where probabilities may underflow
        rows = np.flatnonzero(log_density < -600.0)
        tail = Likelihood.predictive_log_density(self, y[rows], mixture.rows(rows))
        log_density[rows] = tail
        return log_density

    def predict_proba(self, mixture: LatentMixture) -> Array:
        """Probabilities of the classes, averaged over the mixture, shape (n, K).

        To 2e-5, by integrals over one variable.
        """
        # sums of rounded weights may exceed one
        return np.minimum(softmax_probabilities(mixture), 1.0)


# ---- Several classes: the one with the largest latent value --------------------------


class RobustMax(ClassNumbers):
    """K classes, encoded 0, ..., K - 1: the largest latent value, or a mistake.

    ``P(y = k | f) = 1 - epsilon`` if f_k is the largest, otherwise ``epsilon / (K -
    1)``: one latent output for each class, for two classes too. Shapes are as in
    :class:`Categorical`: f has shape (n, K, s), y has shape (n,).

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
        probability = of_observed(self.probabilities(f), y)
        return -np.log(probability)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:  # noqa: ARG002
        """Zeros, shape (n, K, s): `nll` is piecewise constant."""
        return np.zeros(np.shape(f))

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:  # noqa: ARG002
        """Zeros, shape (n, K, K, s)."""
        n, c, s = np.shape(f)
        return np.zeros((n, c, c, s))

    def probabilities(self, f: Array) -> Array:
        """``P(y = k | f)`` of latent values (n, K, s); equal values share."""
        is_largest = f == np.max(f, axis=1, keepdims=True)
        n_largest = np.sum(is_largest, axis=1, keepdims=True)
        return self._with_mistakes(is_largest / n_largest)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw one class number per row and draw, shape (n, s)."""
        p = self.probabilities(several_outputs(f))
        n_rows, _, n_draws = p.shape
        cumulative = np.cumsum(p[:, :-1], axis=1)
        uniform = rng.random((n_rows, 1, n_draws))
        classes = np.sum(cumulative < uniform, axis=1)
        return classes.astype(np.float64)

    def predict_proba(self, mixture: LatentMixture) -> Array:
        """Probabilities of the classes, averaged over the mixture, shape (n, K).

        Eq. (72); see `skgpx._numerics.robust_max`.
        """
        return self._with_mistakes(largest_probabilities(mixture))

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """``Var E[y | f]``, which depends on which output is the largest only."""
        largest = largest_probabilities(mixture)
        number = np.arange(float(largest.shape[1]))
        # E[y | f_k is the largest]
        p = self._with_mistakes(np.eye(len(number)))
        class_means = p @ number
        mean = largest @ class_means
        deviations = class_means - mean[:, np.newaxis]
        return np.sum(largest * deviations**2, axis=1)

    def base_latent(self, y: Array, weights: Array) -> Array:
        """Means at which standard normal outputs expect the class frequencies.

        Half a row is added to each class; the means sum to zero, shape (K,).
        """
        counts = self._class_counts(y, weights)
        variances = np.ones((1, 1, 1))

        def expected(means: Array) -> Array:
            prior = LatentMixture(means, variances, np.ones(1))
            return largest_probabilities(prior)

        return matching_base(
            rates=counts / counts.sum(),
            unit=1.0,
            probabilities=expected,
        )

    def centred(self, variance: float) -> Self:
        """Copy with a base in units of the prior standard deviation."""
        return self.with_base(np.sqrt(variance) * self.base_latent_)

    def initial_latent(self, y: ArrayLike) -> Array:
        """``base_k + 2 ([k = y] - 1 / K)``, shape (n, K)."""
        y = doubles(y)
        base = self._base_of_classes(y)
        residual = one_hot(y, len(base)) - 1.0 / len(base)
        return base + 2.0 * residual

    def check_parameters(self) -> None:
        """Raise a ValueError unless epsilon is between zero and one half."""
        if not (is_number(self.epsilon) and 0.0 < self.epsilon < 0.5):
            raise ValueError(
                "RobustMax expects epsilon strictly between 0 and 0.5; got "
                f"{self.epsilon!r}."
            )

    def _with_mistakes(self, largest: Array) -> Array:
        """Probabilities of the classes, given the probabilities of the largest f."""
        mistake = self.epsilon / (largest.shape[1] - 1.0)
        return mistake + (1.0 - self.epsilon - mistake) * largest
