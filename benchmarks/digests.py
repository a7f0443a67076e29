"""Digests of fits: which numbers does a change of the code leave as they were?

    python -m benchmarks.digests [--only PATTERN ...] [--output FILE] [--against FILE]

Each fit is small, and together they enter every estimator, likelihood and way of
inference. Of its predictions, standard deviations, intervals, function draws and
evidence the file holds the SHA-256 of the bytes, to tell whether a single bit changed,
and the values to six digits, to tell by how much. Whoever moves code without
changing what it does runs this before and after, on one machine: the last bits depend
on the processor and on the BLAS, so that digests of two machines differ.

``--against FILE`` prints the fits whose digests differ, with the largest difference of
each value in units of its largest magnitude, and fails if there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier as BoostingClassifier
from sklearn.ensemble import HistGradientBoostingRegressor as BoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import LinearRegression

import skgpx
from benchmarks.report import RESULTS, machine, progress, table
from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
)
from skgpx import likelihoods as lik
from skgpx.bases import PolynomialEigenvalues
from skgpx.kernels import CategoricalKernel, Columns, GREKernel, Linear
from skgpx.thompson import ThompsonSampler

Array = NDArray[np.float64]
Values = dict[str, Array]
N_TEST = 25
GIVEN = 1.0 * RBF(0.3)


# ---- Rows ----------------------------------------------------------------------------


class Table:
    """Rows of one function, and what likelihoods make of it."""

    def __init__(self, n: int, d: int, seed: int = 0) -> None:
        rng = np.random.default_rng([seed, n, d])
        self.X = rng.uniform(size=(n, d))
        self.X_test = np.random.default_rng(1).uniform(size=(N_TEST, d))
        self.f = np.sin(6.0 * self.X[:, 0])
        if d > 1:
            self.f = self.f + self.X[:, 1] ** 2
        noise = rng.standard_normal(n)
        self.y = self.f + 0.2 * noise
        self.outliers = self.f + 0.1 * rng.standard_t(2.0, size=n)
        self.varying = self.f + 0.4 * self.X[:, 0] * noise
        self.counts = rng.poisson(np.exp(self.f)).astype(float)
        self.squares = rng.poisson(4.0 * self.f**2).astype(float)
        self.positive = np.exp(self.f + 0.3 * noise)
        self.shares = 1.0 / (1.0 + np.exp(-self.y))
        self.labels = (self.y > np.median(self.y)).astype(int)
        self.grades = np.digitize(self.y, np.quantile(self.y, [0.3, 0.7]))
        self.shifted = self.f + rng.choice([-1.0, 1.0], size=n)
        self.known = 0.01 + 0.1 * self.X[:, 0]


SERIES = Table(120, 1)
PLANE = Table(120, 2)
ABUNDANT = Table(700, 2)
FEW = Table(40, 2)
MANY = Table(5000, 2)


def season(n: int) -> tuple[Array, Array]:
    """Twenty periods of a wave around a line."""
    t = np.linspace(0.0, 20.0, n)
    noise = np.random.default_rng(2).standard_normal(n)
    return t[:, None], 0.1 * t + np.sin(2.0 * np.pi * t) + 0.2 * noise


def with_categories(of: Table) -> Array:
    """The first column beside one of three categories."""
    return np.column_stack([of.X[:, 0], np.floor(3.0 * of.X[:, 1])])


# ---- What is kept of a fit -----------------------------------------------------------


def of_regressor(model: Any, X_test: Array, **given: Array) -> Values:
    """Mean, standard deviation, interval, draws and evidence."""
    mean, std = model.predict(X_test, return_std=True, **given)
    found = {"mean": mean, "std": std}
    if hasattr(model, "predict_interval"):
        found["interval"] = model.predict_interval(X_test, **given)
    if hasattr(model, "sample_functions"):
        found["draws"] = model.sample_functions(3, random_state=0)(X_test)
    if hasattr(model, "log_evidence_"):
        found["evidence"] = np.atleast_1d(model.log_evidence_)
    return found


def of_classifier(model: Any, X_test: Array) -> Values:
    """Probabilities, draws and evidence."""
    found = {"probabilities": model.predict_proba(X_test)}
    if hasattr(model, "sample_functions"):
        found["draws"] = model.sample_functions(3, random_state=0)(X_test)
    if hasattr(model, "log_evidence_"):
        found["evidence"] = np.atleast_1d(model.log_evidence_)
    return found


def regression(
    model: Any,
    of: Table = PLANE,
    target: str = "y",
    given: Mapping[str, Array] | None = None,
    given_test: Mapping[str, Array] | None = None,
) -> Callable[[], Values]:
    """One fit of a regressor to one target of a table."""

    def fit() -> Values:
        model.fit(of.X, getattr(of, target), **(given or {}))
        return of_regressor(model, of.X_test, **(given_test or {}))

    return fit


def classification(
    model: Any, of: Table = PLANE, target: str = "labels"
) -> Callable[[], Values]:
    """One fit of a classifier to labels of a table."""
    return lambda: of_classifier(model.fit(of.X, getattr(of, target)), of.X_test)


def pls(likelihood: Any = None, **parameters: Any) -> PLSRegressor:
    """A regressor by projected Langevin sampling with a seed."""
    return PLSRegressor(likelihood=likelihood, random_state=0, **parameters)


def stein(**parameters: Any) -> SteinRFFRegressor:
    """A short descent of few frequencies with a seed."""
    short = {"n_components": 2, "n_frequencies": 20, "max_iter": 30}
    return SteinRFFRegressor(random_state=0, **short | parameters)


def pieces(model: Any) -> Callable[[], Values]:
    """Rows that arrive in two pieces."""

    def fit() -> Values:
        model.partial_fit(ABUNDANT.X[:400], ABUNDANT.y[:400])
        model.partial_fit(ABUNDANT.X[400:], ABUNDANT.y[400:])
        return of_regressor(model, ABUNDANT.X_test)

    return fit


def seasons(model: Any) -> Callable[[], Values]:
    """A series with trend and season, and its continuation."""

    def fit() -> Values:
        model.fit(*season(200))
        return of_regressor(model, np.linspace(19.0, 22.0, N_TEST)[:, None])

    return fit


def categories() -> Values:
    """A column of categories beside one of numbers."""
    kernel = Columns(1.0 * RBF(0.5), [0]) * Columns(CategoricalKernel(), [1])
    model = pls(kernel=kernel).fit(with_categories(PLANE), PLANE.y)
    test = Table(N_TEST, 2, seed=3)
    return of_regressor(model, with_categories(test))


def several_targets() -> Values:
    """Two targets of the same rows."""
    Y = np.column_stack([PLANE.y, PLANE.varying])
    mean, std = pls().fit(PLANE.X, Y).predict(PLANE.X_test, return_std=True)
    return {"mean": mean, "std": std}


def features() -> Values:
    """Stein Fourier features as a transformer."""
    transformer = SteinFourierFeatures(n_frequencies=20, n_steps=30, random_state=0)
    return {"features": transformer.fit(PLANE.X).transform(PLANE.X_test)}


def optimisation() -> Values:
    """Inputs proposed for the minimum of a function of two inputs."""
    sampler = ThompsonSampler([(0.0, 1.0), (0.0, 1.0)], random_state=0)
    for _ in range(3):
        X = sampler.ask(4)
        sampler.tell(X, np.sum((X - 0.3) ** 2, axis=1))
    return {"inputs": np.asarray(sampler.ask(2), float)}


def scikit_learn_process() -> Values:
    """Functions drawn from a fitted process of scikit-learn."""
    kernel = ConstantKernel() * RBF(0.3) + WhiteKernel(0.04)
    process = GaussianProcessRegressor(kernel, normalize_y=True)
    model = DecoupledSampler(process, random_state=0).fit(PLANE.X, PLANE.y)
    return of_regressor(model, PLANE.X_test)


# ---- The fits ------------------------------------------------------------------------

STATED: dict[str, tuple[Any, str]] = {
    "Gaussian": (lik.Gaussian(), "y"),
    "StudentT": (lik.StudentT(), "outliers"),
    "Poisson, exp": (lik.Poisson("exp"), "counts"),
    "Poisson, square": (lik.Poisson("square"), "squares"),
    "NegativeBinomial": (lik.NegativeBinomial(), "counts"),
    "Gamma": (lik.Gamma(), "positive"),
    "LogNormal": (lik.LogNormal(), "positive"),
    "Beta": (lik.Beta(), "shares"),
    "Ordinal": (lik.Ordinal(), "grades"),
    "Tobit": (lik.Tobit(), "y"),
    "ShiftedMixture": (lik.ShiftedMixture(2.0), "shifted"),
    "HeteroscedasticGaussian": (lik.HeteroscedasticGaussian(), "varying"),
    "HeteroscedasticStudentT": (lik.HeteroscedasticStudentT(), "varying"),
}
FITS: dict[str, Callable[[], Values]] = {
    f"PLS {name}": regression(pls(likelihood), target=target)
    for name, (likelihood, target) in STATED.items()
}
FITS |= {
    "PLS 40 rows": regression(pls(), FEW),
    "PLS one column": regression(pls(), SERIES),
    "PLS maximised": regression(pls(hyperparameters="maximise")),
    "PLS 700 rows": regression(pls(), ABUNDANT),
    "PLS 5000 rows": regression(pls(), MANY),
    "PLS StudentT, 700 rows": regression(pls(lik.StudentT()), ABUNDANT, "outliers"),
    "PLS auto": regression(pls("auto"), FEW, "outliers"),
    "PLS given kernel": regression(pls(kernel=GIVEN, optimizer=None)),
    "PLS points": regression(pls(n_inducing=20, n_neighbors=0), ABUNDANT),
    "PLS neighbours": regression(pls(n_inducing=20, n_neighbors=10), ABUNDANT),
    "PLS GRE": regression(pls(kernel=GREKernel(GIVEN), optimizer=None)),
    "PLS trend": regression(pls(kernel=1.0 * RBF(0.5) + Linear())),
    "PLS season": seasons(pls()),
    "PLS categories": categories,
    "PLS several targets": several_targets,
    "PLS partial_fit": pieces(pls()),
    "PLS weights": regression(pls(), given={"sample_weight": PLANE.known * 10.0}),
    "PLS known noise": regression(
        pls(),
        given={"noise_variance": PLANE.known},
        given_test={"noise_variance": np.full(N_TEST, 0.1)},
    ),
    "PLS exposure": regression(
        pls(lik.Poisson("exp")),
        target="counts",
        given={"exposure": 1.0 + PLANE.known},
        given_test={"exposure": np.full(N_TEST, 2.0)},
    ),
}
CHAINS: dict[str, dict[str, Any]] = {
    "mala": {"method": "mala"},
    "ula": {"method": "ula", "max_iter": 50},
    "ou_mala": {"method": "ou_mala"},
    "smc": {"method": "smc"},
    "optimal": {"method": "mala", "potential": "optimal"},
}
FITS |= {
    f"PLS StudentT, {name}": regression(
        pls(lik.StudentT(4.0, scale=0.2), kernel=GIVEN, optimizer=None, **parameters),
        FEW,
        "outliers",
    )
    for name, parameters in CHAINS.items()
}
FITS |= {
    "PLSClassifier": classification(PLSClassifier(random_state=0)),
    "PLSClassifier 40 rows": classification(PLSClassifier(random_state=0), FEW),
    "PLSClassifier 3 classes": classification(
        PLSClassifier(random_state=0), PLANE, "grades"
    ),
    "PLSClassifier 700 rows": classification(PLSClassifier(random_state=0), ABUNDANT),
    "PLSClassifier maximised": classification(
        PLSClassifier(hyperparameters="maximise", random_state=0)
    ),
    "Spectral": regression(SpectralVGPRegressor(random_state=0), SERIES),
    "Spectral 700 rows": regression(SpectralVGPRegressor(random_state=0), ABUNDANT),
    "Spectral points": regression(
        SpectralVGPRegressor(basis="inducing", random_state=0), ABUNDANT
    ),
    "Spectral eigenvalues": regression(
        SpectralVGPRegressor(PolynomialEigenvalues(), random_state=0), SERIES
    ),
    "Spectral order by data": regression(
        SpectralVGPRegressor("series", order="data", random_state=0), SERIES
    ),
    "Spectral season": seasons(SpectralVGPRegressor(random_state=0)),
    "Spectral partial_fit": pieces(
        SpectralVGPRegressor(domain=[[0.0, 1.0], [0.0, 1.0]], random_state=0)
    ),
    "Stein": regression(stein(), ABUNDANT),
    "Stein Matern": regression(stein(kernel=1.0 * Matern(0.5, nu=1.5)), ABUNDANT),
    "Stein networks": regression(stein(hidden_layer_sizes=(8,)), ABUNDANT),
    "Stein non-stationary": regression(stein(non_stationary=True), ABUNDANT),
    "Stein partial_fit": pieces(stein()),
    "Stein features": features,
    "Decoupled": regression(DecoupledSampler(random_state=0), FEW),
    "Decoupled, grid": regression(
        DecoupledSampler(prior="grid", hyperparameters="maximise", random_state=0),
        SERIES,
    ),
    "Decoupled, scikit-learn": scikit_learn_process,
    "Exact": regression(ExactGPRegressor(random_state=0), ABUNDANT),
    "GWI": regression(GWIRegressor(random_state=0)),
    "GWI 700 rows": regression(GWIRegressor(random_state=0), ABUNDANT),
    "GWI network": regression(GWIRegressor("net", random_state=0), ABUNDANT),
    "GWI linear": regression(GWIRegressor(LinearRegression(), random_state=0)),
    "GWI boosting": regression(
        GWIRegressor(BoostingRegressor(max_iter=20, random_state=0), random_state=0)
    ),
    "GWI StudentT": regression(
        GWIRegressor(LinearRegression(), likelihood="student_t", random_state=0),
        target="outliers",
    ),
    "GWI varying noise": regression(
        GWIRegressor(LinearRegression(), noise_model="boosting", random_state=0),
        ABUNDANT,
        "varying",
    ),
    "GWIClassifier": classification(GWIClassifier(random_state=0)),
    "GWIClassifier 700 rows": classification(GWIClassifier(random_state=0), ABUNDANT),
    "GWIClassifier boosting": classification(
        GWIClassifier(BoostingClassifier(max_iter=20, random_state=0), random_state=0)
    ),
    "Tempered": regression(TemperedRegressor(pls(hyperparameters="maximise"))),
    "Thompson": optimisation,
}


# ---- The file ------------------------------------------------------------------------


def digest(values: Values) -> str:
    """SHA-256 of names, shapes and bytes."""
    sha = hashlib.sha256()
    for name, array in values.items():
        content = np.ascontiguousarray(array, float)
        sha.update(f"{name} {content.shape}".encode())
        sha.update(content.tobytes())
    return sha.hexdigest()[:16]


def measure(name: str) -> dict[str, Any]:
    """One fit: its digest, its values to six digits, or the error that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            values = FITS[name]()
        except Exception as error:  # noqa: BLE001  an error is what this fit gives
            return {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    shown = {
        key: [float(f"{v:.6g}") for v in np.ravel(array)]
        for key, array in values.items()
    }
    return {"digest": digest(values), "values": shown}


def difference(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Largest differences of two fits, in units of the largest magnitude."""
    if "error" in new or "error" in old:
        return {"error": new.get("error", "none now, but before")[:60]}
    found: dict[str, Any] = {}
    for key, before in old["values"].items():
        after = new["values"].get(key)
        if after is None or len(after) != len(before):
            found[key] = "shape"
            continue
        largest = max(np.max(np.abs(before)), 1e-300)
        found[key] = float(np.max(np.abs(np.subtract(after, before))) / largest)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Fit, write, compare; the number of fits that changed is not zero: fail."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], metavar="PATTERN")
    parser.add_argument("--output", type=Path, default=RESULTS / "digests.json")
    parser.add_argument("--against", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    names = [name for name in FITS if any(p in name for p in options.only)]
    fits = {}
    for name in names:
        fits[name] = measure(name)
        progress({"fit": name} | {k: v for k, v in fits[name].items() if k != "values"})
    options.output.parent.mkdir(exist_ok=True)
    content = {"version": skgpx.__version__, "machine": machine(), "fits": fits}
    options.output.write_text(json.dumps(content) + "\n")
    if options.against is None:
        return 0
    old = json.loads(options.against.read_text())["fits"]
    changed = [
        {"fit": name} | difference(fits[name], old[name])
        for name in names
        if name in old and fits[name] != old[name]
    ]
    sys.stdout.write(f"{len(changed)} of {len(names)} fits changed\n{table(changed)}\n")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
