"""Rows of dask in cells: the model of one process, whatever cells and workers."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal, assert_array_less
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import PLSRegressor
from skgpx._numerics.cells import CellTree
from skgpx._numerics.nearest import predecessors
from skgpx._pls import _distributed
from skgpx.kernels import CategoricalKernel, Columns
from skgpx.likelihoods import Gaussian, Poisson

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

rng = np.random.default_rng(0)
X = rng.uniform(size=(3000, 3))
SIGNAL = np.sin(6.0 * X[:, 0]) + np.cos(9.0 * X[:, 1] * X[:, 2])
Y = 5.0 + 2.0 * SIGNAL + 0.2 * rng.standard_normal(len(X))
WEIGHTS = rng.integers(0, 3, len(X)).astype(float)
NEW = rng.uniform(size=(300, 3))
MODEL = PLSRegressor(
    Matern([0.5, 0.5, 0.6], nu=1.5),
    likelihood=Gaussian(0.04),
    optimizer=None,
    n_inducing=40,
    n_neighbors=20,
    random_state=0,
)


def parts(*arrays, size=700):
    return [da.from_array(a, (size, *a.shape[1:])) for a in arrays]


def moments(model, at=NEW):
    return model.predict(at, return_std=True, include_noise=False)


def distance_in_std(one, other):
    mean, std = moments(one)
    return np.abs(moments(other)[0] - mean) / std


@pytest.fixture
def cells(monkeypatch):
    """So many rows a cell that there are eight cells, of which each has few rows."""
    monkeypatch.setattr(_distributed, "CELL_ROWS", 400)
    monkeypatch.setattr(_distributed, "FIRST_ROWS", 100)


@pytest.fixture(scope="module")
def one_cell():
    return clone(MODEL).fit(*parts(X, Y))


def test_cells_are_the_model_of_one_cell(one_cell, cells):
    model = clone(MODEL).fit(*parts(X, Y))
    assert len(one_cell.posterior_.cells.tables) == 1
    assert len(model.posterior_.cells.tables) == 8
    assert_array_less(distance_in_std(one_cell, model), 0.01)
    assert_allclose(moments(model)[1], moments(one_cell)[1], rtol=1e-3)
    assert_allclose(model.log_evidence_, one_cell.log_evidence_, atol=0.1)


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


def test_bits_depend_neither_on_parts_nor_on_the_order_of_rows(cells):
    model = clone(MODEL).fit(*parts(X, Y))
    order = np.random.default_rng(1).permutation(len(X))
    shuffled = clone(MODEL).fit(*parts(X[order], Y[order], size=451))
    assert_allclose(moments(shuffled), moments(model), rtol=1e-10)


def test_weights_are_repetitions(cells):
    weighted = clone(MODEL).fit(*parts(X, Y, WEIGHTS))
    rows = np.repeat(np.arange(len(X)), WEIGHTS.astype(int))
    repeated = clone(MODEL).fit(*parts(X[rows], Y[rows]))
    assert_allclose(moments(weighted), moments(repeated), rtol=1e-8)
    assert_allclose(weighted.log_evidence_, repeated.log_evidence_, rtol=1e-8)
    memory = clone(MODEL).fit(X, Y, WEIGHTS)
    assert np.sqrt(np.mean(distance_in_std(memory, weighted) ** 2)) < 0.1


def test_points_that_suffice_are_the_fit_in_memory():
    model = clone(MODEL).set_params(n_neighbors=0, optimizer="evidence", n_inducing=150)
    model.set_params(likelihood=None, kernel=RBF())
    memory = clone(model).fit(X[:1600], Y[:1600])
    lazy = clone(model).fit(*parts(X[:1600], Y[:1600]))
    assert_allclose(lazy.log_evidence_, memory.log_evidence_, rtol=1e-6)
    assert_allclose(moments(lazy), moments(memory), rtol=1e-5)
    assert_allclose(lazy.predict(parts(NEW)[0]), lazy.predict(NEW), rtol=1e-12)


def test_default_of_few_rows_averages_as_in_memory():
    few = slice(0, 60)
    memory = PLSRegressor(random_state=0).fit(X[few], Y[few])
    lazy = PLSRegressor(random_state=0).fit(*parts(X[few], Y[few], size=25))
    assert len(lazy.hyperparameter_states_) == len(memory.hyperparameter_states_)
    assert_allclose(moments(lazy), moments(memory), rtol=1e-5)


def test_sample_of_the_rows_learns_the_kernel(monkeypatch, cells):
    monkeypatch.setattr(_distributed, "SAMPLED_ROWS", 800)
    model = PLSRegressor(RBF(), random_state=0, n_neighbors=20, n_inducing=40)
    lazy = model.fit(*parts(X, Y))
    assert lazy._record.distinct_rows == 800
    assert lazy.posterior_.n_rows == len(X)
    memory = clone(model).fit(X, Y)
    assert_allclose(lazy.noise_variance_, memory.noise_variance_, rtol=0.3)
    error = lazy.predict(NEW) - memory.predict(NEW)
    assert np.sqrt(np.mean(error**2)) < 0.1


# ---- Predictions ---------------------------------------------------------------------


def test_lazy_predictions_are_those_of_arrays(cells):
    model = clone(MODEL).fit(*parts(X, Y))
    new = da.from_array(NEW, (70, 2))
    truth = da.from_array(np.arange(300.0), 70)
    mean, std = model.predict(new, return_std=True)
    assert mean.shape == std.shape == (300,)
    eager = model.predict(NEW, return_std=True)
    assert_allclose(dask.compute(mean, std), eager, rtol=1e-10)
    quantiles = model.predict_quantiles(new)
    assert_allclose(quantiles, model.predict_quantiles(NEW), rtol=1e-10)
    assert_allclose(model.predict_interval(new), model.predict_interval(NEW))
    density = model.predict_dist(new).log_density(truth)
    expected = model.log_predictive_density(NEW, np.arange(300.0))
    assert_allclose(density, expected, rtol=1e-8)
    noise = da.from_array(np.linspace(0.1, 1.0, 300), 70)
    std = model.predict(new, return_std=True, noise_variance=noise)[1]
    expected = model.predict(NEW, return_std=True, noise_variance=noise.compute())[1]
    assert_allclose(std, expected, rtol=1e-10)
    with pytest.raises(ValueError, match="row by row"):
        model.predict(new, return_cov=True)


def test_joint_predictions_agree_with_marginals(cells):
    model = clone(MODEL).fit(*parts(X, Y))
    std = model.predict(NEW[:30], return_std=True)[1]
    covariance = model.predict(NEW[:30], return_cov=True)[1]
    assert_allclose(np.diagonal(covariance), std**2, rtol=1e-6)
    mean, std = moments(model)
    draws = model.sample_functions(300, random_state=0)(NEW)
    z = (draws.mean(axis=1) - mean) / (std / np.sqrt(300))
    assert np.abs(z).max() < 4.8


def test_copies_have_the_rows_in_memory(cells):
    model = clone(MODEL).fit(*parts(X, Y))
    folder = model.posterior_.cells.folder.path
    expected = model.predict(NEW)
    restored = pickle.loads(pickle.dumps(model))
    copied = copy.deepcopy(model)
    del model
    assert not _distributed.Path(folder).exists()
    assert_array_equal(restored.predict(NEW), expected)
    assert_array_equal(copied.predict(NEW), expected)


# ---- Data frames, and what is refused before rows are sent ---------------------------


def frame(n=900):
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
        fitted.predict(lazy[["b", "a", "c", "kind"]]).compute()


def test_parquet_has_unknown_divisions(tmp_path, cells):
    dd = pytest.importorskip("dask.dataframe")
    table = frame().drop(columns="kind")
    for i in range(3):
        table[300 * i : 300 * i + 300].to_parquet(tmp_path / f"{i}.parquet")
    rows = dd.read_parquet(tmp_path)
    assert not rows.known_divisions
    fitted = clone(MODEL).fit(rows[["a", "b", "c"]], rows["y"])
    arrays = clone(MODEL).fit(*parts(X[:900], table["y"].to_numpy()))
    assert fitted.posterior_.n_rows == arrays.posterior_.n_rows == 900
    assert_allclose(moments(fitted, table[["a", "b", "c"]]), moments(arrays, X[:900]))
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
        model.fit(rows, rows)
    with pytest.raises(ValueError, match="text or objects"):
        model.fit(rows.astype(object), targets)
    with pytest.raises(ValueError, match="dates"):
        model.fit(rows.astype("datetime64[s]"), targets)
    with pytest.raises(ValueError, match="likelihood=Gaussian"):
        clone(model).set_params(likelihood=Poisson()).fit(rows, targets)
    with pytest.raises(ValueError, match="noise_variance"):
        clone(model).set_params(likelihood=None).fit(rows, targets, noise_variance=1.0)


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
    monkeypatch.setattr(_distributed, "whitened_sums", None)
    rows = X.copy()
    rows[1500, 1] = value
    with pytest.raises(ValueError, match="In part 2 of the rows"):
        clone(MODEL).fit(*parts(rows, Y))
    targets = Y.copy()
    targets[1500] = value
    with pytest.raises(ValueError, match="In part 2 of the rows"):
        clone(MODEL).fit(*parts(X, targets))


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
