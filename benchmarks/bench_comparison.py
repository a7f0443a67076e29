"""Predictive distributions of regressors of eight libraries on sixteen real data sets.

    python -m benchmarks.bench_comparison [--only concrete ...] [--methods ngboost ...]

Inputs and targets are standardised; at most 500 rows are fitted, and at most
1000 are held out. Everything is scored by the same eleven numbers of a held-out row,
its mean and ten quantiles: RMSE, CRPS (twice the mean pinball loss of the quantiles),
coverage of the interval from 5 % to 95 %; and by its log density where a method has
one. Seconds are those of the processor, of fit and prediction on one thread. Estimators
of this library have default parameters. NGBoost and CatBoost choose their number of
trees on a fifth of the rows and are fitted again to all; processes have one lengthscale
a column.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import skgpx
from benchmarks.data import add_data_argument, load
from benchmarks.report import progress, report

Array = Any
LEVELS = np.arange(0.05, 1.0, 0.1)
MAX_TRAIN, MAX_TEST = 500, 1000


class Answer(NamedTuple):
    """Mean (n,), quantiles at `LEVELS` (n, 10) and log density (n,) of rows."""

    mean: Array
    quantiles: Array
    log_density: Array | None


# ---- Data ----------------------------------------------------------------------------


def statsmodels_set(name: str) -> Any:
    """A table that is part of statsmodels."""
    return getattr(importlib.import_module("statsmodels.datasets"), name).load().data


def engel(folder: Any) -> tuple[Array, Array]:
    """Expenses for food of 235 households, by the logarithm of income."""
    del folder
    table = statsmodels_set("engel")
    return np.log(table[["income"]].to_numpy()), table["foodexp"].to_numpy()


def star98(folder: Any) -> tuple[Array, Array]:
    """Share of pupils above the median of a test, of 303 districts."""
    del folder
    table = statsmodels_set("star98").to_numpy(float)
    return table[:, 2:14], table[:, 0] / (table[:, 0] + table[:, 1])


def randhie(folder: Any) -> tuple[Array, Array]:
    """Visits to a doctor in a year."""
    del folder
    table = statsmodels_set("randhie").astype(float)
    return table.drop(columns="mdvis").to_numpy(), table["mdvis"].to_numpy()


def co2(folder: Any) -> tuple[Array, Array]:
    """Weekly concentrations on Mauna Loa, held-out weeks between the others."""
    del folder
    weeks = statsmodels_set("co2")["co2"].dropna()
    return np.c_[weeks.index.to_julian_date()] / 365.25, weeks.to_numpy()


def el_nino(folder: Any) -> tuple[Array, Array]:
    """Temperatures of the sea, a surface over 61 years and twelve months."""
    del folder
    table = statsmodels_set("elnino").to_numpy(float)
    years = np.repeat(table[:, 0], 12)
    months = np.tile(np.arange(1.0, 13.0), len(table))
    return np.column_stack((years, months)), table[:, 1:].ravel()


def grunfeld(folder: Any) -> tuple[Array, Array]:
    """Investment of eleven firms in twenty years, by value and capital."""
    del folder
    table = statsmodels_set("grunfeld")
    return table[["value", "capital"]].to_numpy(float), table["invest"].to_numpy(float)


def ccard(folder: Any) -> tuple[Array, Array]:
    """Expenses by credit card of 72 people, by age, income and home ownership."""
    del folder
    table = statsmodels_set("ccard")
    inputs = table[["AGE", "INCOME", "OWNRENT"]].to_numpy(float)
    return inputs, table["AVGEXP"].to_numpy(float)


def marriages(folder: Any) -> tuple[Array, Array]:
    """Years of marriage by age and children: inputs that repeat hundreds of times."""
    del folder
    table = statsmodels_set("fair")
    inputs = table[["age", "children"]].to_numpy(float)
    return inputs, table["yrs_married"].to_numpy(float)


DATA: dict[str, Callable[[Any], tuple[Array, Array]]] = {
    "boston": lambda folder: load("boston", folder),
    "diabetes": lambda folder: load("sklearn_diabetes", folder),
    "energy": lambda folder: load("energy_cooling", folder),
    "concrete": lambda folder: load("concrete", folder),
    "airfoil": lambda folder: load("airfoil", folder),
    "wine": lambda folder: load("wine", folder),
    "power": lambda folder: load("power", folder),
    "protein": lambda folder: load("protein", folder),
    "engel": engel,
    "star98": star98,
    "randhie": randhie,
    "co2": co2,
    "elnino": el_nino,
    "grunfeld": grunfeld,
    "ccard": ccard,
    "marriages": marriages,
}


def n_splits(n_rows: int) -> int:
    """Small sets are split more often: their scores vary more, their fits are fast."""
    return 2 if n_rows < 600 else 1


def split(X: Array, y: Array, seed: int) -> tuple[Array, Array, Array, Array]:
    """A fifth of the rows held out; everything standardised by the training rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = min(len(y) // 5, MAX_TEST)
    test, train = order[:n_test], order[n_test : n_test + MAX_TRAIN]
    scale = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


# ---- Methods, for standardised X and y -----------------------------------------------


def of_normal(y: Array, mean: Array, std: Array) -> Answer:
    """Normal predictive distributions."""
    quantiles = mean[:, np.newaxis] + std[:, np.newaxis] * norm.ppf(LEVELS)
    return Answer(mean, quantiles, norm.logpdf(y, mean, std))


def ours(name: str) -> Callable[..., Answer]:
    """An estimator of this library with its defaults."""

    def fitted(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
        model = getattr(skgpx, name)(random_state=0).fit(X, y)
        found = skgpx.predict_dist(model, new)
        return Answer(found.mean(), found.quantile(LEVELS), found.log_density(held_out))

    return fitted


def exact(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """scikit-learn's exact process."""
    start = np.full(X.shape[1], np.sqrt(X.shape[1]))
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * Matern(start, (1e-2, 1e3), 2.5)
    model = GaussianProcessRegressor(kernel + WhiteKernel(0.1, (1e-6, 1e1)))
    return of_normal(held_out, *model.fit(X, y).predict(new, return_std=True))


def gpytorch(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Its exact process, a hundred steps of Adam as in its tutorial."""
    torch, g = importlib.import_module("torch"), importlib.import_module("gpytorch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    A, a, B = (torch.tensor(one).float() for one in (X, y, new))

    class Model(g.models.ExactGP):
        def __init__(self, likelihood: Any):
            super().__init__(A, a, likelihood)
            self.mean = g.means.ConstantMean()
            base = g.kernels.MaternKernel(2.5, ard_num_dims=A.shape[1])
            self.kernel = g.kernels.ScaleKernel(base)

        def forward(self, X: Any) -> Any:
            return g.distributions.MultivariateNormal(self.mean(X), self.kernel(X))

    likelihood = g.likelihoods.GaussianLikelihood()
    model = Model(likelihood)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    evidence = g.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train()
    for _ in range(100):
        optimiser.zero_grad()
        (-evidence(model(A), a)).backward()
        optimiser.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(B))
    mean, variance = found.mean.double().numpy(), found.variance.double().numpy()
    return of_normal(held_out, mean, np.sqrt(variance))


def gpboost(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Its exact process, gp_approx="none", the default."""
    model = importlib.import_module("gpboost").GPModel(
        gp_coords=X, cov_function="matern_ard", cov_fct_shape=2.5,
        likelihood="gaussian", num_parallel_threads=1,
    )  # fmt: skip
    model.fit(y=y, X=np.ones((len(y), 1)))
    found = model.predict(
        gp_coords_pred=new, X_pred=np.ones((len(new), 1)),
        predict_var=True, predict_response=True,
    )  # fmt: skip
    return of_normal(held_out, found["mu"], np.sqrt(found["var"]))


def ngboost(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Natural gradient boosting of mean and standard deviation."""
    make = importlib.import_module("ngboost").NGBRegressor
    A, B, a, b = train_test_split(X, y, test_size=0.2, random_state=0)
    how = {"verbose": False, "random_state": 0}
    search = make(n_estimators=1000, **how)
    search.fit(A, a, X_val=B, Y_val=b, early_stopping_rounds=50)
    size = max(int(search.best_val_loss_itr or 1000), 10)
    found = make(n_estimators=size, **how).fit(X, y).pred_dist(new).params
    return of_normal(held_out, found["loc"], found["scale"])


def catboost(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Boosting of mean and variance, RMSEWithUncertainty."""
    make = importlib.import_module("catboost").CatBoostRegressor
    how = {"loss_function": "RMSEWithUncertainty", "random_seed": 0, "thread_count": 1}
    how |= {"verbose": False, "allow_writing_files": False}
    A, B, a, b = train_test_split(X, y, test_size=0.2, random_state=0)
    search = make(**how).fit(A, a, eval_set=(B, b), early_stopping_rounds=50)
    model = make(iterations=max(search.tree_count_, 10), **how).fit(X, y)
    mean, variance = model.predict(new).T
    return of_normal(held_out, mean, np.sqrt(variance))


def mapie(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Conformal intervals of a random forest, cross-validation plus; no density."""
    del held_out
    make = importlib.import_module("mapie.regression").CrossConformalRegressor
    model = make(
        RandomForestRegressor(random_state=0), confidence_level=1.0 - 2.0 * LEVELS[:5],
        cv=5, random_state=0,
    )  # fmt: skip
    mean, ends = model.fit_conformalize(X, y).predict_interval(new)
    return Answer(mean, np.hstack((ends[:, 0], ends[:, 1, ::-1])), None)


def quantiles(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """scikit-learn's boosted quantiles, sorted, and mean; no density."""
    del held_out
    of = HistGradientBoostingRegressor
    found = [of("quantile", quantile=q, random_state=0).fit(X, y) for q in LEVELS]
    each = np.column_stack([one.predict(new) for one in found])
    mean = of(random_state=0).fit(X, y).predict(new)
    return Answer(mean, np.sort(each, axis=1), None)


METHODS: dict[str, tuple[Callable[..., Answer], str]] = {
    "PLSRegressor": (ours("PLSRegressor"), "skgpx"),
    "GWIRegressor": (ours("GWIRegressor"), "skgpx"),
    "SpectralVGPRegressor": (ours("SpectralVGPRegressor"), "skgpx"),
    "SteinRFFRegressor": (ours("SteinRFFRegressor"), "skgpx"),
    "GaussianProcessRegressor": (exact, "sklearn"),
    "GPyTorch": (gpytorch, "gpytorch"),
    "GPBoost": (gpboost, "gpboost"),
    "NGBoost": (ngboost, "ngboost"),
    "CatBoost": (catboost, "catboost"),
    "MAPIE on a forest": (mapie, "mapie"),
    "boosted quantiles": (quantiles, "sklearn"),
}


# ---- Measuring -----------------------------------------------------------------------


def scores(y: Array, found: Answer) -> dict[str, float | None]:
    """What one split says."""
    gap = y[:, np.newaxis] - found.quantiles
    inside = (found.quantiles[:, 0] <= y) & (y <= found.quantiles[:, -1])
    density = None if found.log_density is None else float(np.mean(found.log_density))
    return {
        "rmse": float(np.sqrt(np.mean((y - found.mean) ** 2))),
        "log density": density,
        "crps": float(2.0 * np.mean(np.maximum(LEVELS * gap, (LEVELS - 1.0) * gap))),
        "coverage": float(np.mean(inside)),
    }


def measure(X: Array, y: Array, method: Callable[..., Answer]) -> dict[str, Any]:
    """Means over the splits, and the CPU seconds of one."""
    rows, seeds = [], range(n_splits(len(y)))
    for seed in seeds:
        A, a, B, b = split(X, y, seed)
        start = time.process_time()
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            found = method(A, a, B, b)
        rows.append(scores(b, found) | {"seconds": time.process_time() - start})
    means = {
        key: None if rows[0][key] is None else float(np.mean([r[key] for r in rows]))
        for key in rows[0]
    }
    return {"rows": len(a), "inputs": A.shape[1], "splits": len(rows)} | means


def measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each data set and method that can be had."""
    skgpx.compile_kernels()
    table = []
    for name in options.only:
        try:
            X, y = DATA[name](options.data)
        except (FileNotFoundError, ModuleNotFoundError) as missing:
            progress({"data": name, "left out": missing})
            continue
        for method in options.methods:
            function, package = METHODS[method]
            if importlib.util.find_spec(package) is not None:
                row = {"data": name, "method": method} | measure(X, y, function)
                table.append(row)
                progress(row)
    return table


def main() -> None:
    """Print one line for each data set and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    add_data_argument(parser)
    options = parser.parse_args()
    table = measured(options)
    report("comparison", table)


if __name__ == "__main__":
    main()
