"""Rows of dask in cells: the model of one process, whatever cells and workers."""

import copy
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal, assert_array_less
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import PLSClassifier, PLSRegressor
from skgpx._cells import _distributed
from skgpx._numerics.cells import CellTree
from skgpx._numerics.nearest import predecessors
from skgpx._pls import _lazy_fit
from skgpx.kernels import CategoricalKernel, Columns
from skgpx.likelihoods import (
    Binomial,
    Gaussian,
    HeteroscedasticGaussian,
    LogNormal,
    Poisson,
    StudentT,
    Tobit,
)

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

rng = np.random.default_rng(0)
X = rng.uniform(size=(1200, 3))
SIGNAL = np.sin(6.0 * X[:, 0]) + np.cos(9.0 * X[:, 1] * X[:, 2])
Y = 5.0 + 2.0 * SIGNAL + 0.2 * rng.standard_normal(len(X))
WEIGHTS = rng.integers(0, 3, len(X)).astype(float)
NEW = rng.uniform(size=(100, 3))
MODEL = PLSRegressor(
    Matern([0.5, 0.5, 0.6], nu=1.5),
    likelihood=Gaussian(0.04),
    optimizer=None,
    n_inducing=20,
    n_neighbors=12,
    n_particles=10,
    random_state=0,
)
EXPOSURE = rng.uniform(0.5, 3.0, len(X))
TRIALS = rng.integers(1, 20, len(X)).astype(float)
RATES = 1.0 / (1.0 + np.exp(-2.0 * SIGNAL))
NOISE = rng.uniform(0.01, 0.3, len(X))
NOISY = Y + np.sqrt(NOISE) * rng.standard_normal(len(X))
COUNTS = rng.poisson(EXPOSURE * np.exp(SIGNAL)).astype(float)
SUCCESSES = rng.binomial(TRIALS.astype(int), RATES).astype(float)
# likelihood, targets and quantities of rows
OTHERS = {
    "student": (StudentT(df=4.0, scale=0.3), NOISY, {}),
    "known noise": (Gaussian(), NOISY, {"noise_variance": NOISE}),
    "counts": (Poisson(), COUNTS, {"exposure": EXPOSURE}),
    "trials": (Binomial(), SUCCESSES, {"exposure": TRIALS}),
    "censored": (
        Tobit(0.3),
        np.minimum(NOISY, 6.5),
        {"censoring": (NOISY > 6.5).astype(float)},
    ),
    "targets": (Gaussian(0.04), np.column_stack((Y, 10.0 - SIGNAL)), {}),
}
LABELS = np.where(rng.uniform(size=len(X)) < RATES, "yes", "no")
THREE = np.where(X[:, 1] < 0.3, "other", LABELS)


def parts(*arrays, size=350):
    return [da.from_array(a, (size, *a.shape[1:])) for a in arrays]


def moments(model, at=NEW):
    mean, variance = model.posterior_.marginals(np.asarray(at)).moments()
    return mean, np.sqrt(variance)


def distance_in_std(one, other):
    mean, std = moments(one)
    return np.abs(moments(other)[0] - mean) / std


def few_rows_a_cell(patch):
    """So many rows a cell that there are eight cells, of which each has few rows."""
    patch.setattr(_lazy_fit, "CELL_ROWS", 160)
    patch.setattr(_lazy_fit, "FIRST_ROWS", 50)


@pytest.fixture
def cells(monkeypatch):
    few_rows_a_cell(monkeypatch)


@pytest.fixture(scope="module")
def one_cell():
    return clone(MODEL).fit(*parts(X, Y))


@pytest.fixture(scope="module")
def eight_cells():
    with pytest.MonkeyPatch.context() as patch:
        few_rows_a_cell(patch)
        return clone(MODEL).fit(*parts(X, Y))


def test_cells_are_the_model_of_one_cell(one_cell, eight_cells):
    assert len(one_cell.posterior_.cells.tables) == 1
    assert len(eight_cells.posterior_.cells.tables) == 8
    assert_array_less(distance_in_std(one_cell, eight_cells), 0.01)
    assert_allclose(moments(eight_cells)[1], moments(one_cell)[1], rtol=1e-3)
    assert_allclose(eight_cells.log_evidence_, one_cell.log_evidence_, atol=0.1)


@pytest.mark.parametrize("name", OTHERS)
def test_every_likelihood_in_cells(monkeypatch, name):
    likelihood, y, quantities = OTHERS[name]
    model = clone(MODEL).set_params(likelihood=likelihood, normalize_y=False)
    some = slice(0, 600)
    lazy = {key: parts(values[some])[0] for key, values in quantities.items()}
    one = clone(model).fit(*parts(X[some], y[some]), **lazy)
    few_rows_a_cell(monkeypatch)
    several = clone(model).fit(*parts(X[some], y[some]), **lazy)
    assert len(several.posterior_.cells.tables) == 4
    assert_array_less(distance_in_std(one, several), 0.02)
    assert_allclose(several.log_evidence_, one.log_evidence_, atol=0.1)
    # lazy predictions are those of arrays
    lazy_mean = several.predict(parts(NEW)[0])
    assert_allclose(lazy_mean, several.predict(NEW), rtol=1e-10)


@pytest.mark.parametrize("name", OTHERS)
def test_every_likelihood_given_all_predecessors(cells, name):
    likelihood, y, quantities = OTHERS[name]
    few = slice(0, 60)
    model = clone(MODEL).set_params(likelihood=likelihood, n_neighbors=60)
    memory = clone(model).fit(
        X[few],
        y[few],
        **{key: values[few] for key, values in quantities.items()},
    )
    lazy = clone(model).fit(
        *parts(X[few], y[few], size=25),
        **{key: parts(values[few], size=25)[0] for key, values in quantities.items()},
    )
    assert np.sqrt(np.mean(distance_in_std(memory, lazy) ** 2)) < 0.015
    assert_allclose(moments(lazy)[1], moments(memory)[1], rtol=0.04)
    assert_allclose(lazy.log_evidence_, memory.log_evidence_, atol=0.05)


@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["two", "three"])
def test_classes(cells, labels):
    few = slice(0, 200)
    model = PLSClassifier(
        MODEL.kernel,
        optimizer=None,
        n_inducing=20,
        n_neighbors=30,
        n_particles=10,
        random_state=0,
    )
    memory = clone(model).fit(X[few], labels[few])
    lazy = clone(model).fit(*parts(X[few], labels[few], size=70))
    assert len(lazy.posterior_.cells.tables) == 2
    assert_array_equal(lazy.classes_, np.unique(labels[few]))
    probabilities = lazy.predict_proba(NEW)
    assert_allclose(probabilities, memory.predict_proba(NEW), atol=0.02)
    assert_allclose(lazy.log_evidence_, memory.log_evidence_, atol=1.0)
    (new,) = parts(NEW, size=30)
    assert_allclose(lazy.predict_proba(new), probabilities, rtol=1e-10)
    assert_array_equal(lazy.predict(new), lazy.predict(NEW))
    means = dask.compute(*lazy.latent_mean_and_variance(new))
    assert_allclose(means, lazy.latent_mean_and_variance(NEW), rtol=1e-8)


def test_classes_of_frames_and_weights(cells):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X[:200], columns=["a", "b", "c"])
    table["label"] = LABELS[:200]
    table["weight"] = np.where(np.arange(200) % 7, 1.0, 0.0)
    table.loc[table["weight"] == 0.0, "label"] = "unknown"
    rows = lazy_frame(table)
    model = PLSClassifier(
        MODEL.kernel, optimizer=None, n_inducing=10, n_neighbors=10, random_state=0
    )
    fitted = clone(model).fit(rows[["a", "b", "c"]], rows["label"], rows["weight"])
    assert fitted.classes_.tolist() == ["no", "yes"]
    has_weight = (table["weight"] > 0.0).to_numpy()
    arrays = clone(model).fit(*parts(X[:200][has_weight], LABELS[:200][has_weight]))
    probabilities = fitted.predict_proba(table[["a", "b", "c"]])
    assert_allclose(probabilities, arrays.predict_proba(X[:200]), rtol=1e-8)
    with pytest.raises(ValueError, match="at least two classes"):
        clone(model).fit(*parts(X[:9], np.repeat("one", 9)))
    with pytest.raises(ValueError, match="continuous"):
        clone(model).fit(*parts(X[:9], Y[:9]))


def test_location_and_scale_of_each_row(cells):
    likelihood = HeteroscedasticGaussian()
    model = clone(MODEL).set_params(likelihood=likelihood, kernel=0.1 * RBF(1.0))
    memory = clone(model).fit(X[:200], NOISY[:200])
    lazy = clone(model).fit(*parts(X[:200], NOISY[:200]))
    assert lazy.posterior_.n_outputs == 2
    # cells have the closest normal distribution, memory expectation propagation
    assert np.sqrt(np.mean(distance_in_std(memory, lazy) ** 2)) < 0.055


def test_one_cell_differs_from_arrays_by_the_random_order_alone(one_cell):
    memory = clone(MODEL).fit(X, Y)
    orders = [clone(MODEL).set_params(random_state=seed) for seed in (1, 2)]
    by_order = [distance_in_std(memory, model.fit(X, Y)) for model in orders]
    typical = np.sqrt(np.mean(np.square(by_order)))
    assert np.sqrt(np.mean(distance_in_std(memory, one_cell) ** 2)) < 2.0 * typical
    assert_allclose(one_cell.log_evidence_, memory.log_evidence_, atol=10.0)


def test_all_predecessors_are_exact(cells):
    few = slice(0, 60)
    model = clone(MODEL).set_params(n_neighbors=60)
    memory = clone(model).fit(X[few], Y[few])
    lazy = clone(model).fit(*parts(X[few], Y[few], size=25))
    assert_allclose(moments(lazy), moments(memory), rtol=1e-6)
    assert_allclose(lazy.log_evidence_, memory.log_evidence_, rtol=1e-8)


def test_bits_depend_neither_on_parts_nor_on_the_order_of_rows(cells, eight_cells):
    order = np.random.default_rng(1).permutation(len(X))
    shuffled = clone(MODEL).fit(*parts(X[order], Y[order], size=451))
    assert_allclose(moments(shuffled), moments(eight_cells), rtol=1e-9)


def test_weights_are_repetitions(cells):
    weighted = clone(MODEL).fit(*parts(X, Y, WEIGHTS))
    rows = np.repeat(np.arange(len(X)), WEIGHTS.astype(int))
    repeated = clone(MODEL).fit(*parts(X[rows], Y[rows]))
    assert_allclose(moments(weighted), moments(repeated), rtol=1e-8)
    assert_allclose(weighted.log_evidence_, repeated.log_evidence_, rtol=1e-8)
    memory = clone(MODEL).fit(X, Y, WEIGHTS)
    assert np.sqrt(np.mean(distance_in_std(memory, weighted) ** 2)) < 0.1


@pytest.mark.parametrize(
    ("likelihood", "n_neighbors"),
    [(Gaussian(), 12), (Gaussian(), 0), (StudentT(df=4.0, scale=0.3), 12)],
    ids=["nearest", "points", "student"],
)
def test_a_part_of_weight_zero_is_left_out(cells, likelihood, n_neighbors):
    model = clone(MODEL).set_params(likelihood=likelihood, n_neighbors=n_neighbors)
    some = slice(0, 600)
    weights = WEIGHTS[some].copy()
    weights[200:400] = 0.0
    y = np.where(weights > 0.0, Y[some], 1e4)
    rows = [X[some], y, weights]
    if likelihood.has_closed_form:
        rows.append(NOISE[some])
    names = ("X", "y", "sample_weight", "noise_variance")

    def fitted(rows, size):
        return clone(model).fit(
            **dict(zip(names, parts(*rows, size=size), strict=False))
        )

    weighted = fitted(rows, size=200)
    dropped = fitted([values[weights > 0.0] for values in rows], size=150)
    assert_allclose(moments(weighted), moments(dropped), rtol=1e-9)
    assert_allclose(weighted.log_evidence_, dropped.log_evidence_, rtol=1e-9)
    with pytest.raises(ValueError, match="must have a positive weight"):
        fitted([X[some], y, 0.0 * weights, *rows[3:]], size=200)


def test_classes_of_a_part_of_weight_zero_are_left_out(cells):
    model = PLSClassifier(
        MODEL.kernel, optimizer=None, n_inducing=10, n_neighbors=10, random_state=0
    )
    weights = np.repeat([1.0, 0.0, 2.0], 70)
    labels = np.where(weights > 0.0, LABELS[:210], "unknown")
    weighted = clone(model).fit(*parts(X[:210], labels, weights, size=70))
    kept = weights > 0.0
    dropped = parts(X[:210][kept], labels[kept], weights[kept], size=90)
    expected = clone(model).fit(*dropped).predict_proba(NEW)
    assert_allclose(weighted.predict_proba(NEW), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="must have a positive weight"):
        model.fit(*parts(X[:210], labels, 0.0 * weights))


def test_points_that_suffice_are_the_fit_in_memory():
    model = clone(MODEL).set_params(n_neighbors=0, optimizer="evidence", n_inducing=60)
    model.set_params(likelihood=None, kernel=RBF())
    memory = clone(model).fit(X[:400], Y[:400])
    lazy = clone(model).fit(*parts(X[:400], Y[:400]))
    assert_allclose(lazy.log_evidence_, memory.log_evidence_, rtol=1e-6)
    assert_allclose(moments(lazy), moments(memory), rtol=1e-5)
    assert_allclose(lazy.predict(parts(NEW)[0]), lazy.predict(NEW), rtol=1e-12)


def test_default_of_few_rows_averages_as_in_memory():
    few = slice(0, 25)
    memory = PLSRegressor(random_state=0).fit(X[few, :1], Y[few])
    lazy = PLSRegressor(random_state=0).fit(*parts(X[few, :1], Y[few], size=10))
    assert len(lazy.hyperparameter_states_) == len(memory.hyperparameter_states_)
    assert_allclose(lazy.predict(NEW[:, :1]), memory.predict(NEW[:, :1]), rtol=1e-5)


def test_sample_of_the_rows_learns_the_kernel(monkeypatch, cells):
    monkeypatch.setattr(_distributed, "SAMPLED_ROWS", 800)
    model = PLSRegressor(RBF(), random_state=0, n_neighbors=12, n_inducing=20)
    lazy = model.fit(*parts(X, Y))
    assert lazy._record["distinct_rows"] == 800
    assert lazy.posterior_.n_rows == len(X)
    memory = clone(model).fit(X, Y)
    assert_allclose(lazy.noise_variance_, memory.noise_variance_, rtol=0.3)
    error = lazy.predict(NEW) - memory.predict(NEW)
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_chains_serve_rows_that_all_are_in_the_sample():
    model = PLSClassifier(MODEL.kernel, optimizer=None, n_inducing=10, random_state=0)
    model.set_params(n_particles=10, max_iter=20, tol=100.0)
    few = slice(0, 60)
    memory = clone(model).fit(X[few], LABELS[few])
    lazy = clone(model).fit(*parts(X[few], LABELS[few], size=25))
    assert_array_equal(lazy.predict_proba(NEW), memory.predict_proba(NEW))


def test_nearest_rows_serve_other_likelihoods_beyond_the_sample(monkeypatch, cells):
    monkeypatch.setattr(_distributed, "SAMPLED_ROWS", 200)
    model = PLSClassifier(MODEL.kernel, optimizer=None, n_inducing=20, random_state=0)
    lazy = clone(model).fit(*parts(X[:400], LABELS[:400]))
    assert lazy.posterior_.n_neighbors == 40
    assert lazy.posterior_.n_rows == 400
    memory = clone(model).set_params(n_neighbors=40).fit(X[:400], LABELS[:400])
    assert_allclose(lazy.predict_proba(NEW), memory.predict_proba(NEW), atol=0.1)


# ---- Predictions ---------------------------------------------------------------------


def test_lazy_predictions_are_those_of_arrays(eight_cells):
    model = eight_cells
    new = da.from_array(NEW, (30, 2))
    truth = da.from_array(np.arange(100.0), 30)
    mean, std = model.predict(new, return_std=True)
    assert mean.shape == std.shape == (100,)
    eager = model.predict(NEW, return_std=True)
    assert_allclose(dask.compute(mean, std), eager, rtol=1e-10)
    quantiles = model.predict_quantiles(new)
    assert_allclose(quantiles, model.predict_quantiles(NEW), rtol=1e-10)
    assert_allclose(model.predict_interval(new), model.predict_interval(NEW))
    density = model.predict_dist(new).log_density(truth)
    expected = model.log_predictive_density(NEW, np.arange(100.0))
    assert_allclose(density, expected, rtol=1e-8)
    noise = da.from_array(np.linspace(0.1, 1.0, 100), 30)
    std = model.predict(new, return_std=True, noise_variance=noise)[1]
    expected = model.predict(NEW, return_std=True, noise_variance=noise.compute())[1]
    assert_allclose(std, expected, rtol=1e-10)
    with pytest.raises(ValueError, match="row by row"):
        model.predict(new, return_cov=True)
    # at once, before a row is read
    with pytest.raises(ValueError, match="has 2 features"):
        model.predict(new[:, :2])
    with pytest.raises(ValueError, match="2-dimensional"):
        model.predict(new[:, 0])


def test_joint_predictions_agree_with_marginals(eight_cells):
    model = eight_cells
    std = model.predict(NEW[:30], return_std=True)[1]
    covariance = model.predict(NEW[:30], return_cov=True)[1]
    assert_allclose(np.diagonal(covariance), std**2, rtol=1e-6)
    mean, std = model.predict(NEW, return_std=True, include_noise=False)
    draws = model.sample_functions(300, random_state=0)
    z = (draws(NEW).mean(axis=1) - mean) / (std / np.sqrt(300))
    assert np.abs(z).max() < 4.8
    # a value as uncertain as the function there moves it half the way
    value = mean[0] + 3.0 * std[0]
    conditioned = draws.condition(NEW[:1], [value], noise_variance=std[0] ** 2)
    distance = np.mean(conditioned(NEW[:1])) - (mean[0] + value) / 2.0
    assert abs(distance) < 4.0 * std[0] * np.sqrt(0.5 / 300)


def test_copies_have_the_rows_in_memory(cells, eight_cells):
    model = eight_cells
    assert isinstance(model.posterior_.cells.copies[0].base.base, np.memmap)
    expected = model.predict(NEW)
    restored = pickle.loads(pickle.dumps(model))
    copied = copy.deepcopy(model)
    assert_array_equal(restored.predict(NEW), expected)
    assert_array_equal(copied.predict(NEW), expected)


FIT_AND_END = """
import os, signal, sys
import dask
import dask.array as da
import numpy as np
from sklearn.gaussian_process.kernels import RBF
from skgpx import PLSRegressor

X = np.random.default_rng(0).uniform(size=(60, 1))
rows = da.from_array(X, (20, 1)), da.from_array(np.sin(9.0 * X[:, 0]), 20)
with dask.config.set({"temporary-directory": sys.argv[1]}):
    model = PLSRegressor(
        RBF(0.3), optimizer=None, n_inducing=5, n_neighbors=3, random_state=0
    ).fit(*rows)
print(model.predict(X).std() > 0.0, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files in use have names")
def test_a_process_that_is_ended_leaves_no_rows(tmp_path):
    command = [sys.executable, "-c", FIT_AND_END, str(tmp_path)]
    root = Path(__file__).parents[2]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "True", run.stderr
    assert run.returncode == -signal.SIGTERM
    assert not list(tmp_path.iterdir())


# ---- Data frames, and what is refused before rows are sent ---------------------------


def frame(n=600):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X[:n], columns=["a", "b", "c"])
    table["kind"] = pandas.Categorical(np.array(["u", "v", "w"])[np.arange(n) % 3])
    table["y"] = Y[:n] + 0.5 * (np.arange(n) % 3)
    return table


def lazy_frame(table, n_parts=4):
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_pandas(table, npartitions=n_parts)


def test_data_frames_with_categories(cells):
    kernel = Columns(RBF(0.4), ["a", "b", "c"]) * Columns(CategoricalKernel(), ["kind"])
    model = clone(MODEL).set_params(kernel=kernel)
    table = frame()
    lazy = lazy_frame(table)
    columns = ["a", "b", "c", "kind"]
    fitted = clone(model).fit(lazy[columns], lazy["y"])
    assert list(fitted.feature_names_in_) == columns
    assert list(fitted.categories_) == ["kind"]
    memory = clone(model).fit(table[columns], table["y"])
    got = fitted.predict(table[columns])
    assert np.sqrt(np.mean((got - memory.predict(table[columns])) ** 2)) < 0.02
    assert_allclose(fitted.predict(lazy[columns]), got, rtol=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(lazy[["b", "a", "c", "kind"]])
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict_dist(lazy[columns[:2]])


def test_data_frames_with_quantities_and_targets(cells):
    table = frame(300).drop(columns="kind")
    table["count"] = COUNTS[:300]
    table["exposure"] = EXPOSURE[:300]
    lazy = lazy_frame(table)
    columns = ["a", "b", "c"]
    model = clone(MODEL).set_params(likelihood=Poisson())
    fitted = clone(model).fit(lazy[columns], lazy["count"], exposure=lazy["exposure"])
    arrays = clone(model).fit(
        *parts(X[:300], COUNTS[:300]),
        exposure=parts(EXPOSURE[:300])[0],
    )
    rates = fitted.predict(lazy[columns], exposure=lazy["exposure"])
    expected = arrays.predict(X[:300], exposure=EXPOSURE[:300])
    assert_allclose(rates, expected, rtol=1e-8)
    several = clone(MODEL).fit(lazy[columns], lazy[["y", "exposure"]])
    mean, std = several.predict(lazy[columns], return_std=True)
    assert mean.shape[1:] == std.shape[1:] == (2,)
    expected = several.predict(table[columns], return_std=True)
    assert_allclose(dask.compute(mean, std), expected, rtol=1e-10)
    second = several.predict_dist(lazy[columns])[1]
    bounds = several.predict_interval(table[columns])[:, 1]
    assert_allclose(second.interval(), bounds, rtol=1e-10)


def test_parquet_has_unknown_divisions(tmp_path, cells):
    dd = pytest.importorskip("dask.dataframe")
    table = frame().drop(columns="kind")
    for i in range(3):
        table[200 * i : 200 * i + 200].to_parquet(tmp_path / f"{i}.parquet")
    rows = dd.read_parquet(tmp_path)
    assert not rows.known_divisions
    fitted = clone(MODEL).fit(rows[["a", "b", "c"]], rows["y"])
    arrays = clone(MODEL).fit(*parts(X[:600], table["y"].to_numpy()))
    assert fitted.posterior_.n_rows == arrays.posterior_.n_rows == 600
    assert_allclose(moments(fitted, table[["a", "b", "c"]]), moments(arrays, X[:600]))
    table[:500].to_parquet(tmp_path / "others.parquet")
    others = dd.read_parquet(tmp_path / "others.parquet")
    with pytest.raises(ValueError, match="another index than X"):
        clone(MODEL).fit(rows[["a", "b", "c"]], others["y"])


def test_refused_before_rows_are_read():
    def unreadable():
        raise AssertionError("a row was read")

    block = dask.delayed(unreadable)()
    rows = da.from_delayed(block, (500, 3), float)
    targets = da.from_delayed(block, (500,), float)
    model = clone(MODEL)
    with pytest.raises(ValueError, match="dask array or data frame"):
        model.fit(rows, Y[:500])
    with pytest.raises(ValueError, match="same parts"):
        model.fit(rows, targets.rechunk(100))
    with pytest.raises(ValueError, match="2-dimensional"):
        model.fit(targets, targets)
    with pytest.raises(ValueError, match="1-dimensional"):
        clone(model).set_params(likelihood=StudentT()).fit(rows, rows)
    with pytest.raises(ValueError, match="text or objects"):
        model.fit(rows.astype(object), targets)
    with pytest.raises(ValueError, match="dates"):
        model.fit(rows.astype("datetime64[s]"), targets)
    with pytest.raises(ValueError, match="Complex data not supported: X must"):
        model.fit(rows.astype(complex), targets)
    with pytest.raises(ValueError, match="Complex data not supported: y must"):
        model.fit(rows, targets.astype(complex))
    with pytest.raises(ValueError, match=r"likelihood=.*arrays in memory"):
        clone(model).set_params(likelihood=LogNormal()).fit(rows, targets)
    counts = clone(model).set_params(likelihood=Poisson(), n_neighbors="auto")
    with pytest.raises(ValueError, match=r"method='mala'.*arrays in memory"):
        clone(counts).set_params(method="mala").fit(rows, targets)
    with pytest.raises(ValueError, match="n_neighbors=0 beside"):
        clone(counts).set_params(n_neighbors=0).fit(rows, targets)
    with pytest.raises(ValueError, match="exposure must be a dask array"):
        clone(counts).fit(rows, targets, exposure=EXPOSURE[:500])
    with pytest.raises(ValueError, match="exposure of rows is for counts"):
        clone(model).fit(rows, targets, exposure=targets)


def test_refused_columns_of_frames():
    table = frame()
    table["name"] = "text"
    lazy = lazy_frame(table)
    with pytest.raises(ValueError, match=r"'name'.*text or objects"):
        clone(MODEL).fit(lazy[["a", "name"]], lazy["y"])
    unknown = lazy[["a", "kind"]].assign(kind=lazy["kind"].cat.as_unknown())
    with pytest.raises(ValueError, match="categorize"):
        clone(MODEL).fit(unknown, lazy["y"])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_the_part_of_a_bad_number_is_named(monkeypatch, value):
    monkeypatch.setattr(_lazy_fit, "whitened_sums", None)
    rows = X.copy()
    rows[800, 1] = value
    with pytest.raises(ValueError, match="In part 2 of the rows"):
        clone(MODEL).fit(*parts(rows, Y))
    targets = Y.copy()
    targets[800] = value
    with pytest.raises(ValueError, match="In part 2 of the rows"):
        clone(MODEL).fit(*parts(X, targets))
    counts = COUNTS.copy()
    counts[800] = -1.0
    with pytest.raises(ValueError, match="In part 2 of the rows: Poisson expects"):
        clone(MODEL).set_params(likelihood=Poisson()).fit(*parts(X, counts))


# ---- Geometry ------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5])
def test_halos_have_the_nearest_predecessors(d):
    points = np.random.default_rng(2).normal(size=(4000, d))
    shares = np.arange(4000) / 4000.0
    n_sample = 1000
    tree = CellTree.of(points[:n_sample], 10, 8, n_sample / 4000.0, 100)
    needed = tree.halos(points, shares)
    cell = tree.cell_of(points)
    assert_array_equal(needed[cell, np.arange(4000)], True)
    assert_allclose(np.bincount(cell), 500, rtol=0.3)
    nearest, _ = predecessors(points, 10)
    rows = np.arange(200, 4000)
    missed = ~needed[cell[rows][:, np.newaxis], nearest[rows]]
    assert missed.mean() < 0.002
    if d < 5:
        assert needed.mean() < 0.5


def test_predecessors_of_some_points():
    points = np.random.default_rng(0).normal(size=(3000, 2))
    chosen = np.random.default_rng(1).random(3000) < 0.3
    every, every_count = predecessors(points, 7)
    some, count = predecessors(points, 7, chosen=chosen)
    assert_array_equal(some, every[chosen])
    assert_array_equal(count, every_count[chosen])
    i = np.flatnonzero(chosen)[-1]
    expected = np.argsort(cdist(points[[i]], points[:i])[0])[:7]
    assert_array_equal(some[-1], expected)


def test_rows_in_the_sample_have_the_evidence_of_memory():
    known = np.linspace(0.5, 2.0, 60)
    counts = np.random.default_rng(0).poisson(known * np.exp(SIGNAL[:60]))
    y = {"poisson": counts.astype(float), "normal": SIGNAL[:60] + known * 0.1}
    for name, likelihood, quantity in (
        ("poisson", Poisson(), "exposure"),
        ("normal", Gaussian(), "noise_variance"),
    ):
        model = PLSRegressor(
            RBF([0.3] * 3),
            likelihood=likelihood,
            optimizer=None,
            random_state=0,
        )
        memory = clone(model).fit(X[:60], y[name], **{quantity: known})
        lazy_X, lazy_y = parts(X[:60], y[name], size=25)
        lazy_known = parts(known, size=25)[0]
        lazy = clone(model).fit(lazy_X, lazy_y, **{quantity: lazy_known})
        assert_allclose(lazy.log_evidence_, memory.log_evidence_, rtol=1e-8)


def test_a_part_need_not_have_all_classes():
    order = np.argsort(X[:60, 0])
    labels = np.repeat(["a", "b", "c"], 20)
    model = PLSClassifier(RBF([0.3] * 3), optimizer=None, random_state=0)
    lazy = clone(model).fit(*parts(X[order], labels, size=15))
    memory = clone(model).fit(X[order], labels)
    assert_allclose(lazy.predict_proba(NEW), memory.predict_proba(NEW), atol=0.05)
