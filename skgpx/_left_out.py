"""How much of the prior a basis leaves out, and what a larger one would leave."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel, MixtureModel
from skgpx._validation import check_X
from skgpx.bases import Nystroem, select_inducing

Array = NDArray[np.float64]

# Rows that are looked at; the points of larger bases come from half of them.
_ROWS = 2000
_MORE = (2, 4)


def left_out(model: Any, X: Any = None) -> dict[str, Any]:
    """Kind and size of the basis, and the share of the prior variance it leaves out.

    Measured at rows X; without any, from what `fit` has kept, where it has.
    """
    posterior = getattr(model, "posterior_", None)
    if isinstance(posterior, MixtureModel):
        first = _of_model(model, posterior.models[0], X)
        return {"models": len(posterior.models), **first}
    if isinstance(posterior, LatentModel):
        return _of_model(model, posterior, X)
    return {}


def _of_model(model: Any, posterior: LatentModel, X: Any) -> dict[str, Any]:
    basis = posterior.basis
    on_points = isinstance(basis, Nystroem)
    found: dict[str, Any] = {
        "kind": "inducing points" if on_points else "functions",
        "functions": basis.n_basis,
    }
    jitter = getattr(basis, "jitter", None)
    if isinstance(jitter, float):
        found["jitter"] = jitter
    rows = None if X is None else _some(check_X(model, X))
    share = _kept_share(model, posterior) if rows is None else _share(basis, rows)
    if share is not None:
        found["unexplained_share"] = share
        more = _forecast(model, posterior, rows)
        if more:
            found["more_would_leave"] = more
    return found


def _some(X: Array) -> Array:
    """At most 2000 rows, evenly from all."""
    picked = np.linspace(0, len(X) - 1, min(len(X), _ROWS)).astype(np.intp)
    return np.asarray(X[picked])


def _variances(basis: Any, rows: Array) -> tuple[float, float]:
    """Mean prior variance that the features explain, and that of the residual."""
    features = basis(rows)
    residual = basis.residual_variance(rows, features)
    return float(np.mean(np.sum(features**2, axis=1))), float(np.mean(residual))


def _share(basis: Any, rows: Array) -> float | None:
    explained, residual = _variances(basis, rows)
    total = explained + residual
    return residual / total if total > 0.0 else None


def _kept_share(model: Any, posterior: LatentModel) -> float | None:
    """Share at the rows of `fit` (inducing points), or in the middle of the domain."""
    basis = posterior.basis
    if isinstance(basis, Nystroem):
        unexplained = getattr(model, "unexplained_", np.nan)
        if not np.isfinite(unexplained):
            return None
        # unexplained_ = var g / (2 noise variance), in any units
        noise = model.noise_variance_ / float(np.mean(posterior.scale)) ** 2
        prior = float(np.mean(basis.kernel.diag(basis.inducing_points)))
        return min(2.0 * noise * unexplained / prior, 1.0)
    if not hasattr(model, "domain_"):
        return None
    return _share(basis, np.mean(model.domain_, axis=1)[np.newaxis])


def _forecast(
    model: Any, posterior: LatentModel, rows: Array | None
) -> dict[int, float]:
    """Share that bases of twice and four times the size would leave."""
    basis = posterior.basis
    if isinstance(basis, Nystroem):
        return {} if rows is None else _forecast_points(basis, rows)
    spectrum = getattr(model, "spectrum_", np.empty(0))
    if not hasattr(model, "domain_") or np.ndim(spectrum) != 1:
        return {}
    middle = np.mean(model.domain_, axis=1)[np.newaxis]
    total = sum(_variances(basis, middle)) * float(np.mean(posterior.scale)) ** 2
    sizes = [factor * basis.n_basis for factor in _MORE]
    return {
        size: max(1.0 - float(np.sum(spectrum[:size])) / total, 0.0)
        for size in sizes
        if size <= len(spectrum)
    }


def _forecast_points(basis: Nystroem, rows: Array) -> dict[int, float]:
    """Of greedily chosen points: from one half of the rows, measured at the other."""
    source, validation = rows[::2], rows[1::2]
    found: dict[int, float] = {}
    for factor in _MORE:
        size = factor * basis.n_basis
        if 2 * size > len(source):
            break
        rng = np.random.default_rng(0)
        Z = select_inducing("greedy", source, basis.kernel, size, rng)
        share = _share(Nystroem.from_kernel(basis.kernel, Z), validation)
        if share is not None:
            found[size] = share
    return found
