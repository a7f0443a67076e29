"""Draws for ArviZ, which is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._validation import check_count, check_is_fitted, check_X, generator

Array = NDArray[np.float64]

_INTERFACES = ("auto", "inference_data", "data_tree")


class ArvizExport:
    """Gives an estimator with `sample_functions` its `to_arviz`."""

    def to_arviz(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        n_samples: int = 1000,
        random_state: Any = None,
        interface: str = "auto",
    ) -> Any:
        """Export particles, or draws at rows, to ArviZ.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), default=None
            Rows at which latent functions and observations are drawn. None exports the
            particles themselves, the whitened weights of the basis.
        y : array-like of shape (n_rows,), default=None
            Targets of the rows, for their log likelihood under each draw (which
            `arviz.loo` and `arviz.waic` read) and as observed data.
        n_samples : int, default=1000
            Number of draws at rows X.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws; None uses that of the estimator.
        interface : {"auto", "inference_data", "data_tree"}, default="auto"
            What to return: an InferenceData of ArviZ before version 1, an xarray
            DataTree from it on (or from arviz-base), or what is installed.

        Returns
        -------
        data : arviz.InferenceData or xarray.DataTree
            Group "posterior" with "weights" (basis, output), or "f" (row, output);
            with X also "posterior_predictive" with "y" (row), with y "log_likelihood"
            and "observed_data". All draws are one chain: particles are the last states
            of independent chains, whose R-hat is `rhat_`, and draws at rows are
            independent given them.

        Raises
        ------
        ImportError
            If ArviZ, or the interface that is asked for, is not installed.
        ValueError
            If there are no particles, and no X.
        """
        check_is_fitted(self)
        if interface not in _INTERFACES:
            raise ValueError(
                f"interface must be one of {_INTERFACES}; got {interface!r}."
            )
        n_samples = check_count(n_samples, "n_samples")
        module, nested = _module_of(interface)
        if X is None:
            groups = {"posterior": {"weights": _particles_of(self)}}
        else:
            groups = _drawn(self, X, y, n_samples, random_state)
        names = {
            "weights": ["basis", "output"], "f": ["row", "output"], "y": ["row"]
        }  # fmt: skip
        if nested:
            return module.from_dict(groups, dims=names)
        return module.from_dict(**groups, dims=names)


def _module_of(interface: str) -> tuple[Any, bool]:
    """ArviZ, and whether it takes a nested dictionary and returns a DataTree."""
    for name in ("arviz", "arviz_base"):
        try:
            module = import_module(name)
        except ImportError:
            continue
        nested = name == "arviz_base" or int(module.__version__.split(".")[0]) >= 1
        if interface in ("auto", "data_tree" if nested else "inference_data"):
            return module, nested
    wanted = {
        "auto": "arviz",
        "inference_data": '"arviz<1"',
        "data_tree": "arviz-base",
    }[interface]
    raise ImportError(f"to_arviz needs ArviZ: pip install {wanted}.")


def _particles_of(model: Any) -> Array:
    """Weights of the basis, (1, s, m, c)."""
    particles = getattr(model, "particles_", None)
    if particles is None:
        raise ValueError(
            f"{type(model).__name__} has no particles. Pass rows X, at which functions "
            "are drawn from its posterior."
        )
    return np.moveaxis(particles, 2, 0)[np.newaxis]


def _drawn(
    model: Any, X: Any, y: ArrayLike | None, n_samples: int, random_state: Any
) -> dict[str, dict[str, Array]]:
    """Latent values, observations and log likelihoods at rows."""
    rows = check_X(model, X)
    seed = (
        getattr(model, "random_state", None) if random_state is None else random_state
    )
    rng = generator(seed)
    likelihood = model.likelihood_
    latent = model.posterior_.draw(n_samples, rng).values(rows)
    one = latent.shape[1] == 1
    observed = likelihood.sample(latent[:, 0] if one else latent, rng)
    groups = {
        "posterior": {"f": np.moveaxis(latent, 2, 0)[np.newaxis]},
        "posterior_predictive": {"y": np.asarray(observed).T[np.newaxis]},
    }
    if y is None:
        return groups
    labels = hasattr(model, "classes_")
    targets = model._encode(np.asarray(y)) if labels else np.asarray(y, np.float64)
    if targets.shape != (len(rows),):
        raise ValueError(
            f"y must have shape ({len(rows)},), one target for each row of X; got "
            f"{targets.shape}."
        )
    likelihood.check_support(targets)
    fits = -likelihood.row_nll(targets, latent)
    return {
        **groups,
        "log_likelihood": {"y": fits.T[np.newaxis]},
        "observed_data": {"y": targets},
    }
