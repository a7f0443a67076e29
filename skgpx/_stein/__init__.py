"""Stein random features: frequencies that are learned."""

from skgpx._stein._features import SteinFourierFeatures as SteinFourierFeatures
from skgpx._stein._regressor import SteinRFFRegressor as SteinRFFRegressor
from skgpx._stein._svgd import svgd as svgd
