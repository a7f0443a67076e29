"""Cases of the panel: a data set each, and the estimators that are meant for it.

A case is a function of a generator that returns a `Problem`. Made-up cases come in
variants, arguments of the function, and are drawn anew for each seed; real sets are
split anew. Each stands for a failure that was seen once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LinearRegression

from benchmarks.data import CLASSIFICATION, REGRESSION, file_of, load
from skgpx import (
    DecoupledSampler,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx.likelihoods import Poisson, ShiftedMixture, StudentT

Array = NDArray[np.float64]
N_TEST = 300


class Problem(NamedTuple):
    """Training and test rows, what is known of them, and the function if it is known."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    truth: Array | None = None  # E[y] at the test rows
    given: dict[str, Array] = {}  # noqa: RUF012  arguments of fit
    given_test: dict[str, Array] = {}  # noqa: RUF012  arguments of predictions


class Case(NamedTuple):
    """One row of the panel: how its data are made, for whom, with how many seeds."""

    make: Callable[..., Problem]
    arguments: tuple[Any, ...]
    estimators: tuple[str, ...]
    n_seeds: int
    quick: bool


# What is fitted, by name: the first word is the estimator that a cell counts for.
ESTIMATORS = {
    "PLSRegressor": PLSRegressor(),
    "PLSRegressor StudentT": PLSRegressor(likelihood=StudentT()),
    "PLSRegressor Poisson": PLSRegressor(likelihood=Poisson("exp")),
    "PLSRegressor square": PLSRegressor(likelihood=Poisson("square")),
    "PLSRegressor mixture": PLSRegressor(likelihood=ShiftedMixture(1.0)),
    "SpectralVGPRegressor": SpectralVGPRegressor(),
    "SteinRFFRegressor": SteinRFFRegressor(),
    "SteinRFFRegressor long": SteinRFFRegressor(
        1.0 * RBF([1.0, 1.0, 20.0]), optimizer=None
    ),
    "GWIRegressor": GWIRegressor(),
    "GWIRegressor boosting": GWIRegressor(HistGradientBoostingRegressor()),
    "GWIRegressor linear": GWIRegressor(LinearRegression()),
    "DecoupledSampler": DecoupledSampler(),
    "PLSClassifier": PLSClassifier(),
    "GWIClassifier": GWIClassifier(),
    "GWIClassifier boosting": GWIClassifier(HistGradientBoostingClassifier()),
    "GaussianProcessRegressor": GaussianProcessRegressor(
        n_restarts_optimizer=1, normalize_y=True
    ),
    "GaussianProcessClassifier": GaussianProcessClassifier(),
}
P, S, T, G, D = (
    "PLSRegressor",
    "SpectralVGPRegressor",
    "SteinRFFRegressor",
    "GWIRegressor",
    "DecoupledSampler",
)
C = ("PLSClassifier", "GWIClassifier")
E, EC = PEERS = ("GaussianProcessRegressor", "GaussianProcessClassifier")


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


CASES: dict[str, Case] = {}


def case(
    *estimators: str,
    variants: tuple[tuple[Any, ...], ...] = ((),),
    n_seeds: int = 5,
    quick: int = 99,
) -> Callable[[Callable[..., Problem]], Callable[..., Problem]]:
    """Enter a function once a variant; the first ``quick`` are in the short run."""

    def enter(make: Callable[..., Problem]) -> Callable[..., Problem]:
        for i, arguments in enumerate(variants):
            name = " ".join([make.__name__, *map(str, arguments)])
            CASES[name] = Case(make, arguments, estimators, n_seeds, i < quick)
        return make

    return enter


def uniform(
    rng: np.random.Generator,
    n: int,
    d: int,
    f: Callable[[Array], Array],
    noise: float,
    low: float = 0.0,
    high: float = 1.0,
) -> Problem:
    """Rows of a cube, a function of them and normal noise."""
    X = rng.uniform(low, high, size=(n + N_TEST, d))
    truth = f(X)
    y = truth + noise * rng.standard_normal(len(X))
    return Problem(X[:n], y[:n], X[n:], y[n:], truth[n:])


def smooth_function(rng: np.random.Generator, d: int) -> Callable[[Array], Array]:
    """Draw from an RBF process of lengthscale √d/4 on the unit cube."""
    frequencies = rng.standard_normal((d, 200)) * 4.0 / np.sqrt(d)
    phases, weights = rng.uniform(0.0, 2.0 * np.pi, 200), rng.standard_normal(200)
    return lambda X: 0.1 * np.cos(X @ frequencies + phases) @ weights


# ---- Ordinary functions, and more or fewer of their rows -----------------------------


@case(P, S, T, G, D, E, variants=((1,), (2,), (3,)), quick=2)
def smooth(rng, d):
    return uniform(rng, 200, d, smooth_function(rng, d), 0.1)


@case(P, T, G, D, E, variants=((6,),))
def smooth_many(rng, d):
    return uniform(rng, 300, d, smooth_function(rng, d), 0.1)


@case(P, S, T, G, D, E, variants=((1,), (3,), (5,), (10,), (20,), (40,)))
def few_rows(rng, n):
    return uniform(rng, n, 1, smooth_function(rng, 1), 0.1)


@case(P, T, G, D, E, variants=((10,), (40,)))
def few_rows_of_six(rng, n):
    return uniform(rng, n, 6, smooth_function(rng, 6), 0.1)


def _mixed(X: Array) -> Array:
    return np.sin(20.0 * X[:, 0]) + X[:, 1] * np.cos(9.0 * X[:, 2]) + 0.5 * X[:, 3]


@case(P, T, G, variants=((1000,), (10000,)), n_seeds=3, quick=1)
def more_rows(rng, n):
    return uniform(rng, n, 4, _mixed, 0.1)


@case(T, variants=((100000,),), n_seeds=1, quick=0)
def most_rows(rng, n):
    return uniform(rng, n, 4, _mixed, 0.1)


@case(S, variants=((100000,),), n_seeds=3)
def long_series(rng, n):
    return uniform(rng, n, 1, smooth_function(rng, 1), 0.3)


@case(P, S, T, G)
def units(rng):
    """Units of y and of each column differ by many orders of magnitude."""
    problem = uniform(rng, 150, 2, smooth_function(rng, 2), 0.1)
    columns, (X, y, X_test, y_test, truth) = np.array([1e-6, 1e5]), problem[:5]
    y, y_test, truth = (1e6 * v + 1e8 for v in (y, y_test, truth))
    return Problem(X * columns, y, X_test * columns, y_test, truth)


# ---- Rows that count more than once --------------------------------------------------


@case(P, S, T, G)
def copies(rng):
    problem = uniform(rng, 100, 1, smooth_function(rng, 1), 0.1)
    return _rows_of(problem, np.tile(np.arange(100), 10))


@case(P, S, T, G, variants=((1, 300, 1.0), (2, 300, 1.0), (1, 300, 0.5)), quick=2)
def bootstrap(rng, d, n, share):
    problem = uniform(rng, n, d, smooth_function(rng, d), 0.1)
    return _rows_of(problem, rng.integers(n, size=round(share * n)))


@case(S, variants=((4000,),), quick=0)
def long_bootstrap(rng, n):
    problem = uniform(rng, n, 1, smooth_function(rng, 1), 0.1)
    return _rows_of(problem, rng.integers(n, size=n))


@case("PLSRegressor StudentT")
def bootstrap_of_heavy_tails(rng):
    problem = uniform(rng, 120, 1, smooth_function(rng, 1), 0.1)
    return _rows_of(problem, rng.integers(120, size=120))


def _rows_of(problem: Problem, rows: NDArray[np.intp]) -> Problem:
    return problem._replace(X=problem.X[rows], y=problem.y[rows])


@case(P, S, T, G, variants=((10.0,), (0.1,)))
def weights(rng, weight):
    problem = uniform(rng, 200, 1, smooth_function(rng, 1), 0.1)
    return problem._replace(given={"sample_weight": np.full(200, weight)})


# ---- Short structure -----------------------------------------------------------------


def _wave(rng: np.random.Generator, cycles: float, column: int = 0) -> Callable:
    phase = rng.uniform(0.0, 2.0 * np.pi)
    return lambda X: np.sin(2.0 * np.pi * cycles * X[:, column] + phase)


@case(P, S, T, G, E, variants=((20, 400),))
def wave(rng, cycles, n):
    return uniform(rng, n, 1, _wave(rng, cycles), 0.2)


@case(P, S, T, G, variants=((100, 2000), (100, 20000)), n_seeds=3, quick=1)
def short_wave(rng, cycles, n):
    return uniform(rng, n, 1, _wave(rng, cycles), 0.2)


@case(P, T, G, E, variants=((1.5, 4, 400),))
def wave_in_one_column(rng, cycles, width, n):
    problem = uniform(rng, n, 5, _wave(rng, cycles), 0.1, -0.5 * width, 0.5 * width)
    return problem


@case(P, T, G)
def waves_in_two_of_six(rng):
    def f(X):
        return np.sin(12.0 * X[:, 0]) + np.sin(5.0 * X[:, 5])

    return uniform(rng, 300, 6, f, 0.1, -1.0, 1.0)


@case(S, G)
def wave_in_one_of_two(rng):
    return uniform(rng, 2000, 2, _wave(rng, 30.0), 0.2)


@case(T, "SteinRFFRegressor long")
def long_lengthscale(rng):
    def f(X):
        return np.sin(X[:, 0]) + X[:, 1] + 0.5 * np.sin(6.0 * X[:, 2])

    return uniform(rng, 600, 3, f, 0.1, -1.0, 1.0)


@case(P, S, T, G, E)
def spikes(rng):
    centres, heights = rng.uniform(0.0, 10.0, 6), rng.uniform(1.0, 4.0, 6)

    def f(X):
        return np.exp(-0.5 * ((X - centres) / 0.1) ** 2) @ heights

    return uniform(rng, 200, 1, f, 0.1, 0.0, 10.0)


@case(P, S, T, G, E)
def steps(rng):
    edges, heights = np.sort(rng.uniform(0.0, 1.0, 4)), rng.standard_normal(5)
    return uniform(rng, 200, 1, lambda X: heights[np.searchsorted(edges, X[:, 0])], 0.1)


# ---- Where there are no rows ---------------------------------------------------------


@case(P, S, T, G, D, E, variants=((1,), (2,)))
def gap(rng, d):
    """Test rows lie in the middle, a quarter of the volume without other rows."""
    half = 0.5 * 0.25 ** (1.0 / d)
    X = rng.uniform(size=(1000, d))
    X = X[np.abs(X - 0.5).max(axis=1) > half][:200]
    return _elsewhere(rng, X, rng.uniform(0.5 - half, 0.5 + half, size=(N_TEST, d)))


@case(P, S, T, G, D, E, variants=((1,), (2,)))
def extrapolation(rng, d):
    """Test rows lie up to one width of the data beyond them."""
    X, X_test = rng.uniform(size=(150, d)), rng.uniform(size=(N_TEST, d))
    X_test[:, 0] += rng.choice([-1.0, 1.0], N_TEST)
    return _elsewhere(rng, X, X_test)


@case(P, T, G, "GWIRegressor boosting", E)
def far_away(rng):
    X, X_test = rng.uniform(size=(250, 5)), rng.uniform(-5.0, 5.0, (N_TEST, 5))
    return _elsewhere(rng, X, X_test)


def _elsewhere(rng: np.random.Generator, X: Array, X_test: Array) -> Problem:
    """One smooth function at both."""
    n, both = len(X), np.vstack([X, X_test])
    truth = smooth_function(rng, X.shape[1])(both)
    y = truth + 0.1 * rng.standard_normal(len(both))
    return Problem(X, y[:n], X_test, y[n:], truth[n:])


# ---- Columns and targets as they come ------------------------------------------------


@case(S, variants=((2,),))
@case(P, T, G, variants=((6,),))
def outliers_in_x(rng, d):
    problem = uniform(rng, 400, d, smooth_function(rng, d), 0.1)
    problem.X[rng.choice(400, 4, replace=False)] *= 1e3
    return problem


@case(P, "PLSRegressor StudentT", S, T, G, E)
def outliers_in_y(rng):
    problem = uniform(rng, 200, 1, smooth_function(rng, 1), 0.1)
    wild = rng.choice(200, 10, replace=False)
    problem.y[wild] += 3.0 * rng.standard_normal(10)
    return problem


@case(P, "PLSRegressor StudentT", S, T, G, "GWIRegressor boosting")
def heavy_tails(rng):
    problem = uniform(rng, 250, 2, smooth_function(rng, 2), 0.0)
    y, y_test = (
        v + 0.15 * rng.standard_t(2.5, len(v)) for v in (problem.y, problem.y_test)
    )
    return problem._replace(y=y, y_test=y_test)


@case(P, T, G)
def skewed_columns(rng):
    problem = uniform(rng, 300, 4, smooth_function(rng, 4), 0.1)
    return problem._replace(
        X=np.exp(4.0 * problem.X), X_test=np.exp(4 * problem.X_test)
    )


@case(P, T, G)
def discrete_columns(rng):
    X = np.column_stack(
        [rng.integers(0, k, 300 + N_TEST) for k in (2, 2, 3, 6)]
        + [rng.uniform(size=300 + N_TEST), np.ones(300 + N_TEST)]
    ).astype(float)
    truth = X[:, 0] - X[:, 1] * X[:, 2] + np.sin(3.0 * X[:, 3]) + np.cos(5.0 * X[:, 4])
    y = truth + 0.2 * rng.standard_normal(len(X))
    return Problem(X[:300], y[:300], X[300:], y[300:], truth[300:])


@case(P, T, G, E)
def correlated_columns(rng):
    problem = uniform(rng, 300, 3, smooth_function(rng, 3), 0.1)
    X, X_test = (
        np.hstack([v + 0.01 * rng.standard_normal(v.shape) for _ in range(3)])
        for v in (problem.X, problem.X_test)
    )
    return problem._replace(X=X, X_test=X_test)


@case(P, T, G, variants=((40,), (60,)), quick=1)
def two_relevant_of(rng, d):
    def f(X):
        return np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2

    return uniform(rng, 300, d, f, 0.2, -2.0, 2.0)


@case(P, S, T, G, D, variants=((1,),))
@case(P, T, G, D, variants=((5,),))
def all_noise(rng, d):
    return uniform(rng, 300, d, lambda X: np.zeros(len(X)), 1.0)


@case(P, S, T, G, D, E, variants=((1, 60), (2, 200)))
def no_noise(rng, d, n):
    return uniform(rng, n, d, smooth_function(rng, d), 0.0)


@case(P, S, T, G)
def noise_varies(rng):
    problem = uniform(rng, 300, 1, smooth_function(rng, 1), 0.0)
    y, y_test = (
        v + (0.02 + 0.5 * X[:, 0] ** 2) * rng.standard_normal(len(v))
        for v, X in ((problem.y, problem.X), (problem.y_test, problem.X_test))
    )
    return problem._replace(y=y, y_test=y_test)


@case(P, S)
def noise_is_known(rng):
    problem = noise_varies(rng)
    known, known_test = (
        {"noise_variance": (0.02 + 0.5 * X[:, 0] ** 2) ** 2}
        for X in (problem.X, problem.X_test)
    )
    return problem._replace(given=known, given_test=known_test)


@case(P, T, G)
def grades(rng):
    """Six grades; inputs that are rounded, so that many rows agree."""
    problem = uniform(rng, 400, 4, smooth_function(rng, 4), 0.4)
    X, X_test = problem.X.round(1), problem.X_test.round(1)
    y, y_test = (np.clip(np.round(5.5 + v), 3, 8) for v in (problem.y, problem.y_test))
    return Problem(X, y, X_test, y_test)


@case("PLSRegressor mixture")
def shifted(rng):
    problem = uniform(rng, 200, 1, smooth_function(rng, 1), 0.1)
    y, y_test = (v + rng.binomial(1, 0.5, len(v)) for v in (problem.y, problem.y_test))
    return Problem(problem.X, y, problem.X_test, y_test, problem.truth + 0.5)


@case(P, G, "GWIRegressor boosting", "GWIRegressor linear")
def around_a_regressor(rng):
    """The straight line is much worse than a process."""

    def f(X):
        return np.sin(8.0 * X[:, 0]) + X[:, 1]

    return uniform(rng, 400, 2, f, 0.1)


# ---- Counts --------------------------------------------------------------------------

COUNTS = ("PLSRegressor Poisson",)


@case(*COUNTS, variants=((0.3, 1.0), (2.0, 1.0), (3e4, 1.0), (3.0, 4.0), (300.0, 25.0)))
def counts(rng, level, dispersion):
    """Negative binomial counts whose variance is ``dispersion`` times their mean."""
    X = rng.uniform(size=(400 + N_TEST, 1))
    mean = level * np.exp(np.sin(6.0 * X[:, 0]))
    if dispersion == 1.0:
        y = rng.poisson(mean).astype(float)
    else:
        y = rng.negative_binomial(mean / (dispersion - 1.0), 1.0 / dispersion) * 1.0
    return Problem(X[:400], y[:400], X[400:], y[400:], mean[400:])


@case(*COUNTS)
def exposures(rng):
    X, exposure = rng.uniform(size=(700, 2)), rng.uniform(1.0, 50.0, 700)
    mean = exposure * np.exp(np.sin(6.0 * X[:, 0]) - X[:, 1])
    y = rng.poisson(mean).astype(float)
    given, given_test = ({"exposure": e} for e in (exposure[:400], exposure[400:]))
    return Problem(X[:400], y[:400], X[400:], y[400:], mean[400:], given, given_test)


@case(*COUNTS)
def hourly_counts(rng):
    """Forty days with a daily cycle; days four, eight ... are the test rows."""
    hours = np.arange(960.0)
    mean = np.exp(1.5 + np.sin(2.0 * np.pi * hours / 24.0))
    test = hours // 24 % 5 == 3
    return _series(hours, rng.poisson(mean).astype(float), mean, test)


@case("PLSRegressor square", variants=((30,),))
def square_link(rng, n):
    X = rng.uniform(size=(n + N_TEST, 1))
    mean = 4.0 * np.sin(5.0 * X[:, 0]) ** 2
    y = rng.poisson(mean).astype(float)
    return Problem(X[:n], y[:n], X[n:], y[n:], mean[n:])


# ---- Series --------------------------------------------------------------------------


def _series(
    x: Array, y: Array, truth: Array | None, test: NDArray[np.bool_]
) -> Problem:
    X = x[:, np.newaxis]
    known = None if truth is None else truth[test]
    return Problem(X[~test], y[~test], X[test], y[test], known)


def _months(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    months = np.arange(240.0)
    phase = 2.0 * np.pi * months / 12.0
    truth = (
        0.01 * months + 0.00005 * months**2 + np.sin(phase) + 0.4 * np.cos(2 * phase)
    )
    return months, truth + 0.2 * rng.standard_normal(240), truth


@case(P, S, T, G, D, E)
def monthly(rng):
    """A tenth of the months and two whole years are missing."""
    months, y, truth = _months(rng)
    missing = (rng.random(240) < 0.1) | (np.abs(months - 132.0) < 12.0)
    return _series(months, y, truth, missing)


@case(P, S, G, E)
def monthly_forecast(rng):
    months, y, truth = _months(rng)
    return _series(months, y, truth, months >= 216.0)


@case(P, S, G, n_seeds=3)
def hourly(rng):
    """A hundred days with daily and weekly cycles; single hours and days are missing."""
    hours = np.arange(2400.0)
    phase = 2.0 * np.pi * hours / 24.0
    truth = np.sin(phase) + 0.5 * np.cos(2.0 * phase) + 0.4 * np.sin(phase / 7.0)
    truth = truth + np.cumsum(0.05 * rng.standard_normal(2400))
    y = truth + 0.2 * rng.standard_normal(2400)
    missing = (rng.random(2400) < 0.05) | np.isin(hours // 24, rng.choice(100, 8))
    return _series(hours, y, truth, missing)


# ---- Classes -------------------------------------------------------------------------


def classes(rng, n, d, scores):
    """Softmax of scores, (rows, classes)."""
    X = rng.uniform(-2.0, 2.0, size=(n + 2 * N_TEST, d))
    logits = scores(X)
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    y[: logits.shape[1]] = np.arange(logits.shape[1])  # every class is there
    return Problem(X[:n], y[:n], X[n:], y[n:])


@case(*C, EC, variants=((2, 300), (3, 300), (10, 500)))
def classes_of(rng, k, n):
    functions = [smooth_function(rng, 2) for _ in range(k)]
    return classes(
        rng, n, 2, lambda X: 4.0 * np.column_stack([f(0.3 * X) for f in functions])
    )


@case(*C, EC, variants=((10,), (40,)))
def few_labels(rng, n):
    return classes(
        rng, n, 2, lambda X: np.column_stack([3.0 * X[:, 0], np.zeros(len(X))])
    )


@case(*C, "GWIClassifier boosting", variants=((1, 1000), (6, 1000)), n_seeds=3, quick=1)
def classes_alternate(rng, d, n):
    def scores(X):
        wave = 4.0 * np.cos(2.0 * np.pi * 1.25 * X[:, :1])
        return np.hstack([wave, -wave])

    return classes(rng, n, d, scores)


@case(*C, "GWIClassifier boosting", n_seeds=3)
def rare_positives(rng):
    """One row in a hundred, near a corner."""
    return classes(
        rng,
        1500,
        3,
        lambda X: np.column_stack([X @ [2.0, 2.0, 1.0] - 9.0, 0 * X[:, 0]]),
    )


@case(*C, EC)
def labels_of_noise(rng):
    return classes(rng, 300, 5, lambda X: np.zeros((len(X), 2)))


@case(*C, EC)
def separable(rng):
    problem = classes(rng, 150, 2, lambda X: np.zeros((len(X), 2)))
    y, y_test = ((X[:, 0] > X[:, 1]).astype(int) for X in (problem.X, problem.X_test))
    return problem._replace(y=y, y_test=y_test)


# ---- Real sets -----------------------------------------------------------------------


@case(P, T, G, E, variants=(("boston",), ("sklearn_diabetes",)), n_seeds=3)
@case(P, T, G, variants=tuple((name,) for name in REGRESSION[1:8]), n_seeds=3, quick=3)
@case(P, T, variants=(("kin40k", 4000), ("protein", 4000)), n_seeds=2, quick=1)
@case(P, T, G, variants=(("kin40k", 36000), ("protein", 36000)), n_seeds=1, quick=0)
def real(rng, name, n=2000):
    """Random rows, at most ``n`` for training, standardised by these."""
    X, y, X_test, y_test = _split(rng, *load(name), n)
    y_test, y = (y_test - y.mean()) / y.std(), (y - y.mean()) / y.std()
    return Problem(X, y, X_test, y_test)


@case(
    *C,
    EC,
    variants=(("sklearn_iris",), ("sklearn_wine",), ("sklearn_breast_cancer",)),
    n_seeds=3,
)
@case(
    *C,
    variants=tuple((name,) for name in (*CLASSIFICATION, "sklearn_digits")),
    n_seeds=3,
    quick=3,
)
def real_classes(rng, name, n=1000):
    X, y, X_test, y_test = _split(rng, *load(name), n)
    return Problem(X, y.astype(int), X_test, y_test.astype(int))


@case(P, S, G, n_seeds=3)
def air_quality(rng):
    """1500 hours of a sensor; single hours, and blocks of 25 of them, are missing."""
    table = np.genfromtxt(
        file_of("air_quality_pt08s1", None), delimiter=",", skip_header=1
    )
    first = rng.integers(len(table) - 1500)
    y = table[first : first + 1500, -1]
    hours = np.flatnonzero(y > 0.0)
    blocks = np.isin(hours // 25, rng.choice(60, 4, replace=False))
    missing = blocks | (rng.random(len(hours)) < 0.1)
    return _series(hours.astype(float), y[hours] / 100.0, None, missing)


def _split(rng, X, y, n):
    order = rng.permutation(len(y))
    n_test = min(len(y) // 5, 2000)
    test, train = order[:n_test], order[n_test:][:n]
    scale = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
    return Problem(X[train], y[train], X[test], y[test])
