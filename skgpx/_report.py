"""Reports of a fit, from its attributes."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from skgpx._latent import FunctionModel, MixtureModel
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._validation import check_is_fitted, check_X, codes_of_grades, warn
from skgpx._version import __version__
from skgpx.bases import Nystroem
from skgpx.exceptions import PredictionWarning

Array = NDArray[np.float64]

_MODEL: dict[str, Callable[[Any], Any]] = {
    "estimator": lambda fit: type(fit).__name__,
    "around": lambda fit: type(fit.estimator_).__name__,
    "rows": lambda fit: getattr(fit, "_n_rows", 0) or len(fit.estimator_.X_train_),
    "columns": lambda fit: fit.n_features_in_,
    "classes": lambda fit: len(fit.classes_),
    "likelihood": lambda fit: repr(fit.likelihood_),
}
_PRIOR: dict[str, Callable[[Any], Any]] = {
    "kernel": lambda fit: repr(fit.kernel_),
    "noise_std": lambda fit: np.sqrt(fit.noise_variance_).tolist(),
    "log_evidence_nats": lambda fit: float(fit.log_evidence_),
    "cycles_per_unit": lambda fit: np.round(fit.cycles_[:5], 6).tolist() or None,
}


def _of_chains(fit: Any, value: Any) -> float | None:
    """A statistic of chains; None for a closed form, which runs none."""
    return float(value) if len(fit.energy_curve_) else None


_INFERENCE: dict[str, Callable[[Any], Any]] = {
    "posterior": lambda fit: "particles" if len(fit.energy_curve_) else "closed form",
    "particles": lambda fit: fit.particles_.shape[2],
    "steps": lambda fit: fit.n_iter_ if fit.n_iter_ > 1 and len(fit.rhat_) else None,
    "products": lambda fit: fit.n_iter_ if hasattr(fit, "residuals_") else None,
    "largest_residual": lambda fit: float(np.max(fit.residuals_)),
    "last_change_in_stds": lambda fit: float(fit.change_),
    "divergence_bound_nats": lambda fit: float(fit._divergence_bound),
    "acceptance": lambda fit: _of_chains(fit, fit.acceptance_),
    "largest_rhat": lambda fit: _of_chains(fit, np.max(fit.rhat_)),
    "smallest_ess": lambda fit: _of_chains(fit, np.min(fit.ess_)),
}


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
        lines = []
        for title, entries in self._text():
            width = max(len(name) for name in entries)
            lines.append(title)
            lines += [f"  {name:{width}}  {entries[name]}" for name in entries]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for title, entries in self._text():
            rows.append(f'<tr><th colspan="2" align="left">{escape(title)}</th></tr>')
            for name, value in entries.items():
                cells = f"<td>{escape(name)}</td><td>{escape(value)}</td>"
                rows.append(f"<tr>{cells}</tr>")
        return f"<table>{''.join(rows)}</table>"

    def _text(self) -> list[tuple[str, dict[str, str]]]:
        """Title of each section, and its names and values as text."""
        return [
            (_words(title), {_words(name): _value(body[name]) for name in body})
            for title, body in self.items()
        ]


class Reporting(OneBlasThread):
    """Gives an estimator its `report`, and its pickles the version of the library."""

    def __getstate__(self) -> dict[str, Any]:
        parent: Any = super()
        return {**parent.__getstate__(), "_skgpx_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parent: Any = super()
        state = dict(state)
        version = state.pop("_skgpx_version", "unknown")
        if version != __version__:
            warn(
                f"{type(self).__name__} was pickled by skgpx {version} and is loaded "
                f"by {__version__}, where its attributes may have another "
                "meaning. Fit it again, or load it with the version that made it.",
                PredictionWarning,
            )
        parent.__setstate__(state)

    def report(self, X: Any = None, y: ArrayLike | None = None) -> Report:
        """Summary of a fit: what it has learned, its cost, and its diagnostics.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), default=None
            Rows (at most 2000 of them) at which to measure the part of the prior that
            the basis leaves out.
        y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Their targets, held out from the fit: coverage and densities are reported
            as well.

        Returns
        -------
        report : Report
            A dictionary of sections, which prints as text and in a notebook as a table:
            "model", "prior", "search" (rows and criterion of the hyperparameters),
            "basis", "inference", "seconds", "held_out" and "findings", as far as they
            apply. The findings are those of `findings_`, which the fit warned of, and
            of the rows given here.

        Raises
        ------
        ValueError
            For y without X.

        Notes
        -----
        Without X it reads attributes only.
        """
        check_is_fitted(self)
        if X is None and y is not None:
            raise ValueError(
                "report expects the rows X of the targets y; got y alone. Call "
                "report(X, y), with rows that were held out."
            )
        record = getattr(self, "_record", None)
        record = record or getattr(getattr(self, "estimator_", None), "_record", None)
        seconds = dict(getattr(self, "stage_seconds_", {}))
        sections: dict[str, Any] = {
            "model": _read(self, _MODEL),
            "prior": _read(self, _PRIOR),
            "search": record.section() if record else {},
            "basis": _basis(self, X),
            "inference": _read(self, _INFERENCE),
            "seconds": {**seconds, "total": sum(seconds.values())} if seconds else {},
            "held_out": {} if y is None else _held_out(self, X, y),
        }
        sections["findings"] = _findings(self, sections["basis"], sections["held_out"])
        return Report({title: body for title, body in sections.items() if body})


# ---- Sections ------------------------------------------------------------------------


def _read(fit: Any, section: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Entries of a section for which the fit has an attribute and a value."""
    found = {}
    for name, get in section.items():
        try:
            value = get(fit)
        except (AttributeError, TypeError):
            continue
        # NaN stands for a diagnostic that does not apply
        if value is not None and value == value:
            found[name] = value
    return found


def _basis(model: Any, X: Any) -> dict[str, Any]:
    """Kind and size of the basis, and the share of the prior variance it leaves out.

    Measured at up to 2000 of the rows X; without any, in the middle of the domain, or
    for inducing points at the rows of the fit.
    """
    found: dict[str, Any] = {}
    posterior = getattr(model, "posterior_", None)
    if isinstance(posterior, MixtureModel):
        found["models"], posterior = len(posterior.models), posterior.models[0]
    if not isinstance(posterior, FunctionModel):
        return found
    if posterior.n_neighbors:
        found["kind"] = "inducing points and nearest rows"
        found["functions"] = posterior.n_basis
        found["neighbors"] = posterior.n_neighbors
        return found
    basis = posterior.basis
    on_points = isinstance(basis, Nystroem)
    found["kind"] = "inducing points" if on_points else "functions"
    found["functions"] = basis.n_basis
    jitter = getattr(basis, "jitter", None)
    if isinstance(jitter, float):
        found["jitter"] = jitter
    if X is not None:
        rows = check_X(model, X)
        picked = np.linspace(0, len(rows) - 1, min(len(rows), 2000)).astype(np.intp)
        found["unexplained_share"] = _share(posterior, rows[picked])
    elif (
        on_points
        and np.isfinite(getattr(model, "unexplained_", np.nan))
        and hasattr(model, "noise_variance_")
    ):
        # unexplained_ = var g / (2 noise variance), in any units
        noise = 1.0 / np.mean(np.square(posterior.scale) / model.noise_variance_)
        prior = float(np.mean(basis.kernel.diag(basis.inducing_points)))
        found["unexplained_share"] = min(2.0 * noise * model.unexplained_ / prior, 1.0)
    elif not on_points and hasattr(model, "domain_"):
        middle = np.mean(model.domain_, axis=1)[np.newaxis]
        found["unexplained_share"] = _share(posterior, middle)
    return found


def _share(model: FunctionModel, rows: Array) -> float:
    """Share of the prior variance at the rows that the basis leaves out."""
    features, variance = model.features_and_residual(rows)
    explained = float(np.sum(features**2))
    residual = float(np.sum(variance))
    return residual / max(explained + residual, 1e-300)


def _held_out(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """Scores of held-out rows."""
    if is_classifier(model):
        density = model.log_predictive_density(X, y)
        accuracy = float(np.mean(model.predict(X) == np.asarray(y)))
        found = {"accuracy": accuracy, "mean_log_probability": float(np.mean(density))}
        return {"rows": len(y), **found}
    if not hasattr(model, "predict_dist"):
        return {}
    y = np.asarray(codes_of_grades(getattr(model, "likelihood_", None), y))
    parts = model.predict_dist(X)
    parts = parts if isinstance(parts, list) else [parts]
    each = list(zip(np.atleast_2d(y.T), parts, strict=True))
    scores = {
        "r2": model.score(X, y),
        "mean_log_density_nats": np.mean([one.log_density(t) for t, one in each]),
        "mean_crps": np.mean([one.crps(t) for t, one in each]),
    }
    for coverage in (0.5, 0.9):
        ends = [(t, *one.interval(coverage).T) for t, one in each]
        inside = np.mean([(low <= t) & (t <= high) for t, low, high in ends])
        scores[f"inside_{100 * coverage:g}_%_intervals"] = inside
    scores["standard_error_of_the_last"] = np.sqrt(0.09 / y.size)
    return {"rows": len(y), **{name: float(score) for name, score in scores.items()}}


def _findings(
    model: Any,
    basis: dict[str, Any],
    held_out: dict[str, Any],
) -> dict[str, str]:
    """Findings of the fit, those of rows X and of targets y; messages by check."""
    found = {one.check: one.message for one in getattr(model, "findings_", ())}
    unexplained = basis.get("unexplained_share", 0.0)
    if unexplained > 0.005 and not _suffices(model, basis["functions"]):
        found["basis"] = (
            f"{_percent(unexplained)} of the prior variance is unexplained by "
            f"{basis['functions']} {basis['kind']}."
        )
    inside = held_out.get("inside_90_%_intervals", 0.9)
    if abs(inside - 0.9) > 3.0 * held_out.get("standard_error_of_the_last", 1.0):
        found["coverage"] = (
            f"Intervals are too {'narrow' if inside < 0.9 else 'wide'}: those of 90 % "
            f"hold {_percent(inside)} of the held-out rows. Try another kernel or "
            "likelihood, or TemperedRegressor around the model."
        )
    return found


def _suffices(model: Any, n_functions: int) -> bool:
    """Whether the data cannot tell the basis from the whole process.

    It is that of all rows, or leaves out a hundredth of a nat of a row at most.
    """
    record = getattr(model, "_record", None)
    n_rows = np.inf if record is None else record.distinct_rows
    return n_functions >= n_rows or getattr(model, "unexplained_", np.nan) <= 0.01


# ---- From values to text -------------------------------------------------------------


def _words(name: Any) -> str:
    return str(name).replace("_", " ")


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 0.995 else "100 %"


def _value(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_value(one) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{_words(k)}: {_value(v)}" for k, v in value.items())
    return str(value)
