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
from sklearn.pipeline import Pipeline

from skgpx._left_out import left_out
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._validation import (
    check_count,
    check_is_fitted,
    check_targets,
    check_X,
    generator,
)
from skgpx._wrapped import best_of

Array = NDArray[np.float64]


class Report(dict[str, Any]):
    """A dictionary of sections that prints as text, and in a notebook as a table.

    Each section is a dictionary, or for "advice" a list of sentences. Keys say units.

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
        """What the fit has learned, how sure that is, and what it cost.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), default=None
            Rows at which the part of the prior is measured that the basis leaves out,
            and what more inducing points would leave; at most 2000 of them are looked
            at.
        y : array-like of shape (n_rows,), default=None
            Their targets, which the model should not have seen: coverage and densities
            are reported as well.

        Returns
        -------
        report : Report
            A dictionary of sections, which prints as text and in a notebook as a table:
            "model", "prior", "search" (which rows chose the hyperparameters, by what),
            "basis", "inference", "seconds", "memory", "held_out" and "advice", as far
            as they apply.

        Raises
        ------
        ValueError
            For y without X.

        Notes
        -----
        Without X it reads attributes only. The size of the model is that of its pickle.
        Memory of a stage is by how much it raised the peak of the resident memory of
        this process, in MiB: zero where it did with what was there before. It is the
        whole process that is measured, compilation and other threads included, workers
        in processes of their own not.
        """
        check_is_fitted(self)
        if X is None and y is not None:
            raise ValueError(
                "report expects the rows X of the targets y; got y alone. Call "
                "report(X, y), with rows that the model has not seen."
            )
        sections: dict[str, Any] = {
            "model": _model(self),
            "prior": _prior(self),
            "search": _search(self),
            "basis": left_out(self, X),
            "inference": _inference(self),
            "seconds": _seconds(self),
            "memory": _memory(self),
        }
        if X is not None and y is not None:
            sections["held_out"] = _held_out(self, X, y)
        sections["advice"] = _advice(sections)
        return Report({title: body for title, body in sections.items() if body})


# ---- Sections ------------------------------------------------------------------------


def _model(model: Any) -> dict[str, Any]:
    found = {"estimator": type(model).__name__}
    inner = getattr(model, "estimator_", None)
    if inner is not None:
        found["around"] = type(inner).__name__
    rows = getattr(model, "_n_rows", None)
    trained = getattr(inner, "X_train_", None)
    rows = len(trained) if rows is None and trained is not None else rows
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
    if np.ndim(getattr(model, "temper_", 1.0)) == 0 and hasattr(model, "temper_"):
        found["temper"] = float(model.temper_)
    if len(getattr(model, "cycles_", ())):
        found["cycles_per_unit"] = np.round(model.cycles_[:5], 6).tolist()
    return found


def _search(model: Any) -> dict[str, Any]:
    """Which rows chose the hyperparameters; of a wrapper, also those of its model."""
    record = getattr(model, "_record", None)
    found = {} if record is None else record.section()
    inner = getattr(model, "estimator_", None)
    return found if inner is None else {**_search_of_inner(inner), **found}


def _search_of_inner(inner: Any) -> dict[str, Any]:
    inner = best_of(inner)
    if isinstance(inner, Pipeline):
        return _search_of_inner(inner.steps[-1][1])
    if not isinstance(inner, GaussianProcessRegressor):
        return _search(inner)
    if inner.optimizer is None or not len(inner.kernel_.theta):
        return {}
    return {"criterion": "exact evidence", "rows_searched": len(inner.X_train_)}


def _inference(model: Any) -> dict[str, Any]:
    rhat = getattr(model, "rhat_", None)
    if rhat is None:
        names = {"n_iter_": "steps", "wasserstein_distance_": "wasserstein_distance"}
        return {
            name: getattr(model, attribute)
            for attribute, name in names.items()
            if hasattr(model, attribute)
        }
    if not len(model.energy_curve_):
        return {"law": "closed form", "draws": model.particles_.shape[2]}
    return {
        "law": "particles",
        "particles": model.particles_.shape[2],
        "steps": model.n_iter_,
        "acceptance": float(model.acceptance_),
        "largest_rhat": float(np.max(rhat)),
        "coordinates_above_1.1": int(np.sum(~(np.asarray(rhat) <= 1.1))),
        "smallest_ess": float(np.min(model.ess_)),
    }


def _seconds(model: Any) -> dict[str, Any]:
    stages = dict(getattr(model, "stage_seconds_", {}))
    return {**stages, "total": sum(stages.values())} if stages else {}


def _memory(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        found["model_megabytes"] = len(pickle.dumps(model)) / 2**20
    except (pickle.PicklingError, AttributeError, TypeError):
        # a function of the user's that cannot be pickled
        found["model_megabytes"] = float("nan")
    floats = getattr(getattr(model, "posterior_", None), "floats_per_row", 0)
    if floats:
        found["kilobytes_per_predicted_row"] = 8.0 * floats / 2**10
    return found


def _held_out(model: Any, X: Any, y: ArrayLike) -> dict[str, Any]:
    """Scores of rows that the model did not see."""
    targets = np.asarray(y)
    found = {"rows": len(targets)}
    if is_classifier(model):
        found["accuracy"] = float(np.mean(model.predict(X) == targets))
        density = model.log_predictive_density(X, targets)
        return {**found, "mean_log_probability": float(np.mean(density))}
    if not hasattr(model, "predict_dist"):
        return {}
    law = model.predict_dist(X)
    found["r2"] = float(model.score(X, targets))
    found["mean_log_density_nats"] = float(np.mean(law.log_density(targets)))
    found["mean_crps"] = float(np.mean(law.crps(targets)))
    for coverage in (0.5, 0.9):
        low, high = law.interval(coverage).T
        inside = (low <= targets) & (targets <= high)
        found[f"inside_{100 * coverage:g}_%_intervals"] = float(np.mean(inside))
    found["standard_error_of_the_last"] = float(np.sqrt(0.09 / len(targets)))
    return found


def _advice(sections: dict[str, Any]) -> list[str]:
    """Sentences about what may be wrong, and what to change."""
    said = []
    basis, chains = sections["basis"], sections["inference"]
    unexplained = basis.get("unexplained_share")
    if unexplained is not None and unexplained > 0.005:
        more = [
            f"{size} would leave {_percent(share)}"
            for size, share in basis.get("more_would_leave", {}).items()
        ]
        sentence = (
            f"{_percent(unexplained)} of the prior variance is unexplained by "
            f"{basis['functions']} {basis['kind']}"
        )
        said.append("; ".join([sentence, *more]) + ".")
    worst = chains.get("largest_rhat", 1.0)
    if not worst <= 1.1:
        said.append(
            f"Chains have not met: R-hat is {worst:.3g} in the worst coordinate. "
            "Raise max_iter, or see whether the posterior has several modes "
            '(method="smc").'
        )
    if chains.get("smallest_ess", np.inf) < 20.0:
        said.append(
            "Few independent particles: means are off by about std / "
            f"{np.sqrt(chains['smallest_ess']):.2g}. Raise n_particles."
        )
    return said + _doubts_of_coverage(sections.get("held_out", {}))


def _doubts_of_coverage(held_out: dict[str, Any]) -> list[str]:
    inside = held_out.get("inside_90_%_intervals")
    if inside is None:
        return []
    error = held_out["standard_error_of_the_last"]
    if abs(inside - 0.9) <= 3.0 * error:
        return []
    kind = "too narrow" if inside < 0.9 else "too wide"
    return [
        f"Intervals are {kind}: those of 90 % hold {_percent(inside)} of the held-out "
        "rows. Another kernel or likelihood may fit better; conformal prediction "
        "repairs the coverage."
    ]


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


def _entries(body: Any) -> list[tuple[str, str]]:
    """Names and values of a section, as text."""
    if isinstance(body, dict):
        return [(_words(str(name)), _value(value)) for name, value in body.items()]
    return [("", str(sentence)) for sentence in body]


def _text(title: str, body: Any) -> list[str]:
    entries = _entries(body)
    width = max((len(name) for name, _ in entries), default=0)
    lines = [f"  {name:{width}}  {value}".rstrip() for name, value in entries]
    if not width:
        lines = [f"  {value}" for _, value in entries]
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
