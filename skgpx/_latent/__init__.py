"""The fitted latent function, which every prediction is computed from."""

from skgpx._latent._mean import Mean
from skgpx._latent._mixture import MixtureModel
from skgpx._latent._model import LatentModel

__all__ = ["LatentModel", "Mean", "MixtureModel"]
