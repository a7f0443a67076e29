"""Kernel, noise and scales from the data, before a method begins."""

from skgpx._hyperparameters._capacity import inducing_by_capacity
from skgpx._hyperparameters._climb import noise_only, with_noise
from skgpx._hyperparameters._evidence import (
    Hyperparameters,
    SparseEvidence,
    maximise_evidence,
    rough_start,
    row_target,
)
from skgpx._hyperparameters._prior_kernel import PriorSettings, fit_prior, stretched

__all__ = [
    "Hyperparameters",
    "PriorSettings",
    "SparseEvidence",
    "fit_prior",
    "inducing_by_capacity",
    "maximise_evidence",
    "noise_only",
    "rough_start",
    "row_target",
    "stretched",
    "with_noise",
]
