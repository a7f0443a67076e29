"""Bayesian optimisation: by expected improvement, or by the optima of draws."""

from skgpx._decisions import ThompsonSampler, ThompsonSearchCV

__all__ = ["ThompsonSampler", "ThompsonSearchCV"]
