"""The fitted latent function, which every prediction is computed from."""

from skgpx._latent._functionals import model_of_functionals, with_level
from skgpx._latent._model import FunctionModel, LatentModel, Mean, MixtureModel
from skgpx._latent._neighbors import NeighborModel
from skgpx._latent._separate import SeparateFunctions
from skgpx._latent._series import ObservedSeries, SeriesModel
