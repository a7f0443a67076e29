"""Several classes, of which the one with the largest latent value is right."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.robust_max import largest_probabilities, probability_and_slopes
from skgpx.likelihoods._classes import ClassNumbers, as_arrays, of_observed, one_hot
from skgpx.likelihoods._scales import is_number

Array = NDArray[np.float64]

# Steps to the means at which classes occur as often as they should, and the largest.
_STEPS, _LONGEST = 50, 1.0


class RobustMax(ClassNumbers):
    """K classes, encoded 0, ..., K - 1: the largest latent value, or a mistake.

    ``P(y = k | f) = 1 - epsilon`` if f_k is the largest, otherwise ``epsilon / (K -
    1)``: one latent output for each class, for two classes too. Its functions are those
    of :class:`Categorical`: f has shape (n, K, s), y has shape (n,).

    The logarithm is a step: its gradient and curvature are zero wherever they exist, so
    methods that follow a gradient refuse it. Averages over normal latent laws are
    smooth, ``epsilon / (K - 1) + (1 - epsilon K / (K - 1)) S_k`` with ``S_k`` the
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
        law = LatentMixture(
            base[np.newaxis, :, np.newaxis], np.ones((1, 1, 1)), np.ones(1)
        )
        rates = largest_probabilities(law)[0]
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
