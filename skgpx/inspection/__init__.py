"""Pictures of fitted models; matplotlib is imported when one is drawn.

Each display has the constructors of scikit-learn, `from_estimator` and (but for
traces, effects and hyperparameters) `from_predictions`. It draws into `ax` or a new
figure, and keeps its axes, `figure_` and the artists. Estimators may be pipelines,
searches and transformed targets.
"""

from skgpx._front.effects import sobol_indices
from skgpx.inspection._along_column import FunctionDrawsDisplay, PredictiveDisplay
from skgpx.inspection._components import LearnedKernelDisplay, MixtureDensityDisplay
from skgpx.inspection._coverage import CoverageDisplay
from skgpx.inspection._effects import EffectsDisplay
from skgpx.inspection._hyperparameters import HyperparameterDisplay
from skgpx.inspection._trace import TraceDisplay

__all__ = [
    "CoverageDisplay",
    "EffectsDisplay",
    "FunctionDrawsDisplay",
    "HyperparameterDisplay",
    "LearnedKernelDisplay",
    "MixtureDensityDisplay",
    "PredictiveDisplay",
    "TraceDisplay",
    "sobol_indices",
]
