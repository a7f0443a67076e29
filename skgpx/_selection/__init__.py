"""Kernel, noise and scales from the data, before a method begins."""

from skgpx._selection._capacity import (
    inducing_by_capacity,
    warn_of_budget,
    warn_of_few_points,
    warn_of_lost_signal,
)
from skgpx._selection._copies import (
    VANISHED_NOISE,
    copies_count_once,
    search_weights,
)
from skgpx._selection._evidence import (
    MOST,
    Hyperparameters,
    SparseEvidence,
    maximise_evidence,
    rough_latent_values,
    rough_start,
    row_form,
    row_target,
)
from skgpx._selection._exact_evidence import held_out, left_out_means
from skgpx._selection._few_rows import FEWEST_ROWS, UNLEARNED_NOISE, are_few
from skgpx._selection._final_noise import final_noise, judged_noise
from skgpx._selection._left_over import (
    WORTH_LOOKING,
    LeftOver,
    warn_of_left_over,
)
from skgpx._selection._lengthscales import stretched, with_base_rates
from skgpx._selection._prior_kernel import (
    PriorSettings,
    fit_prior,
)
from skgpx._selection._search_record import (
    COUNTED_ONCE,
    NOISE_BY_BOUND,
    NOISE_BY_DENSITY,
    SearchRecord,
)

__all__ = [
    "COUNTED_ONCE",
    "FEWEST_ROWS",
    "MOST",
    "NOISE_BY_BOUND",
    "NOISE_BY_DENSITY",
    "UNLEARNED_NOISE",
    "VANISHED_NOISE",
    "WORTH_LOOKING",
    "Hyperparameters",
    "LeftOver",
    "PriorSettings",
    "SearchRecord",
    "SparseEvidence",
    "are_few",
    "copies_count_once",
    "final_noise",
    "fit_prior",
    "held_out",
    "inducing_by_capacity",
    "judged_noise",
    "left_out_means",
    "maximise_evidence",
    "rough_latent_values",
    "rough_start",
    "row_form",
    "row_target",
    "search_weights",
    "stretched",
    "warn_of_budget",
    "warn_of_few_points",
    "warn_of_left_over",
    "warn_of_lost_signal",
    "with_base_rates",
]
