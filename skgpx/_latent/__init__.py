"""The latent function after fitting: what every prediction reads."""

from skgpx._latent._model import LatentModel, SeriesModel

__all__ = ["LatentModel", "SeriesModel"]
