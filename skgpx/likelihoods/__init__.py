"""Likelihoods: the distribution of an observation given its latent value."""

from skgpx.likelihoods._base import Likelihood
from skgpx.likelihoods._bernoulli import Bernoulli
from skgpx.likelihoods._check import check_likelihood
from skgpx.likelihoods._classes import Categorical, RobustMax
from skgpx.likelihoods._gaussian import Gaussian, ShiftedMixture
from skgpx.likelihoods._poisson import Poisson
from skgpx.likelihoods._student_t import StudentT

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Likelihood",
    "Poisson",
    "RobustMax",
    "ShiftedMixture",
    "StudentT",
    "check_likelihood",
]
