"""Where to evaluate an expensive function next: spaces, acquisitions, proposals."""

from skgpx._decisions._sampler import ThompsonSampler
from skgpx._decisions._search_cv import ThompsonSearchCV
from skgpx._decisions._space import Dimension

__all__ = ["Dimension", "ThompsonSampler", "ThompsonSearchCV"]
