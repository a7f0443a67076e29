"""Reports of a fit, from its attributes, and the export of its draws to ArviZ."""

from __future__ import annotations

import pickle
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.gaussian_process import GaussianProcessRegressor

from skgpx._left_out import left_out
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._validation import (
    check_count,
    check_is_fitted,
    check_targets,
    check_X,
    generator,
)
from skgpx._wrapped import innermost

Array = NDArray[np.float64]


class Report(dict[str, Any]):
    """A dictionary of sections that prints as text, and in a notebook as a table.

    Each section is a dictionary, whose keys have the units.

    Examples
    --------
    >>> from skgpx._report import Report
    >>> Report(noise={"std": 0.25})
    noise
      std  0.25
    """

    def __repr__(self) -> str:
        return "\n".join(
            line for title, body in self.items() for line in _text(title, body)
        )

    def _repr_html_(self) -> str:
        rows = []
        for title, body in self.items():
            heading = escape(_words(title))
            rows.append(f'<tr><th colspan="2" align="left">{heading}</th></tr>')
            for name, value in _entries(body):
                cells = f"<td>{escape(name)}</td><td>{escape(value)}</td>"
                rows.append(f"<tr>{cells}</tr>")
        return f"<table>{''.join(rows)}</table>"


class Reporting(OneBlasThread):
    """Gives an estimator its `report`."""

    def report(self, X: Any = None, y: ArrayLike | None = None) -> Report:
        """Summary of a fit: what it has learned, its cost, and its diagnostics.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), default=None
            Rows (at most 2000 of them) at which to measure the part of the prior that
            the basis leaves out, and that a larger one would.
        y : array-like of shape (n_rows,), default=None
            Their targets, held out from the fit: coverage and densities are reported
            as well.

        Returns
        -------
        report : Report
            A dictionary of sections, which prints as text and in a notebook as a table:
            "model", "prior", "search" (rows and criterion of the hyperparameters),
            "basis", "inference", "seconds", "memory", "held_out" and "findings", as far
            as they apply. The findings are those of `findings_`, which the fit warned
            of, and of the rows given here.

        Raises
        ------
        ValueError
            For y without X.

        Notes
        -----
        Without X it reads attributes only. The size of the model is that of its pickle.
        """
        check_is_fitted(self)
        if X is None and y is not None:
            raise ValueError(
                "report expects the rows X of the targets y; got y alone. Call "
                "report(X, y), with rows that the model has not seen."
            )
        seconds = dict(getattr(self, "stage_seconds_", {}))
        sections: dict[str, Any] = {
            "model": _model(self),
            "prior": _prior(self),
            "search": _search(self),
            "basis": left_out(self, X),
            "inference": _inference(self),
            "seconds": {**seconds, "total": sum(seconds.values())} if seconds else {},
            "memory": _memory(self),
        }
        if X is not None and y is not None:
            sections["held_out"] = _held_out(self, X, y)
        sections["findings"] = _findings(self, sections)
        return Report({title: body for title, body in sections.items() if body})


# ---- Sections ------------------------------------------------------------------------


def _model(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"estimator": type(model).__name__}
    inner = getattr(model, "estimator_", None)
    if inner is not None:
        found["around"] = type(inner).__name__
    trained = getattr(inner, "X_train_", None)
    rows = getattr(model, "_n_rows", None if trained is None else len(trained))
    if rows is not None:
        found["rows"] = rows
    found["columns"] = model.n_features_in_
    if hasattr(model, "classes_"):
        found["classes"] = len(model.classes_)
    if hasattr(model, "likelihood_"):
        found["likelihood"] = repr(model.likelihood_)
    return found


def _prior(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    kernel = getattr(model, "kernel_", None)
    if kernel is not None:
        found["kernel"] = repr(kernel)
    elif hasattr(model, "prior_"):
        found["prior"] = repr(model.prior_)
    noise = getattr(model, "noise_variance_", None)
    if noise is not None and np.ndim(noise) == 0:
        found["noise_std"] = float(np.sqrt(noise))
    evidence = getattr(model, "log_evidence_", np.nan)
    if np.isfinite(evidence):
        found["log_evidence_nats"] = float(evidence)
    if len(getattr(model, "cycles_", ())):
        found["cycles_per_unit"] = np.round(model.cycles_[:5], 6).tolist()
    return found


def _search(model: Any) -> dict[str, Any]:
    """Rows and criterion of the hyperparameters; of a wrapper, also of its model."""
    if isinstance(model, GaussianProcessRegressor):
        free = model.optimizer is not None and len(model.kernel_.theta)
        rows = {"rows_searched": len(model.X_train_)}
        return {"criterion": "exact evidence", **rows} if free else {}
    record, inner = (getattr(model, name, None) for name in ("_record", "estimator_"))
    found = {} if record is None else record.section()
    return found if inner is None else {**_search(innermost(inner)), **found}


def _inference(model: Any) -> dict[str, Any]:
    rhat = getattr(model, "rhat_", None)
    if rhat is None:
        steps = getattr(model, "n_iter_", None)
        return {} if steps is None else {"steps": steps}
    if not len(model.energy_curve_):
        return {"posterior": "closed form", "draws": model.particles_.shape[2]}
    return {
        "posterior": "particles",
        "particles": model.particles_.shape[2],
        "steps": model.n_iter_,
        "acceptance": float(model.acceptance_),
        "largest_rhat": float(np.max(rhat)),
        "coordinates_above_1.1": int(np.sum(~(np.asarray(rhat) <= 1.1))),
        "smallest_ess": float(np.min(model.ess_)),
    }


def _memory(model: Any) -> dict[str, Any]:
    try:
        found = {"model_megabytes": len(pickle.dumps(model)) / 2**20}
    except (pickle.PicklingError, AttributeError, TypeError):
        # a function of the user's that cannot be pickled
        found = {"model_megabytes": float("nan")}
    floats = getattr(getattr(model, "posterior_", None), "floats_per_row", 0)
    return found | ({"kilobytes_per_predicted_row": floats / 2**7} if floats else {})


def _held_out(model: Any, X: Any, y: ArrayLike) -> dict[str, Any]:
    """Scores of held-out rows."""
    targets = np.asarray(y)
    found: dict[str, Any] = {"rows": len(targets)}
    if is_classifier(model):
        found["accuracy"] = float(np.mean(model.predict(X) == targets))
        density = model.log_predictive_density(X, targets)
        return {**found, "mean_log_probability": float(np.mean(density))}
    if not hasattr(model, "predict_dist"):
        return {}
    distribution = model.predict_dist(X)
    found["r2"] = float(model.score(X, targets))
    found["mean_log_density_nats"] = float(np.mean(distribution.log_density(targets)))
    found["mean_crps"] = float(np.mean(distribution.crps(targets)))
    for coverage in (0.5, 0.9):
        low, high = distribution.interval(coverage).T
        inside = (low <= targets) & (targets <= high)
        found[f"inside_{100 * coverage:g}_%_intervals"] = float(np.mean(inside))
    found["standard_error_of_the_last"] = float(np.sqrt(0.09 / len(targets)))
    return found


def _findings(model: Any, sections: dict[str, Any]) -> dict[str, str]:
    """Findings of the fit, those of rows X and of targets y; messages by check."""
    found = {one.check: one.message for one in getattr(model, "findings_", ())}
    basis, held_out = sections["basis"], sections.get("held_out", {})
    unexplained = basis.get("unexplained_share", 0.0)
    if unexplained > 0.005:
        more = "".join(
            f"; {size} would leave {_percent(share)}"
            for size, share in basis.get("more_would_leave", {}).items()
        )
        found["basis"] = (
            f"{_percent(unexplained)} of the prior variance is unexplained by "
            f"{basis['functions']} {basis['kind']}{more}."
        )
    inside = held_out.get("inside_90_%_intervals", 0.9)
    if abs(inside - 0.9) > 3.0 * held_out.get("standard_error_of_the_last", 1.0):
        found["coverage"] = (
            f"Intervals are too {'narrow' if inside < 0.9 else 'wide'}: those of 90 % "
            f"hold {_percent(inside)} of the held-out rows. Try another kernel or "
            "likelihood, or TemperedRegressor around the model."
        )
    return found


# ---- From values to text -------------------------------------------------------------


def _words(name: str) -> str:
    return name.replace("_", " ")


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 0.995 else "100 %"


def _value(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{_words(str(k))}: {_value(v)}" for k, v in value.items())
    return str(value)


def _entries(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values of a section, as text."""
    return [(_words(str(name)), _value(value)) for name, value in body.items()]


def _text(title: str, body: dict[str, Any]) -> list[str]:
    entries = _entries(body)
    width = max((len(name) for name, _ in entries), default=0)
    lines = [f"  {name:{width}}  {value}".rstrip() for name, value in entries]
    return [_words(title), *lines]


# ---- ArviZ ---------------------------------------------------------------------------


class ArvizExport:
    """Gives an estimator with a posterior and a likelihood its `to_arviz`."""

    def to_arviz(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        n_samples: int = 1000,
        random_state: Any = None,
    ) -> Any:
        """Export particles, or draws at rows, to ArviZ.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), default=None
            Rows at which latent functions and observations are drawn. None exports the
            particles themselves, the whitened weights of the basis.
        y : array-like of shape (n_rows,), default=None
            Targets of the rows, for their log likelihood under each draw (which
            `arviz.loo` reads) and as observed data.
        n_samples : int, default=1000
            Number of draws at rows X.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws; None uses that of the estimator.

        Returns
        -------
        data : arviz.InferenceData or xarray.DataTree
            An InferenceData of ArviZ before version 1, otherwise a DataTree. Group
            "posterior" with "weights" (basis, output), or "f" (row, output); with X
            also "posterior_predictive" with "y" (row), with y "log_likelihood" and
            "observed_data". All draws are one chain: particles are the last states of
            independent chains, whose R-hat is `rhat_`, and draws at rows are
            independent given them.

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        ValueError
            If there are no particles, and no X.
        """
        check_is_fitted(self)
        n_samples = check_count(n_samples, "n_samples")
        if X is not None:
            groups = _drawn(self, X, y, n_samples, random_state)
        elif hasattr(self, "particles_"):
            weights = np.moveaxis(self.particles_, 2, 0)[np.newaxis]
            groups = {"posterior": {"weights": weights}}
        else:
            raise ValueError(
                f"{type(self).__name__} has no particles. Pass rows X, at which "
                "functions are drawn from its posterior."
            )
        dims = {"weights": ["basis", "output"], "f": ["row", "output"], "y": ["row"]}
        arviz = import_module("arviz")
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict(groups, dims=dims)
        return arviz.from_dict(**groups, dims=dims)


def _drawn(
    model: Any, X: Any, y: ArrayLike | None, n_samples: int, random_state: Any
) -> dict[str, dict[str, Array]]:
    """Latent values, observations and log likelihoods at rows."""
    rows = check_X(model, X)
    own = getattr(model, "random_state", None)
    rng = generator(own if random_state is None else random_state)
    likelihood = model.likelihood_
    latent = model.posterior_.draw(n_samples, rng).values(rows)
    observed = likelihood.sample(latent[:, 0] if latent.shape[1] == 1 else latent, rng)
    groups = {
        "posterior": {"f": np.moveaxis(latent, 2, 0)[np.newaxis]},
        "posterior_predictive": {"y": np.asarray(observed).T[np.newaxis]},
    }
    if y is None:
        return groups
    targets = check_targets(y, len(rows))
    known = hasattr(model, "classes_")
    targets = model._encode(targets) if known else targets.astype(np.float64)
    likelihood.check_support(targets)
    fits = -likelihood.row_nll(targets, latent)
    return {
        **groups,
        "log_likelihood": {"y": fits.T[np.newaxis]},
        "observed_data": {"y": targets},
    }
