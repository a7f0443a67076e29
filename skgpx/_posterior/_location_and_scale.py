"""A location and the logarithm of its scale, by nearest rows or as two series."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from skgpx._hyperparameters import (
    LatentMoments,
    NoisyValues,
    Regression,
    SeriesFunction,
    Sites,
    counted_errors,
    evidence_of,
    fixed_point,
    noise_of_one_scale,
)
from skgpx._latent import SeparateFunctions
from skgpx._numerics.expectations import expectation_nodes
from skgpx._posterior._nearest_rows import NearestFunctions
from skgpx._posterior._sampler import Inference, Sampler, inference_of
from skgpx._shell.validation import Rows
from skgpx._types import Generator, Kernel
from skgpx.bases import Nystroem, SeriesBasis, select_inducing
from skgpx.diagnostics import rows_not_converged
from skgpx.likelihoods import Likelihood

# A function of the rows, before the noise of its values is known.
Function: TypeAlias = NearestFunctions | SeriesFunction
# Inducing points of the log scale, at most: a row says too little of its scale for
# more.
_SCALE_POINTS = 300


def location_and_scale(
    basis: Nystroem | SeriesBasis,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """Posterior of a location and of the log scale of its noise, given all rows.

    Parallel expectation propagation with two independent functions [1]_. Each row has a
    normal observation of either function. They stand for what the row says of these,
    given their moments without the row itself, see
    :meth:`~skgpx.likelihoods._scale_of_errors.ScaleOfErrors.evidence_of`. The log scale
    has the kernel `scale_kernel_` of the likelihood, or that of the location.

    Parameters as in :func:`~skgpx._pls._inference.infer`.

    The location has the variance that its mean has as a linear estimator, whatever the
    scale is: see :func:`_under_uncertain_scale`.

    Notes
    -----
    Eight to ten regressions of either function on all rows, mostly.

    References
    ----------
    .. [1] Tolvanen, Jylänki and Vehtari, "Expectation propagation for nonstationary
       heteroscedastic Gaussian process regression", MLSP 2014, arXiv:1404.5443.
    """
    y = likelihood.initial_latent(rows.y)[:, 0]
    location_rows = rows._replace(y=y, known=None)
    of_scale: Any = likelihood.of_scale()
    error_rows = location_rows._replace(weights=counted_errors(rows.weights))
    # 1 the two functions
    location_function, scale_function = _functions(
        basis, location_rows, error_rows, likelihood.scale_kernel_, sampler, rng
    )

    # 2 regression of each of them on its observations
    def regress(values: NoisyValues) -> Functions:
        z, noise = values
        location = location_function.given(NoisyValues(z[:, :1], noise[:, :1]))
        scale = scale_function.given(NoisyValues(z[:, 1:], noise[:, 1:]))
        return Functions(location, scale)

    # 3 what each row says of both, given their moments without it
    def sites_at(moments: LatentMoments, sites: Sites) -> Sites:
        evidence = evidence_given(moments)
        values = NoisyValues(
            y=np.column_stack((y, evidence.value)),
            noise=np.column_stack((evidence.location_noise, evidence.value_noise)),
        )
        return sites.moved(moments, values)

    def evidence_given(moments: LatentMoments) -> Any:
        errors = error_rows._replace(
            y=y - moments.mean[:, 0],
            known=moments.variance[:, 0],
        )
        scale_moments = LatentMoments(moments.mean[:, 1:], moments.variance[:, 1:])
        return evidence_of(errors, of_scale, scale_moments)

    def respond(functions: Functions, sites: Sites) -> Sites:
        return sites_at(functions.given_others, sites)

    def log_evidence(functions: Functions) -> float:
        # Σ log N(z | 0, C) + Σ log p(y | others) - Σ log N(z | others): the densities
        # of the observations, and that of y in the place of those of each row
        evidence = evidence_given(functions.given_others)
        of_rows = evidence.log_density - np.log(likelihood.unit_)
        return functions.log_density + float(rows.weights @ of_rows)

    def report(functions: Functions, _: Sites) -> bool:
        if sampler.report is None:
            return False
        inference = inference_of(
            functions.model,
            likelihood,
            log_evidence(functions),
            sampler,
            copy.deepcopy(rng),
        )
        return sampler.report(inference)

    # 4 both in turn, from a location under one scale, and a scale known to a factor of
    # e: errors from the prior of the location would all say that the scale is large
    noise = noise_of_one_scale(location_rows, of_scale)
    under_one_scale = location_function.given(
        NoisyValues(y[:, np.newaxis], noise[:, np.newaxis])
    )
    scale_prior = LatentMoments.of_prior(scale_function.kernel, rows, 1)
    known_scale = np.minimum(scale_prior.variance, of_scale.variation**-2)
    start = LatentMoments.of_functions(
        under_one_scale.given_others,
        scale_prior._replace(variance=known_scale),
    )
    first = sites_at(start, Sites.nothing(start))
    functions, _, converged = fixed_point(first, regress, respond, report)
    # 5 the variance of the location, whose noise is not known
    location = _under_uncertain_scale(
        functions,
        location_function,
        likelihood,
        of_scale,
    )
    inference = inference_of(
        functions._replace(location=location).model,
        likelihood,
        log_evidence(functions),
        sampler,
        rng,
    )
    return inference._replace(findings=(rows_not_converged(converged),))


def _functions(
    basis: Nystroem | SeriesBasis,
    rows: Rows,
    error_rows: Rows,
    scale_kernel: Kernel | None,
    sampler: Sampler,
    rng: Generator,
) -> tuple[Function, Function]:
    """Location and log scale: two series, or each given its nearest rows."""
    if isinstance(basis, SeriesBasis):
        location = SeriesFunction(basis.kernel, rows)
        return location, SeriesFunction(scale_kernel or basis.kernel, error_rows)
    order_rng, scale_order_rng, points_rng = rng.spawn(3)
    scale_basis = basis
    if scale_kernel is not None:
        points = select_inducing(
            "greedy",
            rows.X,
            scale_kernel,
            min(basis.n_basis, _SCALE_POINTS),
            points_rng,
            rows.weights,
        )
        scale_basis = Nystroem.from_kernel(scale_kernel, points)
    return (
        NearestFunctions.of(basis, rows, sampler, order_rng),
        NearestFunctions.of(scale_basis, error_rows, sampler, scale_order_rng),
    )


class Functions(NamedTuple):
    """A location and the logarithm of its scale.

    Attributes
    ----------
    location, scale : Regression
    """

    location: Regression
    scale: Regression

    @property
    def model(self) -> SeparateFunctions:
        """Posterior of both of them everywhere."""
        return SeparateFunctions((self.location.model(), self.scale.model()))

    @property
    def given_others(self) -> LatentMoments:
        """Moments at each row, given all observations but one of the row itself."""
        return LatentMoments.of_functions(
            self.location.given_others,
            self.scale.given_others,
        )

    @property
    def log_density(self) -> float:
        """Of the observations, less those of each row given the others, in nats."""
        return sum(regression.density_beside_rows for regression in self)


def _under_uncertain_scale(
    functions: Functions,
    function: Function,
    likelihood: Likelihood,
    of_scale: Any,
) -> Regression:
    """The location with its mean, and the variance that this has under any scale.

    The noise D of a row is nearly the harmonic mean of its variances T where the
    location is certain: the sum of many precisions is certain, even if each of them is
    not. The log scale f₂ of neighbouring rows is wrong by the same error, however, and
    a mean ``Σ a_i y_i`` has the variance ``Σ a_i² E T_i`` of noise. So the rows get the
    mean of T given f₂, for v the variance of the location without the row::

        D* = D E[T] E[1 / (v + T)] / E[T / (v + T)]
        T = D exp(2 variation (f₂ - E f₂))

    The information of ε on the location is that of Fisher, which is less than its mean
    precision under heavy tails. Values ``y + (D* - D) C⁻¹ y`` keep the mean.

    Parameters
    ----------
    functions : Functions
    function : Function
        The location.
    likelihood : Likelihood
    of_scale : ScaleOfErrors
    """
    location, scale = functions
    z, noise = location.values
    nodes, masses = expectation_nodes(1)
    deviation = np.sqrt(scale.moments.variance) * nodes[:, 0]
    T = noise * np.exp(2.0 * of_scale.variation * deviation)
    total = location.given_others.variance + T
    # D as in the evidence of a row
    as_known = ((T / total) @ masses) / ((1.0 / total) @ masses)
    factor = (T @ masses) / as_known
    mean_precision = float(np.exp(of_scale.log_weights) @ (1.0 / of_scale.noise))
    fisher, _ = likelihood._fisher_information()
    shared = noise * (factor * mean_precision / fisher)[:, np.newaxis]
    # of a row of weight ω the noise is D / ω
    change = (shared - noise) / function.weights
    values = z + change * location.duals
    return function.given(NoisyValues(values, shared))
