"""Likelihoods: the distribution of an observation given its latent value."""

from skgpx.likelihoods._base import Likelihood
from skgpx.likelihoods._bernoulli import Bernoulli
from skgpx.likelihoods._beta import Beta
from skgpx.likelihoods._binomial import Binomial
from skgpx.likelihoods._censored import Tobit
from skgpx.likelihoods._check import check_likelihood
from skgpx.likelihoods._classes import Categorical, RobustMax
from skgpx.likelihoods._gaussian import Gaussian, ShiftedMixture
from skgpx.likelihoods._heteroscedastic import (
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
)
from skgpx.likelihoods._log_rates import Gamma, NegativeBinomial
from skgpx.likelihoods._ordinal import Ordinal
from skgpx.likelihoods._poisson import Poisson
from skgpx.likelihoods._student_t import StudentT
from skgpx.likelihoods._warped import LogNormal, Warped

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Gamma",
    "Gaussian",
    "HeteroscedasticGaussian",
    "HeteroscedasticStudentT",
    "Likelihood",
    "LogNormal",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "RobustMax",
    "ShiftedMixture",
    "StudentT",
    "Tobit",
    "Warped",
    "check_likelihood",
]
