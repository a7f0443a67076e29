"""Decoupled sampling: functions drawn from the posterior of a Gaussian process."""

from skgpx._decoupled._sampler import DecoupledSampler, check_drawable

__all__ = ["DecoupledSampler", "check_drawable"]
