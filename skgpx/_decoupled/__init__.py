"""Decoupled sampling: posterior functions of a Gaussian process, drawn once."""

from skgpx._decoupled._sampler import DecoupledSampler, check_drawable

__all__ = ["DecoupledSampler", "check_drawable"]
