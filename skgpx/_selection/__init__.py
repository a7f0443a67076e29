"""Kernel, noise and scales from the data, before a method begins."""

from skgpx._selection._compat import (
    FEWEST_ROWS,
    PriorSettings,
    fit_prior,
    left_out_means,
    search_weights,
    stretched,
)
from skgpx._selection._evidence import (
    SparseEvidence,
    held_out,
    left_out,
    rough_latent_values,
    rough_start,
    row_form,
    row_target,
)
from skgpx._selection._grow import grow, inducing_by_capacity, most_inducing
from skgpx._selection._noise import final_noise
from skgpx._selection._prior import (
    MOST,
    Hyperparameters,
    counted_once,
    learn_prior,
    with_base_rates,
)
from skgpx._selection._record import SearchRecord

__all__ = [
    "FEWEST_ROWS",
    "MOST",
    "Hyperparameters",
    "PriorSettings",
    "SearchRecord",
    "SparseEvidence",
    "counted_once",
    "final_noise",
    "fit_prior",
    "grow",
    "held_out",
    "inducing_by_capacity",
    "learn_prior",
    "left_out",
    "left_out_means",
    "most_inducing",
    "rough_latent_values",
    "rough_start",
    "row_form",
    "row_target",
    "search_weights",
    "stretched",
    "with_base_rates",
]
