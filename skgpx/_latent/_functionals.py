"""Posteriors of functionals: slopes, means over boxes and differences of f."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skgpx._latent._model import LatentModel, Mean, MixtureModel
from skgpx.bases import Fourier, FourierSeries, KernelBasis
from skgpx.kernels import Functionals, length_scales


def model_of_functionals(model: Any) -> Any:
    """The same posterior, for rows that see functionals of f.

    Raises
    ------
    ValueError
        If the model has no covariance of which these follow.
    """
    if isinstance(model, MixtureModel) and model.mean is None:
        models: Any = tuple(model_of_functionals(part) for part in model.models)
        return replace(model, models=models)
    basis: Any = getattr(model, "basis", None)
    has_waves = isinstance(basis, Fourier | FourierSeries)
    has_functionals = has_waves or isinstance(basis, KernelBasis)
    if not isinstance(model, LatentModel) or not has_functionals:
        raise ValueError(
            "Slopes, means over boxes and differences are predicted from kernels at "
            "inducing points and from Fourier functions; got a model of type "
            f"{type(model).__name__} with a {type(basis).__name__}. "
            "SpectralVGPRegressor, PLSRegressor(n_neighbors=0) and, of a series, "
            "PLSRegressor(n_inducing=300) have such functions; or evaluate draws: "
            "sample_functions(...).value_and_grad(X)."
        )
    if has_waves:
        basis = basis.of_functionals()
    elif type(basis.kernel) is not Functionals:
        d = basis.inducing_points.shape[1]
        scales = length_scales(basis.kernel, d)
        basis = replace(basis, kernel=Functionals(basis.kernel, scales))
    elif model.mean is not None and model.mean.function is not None:
        return model
    if model.mean is not None and model.mean.function is not None:
        raise ValueError(
            "The prior mean is a function of which slopes, means over boxes and "
            "differences are not known. Fit the estimator with a constant mean."
        )
    return with_level(replace(model, basis=basis))


def with_level(model: Any, shift: float = 0.0) -> Any:
    """The model with a further constant as prior mean, of which slopes see nothing."""
    if isinstance(model, MixtureModel):
        models = tuple(with_level(part, shift) for part in model.models)
        return replace(model, models=models)
    zeros = np.zeros(model.n_outputs)
    level = zeros + shift
    if model.mean is not None:
        level += model.mean.shift
    seen = getattr(model.basis, "kernel", model.basis)
    return replace(model, mean=Mean(zeros, level, seen.level))
