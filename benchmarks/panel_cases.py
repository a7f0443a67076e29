"""Cases of the panel: a data set each, and the estimators that are meant for it.

A case is a function of a generator that returns a `Problem`. Made-up data are drawn
anew for each seed, real sets are split anew. Each case stands for a failure that was
seen once: what must not come back is a row here.
"""

# ruff: noqa: D103, ARG001, ARG005

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import ensemble
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LinearRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from benchmarks.data import CLASSIFICATION, REGRESSION, file_of, load
from skgpx.kernels import CategoricalKernel, Columns
from skgpx.likelihoods import (
    Beta,
    Binomial,
    Gamma,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    ShiftedMixture,
    StudentT,
    Tobit,
)

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
Rng = np.random.Generator
N_TEST = 300
# What is fitted, by name: the first word is the estimator that a cell counts for.
ESTIMATORS = {
    "PLSRegressor": skgpx.PLSRegressor(),
    "PLSRegressor StudentT": skgpx.PLSRegressor(likelihood=StudentT()),
    "PLSRegressor Poisson": skgpx.PLSRegressor(likelihood=Poisson()),
    "PLSRegressor square": skgpx.PLSRegressor(likelihood=Poisson("square")),
    "PLSRegressor mixture": skgpx.PLSRegressor(likelihood=ShiftedMixture(1.0)),
    "SpectralVGPRegressor": skgpx.SpectralVGPRegressor(),
    "SteinRFFRegressor": skgpx.SteinRFFRegressor(),
    "SteinRFFRegressor long": skgpx.SteinRFFRegressor(
        1.0 * RBF([1.0, 1.0, 20.0]), optimizer=None
    ),
    "GWIRegressor": skgpx.GWIRegressor(),
    "GWIRegressor boosting": skgpx.GWIRegressor(
        ensemble.HistGradientBoostingRegressor()
    ),
    "GWIRegressor linear": skgpx.GWIRegressor(LinearRegression()),
    "DecoupledSampler": skgpx.DecoupledSampler(),
    "PLSClassifier": skgpx.PLSClassifier(),
    "GWIClassifier": skgpx.GWIClassifier(),
    "GWIClassifier boosting": skgpx.GWIClassifier(
        ensemble.HistGradientBoostingClassifier()
    ),
    "GaussianProcessRegressor": GaussianProcessRegressor(
        n_restarts_optimizer=1, normalize_y=True
    ),
    "GaussianProcessClassifier": GaussianProcessClassifier(),
    "LogisticRegressionCV": make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(scoring="neg_log_loss", max_iter=2000),
    ),
}
# Likelihoods of which there is one made-up case each, learned without their values.
DRAWN: dict[str, Any] = {
    "NegativeBinomial": NegativeBinomial(3.0),
    "Gamma": Gamma(4.0),
    "LogNormal": LogNormal(0.5),
    "Beta": Beta(10.0),
    "Binomial": Binomial(),
    "Ordinal": Ordinal(thresholds=(-1.0, 0.0, 1.5)),
    "Tobit": Tobit(0.5),
}
ESTIMATORS |= {
    f"PLSRegressor {name}": skgpx.PLSRegressor(likelihood=type(one)())
    for name, one in DRAWN.items()
}
# One term a column, of which the last holds categories.
TERMS = [1.0 * Columns(RBF(0.5), [j]) for j in range(5)]
ESTIMATORS |= {
    f"{type(one).__name__} additive": one
    for one in (
        skgpx.PLSRegressor(
            sum(TERMS[1:], TERMS[0]) + Columns(CategoricalKernel(), [5])
        ),
        skgpx.SteinRFFRegressor(sum(TERMS[1:], TERMS[0])),
    )
}
P, S, T = "PLSRegressor", "SpectralVGPRegressor", "SteinRFFRegressor"
G, D = "GWIRegressor", "DecoupledSampler"
E, EC = PEERS = ("GaussianProcessRegressor", "GaussianProcessClassifier")
ANY, MANY = (P, S, T, G), (P, T, G)  # few columns, many columns
C, BOOSTED = ("PLSClassifier", "GWIClassifier"), "GWIClassifier boosting"
LOGISTIC = "LogisticRegressionCV"


def estimator(name: str, X: Array, seed: int) -> Any:
    """Fresh estimator; kernels of the peers start at the spread of the columns."""
    model, start = clone(ESTIMATORS[name]), X.std(axis=0) * np.sqrt(X.shape[1])
    start = np.where(start > 0.0, start, 1.0)
    if name == E:
        rbf = RBF(start, np.column_stack([1e-2 * start, 1e2 * start]))
        model.set_params(kernel=ConstantKernel() * rbf + WhiteKernel(0.1, (1e-8, 10)))
    if name == EC:
        model.set_params(kernel=ConstantKernel() * RBF(start.mean(), (1e-2, 1e3)))
    seeds = [k for k in model.get_params() if k.endswith("random_state")]
    return model.set_params(**dict.fromkeys(seeds, seed))


class Problem(NamedTuple):
    """Training and test rows; E[y] at the test rows where the function is known."""

    X: Array
    y: NDArray[Any]
    X_test: Array
    y_test: NDArray[Any]
    truth: Array | None = None
    given: Mapping[str, Array] = {}  # arguments of fit
    given_test: Mapping[str, Array] = {}  # arguments of predictions


class Case(NamedTuple):
    """One row of the panel: how its data are made, for whom, with how many seeds."""

    make: Callable[..., Problem]
    arguments: Sequence[Any]
    estimators: Sequence[str]
    n_seeds: int
    quick: bool


CASES: dict[str, Case] = {}


def add(
    estimators: Sequence[str],
    make: Callable[..., Problem],
    named: Mapping[str, Sequence[Any]],
    n_seeds: int = 5,
    quick: bool = True,
) -> None:
    """Enter a function under a name for each tuple of its arguments."""
    for name, arguments in named.items():
        CASES[name] = Case(make, arguments, estimators, n_seeds, quick)


# ---- Functions of the unit cube with normal noise ------------------------------------


def smooth(rng: Rng, d: int) -> Function:
    """Draw from an RBF process of lengthscale √d/4."""
    frequencies = rng.standard_normal((d, 200)) * 4.0 / np.sqrt(d)
    phases, weights = rng.uniform(0.0, 2.0 * np.pi, 200), rng.standard_normal(200)
    return lambda X: 0.1 * np.cos(X @ frequencies + phases) @ weights


def spikes(rng: Rng, d: int) -> Function:
    centres, heights = rng.uniform(0.0, 1.0, 6), rng.uniform(1.0, 4.0, 6)
    return lambda X: np.exp(-0.5 * ((X - centres) / 0.01) ** 2) @ heights


def steps(rng: Rng, d: int) -> Function:
    edges, heights = np.sort(rng.uniform(0.0, 1.0, 4)), rng.standard_normal(5)
    return lambda X: heights[np.searchsorted(edges, X[:, 0])]


def wave(cycles: float) -> Callable[[Rng, int], Function]:
    """So many cycles along the first column."""

    def drawn(rng: Rng, d: int) -> Function:
        phase = rng.uniform(0.0, 2.0 * np.pi)
        return lambda X: np.sin(2.0 * np.pi * cycles * X[:, 0] + phase)

    return drawn


def fixed(f: Function) -> Callable[[Rng, int], Function]:
    return lambda rng, d: f


two_waves = fixed(lambda X: np.sin(24.0 * X[:, 0]) + np.sin(10.0 * X[:, 5]))
mixed = fixed(
    lambda X: np.sin(20.0 * X[:, 0]) + X[:, 1] * np.cos(9.0 * X[:, 2]) + 0.5 * X[:, 3]
)
last_wave = fixed(lambda X: np.sin(X[:, 0]) + X[:, 1] + 0.5 * np.sin(6.0 * X[:, 2]))
two_columns = fixed(lambda X: np.sin(8.0 * X[:, 0] - 4.0) + 8.0 * (X[:, 1] - 0.5) ** 2)
slope_and_wave = fixed(lambda X: np.sin(8.0 * X[:, 0]) + X[:, 1])
nothing = fixed(lambda X: np.zeros(len(X)))


def function(
    rng: Rng, draw: Any, n: int, d: int = 1, noise: float = 0.1, low: float = 0.0
) -> Problem:
    """Rows between ``low`` and one in each column."""
    f, X = draw(rng, d), rng.uniform(low, 1.0, size=(n + N_TEST, d))
    truth = f(X)
    y = truth + noise * rng.standard_normal(len(X))
    return Problem(X[:n], y[:n], X[n:], y[n:], truth[n:])


terms = fixed(
    lambda X: (
        np.sin(6.0 * X[:, 0])
        + 4.0 * (X[:, 1] - 0.5) ** 2
        + np.cos(9.0 * X[:, 2])
        + X[:, 3]
    )
)


def additive(rng: Rng, n: int, effect: float) -> Problem:
    """Terms of single columns, one of no effect, and four categories."""
    X, noise = rng.uniform(size=(n + N_TEST, 6)), rng.standard_normal(n + N_TEST)
    X[:, 5] = np.floor(4.0 * X[:, 5])
    truth = (
        terms(rng, 6)(X) + effect * np.array([0.0, 1.0, -1.0, 0.4])[X[:, 5].astype(int)]
    )
    y = truth + 0.2 * noise
    return Problem(X[:n], y[:n], X[n:], y[n:], truth[n:])


add((P, f"{P} additive"), additive, {"additive, categories": (150, 1.0)})
add((T, f"{T} additive"), additive, {"additive, numbers": (300, 0.0)})
one_and_two = {"one column": (smooth, 200), "two columns": (smooth, 200, 2)}
add((*ANY, D, E), function, {f"smooth, {k}": v for k, v in one_and_two.items()})
add((*ANY, D, E), function, {"smooth, three columns": (smooth, 200, 3)}, quick=False)
add((*MANY, D, E), function, {"smooth, six columns": (smooth, 300, 6)})
few = {f"{n} rows": (smooth, n) for n in (1, 3, 5, 10, 20, 40)}
add((*ANY, D, E), function, few)
add(
    (*MANY, D, E),
    function,
    {f"{n} rows of six columns": (smooth, n, 6) for n in (10, 40)},
)
add(MANY, function, {"1000 rows of four columns": (mixed, 1000, 4)})
add(MANY, function, {"10000 rows of four columns": (mixed, 10000, 4)}, quick=False)
add((T,), function, {"100000 rows of four columns": (mixed, 100000, 4)}, 1, quick=False)
add((S,), function, {"100000 rows of one column": (smooth, 100000, 1, 0.3)})
add((*ANY, E), function, {"wave, 20 cycles in 400 rows": (wave(20.0), 400, 1, 0.2)})
add(ANY, function, {"wave, 100 cycles in 2000 rows": (wave(100.0), 2000, 1, 0.2)})
long = {"wave, 100 cycles in 20000 rows": (wave(100.0), 20000, 1, 0.2)}
add(ANY, function, long, quick=False)
add((*MANY, E), function, {"wave in one of five columns": (wave(6.0), 400, 5)})
add(MANY, function, {"waves in two of six columns": (two_waves, 300, 6)})
add((S, G), function, {"wave in one of two columns": (wave(30.0), 2000, 2, 0.2)})
long = {"long lengthscale given": (last_wave, 600, 3, 0.1, -1.0)}
add((T, "SteinRFFRegressor long"), function, long)
add((*ANY, E), function, {"spikes": (spikes, 200), "steps": (steps, 200)})
add(MANY, function, {"two of 40 columns matter": (two_columns, 300, 40, 0.2)})
sixty = {"two of 60 columns matter": (two_columns, 300, 60, 0.2)}
add(MANY, function, sixty, quick=False)
add((*ANY, D), function, {"all noise, one column": (nothing, 300, 1, 1.0)})
add((*MANY, D), function, {"all noise, five columns": (nothing, 300, 5, 1.0)})
none = {
    "no noise, one column": (smooth, 60, 1, 0),
    "no noise, two": (smooth, 200, 2, 0),
}
add((*ANY, D, E), function, none)
around = (P, G, "GWIRegressor boosting", "GWIRegressor linear")
add(around, function, {"around a straight line": (slope_and_wave, 400, 2)})


# ---- Many rows -----------------------------------------------------------------------


def roughness(rng: Rng, d: int) -> Function:
    """Draw from a Matern process of order 1/2 and lengthscale √d."""
    # its frequencies have a Cauchy distribution
    frequencies = rng.standard_normal((d, 4000)) / np.abs(rng.standard_normal(4000))
    frequencies /= np.sqrt(d)
    phases, weights = rng.uniform(0.0, 2.0 * np.pi, 4000), rng.standard_normal(4000)

    def drawn(X: Array) -> Array:
        blocks = np.array_split(X, max(len(X) // 1000, 1))
        values = [np.cos(block @ frequencies + phases) @ weights for block in blocks]
        return np.concatenate(values) * np.sqrt(2.0 / 4000.0)

    return drawn


def kinks(rng: Rng, d: int) -> Function:
    """A slope in every column, and products of hinges of one or two columns."""
    slopes = rng.standard_normal(d) / np.sqrt(d)
    columns, edges = rng.integers(d, size=(12, 2)), rng.uniform(-1.0, 1.0, (12, 2))
    heights = rng.standard_normal(12) / np.sqrt(12.0)

    def drawn(X: Array) -> Array:
        hinges = np.maximum(X[:, columns] - edges, 0.0)
        hinges[:, ::2, 1] = 1.0
        return X @ slopes + hinges.prod(axis=2) @ heights

    return drawn


def measurements(rng: Rng, n: int) -> Problem:
    """Eighteen columns: integers, skewed amounts, many zeros, and lags of one another.

    The function has a trend and kinks, the noise grows with an amount.
    """
    z = rng.standard_normal((n + N_TEST, 18))
    # columns 10 to 15 are lags of one quantity
    for j in range(11, 16):
        z[:, j] = 0.9 * z[:, j - 1] + 0.4 * z[:, j]
    columns = z.copy()
    columns[:, :4] = np.round(20.0 * z[:, :4])
    columns[:, 4:7] = np.round(10.0 * np.exp(z[:, 4:7]))
    columns[:, 7:10] = np.maximum(np.round(4.0 * z[:, 7:10] - 3.0), 0.0)
    columns[:, 10:16] = np.round(z[:, 10:16], 1)
    X = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    truth = kinks(rng, 18)(np.clip(X, -3.0, 3.0))
    noise = 0.3 * truth.std() * np.exp(0.3 * np.clip(z[:, 4], -1.0, 2.0))
    y = truth + noise * rng.standard_normal(len(X))
    return Problem(columns[:n], y[:n], columns[n:], y[n:], truth[n:])


for n in (5000, 15000, 40000):
    many = {
        f"smooth, {n} rows": (smooth, n, 8),
        f"rough, {n} rows": (roughness, n, 4),
        f"kinks and a trend, {n} rows": (kinks, n, 6, 0.1, -2.0),
        f"additive, {n} rows": (terms, n, 6, 0.2),
    }
    add((P,), function, many, 3, quick=False)
    add((P,), measurements, {f"measurements, {n} rows": (n,)}, 3, quick=False)


# ---- Where there are no rows ---------------------------------------------------------


def elsewhere(rng: Rng, place: Callable[..., tuple[Array, Array]], d: int) -> Problem:
    """One smooth function on training and test rows that lie apart."""
    X, X_test = place(rng, d)
    n, both = len(X), np.vstack([X, X_test])
    truth = smooth(rng, d)(both)
    y = truth + 0.1 * rng.standard_normal(len(both))
    return Problem(X, y[:n], X_test, y[n:], truth[n:])


def gap(rng: Rng, d: int) -> tuple[Array, Array]:
    """A quarter of the volume, in the middle, without rows."""
    half, X = 0.5 * 0.25 ** (1.0 / d), rng.uniform(size=(1000, d))
    X = X[np.abs(X - 0.5).max(axis=1) > half][:200]
    return X, rng.uniform(0.5 - half, 0.5 + half, size=(N_TEST, d))


def beyond(rng: Rng, d: int) -> tuple[Array, Array]:
    """Up to one width on either side."""
    X, X_test = rng.uniform(size=(150, d)), rng.uniform(size=(N_TEST, d))
    X_test[:, 0] += rng.choice([-1.0, 1.0], N_TEST)
    return X, X_test


def far(rng: Rng, d: int) -> tuple[Array, Array]:
    return rng.uniform(size=(250, d)), rng.uniform(-5.0, 5.0, (N_TEST, d))


add((*ANY, D, E), elsewhere, {"gap": (gap, 1), "gap, two columns": (gap, 2)})
sides = {"extrapolation": (beyond, 1), "extrapolation, two columns": (beyond, 2)}
add((*ANY, D, E), elsewhere, sides)
add((*MANY, "GWIRegressor boosting", E), elsewhere, {"far away": (far, 5)})


# ---- Rows, columns and targets as they come ------------------------------------------


def changed(rng: Rng, change: Any, n: int, d: int, noise: float = 0.1) -> Problem:
    """A smooth function whose problem is changed."""
    return change(rng, function(rng, smooth, n, d, noise))


def sampled(share: float) -> Callable[[Rng, Problem], Problem]:
    """A bootstrap of so many times the rows; ten copies of each for a share of ten."""

    def change(rng: Rng, p: Problem) -> Problem:
        n = len(p.y)
        rows = rng.integers(n, size=round(share * n))
        rows = np.tile(np.arange(n), 10) if share == 10.0 else rows
        return p._replace(X=p.X[rows], y=p.y[rows])

    return change


def weighted(weight: float) -> Callable[[Rng, Problem], Problem]:
    return lambda rng, p: p._replace(given={"sample_weight": np.full(len(p.y), weight)})


def of_columns(f: Function) -> Callable[[Rng, Problem], Problem]:
    return lambda rng, p: p._replace(X=f(p.X), X_test=f(p.X_test))


def of_targets(f: Callable[..., Array]) -> Callable[[Rng, Problem], Problem]:
    """What ``f(rng, X, y)`` makes of y; the truth is its mean."""
    return lambda rng, p: p._replace(
        y=f(rng, p.X, p.y), y_test=f(rng, p.X_test, p.y_test)
    )


def in_other_units(rng: Rng, p: Problem) -> Problem:
    """Units of y and of each column differ by many orders of magnitude."""
    X, y, X_test, y_test, truth = p[:5]
    y, y_test, truth = (1e6 * v + 1e8 for v in (y, y_test, truth))
    return Problem(X * [1e-6, 1e5], y, X_test * [1e-6, 1e5], y_test, truth)


def wild_inputs(rng: Rng, p: Problem) -> Problem:
    p.X[rng.choice(len(p.X), len(p.X) // 100, replace=False)] *= 1e3
    return p


def wild_targets(rng: Rng, p: Problem) -> Problem:
    n = len(p.y) // 20
    p.y[rng.choice(len(p.y), n, replace=False)] += 3.0 * rng.standard_normal(n)
    return p


def correlated(rng: Rng, p: Problem) -> Problem:
    """Three copies of each column, with 1 % of noise."""
    X, X_test = (
        np.hstack([v + 0.01 * rng.standard_normal(v.shape) for _ in range(3)])
        for v in (p.X, p.X_test)
    )
    return p._replace(X=X, X_test=X_test)


def deviation(X: Array) -> Array:
    return 0.02 + 0.5 * X[:, 0] ** 2


def varying_noise(rng: Rng, X: Array, y: Array) -> Array:
    return y + deviation(X) * rng.standard_normal(len(y))


def known_noise(rng: Rng, p: Problem) -> Problem:
    given, test = ({"noise_variance": deviation(X) ** 2} for X in (p.X, p.X_test))
    return of_targets(varying_noise)(rng, p)._replace(given=given, given_test=test)


def grades(rng: Rng, p: Problem) -> Problem:
    """Six grades; inputs that are rounded, so that many rows agree."""
    y, y_test = (np.clip(np.round(5.5 + v), 3, 8) for v in (p.y, p.y_test))
    return Problem(p.X.round(1), y, p.X_test.round(1), y_test)


def heavy(rng: Rng, X: Array, y: Array) -> Array:
    return y + 0.15 * rng.standard_t(2.5, len(y))


def shifted(rng: Rng, p: Problem) -> Problem:
    p = of_targets(lambda rng, X, y: y + rng.binomial(1, 0.5, len(y)))(rng, p)
    return p._replace(truth=p.truth + 0.5)


def discrete(rng: Rng) -> Problem:
    """Columns of two, two, three and six values, one of any, and a constant."""
    levels, X = np.array([2, 2, 3, 6]), rng.uniform(size=(300 + N_TEST, 6))
    X[:, :4], X[:, 5] = np.floor(X[:, :4] * levels) / levels, 1.0
    truth = smooth(rng, 6)(X)
    y = truth + 0.1 * rng.standard_normal(len(X))
    return Problem(X[:300], y[:300], X[300:], y[300:], truth[300:])


add(ANY, changed, {"other units": (in_other_units, 150, 2)})
add(ANY, changed, {"ten copies of rows": (sampled(10.0), 100, 1)})
bootstraps = {"of all": (sampled(1.0), 300, 1), "of half": (sampled(0.5), 300, 1)}
bootstraps["two columns"] = (sampled(1.0), 300, 2)
add(ANY, changed, {f"bootstrap, {k}": v for k, v in bootstraps.items()})
long = {"bootstrap, 4000 rows": (sampled(1.0), 4000, 1)}
add((S, P), changed, long, quick=False)
heavy_tails = (P, "PLSRegressor StudentT")
add(heavy_tails[1:2], changed, {"bootstrap, StudentT": (sampled(1.0), 120, 1)})
add(ANY, changed, {f"weights of {w:g}": (weighted(w), 200, 1) for w in (10.0, 0.1)})
add((S,), changed, {"outliers in x, two columns": (wild_inputs, 400, 2)})
add(MANY, changed, {"outliers in x, six columns": (wild_inputs, 400, 6)})
add((*heavy_tails, S, T, G, E), changed, {"outliers in y": (wild_targets, 200, 1)})
tails = {"heavy tails": (of_targets(heavy), 250, 2, 0.0)}
add((*heavy_tails, S, T, G, "GWIRegressor boosting"), changed, tails)
skewed = of_columns(lambda X: np.exp(4.0 * X))
add(MANY, changed, {"skewed columns": (skewed, 300, 4)})
add(MANY, discrete, {"discrete columns": ()})
add((*MANY, E), changed, {"correlated columns": (correlated, 300, 3)})
add(ANY, changed, {"noise that varies": (of_targets(varying_noise), 300, 1, 0.0)})
add((P, S), changed, {"noise that is known": (known_noise, 300, 1, 0.0)})
add(MANY, changed, {"grades": (grades, 400, 4, 0.4)})
add(("PLSRegressor mixture",), changed, {"shifted mixture": (shifted, 200, 1)})


# ---- Counts --------------------------------------------------------------------------


def counts(rng: Rng, mean: Function, ratio: float, n: int, d: int = 1) -> Problem:
    """Negative binomial counts whose variance is ``ratio`` times their mean."""
    X = rng.uniform(size=(n + N_TEST, d))
    mu = mean(X)
    if ratio == 1.0:
        y = rng.poisson(mu).astype(float)
    else:
        y = rng.negative_binomial(mu / (ratio - 1.0), 1.0 / ratio).astype(float)
    return Problem(X[:n], y[:n], X[n:], y[n:], mu[n:])


def exposures(rng: Rng) -> Problem:
    X, hours = rng.uniform(size=(700, 2)), rng.uniform(1.0, 50.0, 700)
    mu = hours * np.exp(np.sin(6.0 * X[:, 0]) - X[:, 1])
    y = rng.poisson(mu).astype(float)
    given, given_test = ({"exposure": e} for e in (hours[:400], hours[400:]))
    return Problem(X[:400], y[:400], X[400:], y[400:], mu[400:], given, given_test)


def around_level(level: float) -> Function:
    return lambda X: level * np.exp(np.sin(6.0 * X[:, 0]))


levels = {"counts of 0.3": (0.3, 1.0), "counts of 2": (2.0, 1.0)}
levels |= {"counts of 30000": (3e4, 1.0), "overdispersed counts of 3": (3.0, 4.0)}
levels["overdispersed counts of 300"] = (300.0, 25.0)
levels = {k: (around_level(level), ratio, 400) for k, (level, ratio) in levels.items()}
add(("PLSRegressor Poisson", "PLSRegressor NegativeBinomial"), counts, levels)
add(("PLSRegressor Poisson",), exposures, {"exposures": ()})
square = {"counts, square link": (lambda X: 4.0 * np.sin(5.0 * X[:, 0]) ** 2, 1.0, 30)}
add(("PLSRegressor square",), counts, square)


def drawn_from(rng: Rng, name: str) -> Problem:
    """Two columns; exposures, trials, or a third of the training rows censored."""
    likelihood, X = DRAWN[name], rng.uniform(size=(700, 2))
    f, quantity = 1.5 * np.sin(6.0 * X[:, :1]) - X[:, 1:], DRAWN[name].row_quantity
    if quantity == "exposure":
        known = rng.integers(1, 20, 700).astype(float)
        likelihood = likelihood.at_rows(known)
    y, truth = likelihood.sample(f, rng)[:, 0], likelihood.mean(f)[:, 0]
    given, given_test = {}, {}
    if quantity == "exposure":
        given, given_test = {quantity: known[:400]}, {quantity: known[400:]}
    elif quantity == "censoring":
        bound = rng.permutation(y[:400]) + 0.5 * y[:400].std()
        given = {quantity: (y[:400] > bound) * 1.0}
        y[:400] = np.minimum(y[:400], bound)
    return Problem(X[:400], y[:400], X[400:], y[400:], truth[400:], given, given_test)


for name in DRAWN:
    add((f"PLSRegressor {name}",), drawn_from, {f"drawn from {name}": (name,)})


# ---- Series --------------------------------------------------------------------------


def missing(x: Array, y: Array, truth: Array | None, test: NDArray[Any]) -> Problem:
    X, known = x[:, np.newaxis], None if truth is None else truth[test]
    return Problem(X[~test], y[~test], X[test], y[test], known)


def monthly(rng: Rng, forecast: bool) -> Problem:
    """The last two of twenty years are missing, or two others and single months."""
    x = np.arange(240.0)
    turn = 2.0 * np.pi * x / 12.0
    truth = 0.01 * x + 0.00005 * x**2 + np.sin(turn) + 0.4 * np.cos(2.0 * turn)
    holes = (rng.random(240) < 0.1) | (np.abs(x - 132.0) < 12.0)
    y = truth + 0.2 * rng.standard_normal(240)
    return missing(x, y, truth, x >= 216.0 if forecast else holes)


def hourly(rng: Rng) -> Problem:
    """Daily and weekly cycles and a wandering level; hours and days are missing."""
    x = np.arange(2400.0)
    turn = 2.0 * np.pi * x / 24.0
    truth = np.sin(turn) + 0.5 * np.cos(2.0 * turn) + 0.4 * np.sin(turn / 7.0)
    truth += np.cumsum(0.05 * rng.standard_normal(2400))
    holes = (rng.random(2400) < 0.05) | np.isin(x // 24, rng.choice(100, 8))
    return missing(x, truth + 0.2 * rng.standard_normal(2400), truth, holes)


def hourly_counts(rng: Rng) -> Problem:
    """Forty days with a daily cycle; each fifth day is missing."""
    x = np.arange(960.0)
    mu = np.exp(1.5 + np.sin(2.0 * np.pi * x / 24.0))
    return missing(x, rng.poisson(mu).astype(float), mu, x // 24 % 5 == 3)


def air_quality(rng: Rng) -> Problem:
    """1500 hours of a sensor; single hours and blocks of 25 are missing."""
    file = file_of("air_quality_pt08s1", None)
    values = np.genfromtxt(file, delimiter=",", skip_header=1, usecols=-1)
    first = rng.integers(len(values) - 1500)
    values = values[first : first + 1500]
    hours = np.flatnonzero(values > 0.0)
    holes = np.isin(hours // 25, rng.choice(60, 4)) | (rng.random(len(hours)) < 0.1)
    return missing(hours.astype(float), values[hours] / 100.0, None, holes)


add((*ANY, D, E), monthly, {"monthly series": (False,)})
add((P, S, G, E), monthly, {"monthly series, forecast": (True,)})
add((P, S, G), hourly, {"hourly series": ()})
add((P, S, G), air_quality, {"air quality": ()}, 3)
add(("PLSRegressor Poisson",), hourly_counts, {"hourly counts": ()})


# ---- Classes -------------------------------------------------------------------------


def classes(rng: Rng, scores: Callable[[Rng, Array], Array], n: int, d: int) -> Problem:
    """Softmax of scores, (rows, classes); every class is there."""
    X = rng.uniform(-2.0, 2.0, size=(n + 2 * N_TEST, d))
    logits = scores(rng, X)
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    absent = np.setdiff1d(np.arange(logits.shape[1]), y[:n])
    y[: len(absent)] = absent
    return Problem(X[:n], y[:n], X[n:], y[n:])


def smooth_scores(k: int) -> Callable[[Rng, Array], Array]:
    return lambda rng, X: (
        4.0 * np.column_stack([smooth(rng, X.shape[1])(0.3 * X) for _ in range(k)])
    )


def two(log_odds: Function) -> Callable[[Rng, Array], Array]:
    return lambda rng, X: np.column_stack([np.zeros(len(X)), log_odds(X)])


several = {f"{k} classes": (smooth_scores(k), 300, 2) for k in (2, 3)}
add((*C, EC), classes, several)
add((*C, EC), classes, {"10 classes": (smooth_scores(10), 500, 2)})
labels = {f"{n} labels": (two(lambda X: 3.0 * X[:, 0]), n, 2) for n in (10, 40)}
labels["labels of noise"] = (two(lambda X: np.zeros(len(X))), 300, 5)
labels["separable classes"] = (two(lambda X: 1e9 * (X[:, 0] - X[:, 1])), 150, 2)
add((*C, EC), classes, labels)
turns = two(lambda X: 8.0 * np.cos(2.5 * np.pi * X[:, 0]))
add((*C, BOOSTED), classes, {"classes alternate": (turns, 1000, 1)})
add((*C, BOOSTED), classes, {"classes alternate, six columns": (turns, 1000, 6)})
rare = two(lambda X: X @ [2.0, 2.0, 1.0] - 8.0)
add((*C, BOOSTED), classes, {"1 % positives": (rare, 1500, 3)})
linear = {
    f"linear log odds, {n} rows": (two(lambda X: X @ [2.0, -1.5, 1, 0, 0, 0]), n, 6)
    for n in (100, 500)
}
steep = {"steep log odds": (two(lambda X: X @ [6.0, 4.0, -3.0, 0.0]), 150, 4)}
add((*C, LOGISTIC), classes, linear | steep)


def proportions(rng: Rng, n: int) -> Problem:
    """Five lengths of animals of all sizes, whose sexes differ in proportions."""
    n_rows = n + 2 * N_TEST
    y = rng.integers(2, size=n_rows)
    size = rng.standard_normal(n_rows)
    mean = np.outer(size, [0.95, 0.97, 0.99, 0.99, 0.98])
    mean += np.outer(y, [0.18, -0.22, 0.05, -0.05, 0.0])
    X = mean + 0.06 * rng.standard_normal(mean.shape)
    return Problem(X[:n], y[:n], X[n:], y[n:])


sizes = {f"proportions, {n} rows": (n,) for n in (100, 400)}
add((*C, LOGISTIC), proportions, sizes)


# ---- Real sets -----------------------------------------------------------------------


def real(rng: Rng, name: str, n: int = 1500) -> Problem:
    """Random rows, at most ``n`` for training, standardised by these."""
    X, y = load(name)
    order, n_test = rng.permutation(len(y)), min(len(y) // 5, 2000)
    test, train = order[:n_test], order[n_test:][:n]
    scale = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
    if name in (*CLASSIFICATION, *BUNDLED_CLASSES):
        y = y.astype(int)
    else:
        y = (y - y[train].mean()) / y[train].std()
    return Problem(X[train], y[train], X[test], y[test])


def labels_of(rng: Rng, name: str, n: int) -> Problem:
    """Labels drawn with a real function as their log odds, times three."""
    p = real(rng, name, n)
    labels = [
        (rng.logistic(size=len(y)) < 3.0 * y).astype(int) for y in (p.y, p.y_test)
    ]
    return p._replace(y=labels[0], y_test=labels[1])


BUNDLED_CLASSES = ("sklearn_iris", "sklearn_wine", "sklearn_breast_cancer")
BUNDLED_CLASSES += ("sklearn_digits",)
CHEAP = ("boston", "energy_heating", "wine")
add((*MANY, E), real, {"sklearn_diabetes": ("sklearn_diabetes",)}, 3)
add(MANY, real, {name: (name,) for name in CHEAP}, 3)
others = (name for name in REGRESSION if name not in CHEAP)
add(MANY, real, {name: (name,) for name in others}, 3, quick=False)
large = {f"{name}, 36000 rows": (name, 36000) for name in ("kin40k", "protein")}
add(MANY, real, large, 1, quick=False)
medium = {f"{name}, 3000 rows": (name, 3000) for name in ("kin8nm", "power", "protein")}
add(ANY, real, medium, 1, quick=False)
add((*C, EC), real, {name: (name,) for name in BUNDLED_CLASSES[:3]}, 3)
add(C, real, {name: (name,) for name in ("heart", "wine_colour")}, 3)
others = (*sorted({*CLASSIFICATION} - {"heart", "wine_colour"}), "sklearn_digits")
add(C, real, {name: (name,) for name in others}, 2, quick=False)
many = {f"labels of kin40k, {n} rows": ("kin40k", n) for n in (5000, 36000)}
add(C, labels_of, many, 1, quick=False)
