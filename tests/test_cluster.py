"""Fits and predictions on two worker processes, and data that are there already."""

import copy
import os
import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
    __version__,
)
from skgpx._cells import _distributed
from skgpx._iterative._product import KernelProduct
from skgpx._pls import _lazy_fit
from skgpx._shell import parallel, row_statistics
from skgpx._spectral_vgp import _score
from skgpx.likelihoods import Gaussian, Poisson, StudentT

distributed = pytest.importorskip("distributed")
cloudpickle = pytest.importorskip("cloudpickle")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 3.0, (400, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))
COUNTS = rng.poisson(np.exp(1.0 + Y))
NEW = rng.uniform(0.0, 3.0, (90, 2))
PLS = {"optimizer": None, "n_inducing": 40, "n_particles": 200, "random_state": 0}
MODELS = {
    "chains": PLSRegressor(RBF(), likelihood=Poisson(), max_iter=30, tol=100.0, **PLS),
    "runs": PLSRegressor(RBF(), likelihood=Poisson(), method="smc", **PLS),
    "components": SteinRFFRegressor(
        RBF(), n_components=3, n_frequencies=20, max_iter=12, random_state=0
    ),
    "statistics": SpectralVGPRegressor(),
}


class Sent:
    """Sizes of the tasks that a client sends, and of what it sends ahead of them."""

    def __init__(self, client, monkeypatch):
        self.tasks, self.ahead = [], []
        submit, scatter = client.submit, client.scatter

        def measured_submit(*args, **given):
            self.tasks.append(len(cloudpickle.dumps(given.get("tasks"))))
            return submit(*args, **given)

        def measured_scatter(data, *args, **given):
            self.ahead.append(len(cloudpickle.dumps(data)))
            return scatter(data, *args, **given)

        monkeypatch.setattr(client, "submit", measured_submit)
        monkeypatch.setattr(client, "scatter", measured_scatter)


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.fixture
def sent(cluster, monkeypatch):
    """Small blocks of rows, so that there is something to deal out."""
    monkeypatch.setattr(_score, "_CHUNK", 128)
    monkeypatch.setattr(row_statistics, "CHUNK_ROWS", 64)
    return Sent(cluster, monkeypatch)


def fitted(name):
    y = COUNTS if name in ("chains", "runs") else Y
    return clone(MODELS[name]).fit(X, y)


def predictions(model):
    with config_context(working_memory=0.3):
        return model.predict(NEW, return_std=True)


@pytest.mark.parametrize("name", MODELS)
def test_same_bits_as_one_thread(sent, name):
    one = predictions(fitted(name))
    assert not sent.tasks
    with joblib.parallel_config(backend="dask"):
        there = fitted(name)
        n_fit = len(sent.tasks)
        two = predictions(there)
    assert n_fit > 1
    assert len(sent.tasks) > n_fit + 1
    assert_array_equal(one, two)
    # all tasks together are sent features or a model once: 400 rows, 40 functions
    assert max(sent.tasks) < 400 * 40 * 8
    assert max(sent.tasks[n_fit:]) < 2000


def test_products_with_a_kernel_matrix(sent):
    rng = np.random.default_rng(1)
    rows = rng.uniform(0.0, 3.0, (700, 2))
    y = np.sin(3.0 * rows[:, 0]) + 0.1 * rng.standard_normal(700)
    kernel = Matern(0.5, nu=1.5) + WhiteKernel(0.01)
    how = {"optimizer": None, "n_draws": 6, "tol": 1e-3, "random_state": 0}
    model = ExactGPRegressor(kernel, **how)
    one = clone(model).fit(rows, y).predict(NEW, return_std=True)
    assert not sent.tasks
    with joblib.parallel_config(backend="dask"):
        two = clone(model).fit(rows, y).predict(NEW, return_std=True)
    assert len(sent.tasks) > 6
    assert_array_equal(one, two)
    assert max(sent.tasks) < 2000


def test_rows_stay_with_the_workers_of_a_product(sent):
    rng = np.random.default_rng(1)
    rows, vectors = rng.normal(size=(1500, 20)), rng.normal(size=(1500, 3))
    product = KernelProduct(Matern(5.0, nu=1.5), rows)
    one = [product(vectors) for _ in range(3)]
    with joblib.parallel_config(backend="dask"):
        two = [product(vectors) for _ in range(3)]
    assert_array_equal(one, two)
    # once the rows, also in single precision; then three vectors for each product
    first, *others = sent.ahead
    assert first > rows.nbytes
    assert len(others) == 3
    assert max(others) < vectors.nbytes


def test_one_job_stays_here(sent):
    with joblib.parallel_config(backend="dask"):
        clone(MODELS["chains"]).set_params(n_jobs=1).fit(X, COUNTS)
    assert not sent.tasks


def test_a_single_worker(sent):
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as single,
        distributed.Client(single, set_as_default=False) as client,
        joblib.parallel_config(backend="dask", client=client),
    ):
        there = predictions(fitted("chains"))
    assert_array_equal(there, predictions(fitted("chains")))


@pytest.mark.parametrize("n_losses", [1, 2])
def test_a_round_whose_worker_is_lost_is_repeated_once(sent, monkeypatch, n_losses):
    class Unstable(joblib.Parallel):
        """Loses the first rounds."""

        n_calls = 0

        def __call__(self, tasks):
            Unstable.n_calls += 1
            if Unstable.n_calls <= n_losses:
                raise distributed.KilledWorker("task", None, 1)
            return super().__call__(tasks)

    one = predictions(fitted("chains"))
    monkeypatch.setattr(parallel, "Parallel", Unstable)
    with joblib.parallel_config(backend="dask"):
        if n_losses == 1:
            assert_array_equal(predictions(fitted("chains")), one)
            return
        with pytest.raises(distributed.KilledWorker) as caught:
            fitted("chains")
    assert "lost workers twice" in caught.value.__notes__[0]
    assert Unstable.n_calls == 2


def test_draws(sent):
    inner = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None)
    sampler = DecoupledSampler(inner, n_basis=64, random_state=0).fit(X, Y)
    rows = np.repeat(NEW, 12, axis=0)
    one = sampler.sample_y(rows, 70)
    with joblib.parallel_config(backend="dask"):
        assert_array_equal(sampler.sample_y(rows, 70), one)
    assert sent.tasks


# ---- Data that are on the workers ----------------------------------------------------


def block(seed):
    """Rows that no other process has."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, (500, 1))
    return np.hstack((X, np.sin(4.0 * X) + 0.1 * rng.standard_normal(X.shape)))


def seen(model, part):
    return copy.deepcopy(model).partial_fit(part[:, :1], part[:, 1])


def dask_array(n_blocks=4):
    parts = [dask.delayed(block)(seed) for seed in range(n_blocks)]
    return da.concatenate([da.from_delayed(p, (500, 2), float) for p in parts])


SPECTRAL = SpectralVGPRegressor(domain=[[0.0, 3.0]])
STEIN = SteinRFFRegressor(
    RBF(),
    n_components=2,
    n_frequencies=10,
    max_iter=5,
    validation_fraction=0,
    random_state=0,
)


FIXED = clone(SPECTRAL).set_params(
    kernel=1.0 * RBF(0.5), optimizer=None, noise_variance=0.01, n_basis=31
)


@pytest.mark.parametrize(
    "model", [SPECTRAL, FIXED, STEIN], ids=["spectral", "fixed", "stein"]
)
def test_blocks_of_a_dask_array_are_added_where_they_are(sent, model):
    data = dask_array()
    blocks = data.to_delayed().ravel()
    first = model
    if model is STEIN:
        # its rows choose the frequencies, and count once
        first = clone(model).fit(block(0)[:, :1], block(0)[:, 1])
        blocks = blocks[1:]
    models = [dask.delayed(seen)(first, part) for part in blocks]
    merged = dask.delayed(sum)(models).compute()
    whole = clone(model)
    for seed in range(4):
        part = block(seed)
        whole.partial_fit(part[:, :1], part[:, 1])
    got = merged.predict(NEW[:, :1], return_std=True)
    # sums in another order differ by rounding, which a search makes larger
    tolerance = 1e-6 if model is SPECTRAL else 1e-11
    expected = whole.predict(NEW[:, :1], return_std=True)
    assert_allclose(got, expected, rtol=tolerance)
    if model is not STEIN:
        rows = np.asarray(data)
        once = clone(model).fit(rows[:, :1], rows[:, 1])
        assert_allclose(merged.log_evidence_, once.log_evidence_, rtol=1e-11)
        expected = once.predict(NEW[:, :1], return_std=True)
        assert_allclose(got, expected, rtol=tolerance)


# ---- Rows that stay with their workers -----------------------------------------------

NEIGHBORS = PLSRegressor(
    RBF(0.4),
    likelihood=Gaussian(0.01),
    n_neighbors=10,
    n_inducing=20,
    optimizer=None,
    random_state=0,
)


STUDENT = clone(NEIGHBORS).set_params(likelihood=StudentT(df=4.0, scale=0.1))


def part_of_rows(seed):
    return block(seed)[:120]


def deadly_block(seed, folder):
    """Rows that cost the worker its life when they are read for the second time."""
    for number in range(3):
        calls = folder / f"{seed}-{number}"
        if not calls.exists():
            calls.touch()
            break
    if seed == 1 and number == 1:
        os._exit(1)
    return part_of_rows(seed)


def lazy_rows(read, *arguments):
    parts = [dask.delayed(read)(seed, *arguments) for seed in range(4)]
    data = da.concatenate([da.from_delayed(p, (120, 2), float) for p in parts])
    return data[:, :1], data[:, 1]


@pytest.fixture
def few_rows_a_cell(monkeypatch):
    monkeypatch.setattr(_lazy_fit, "CELL_ROWS", 150)
    monkeypatch.setattr(_lazy_fit, "FIRST_ROWS", 50)


def by_threads(model):
    """The fit of the same rows by threads of this process."""
    with dask.config.set(scheduler="threads"):
        return clone(model).fit(*lazy_rows(part_of_rows))


@pytest.mark.parametrize("kind", [NEIGHBORS, STUDENT], ids=["normal", "student"])
def test_rows_stay_with_their_workers(sent, few_rows_a_cell, monkeypatch, kind):
    monkeypatch.setattr(_distributed, "_SENT_BYTES", 0)
    model = clone(kind).fit(*lazy_rows(part_of_rows))
    cells = model.posterior_.cells
    assert cells.are_remote
    assert len(cells.tables) == 4
    new = NEW[:, :1]
    expected = by_threads(kind).predict(new, return_std=True)
    assert_array_equal(model.predict(new, return_std=True), expected)
    lazy = model.predict(da.from_array(new, (40, 1)), return_std=True)
    assert_allclose(dask.compute(*lazy), expected, rtol=1e-10)
    # a copy has the rows
    copied = copy.deepcopy(model)
    assert not copied.posterior_.cells.are_remote
    assert_array_equal(copied.predict(new), expected[0])


def test_a_worker_that_dies_changes_nothing(cluster, few_rows_a_cell, tmp_path):
    model = clone(STUDENT).fit(*lazy_rows(deadly_block, tmp_path))
    assert (tmp_path / "1-2").exists()
    new = NEW[:, :1]
    assert_array_equal(model.predict(new), by_threads(STUDENT).predict(new))


# ---- Models that outlive their cluster -----------------------------------------------

CLASSES = PLSClassifier(
    RBF(0.4), n_neighbors=10, n_inducing=20, optimizer=None, random_state=0
)


@pytest.fixture
def own_client(few_rows_a_cell):
    """A client of workers in this process, for a test that takes them away."""
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


def cancel(client):
    client.cancel([distributed.Future(key, client) for key in list(client.futures)])


LOSSES = {
    "closed": lambda client: client.close(),
    "cancelled": cancel,
    "restarted": lambda client: client.restart(wait_for_workers=False),
}


def rows_for(kind):
    rows, y = lazy_rows(part_of_rows)
    return rows, (y > 0.0 if kind is CLASSES else y)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        (NEIGHBORS, "closed"),
        (NEIGHBORS, "cancelled"),
        (NEIGHBORS, "restarted"),
        (STUDENT, "closed"),
        (CLASSES, "closed"),
    ],
    ids=["closed", "cancelled", "restarted", "student", "classes"],
)
def test_a_model_outlives_its_cluster(own_client, monkeypatch, kind, loss):
    method = "predict_proba" if kind is CLASSES else "predict"
    new = NEW[:, :1]
    lazy = da.from_array(new, (40, 1))
    small = clone(kind).fit(*rows_for(kind))
    earlier = getattr(small, method)(lazy)
    monkeypatch.setattr(_distributed, "_SENT_BYTES", 0)
    large = clone(kind).fit(*rows_for(kind))
    assert large.posterior_.cells.are_remote
    expected = getattr(large, method)(new)
    LOSSES[loss](own_client)
    assert not large.posterior_.cells.are_remote
    copies = [pickle.loads(pickle.dumps(large)), copy.deepcopy(large)]
    for model in (small, large, *copies):
        assert_array_equal(getattr(model, method)(new), expected)
        later = getattr(model, method)(lazy).compute(scheduler="threads")
        assert_allclose(later, expected, rtol=1e-10)
    assert_allclose(earlier.compute(scheduler="threads"), expected, rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_that_only_the_cluster_had(own_client, tmp_path, loss):
    new = NEW[:, :1]
    lazy = da.from_array(new, (40, 1))
    with config_context(working_memory=0.001):
        model = clone(NEIGHBORS).fit(*lazy_rows(part_of_rows))
        with dask.config.set({"temporary-directory": str(tmp_path)}):
            stored = clone(NEIGHBORS).fit(*lazy_rows(part_of_rows))
    assert model.posterior_.cells.copies is None
    expected = model.predict(new)
    pickled = pickle.dumps(model)
    LOSSES[loss](own_client)
    for use in (
        lambda: model.predict(new),
        lambda: model.predict(lazy),
        lambda: model.sample_functions(2),
        lambda: pickle.dumps(model),
        lambda: copy.deepcopy(model),
    ):
        with pytest.raises(RuntimeError, match=r"closed or restarted.*working_memory"):
            use()
    for kept in (pickle.loads(pickled), stored):
        assert_array_equal(kept.predict(new), expected)
    with dask.config.set(scheduler="threads"):
        assert_array_equal(model.fit(*lazy_rows(part_of_rows)).predict(new), expected)


@pytest.mark.parametrize("loss", ["cancelled", "restarted"])
def test_losses_of_which_the_client_has_not_heard(own_client, monkeypatch, loss):
    new = NEW[:, :1]
    with config_context(working_memory=0.001):
        model = clone(NEIGHBORS).fit(*lazy_rows(part_of_rows))
    monkeypatch.setattr(_distributed, "_SENT_BYTES", 0)
    copied = clone(NEIGHBORS).fit(*lazy_rows(part_of_rows))
    expected = copied.predict(new)
    LOSSES[loss](own_client)
    monkeypatch.setattr(_distributed.Cells, "are_remote", True)
    for use in (lambda: model.predict(new), lambda: pickle.dumps(model)):
        with pytest.raises(RuntimeError, match=r"closed or restarted.*working_memory"):
            use()
    assert_array_equal(copied.predict(new), expected)


def test_workers_of_other_versions_are_refused(own_client, monkeypatch):
    answers = {
        "tcp://a:1": ModuleNotFoundError("No module named 'skgpx'"),
        "tcp://b:2": "0.0.9",
        "tcp://c:3": __version__,
    }
    asked = []

    def run(function, *arguments, **options):
        asked.append(function(*arguments))
        return answers

    monkeypatch.setattr(own_client, "run", run)
    with joblib.parallel_config(backend="dask"):
        for model, rows in (
            (NEIGHBORS, rows_for(NEIGHBORS)),
            (CLASSES, rows_for(CLASSES)),
            (clone(MODELS["chains"]).set_params(n_jobs=2), (X, COUNTS)),
        ):
            with pytest.raises(RuntimeError, match="2 of 3 do not") as caught:
                clone(model).fit(*rows)
            assert "tcp://a:1: No module named 'skgpx'" in str(caught.value)
            assert "tcp://b:2: 0.0.9" in str(caught.value)
            assert "tcp://c:3" not in str(caught.value)
    assert asked == [__version__] * 3
    answers = {"tcp://c:3": __version__}
    for _ in range(2):
        clone(NEIGHBORS).fit(*lazy_rows(part_of_rows))
    assert len(asked) == 4
