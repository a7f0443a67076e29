"""The fitted latent function, which every prediction is computed from."""

from skgpx._latent._mixture import MixtureModel
from skgpx._latent._model import LatentModel, Mean

__all__ = ["LatentModel", "Mean", "MixtureModel"]
