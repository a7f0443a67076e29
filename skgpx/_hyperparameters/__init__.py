"""Kernel, noise and scales from the data, before a method begins."""

from skgpx._hyperparameters._candidates import (
    ALL_ORDERS,
    NOISE_PRIOR,
    StudentPrior,
    stretched,
)
from skgpx._hyperparameters._directions import learn
from skgpx._hyperparameters._evidence import (
    ExactEvidence,
    rough_latent_values,
    rough_start,
    row_target,
    sparse_value,
    with_noise,
)
from skgpx._hyperparameters._fixed_point import (
    LatentMoments,
    NoisyValues,
    Sites,
    fixed_point,
)
from skgpx._hyperparameters._maximise import State
from skgpx._hyperparameters._modes import NO_NOISE
from skgpx._hyperparameters._normal_form import NormalForm
from skgpx._hyperparameters._prior import (
    learn_scale,
    learns_noise,
    most_probable,
    on_scale,
    search_findings,
    search_record,
    with_base_rates,
)
from skgpx._hyperparameters._process_evidence import VariationalEvidence, suits_a_normal
from skgpx._hyperparameters._regression import Regression, SeriesFunction
from skgpx._hyperparameters._scale_of_y import tells_scale
from skgpx._hyperparameters._series_evidence import regression_evidence
from skgpx._hyperparameters._series_search import (
    broad_spectrum,
    false_alarm_level,
)
from skgpx._hyperparameters._slope_noise import (
    NoiseOfKinds,
    kinds_of_rows,
    learn_noise_of_slopes,
)
from skgpx._hyperparameters._sparse import (
    MAX_INDUCING_NON_GAUSSIAN,
    MIN_GAIN,
    distinct_sums,
    final_noise,
    grow,
    inducing_by_capacity,
    inducing_of_targets,
    most_points,
    most_points_beside_rows,
    noise_of_targets,
    regress_targets,
)
from skgpx._hyperparameters._working_responses import (
    ResponsesAt,
    counted_errors,
    depends_on_contrasts,
    evidence_of,
    latent_moments,
    noise_of_one_scale,
)

__all__ = [
    "ALL_ORDERS",
    "MAX_INDUCING_NON_GAUSSIAN",
    "MIN_GAIN",
    "NOISE_PRIOR",
    "NO_NOISE",
    "ExactEvidence",
    "LatentMoments",
    "NoiseOfKinds",
    "NoisyValues",
    "NormalForm",
    "Regression",
    "ResponsesAt",
    "SeriesFunction",
    "Sites",
    "State",
    "StudentPrior",
    "VariationalEvidence",
    "broad_spectrum",
    "counted_errors",
    "depends_on_contrasts",
    "distinct_sums",
    "evidence_of",
    "false_alarm_level",
    "final_noise",
    "fixed_point",
    "grow",
    "inducing_by_capacity",
    "inducing_of_targets",
    "kinds_of_rows",
    "latent_moments",
    "learn",
    "learn_noise_of_slopes",
    "learn_scale",
    "learns_noise",
    "most_points",
    "most_points_beside_rows",
    "most_probable",
    "noise_of_one_scale",
    "noise_of_targets",
    "on_scale",
    "regress_targets",
    "regression_evidence",
    "rough_latent_values",
    "rough_start",
    "row_target",
    "search_findings",
    "search_record",
    "sparse_value",
    "stretched",
    "suits_a_normal",
    "tells_scale",
    "with_base_rates",
    "with_noise",
]
