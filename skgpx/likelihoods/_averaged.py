"""Averages over models of f that have likelihoods with scales of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.quantiles import Cdf, UseOfCdf
from skgpx._types import Array, ArrayLike, Index, Selection
from skgpx.likelihoods._base import Likelihood
from skgpx.likelihoods._warped import OnScale

# What likelihoods of one class with different scales have in common.
_COMMON = (
    "close_to_gaussian",
    "discrete",
    "has_closed_form",
    "has_residuals",
    "has_scale_of_y",
    "heavy_tailed",
    "location_scale",
    "log_scale",
    "n_outputs",
    "n_outputs_",
    "row_quantity",
    "support",
    "symmetric",
)


def averaged(likelihoods: Sequence[Likelihood]) -> Likelihood:
    """Likelihood of a mixture of models, ``likelihoods[k]`` that of model k.

    The first of them if all are equal.

    Parameters
    ----------
    likelihoods : sequence of Likelihood
        Prepared, of one class; they differ in their scales only.
    """
    first = likelihoods[0]
    if all(_have_equal_parameters(first, other) for other in likelihoods):
        return first
    if isinstance(first, OnScale):
        return AveragedOnScale(tuple(likelihoods))
    if first._normal_variance() is None:
        return AveragedScales(tuple(likelihoods))
    return AveragedNoise(tuple(likelihoods))


def _have_equal_parameters(first: Likelihood, second: Likelihood) -> bool:
    values = second.get_params(deep=False)
    return all(
        np.array_equal(value, values[name])
        for name, value in first.get_params(deep=False).items()
    )


class AveragedScales(Likelihood):
    """Likelihood of a mixture of models, each with scale parameters of its own.

    ``p(y) = Σ_k π_k E[p(y | f, θ_k)]`` with f from model k. Latent mixtures have an
    `owner`, which says from which model each component comes.

    Parameters
    ----------
    likelihoods : tuple of Likelihood
        Prepared, of one class; number k is that of model k.

    Notes
    -----
    Moments, densities and distribution functions are sums over the models, by the rules
    of their likelihood: K models take K times as long as one.
    """

    def __init__(self, likelihoods: tuple[Likelihood, ...]) -> None:
        self.likelihoods = likelihoods
        for name in _COMMON:
            setattr(self, name, getattr(likelihoods[0], name))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        del N_CHAR_MAX
        return f"{type(self.likelihoods[0]).__name__} of {len(self.likelihoods)} models"

    def at_rows(self, known: Array) -> Self:
        """Distribution of rows with this quantity (n,)."""
        members = [likelihood.at_rows(known) for likelihood in self.likelihoods]
        return self._replace(likelihoods=tuple(members))

    def at_some(self, rows: Selection) -> Self:
        """Distribution of a selection of the rows (k,), with their quantity."""
        members = [likelihood.at_some(rows) for likelihood in self.likelihoods]
        return self._replace(likelihoods=tuple(members))

    def check_support(self, y: Array) -> None:
        """Raise a ValueError if y is outside the support of the likelihoods."""
        self.likelihoods[0].check_support(y)

    def of_models(
        self,
        owner: Index | None,
    ) -> list[tuple[Likelihood, Selection]]:
        """Likelihood of each model, and the columns (of s) of its latent values."""
        assert owner is not None
        return [
            (self.likelihoods[k], np.flatnonzero(owner == k))
            for k in np.unique(owner).tolist()
        ]

    def _parts(
        self, mixture: LatentMixture
    ) -> list[tuple[float, Likelihood, LatentMixture]]:
        return [
            (weight, self.likelihoods[k], latent)
            for k, weight, latent in mixture.of_models()
        ]

    def predictive_mean(self, mixture: LatentMixture) -> Array:
        """``E[y] = Σ_k π_k E_k[y]``, shape (n,)."""
        mean = np.zeros(len(mixture.mean))
        for weight, likelihood, latent in self._parts(mixture):
            mean += weight * likelihood.predictive_mean(latent)
        return mean

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """``E[y]`` and ``Var[y]``, noise included, (n,) each."""
        return self._total_moments(
            mixture,
            lambda likelihood, latent: likelihood.predictive_moments(latent),
        )

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """``Var E[y | f, k]``: the variance without the noise, shape (n,)."""
        _, variance = self._total_moments(
            mixture,
            lambda likelihood, latent: (
                likelihood.predictive_mean(latent),
                likelihood.predictive_mean_variance(latent),
            ),
        )
        return variance

    def _rough_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        return self._total_moments(
            mixture,
            lambda likelihood, latent: likelihood._rough_moments(latent),
        )

    def _total_moments(
        self,
        mixture: LatentMixture,
        moments: Callable[[Likelihood, LatentMixture], tuple[Array, Array]],
    ) -> tuple[Array, Array]:
        """Mean and variance (n,) of a mixture, from the moments of each model.

        ``Var y = Σ_k π_k (Var_k y + (E_k y - E y)²)``.
        """
        parts = [
            (weight, *moments(likelihood, latent))
            for weight, likelihood, latent in self._parts(mixture)
        ]
        mean = np.zeros(len(mixture.mean))
        for weight, mean_of_part, _ in parts:
            mean += weight * mean_of_part
        variance = np.zeros(len(mean))
        for weight, mean_of_part, variance_of_part in parts:
            variance += weight * (variance_of_part + (mean_of_part - mean) ** 2)
        return mean, variance

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log Σ_k π_k p_k(y)`` of each row at its own y (n,), shape (n,)."""
        log_density = np.full(len(mixture.mean), -np.inf)
        for weight, likelihood, latent in self._parts(mixture):
            log_term = likelihood.predictive_log_density(y, latent)
            log_density = np.logaddexp(log_density, np.log(weight) + log_term)
        return log_density

    def _by_cdf(
        self,
        evaluate: UseOfCdf,
        mixture: LatentMixture,
    ) -> None:
        parts = self._parts(mixture)

        def cdf(y: Array, rows: Selection) -> Array:
            # Σ_k π_k P_k(Y <= y)
            probability = np.zeros(len(y))
            for weight, likelihood, latent in parts:
                of_rows = likelihood.at_some(rows)
                of_part = of_rows.predictive_cdf(y, latent.rows(rows))
                probability += weight * of_part
            return probability

        evaluate(cdf, slice(None))


class AveragedNoise(AveragedScales):
    """`AveragedScales` of likelihoods that add normal noise to f.

    The noise of model k is the sum of a noise of the smallest variance of all models,
    ``min_l v_l``, and of one of variance ``v_k - min_l v_l``, which is added to the
    latent variance of its components. The distribution of y is then that of one latent
    mixture, under one likelihood.
    """

    def _with_common_noise(
        self,
        mixture: LatentMixture,
    ) -> tuple[int, LatentMixture]:
        """Model of the smallest noise, and the mixture that goes with it."""
        noises = []
        for member in self.likelihoods:
            noise = member._normal_variance()
            assert noise is not None
            noises.append(np.ravel(noise))
        variances = np.array(noises)
        # the order of the models is the same in all rows
        smallest = int(np.argmin(variances[:, 0]))
        excess = variances - variances[smallest]
        # for each row, or for all rows, and for each component
        added = excess[mixture.owner].T[:, np.newaxis]
        widened = mixture._replace(variance=mixture.variance + added, owner=None)
        return smallest, widened

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats, shape (n,)."""
        smallest, widened = self._with_common_noise(mixture)
        return self.likelihoods[smallest].predictive_log_density(y, widened)

    def _by_cdf(
        self,
        evaluate: UseOfCdf,
        mixture: LatentMixture,
    ) -> None:
        smallest, widened = self._with_common_noise(mixture)
        self.likelihoods[smallest]._by_cdf(evaluate, widened)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """``y`` with ``P(Y <= y) = p`` for each p (q,), shape (n, q)."""
        smallest, widened = self._with_common_noise(mixture)
        return self.likelihoods[smallest].predictive_quantile(p, widened)

    def predictive_crps(self, y: Array, mixture: LatentMixture) -> Array:
        """Continuous ranked probability score at y (n,), in the units of y, (n,)."""
        smallest, widened = self._with_common_noise(mixture)
        return self.likelihoods[smallest].predictive_crps(y, widened)


class AveragedOnScale(AveragedScales):
    """`AveragedScales` of likelihoods of one function of y.

    Densities, probabilities and quantiles are those of the average of their bases.
    """

    likelihoods: tuple[OnScale, ...]

    def _average(self) -> Likelihood:
        return averaged([member.base for member in self.likelihoods])

    def predictive_mean(self, mixture: LatentMixture) -> Array:
        """``E[y]``, shape (n,)."""
        return self.predictive_moments(mixture)[0]

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """``E[y]`` and ``Var[y]``, noise included, (n,) each."""
        average = self._average()
        if not isinstance(average, AveragedNoise):
            return super().predictive_moments(mixture)
        smallest, widened = average._with_common_noise(mixture)
        return self.likelihoods[smallest].predictive_moments(widened)

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats, shape (n,)."""
        first = self.likelihoods[0]
        log_slope = first.log_slope(np.asarray(y)[:, np.newaxis])[:, 0]
        z = first.forward(y)
        return self._average().predictive_log_density(z, mixture) + log_slope

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """``y`` with ``P(Y <= y) = p`` for each p (q,), shape (n, q)."""
        z = self._average().predictive_quantile(p, mixture)
        return self.likelihoods[0].inverse(z)

    def _by_cdf(
        self,
        evaluate: UseOfCdf,
        mixture: LatentMixture,
    ) -> None:
        forward = self.likelihoods[0].forward

        def evaluate_on_scale(cdf: Cdf, rows: Selection) -> None:
            evaluate(lambda y, chosen: cdf(forward(y), chosen), rows)

        self._average()._by_cdf(evaluate_on_scale, mixture)
