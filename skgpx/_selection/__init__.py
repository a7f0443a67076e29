"""Kernel, noise and scales from the data, before a method begins."""

from skgpx._selection._candidates import (
    NOISE_PRIOR,
    StudentPrior,
    stretched,
)
from skgpx._selection._evidence import (
    rough_latent_values,
    rough_start,
    row_target,
    sparse_value,
)
from skgpx._selection._fixed_point import (
    FixedPoint,
    LatentMoments,
    NoisyValues,
    Sites,
    fixed_point,
)
from skgpx._selection._location_and_scale import counted_errors, evidence_of
from skgpx._selection._maximise import State
from skgpx._selection._modes import NO_NOISE
from skgpx._selection._neighborhoods import NeighborhoodDensity
from skgpx._selection._prior import (
    counted_once,
    learn,
    search_findings,
    search_record,
    with_base_rates,
)
from skgpx._selection._process_evidence import VariationalEvidence, suits_a_normal
from skgpx._selection._sparse import (
    MAX_INDUCING_NON_GAUSSIAN,
    MIN_GAIN,
    final_noise,
    grow,
    inducing_by_capacity,
    inducing_of_targets,
    most_points,
    most_points_beside_rows,
    regress_targets,
)
from skgpx._selection._waves import false_alarm_level
from skgpx._selection._working_responses import (
    ResponsesAt,
    depends_on_contrasts,
    latent_moments,
)

__all__ = [
    "MAX_INDUCING_NON_GAUSSIAN",
    "MIN_GAIN",
    "NOISE_PRIOR",
    "NO_NOISE",
    "FixedPoint",
    "LatentMoments",
    "NeighborhoodDensity",
    "NoisyValues",
    "ResponsesAt",
    "Sites",
    "State",
    "StudentPrior",
    "VariationalEvidence",
    "counted_errors",
    "counted_once",
    "depends_on_contrasts",
    "evidence_of",
    "false_alarm_level",
    "final_noise",
    "fixed_point",
    "grow",
    "inducing_by_capacity",
    "inducing_of_targets",
    "latent_moments",
    "learn",
    "most_points",
    "most_points_beside_rows",
    "regress_targets",
    "rough_latent_values",
    "rough_start",
    "row_target",
    "search_findings",
    "search_record",
    "sparse_value",
    "stretched",
    "suits_a_normal",
    "with_base_rates",
]
