"""Reports of a fit, from its attributes."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from skgpx._latent import (
    FunctionModel,
    MixtureModel,
    SeparateFunctions,
    SeriesModel,
)
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._reports.averaged_hyperparameters import AveragedHyperparameters, quantiles
from skgpx._shell.validation import check_is_fitted, check_X, codes_of_grades, warn
from skgpx._types import AnyArray, ArrayLike
from skgpx._version import __version__
from skgpx.bases import Nystroem
from skgpx.exceptions import PredictionWarning
from skgpx.likelihoods import Gaussian, LogNormal, Tobit
from skgpx.likelihoods._warped import normal_noise

# Names of entries, and how to read them from a fitted estimator.
Section = dict[str, Callable[[BaseEstimator], object]]
# What has been read, by name.
Entries = dict[str, Any]

_MODEL: Section = {
    "estimator": lambda fit: type(fit).__name__,
    "around": lambda fit: type(fit.estimator_).__name__,
    "rows": lambda fit: getattr(fit, "_n_rows", 0) or len(fit.estimator_.X_train_),
    "columns": lambda fit: fit.n_features_in_,
    "classes": lambda fit: len(fit.classes_),
    "likelihood": lambda fit: " ".join(repr(fit.likelihood_).split()),
    "scale_of_y": lambda fit: fit.likelihood_.description,
}
_PRIOR: Section = {
    "kernel": lambda fit: repr(fit.kernel_),
    "kernel_of_log_scale": lambda fit: (
        fit.likelihood_.scale_kernel_ and repr(fit.likelihood_.scale_kernel_)
    ),
    "noise_std": lambda fit: np.sqrt(fit.noise_variance_).tolist(),
    "log_evidence_nats": lambda fit: float(fit.log_evidence_),
    # None if one was chosen
    "averaged_states": lambda fit: len(fit.hyperparameter_states_) or None,
    "weight_of_this_state": lambda fit: fit.hyperparameter_states_[0].weight,
    "cycles_per_unit": lambda fit: np.round(fit.cycles_[:5], 6).tolist() or None,
}


def _kind_of_posterior(fit: BaseEstimator) -> str:
    """How the posterior of the weights was found."""
    if len(fit.energy_curve_):
        return "particles"
    # on some scale of y
    is_normal = isinstance(normal_noise(fit.likelihood_), Gaussian | LogNormal | Tobit)
    return "closed form" if is_normal else "closest normal distribution"


_INFERENCE: Section = {
    "posterior": _kind_of_posterior,
    # with the kernel matrix, of an iterative solution
    "products": lambda fit: fit.residuals_.size and fit.n_iter_,
    "largest_residual": lambda fit: float(np.max(fit.residuals_)),
    "last_change_in_stds": lambda fit: float(fit.change_),
}
_CHAINS: Section = {
    "particles": lambda fit: fit.particles_.shape[2],
    "steps": lambda fit: fit.n_iter_,
    "divergence_bound_nats": lambda fit: float(fit._divergence_bound),
    "acceptance": lambda fit: float(np.max(fit.acceptance_)),
    "largest_rhat": lambda fit: float(np.max(fit.rhat_)),
    "smallest_ess": lambda fit: float(np.min(fit.ess_)),
}
# Of rows that are filtered as they are, each given the earlier ones.
_SERIES: Section = {
    "one_step_error_in_stds": lambda fit: float(
        np.sqrt(fit.posterior_.mean_squared_error)
    ),
    "one_step_log_density_nats": lambda fit: float(
        fit.posterior_.log_density_of_rows / fit.posterior_.n_values
    ),
}


class Report(dict[str, Any]):
    """A dictionary of sections that prints as text, and in a notebook as a table.

    Each section is a dictionary; its keys have the units.

    Examples
    --------
    >>> from skgpx._reports.report import Report
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
        sections = []
        for title, body in self.items():
            entries = {_words(name): _value(value) for name, value in body.items()}
            sections.append((_words(title), entries))
        return sections


class Reporting(OneBlasThread):
    """Gives an estimator its `report`, and its pickles the version of the library."""

    def __getstate__(self) -> Entries:
        parent: Any = super()
        return {**parent.__getstate__(), "_skgpx_version": __version__}

    def __setstate__(self, state: Entries) -> None:
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

    def report(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
    ) -> Report:
        """Summary of a fit: kernel, basis and posterior, cost, and diagnostics.

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
            "model", "prior", "hyperparameters" and "families" (where predictions
            average them), "search" (rows and criterion of the hyperparameters),
            "basis", "inference", "seconds", "held_out" and "findings", as far as they
            apply. The findings are `findings_`, about which the fit warned, and
            findings of X and y.

            Each entry of "hyperparameters" has the "median" and the quantiles "5 %" and
            "95 %" of the posterior: amplitudes and noise as standard deviations in the
            units of y, lengthscales in the units of their column. A hyperparameter that
            only kernels of some families have has the "weight" of these, and quantiles
            given them. Of more than ten columns those with the shortest lengthscales,
            in standard deviations of the column, are listed. "families" has the
            posterior probability of each form of the kernel. "prior" is of one of the
            "averaged_states", that of the largest weight, which may be small. "search"
            has the "mean" and the standard deviation "std" of each period, with the
            "weight" of the states that have it if that is less than one.

            In "held_out", "coverage_90" is the fraction of the targets inside their
            intervals of 90 %, and "coverage_90_standard_error" the standard deviation
            of this fraction if the intervals are right.

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
        basis = _basis(self, X)
        seconds = dict(getattr(self, "stage_seconds_", {}))
        if seconds:
            seconds["total"] = sum(seconds.values())
        held_out: Entries = {}
        if X is not None and y is not None:
            held_out = _held_out(self, X, y)
        # messages by check: findings of the fit, of the rows X and of the targets y
        findings = getattr(self, "findings_", ())
        messages = {finding.check: finding.message for finding in findings}
        unexplained = basis.get("unexplained_share", 0.0)
        if unexplained > 0.005 and not _suffices(self, basis["functions"]):
            messages["basis"] = (
                f"{_percent(unexplained)} of the prior variance is unexplained by "
                f"{basis['functions']} {basis['kind']}."
            )
        coverage = held_out.get("coverage_90", 0.9)
        standard_error = held_out.get("coverage_90_standard_error", 1.0)
        if abs(coverage - 0.9) > 3.0 * standard_error:
            width = "narrow" if coverage < 0.9 else "wide"
            messages["coverage"] = (
                f"Intervals are too {width}: those of 90 % "
                f"hold {_percent(coverage)} of the held-out rows. Try another kernel "
                "or likelihood, or TemperedRegressor around the model."
            )
        sections: dict[str, Entries] = {
            "model": _read(self, _MODEL),
            "prior": _read(self, _PRIOR),
            **_averaged(self),
            "search": _search(self),
            "basis": basis,
            "inference": _inference(self),
            "seconds": seconds,
            "held_out": held_out,
            "findings": messages,
        }
        return Report({title: body for title, body in sections.items() if body})


# ---- Sections ------------------------------------------------------------------------


def _read(fit: BaseEstimator, section: Section) -> Entries:
    """Entries of a section for which the fit has an attribute and a value."""
    entries = {}
    for name, get in section.items():
        try:
            value = get(fit)
        except (AttributeError, IndexError, TypeError):
            continue
        # NaN stands for a diagnostic that does not apply
        if value is not None and value == value:
            entries[name] = value
    return entries


def _inference(fit: BaseEstimator) -> Entries:
    """How the posterior was found, and how well."""
    section = _INFERENCE
    if len(getattr(fit, "energy_curve_", ())):
        section = section | _CHAINS
    is_series = isinstance(getattr(fit, "posterior_", None), SeriesModel)
    if is_series and fit.likelihood_.has_closed_form:
        section = section | _SERIES
    return _read(fit, section)


def _averaged(model: BaseEstimator) -> dict[str, Entries]:
    """Quantiles of averaged hyperparameters, and the weights of their families."""
    averaged = AveragedHyperparameters.of(model)
    if averaged is None:
        return {}
    entries: Entries = {}
    # those with the shortest lengthscales
    n_listed = 10
    for hyperparameter, values in averaged.of_columns(n_listed).items():
        low, median, high = quantiles(values, averaged.weights, [0.05, 0.5, 0.95])
        entry = {"median": float(median), "5 %": float(low), "95 %": float(high)}
        weight = float(averaged.weights @ np.isfinite(values))
        if weight < 1.0 - 1e-9:
            entry["weight"] = weight
        entries[hyperparameter.label(averaged.column_names)] = entry
    n_hidden = len(averaged.column_names) - n_listed
    if n_hidden > 0:
        entries["columns_of_longer_lengthscales"] = n_hidden
    return {"hyperparameters": entries, "families": averaged.family_weights()}


def _search(model: BaseEstimator) -> Entries:
    """Rows and criterion of the hyperparameters, of the model or the one inside it."""
    record = getattr(model, "_record", None)
    if not record:
        inner = getattr(model, "estimator_", None)
        record = getattr(inner, "_record", None)
    if not record:
        return {}
    return {name: value for name, value in record.items() if value}


def _basis(model: BaseEstimator, X: ArrayLike | None) -> Entries:
    """Kind and size of the basis, and the share of the prior variance it leaves out.

    Measured at up to 2000 of the rows X; without any, in the middle of the domain, or
    for inducing points at the rows of the fit.
    """
    section: Entries = {}
    posterior = getattr(model, "posterior_", None)
    if isinstance(posterior, MixtureModel):
        section["models"] = len(posterior.models)
        posterior = posterior.models[0]
    if isinstance(posterior, SeparateFunctions):
        (posterior, _) = posterior.models
    if not isinstance(posterior, FunctionModel):
        return section
    if isinstance(posterior, SeriesModel):
        section["kind"] = "state space"
        section["states"] = posterior.n_states
        return section
    if posterior.n_neighbors > 0:
        section["kind"] = "inducing points and nearest rows"
        section["functions"] = posterior.n_basis
        section["neighbors"] = posterior.n_neighbors
        return section
    basis = posterior.basis
    section["kind"] = "inducing points" if isinstance(basis, Nystroem) else "functions"
    section["functions"] = basis.n_basis
    jitter = getattr(basis, "jitter", None)
    if isinstance(jitter, float):
        section["jitter"] = jitter
    share = _unexplained_share(model, posterior, X)
    if share is not None:
        section["unexplained_share"] = share
    return section


def _unexplained_share(
    model: BaseEstimator,
    posterior: FunctionModel,
    X: ArrayLike | None,
) -> float | None:
    """Share of the prior variance that the basis leaves out; None if unknown."""
    basis = posterior.basis
    if X is not None:
        rows = check_X(model, X)
        places = np.linspace(0, len(rows) - 1, min(len(rows), 2000)).astype(np.intp)
        return _share(posterior, rows[places])
    if not isinstance(basis, Nystroem):
        if not hasattr(model, "domain_"):
            return None
        middle = np.mean(model.domain_, axis=1)[np.newaxis]
        return _share(posterior, middle)
    unexplained = getattr(model, "unexplained_", np.nan)
    # of other noise it is in terms of the curvature of each row
    if not np.isfinite(unexplained):
        return None
    if not isinstance(normal_noise(model.likelihood_), Gaussian):
        return None
    # unexplained_ = var g / (2 noise variance), in any units
    noise = 1.0 / np.mean(np.square(posterior.scale) / model.noise_variance_)
    prior = float(np.mean(basis.kernel.diag(basis.inducing_points)))
    return min(2.0 * noise * unexplained / prior, 1.0)


def _share(model: FunctionModel, rows: AnyArray) -> float:
    """Share of the prior variance at the rows that the basis leaves out."""
    features, variance = model.features_and_residual(rows)
    explained = float(np.sum(features**2))
    residual = float(np.sum(variance))
    return residual / max(explained + residual, 1e-300)


def _held_out(model: BaseEstimator, X: ArrayLike, y: ArrayLike) -> Entries:
    """Scores of held-out rows."""
    if is_classifier(model):
        log_density = model.log_predictive_density(X, y)
        accuracy = np.mean(model.predict(X) == np.asarray(y))
        return {
            "rows": len(log_density),
            "accuracy": float(accuracy),
            "mean_log_probability": float(np.mean(log_density)),
        }
    if not hasattr(model, "predict_dist"):
        return {}
    y = np.asarray(codes_of_grades(getattr(model, "likelihood_", None), y))
    distributions = model.predict_dist(X)
    if not isinstance(distributions, list):
        distributions = [distributions]
    # one distribution for each target
    targets = list(zip(np.atleast_2d(y.T), distributions, strict=True))
    log_densities = [distribution.log_density(t) for t, distribution in targets]
    crps = [distribution.crps(t) for t, distribution in targets]
    section = {
        "rows": len(y),
        "r2": float(model.score(X, y)),
        "mean_log_density_nats": float(np.mean(log_densities)),
        "mean_crps": float(np.mean(crps)),
    }
    for percent in (50, 90):
        hits = []
        for t, distribution in targets:
            low, high = distribution.interval(percent / 100).T
            hits.append((low <= t) & (t <= high))
        section[f"coverage_{percent}"] = float(np.mean(hits))
    # of a frequency of 0.9 in n rows, √(0.9 (1 - 0.9) / n)
    standard_error = np.sqrt(0.09 / y.size)
    section["coverage_90_standard_error"] = float(standard_error)
    return section


def _suffices(model: BaseEstimator, n_functions: int) -> bool:
    """Whether the data cannot tell the basis from the whole process.

    It has a function for each row, or leaves out a hundredth of a nat of a row at most.
    """
    record = getattr(model, "_record", None)
    if record is not None and n_functions >= record.get("distinct_rows", 0):
        return True
    return getattr(model, "unexplained_", np.nan) <= 0.01


# ---- From values to text -------------------------------------------------------------


def _words(name: str) -> str:
    return str(name).replace("_", " ")


def _percent(share: float) -> str:
    if share >= 0.995:
        return "100 %"
    return f"{100.0 * share:.2g} %"


def _value(value: object) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_value(entry) for entry in value)
    if isinstance(value, dict):
        return ", ".join(
            f"{_words(name)}: {_value(entry)}" for name, entry in value.items()
        )
    return str(value)
