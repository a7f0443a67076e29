"""Several classes."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax

from skgpx._numerics import pointwise
from skgpx._numerics.gumbel_softmax import wide_probabilities
from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._numerics.softmax import mean_probabilities
from skgpx.likelihoods._classes import (
    ClassNumbers,
    as_arrays,
    of_observed,
    one_hot,
)

Array = NDArray[np.float64]

# Largest number of iterations of the base to the class frequencies, and the points of
# their expectations, an error of some thousandths.
_FIXED_POINTS, _POINTS = 500, 16_384
# Above this prior variance, the base grows with the prior standard deviation: the
# largest latent value decides. The softness of the maximum counts as the variance of
# the Gumbel noise behind the softmax.
_HARD, _SOFTNESS = 1e3, np.pi**2 / 6.0

# Standard deviation of a latent value from which points are too few.
_WIDE = 0.7
# Log probability below which it is computed as such.
_TINY = -600.0


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
        tiny = np.flatnonzero(out < _TINY)
        if len(tiny):
            part = mixture.rows(tiny)
            out[tiny] = super().predictive_log_density(y[tiny], part)
        return out

    def predict_proba(self, mixture: LatentMixture) -> Array:
        """Probabilities of the classes, averaged over the mixture, shape (n, K).

        To about .001 in rows whose standard deviations are below 0.7, where 600 points
        are used; to 2e-5 in the others, by integrals over one variable.
        """
        out = np.empty(mixture.mean.shape[:2])
        wide = np.max(mixture.variance, axis=(1, 2)) > _WIDE**2
        wide = np.broadcast_to(wide, len(out))
        for some, average in ((wide, wide_probabilities), (~wide, mean_probabilities)):
            if np.any(some):
                out[some] = average(mixture.rows(some))
        return out
