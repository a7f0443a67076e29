"""Kernel, noise and scales from the data, before a method begins."""

from skgpx._hyperparameters._evidence import (
    Hyperparameters,
    SparseEvidence,
    maximise_evidence,
    row_target,
)
from skgpx._hyperparameters._prior_kernel import PriorSettings, fit_prior, stretched

__all__ = [
    "Hyperparameters",
    "PriorSettings",
    "SparseEvidence",
    "fit_prior",
    "maximise_evidence",
    "row_target",
    "stretched",
]
