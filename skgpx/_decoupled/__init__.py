"""Decoupled sampling: functions drawn from the posterior of a Gaussian process."""

from skgpx._decoupled._regressors import check_drawable
from skgpx._decoupled._sampler import DecoupledSampler

__all__ = ["DecoupledSampler", "check_drawable"]
