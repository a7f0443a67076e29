"""Held-out densities of likelihoods beside generalised linear models and GPBoost.

    python -m benchmarks.bench_likelihoods [--splits 5] [--only visits shares ...]

Real data of statsmodels, a quarter of the rows held out, at most 800 rows. "linear" is
the model of the same family with a linear predictor, by maximum likelihood: of
statsmodels, of the library's own likelihood where that has none. "gpboost" is
GPBoost's Gaussian process of one lengthscale a column, where it has the family and is
installed. Densities are negative logarithms a row in nats, averaged over the splits;
"gain" is that of the process over the linear model, with its standard error.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import statsmodels.api as sm
from scipy import optimize
from sklearn.preprocessing import StandardScaler
from statsmodels.miscmodels.ordinal_model import OrderedModel

from benchmarks.report import progress, report
from skgpx import PLSRegressor
from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods import (
    Beta,
    Binomial,
    Gamma,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
)

Array = Any
GPBOOST = {NegativeBinomial: "negative_binomial", Gamma: "gamma", Beta: "beta"}
GPBOOST |= {Binomial: "binomial_logit", Poisson: "poisson"}


class Set(NamedTuple):
    """Rows, and what is known of them, by name."""

    X: Array
    y: Array
    given: Mapping[str, Array] = MappingProxyType({})


def visits() -> Set:
    """Visits to a doctor, of the RAND health insurance experiment."""
    table = sm.datasets.randhie.load_pandas().data
    return Set(table.drop(columns="mdvis").to_numpy(), table["mdvis"].to_numpy(float))


def passed() -> Set:
    """Pupils above the median of a test, of 303 districts of California."""
    table = sm.datasets.star98.load_pandas().data.to_numpy(float)
    return Set(table[:, 2:14], table[:, 0], {"exposure": table[:, 0] + table[:, 1]})


def low_income() -> Set:
    """Shares of pupils from families of low income in these districts."""
    table = sm.datasets.star98.load_pandas().data.to_numpy(float)
    # zeros move inwards, as the message of Beta says
    share = (table[:, 2] / 100.0 * (len(table) - 1) + 0.5) / len(table)
    return Set(table[:, 3:14], share)


def food() -> Set:
    """Expenses for food of Belgian households, by income."""
    table = sm.datasets.engel.load_pandas().data
    return Set(np.log(table[["income"]].to_numpy()), table["foodexp"].to_numpy())


def marriages() -> Set:
    """Marriages, rated from 1 to 5 by the wives."""
    table = sm.datasets.fair.load_pandas().data
    columns = ["rate_marriage", "affairs"]
    grades = table["rate_marriage"].to_numpy(float) - 1.0
    return Set(table.drop(columns=columns).to_numpy(), grades)


def hearts() -> Set:
    """Days of survival after a heart transplantation, by age; some still live."""
    table = sm.datasets.heart.load_pandas().data.to_numpy(float)
    return Set(table[:, 2:], table[:, 0] + 0.5, {"censoring": 1.0 - table[:, 1]})


CASES: dict[str, tuple[Callable[[], Set], Any]] = {
    "visits": (visits, NegativeBinomial()),
    "visits, Poisson": (visits, Poisson("exp")),
    "passed": (passed, Binomial()),
    "low income": (low_income, Beta()),
    "food, Gamma": (food, Gamma()),
    "food, LogNormal": (food, LogNormal()),
    "marriages": (marriages, Ordinal()),
    "hearts": (hearts, LogNormal()),
}


def linear(likelihood: Any, train: Set, test: Set) -> float:
    """Mean negative log density of the test rows under a linear predictor."""
    if isinstance(likelihood, Ordinal):
        model = OrderedModel(train.y.astype(int), train.X, distr="probit")
        fit = model.fit(method="bfgs", disp=False)
        p = np.asarray(fit.model.predict(fit.params, exog=test.X))
        return -float(np.mean(np.log(p[np.arange(len(p)), test.y.astype(int)])))
    rows = likelihood.prepare(train.y, None, *train.given.values())
    A, B = (np.column_stack((np.ones(len(one.y)), one.X)) for one in (train, test))

    def loss(theta: Array, one: Set, design: Array) -> float:
        given = rows.with_theta(theta[A.shape[1] :])
        given = given.at_rows(*one.given.values()) if one.given else given
        f = (design @ theta[: A.shape[1]])[:, np.newaxis]
        return float(np.mean(given.nll(one.y[:, np.newaxis], f)))

    start = np.concatenate((np.zeros(A.shape[1]), rows.theta))
    start[0] = rows.base_latent_[0]
    found = optimize.minimize(loss, start, (train, A), method="BFGS")
    return loss(found.x, test, B)


def check_linear() -> None:
    """The maximum likelihood above against statsmodels'."""
    one = food()
    X = (one.X - one.X.mean()) / one.X.std()
    family = sm.families.Gamma(sm.families.links.Log())
    fit = sm.GLM(one.y, sm.add_constant(X), family).fit()
    shape, f = 1.0 / fit.scale, np.log(fit.fittedvalues)[:, np.newaxis]
    own = np.mean(Gamma(shape).nll(one.y[:, np.newaxis], f))
    assert linear(Gamma(), one._replace(X=X), one._replace(X=X)) <= own + 1e-6


def gpboost(likelihood: Any, train: Set, test: Set) -> float:
    """The same of GPBoost's process, its latent moments averaged as ours are.

    NaN where its search fails, and then in the mean.
    """
    import gpboost as gpb

    y, given = train.y, {}
    if train.given:
        y, given = y / train.given["exposure"], {"weights": train.given["exposure"]}
    family = GPBOOST[type(likelihood)]
    model = gpb.GPModel(
        gp_coords=train.X, cov_function="gaussian_ard", likelihood=family, **given
    )
    at = {"gp_coords_pred": test.X, "X_pred": np.ones((len(test.y), 1))}
    try:
        model.fit(y=y, X=np.ones((len(y), 1)))
        found = model.predict(**at, predict_var=True, predict_response=False)
    except gpb.basic.GPBoostError:
        return np.nan
    for name in likelihood.scale_names:
        value = float(np.ravel(model.get_aux_pars())[0])
        likelihood = likelihood._replace(**{name: value})
    f = LatentMixture(
        found["mu"][:, None, None], found["var"][:, None, None], np.ones(1)
    )
    rows = likelihood.at_rows(*test.given.values()) if test.given else likelihood
    return -float(np.mean(rows.predictive_log_density(test.y, f)))


def ours(likelihood: Any, train: Set, test: Set) -> float:
    """The same of this library's process."""
    model = PLSRegressor(likelihood=likelihood, random_state=0)
    model.fit(train.X, train.y, **train.given)
    return -float(model.log_predictive_density(test.X, test.y, **test.given).mean())


def main() -> None:
    """Print one line for each data set and likelihood."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=list(CASES))
    options, table = parser.parse_args(), []
    check_linear()
    methods = {"linear": linear, "gpboost": gpboost, "ours": ours}
    for name, (make, likelihood) in CASES.items():
        if not any(name.startswith(one) for one in options.only):
            continue
        data, results, seconds = make(), {}, {}
        for seed in range(options.splits):
            order = np.random.default_rng(seed).permutation(len(data.y))[:800]
            cut = len(order) - len(order) // 4
            parts = []
            for rows in (order[:cut], order[cut:]):
                scale = StandardScaler().fit(data.X[order[:cut]])
                given = {k: v[rows] for k, v in data.given.items()}
                parts.append(Set(scale.transform(data.X[rows]), data.y[rows], given))
            for method, function in methods.items():
                missing = importlib.util.find_spec("gpboost") is None
                if method == "gpboost" and (missing or type(likelihood) not in GPBOOST):
                    continue
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    value = function(likelihood, *parts)
                results.setdefault(method, []).append(value)
                seconds.setdefault(method, []).append(time.process_time() - start)
        gain = np.subtract(results["linear"], results["ours"])
        row = {"data": name, "rows": cut} | {k: np.mean(v) for k, v in results.items()}
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        row |= {"gain": gain.mean(), "se": error}
        row |= {f"CPU s {k}": np.median(v) for k, v in seconds.items()}
        table.append({k: v if isinstance(v, str) else float(v) for k, v in row.items()})
        progress(table[-1])
    report("likelihoods", table, {"splits": options.splits})


if __name__ == "__main__":
    main()
