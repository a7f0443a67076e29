"""BLAS uses as many threads as are wanted, and in the end as before."""

from __future__ import annotations

import inspect
from typing import ClassVar

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge
from threadpoolctl import threadpool_info, threadpool_limits

from skgpx import (
    DecoupledSampler,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
)
from skgpx._numerics.blas_threads import (
    current_blas_threads,
    one_blas_thread,
    threads_for,
)
from skgpx._parallel import workers
from skgpx.likelihoods import StudentT


def threads(*_):
    libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return min(one["num_threads"] for one in libraries)


@pytest.mark.parametrize("nested", [False, True])
def test_the_last_of_those_that_overlap_restores_the_number(nested):
    with threadpool_limits(4, user_api="blas"):
        before = threads()
        one, other = one_blas_thread(), one_blas_thread()
        first, last = (other, one) if nested else (one, other)
        seen = []
        for change in (
            one.__enter__,
            other.__enter__,
            lambda: first.__exit__(None, None, None),
            lambda: last.__exit__(None, None, None),
        ):
            change()
            seen.append(threads())
            # work may be divided among as many as the user has given
            assert current_blas_threads() == before
    assert seen == [1, 1, 1, before]


def test_large_matrices_have_the_threads_of_the_user():
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with one_blas_thread():
            with threads_for(10**4):
                assert threads() == before
            with threads_for(10):
                assert threads() == 1
            # results must not depend on the number of workers
            with workers(1), threads_for(10**4):
                assert threads() == current_blas_threads() == 1
            assert threads() == 1
        assert threads() == before


def test_an_error_lifts_the_limit():
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with pytest.raises(RuntimeError), one_blas_thread():
            raise RuntimeError
        assert threads() == before


class Rows:
    """Rows that note the threads of BLAS when they are read, and may then fail."""

    def __init__(self, X, error=None):
        self.X, self.shape, self.error, self.seen = X, X.shape, error, []

    def __len__(self):
        return len(self.X)

    def __array__(self, dtype=None, copy=None):
        self.seen.append(threads())
        if self.error:
            raise self.error
        return np.asarray(self.X, dtype=dtype)


FEW = {"n_inducing": 5, "optimizer": None, "random_state": 0}
LEARNED = {"n_components": 2, "n_frequencies": 4, "max_iter": 1, "random_state": 0}
ESTIMATORS = [
    PLSRegressor(**FEW),
    PLSClassifier(n_particles=4, max_iter=20, **FEW),
    DecoupledSampler(n_basis=16, random_state=0),
    SpectralVGPRegressor(n_basis=9, optimizer=None),
    SteinRFFRegressor(RBF(), optimizer=None, **LEARNED),
    SteinFourierFeatures(n_frequencies=4, n_steps=1, random_state=0),
    GWIRegressor(BayesianRidge(), cv=2, **FEW),
    GWIClassifier(max_iter=1, n_estimators=1, **FEW),
    TemperedRegressor(BayesianRidge(), cv=2),
]


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        yield
        assert threads() == before


def methods_of_rows(estimator):
    """Names of the public methods that read rows."""
    for name, method in inspect.getmembers(estimator, inspect.ismethod):
        if not name.startswith("_") and "X" in inspect.signature(method).parameters:
            yield name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_every_public_method_holds_blas_to_one_thread(estimator, two_threads):
    before = threads()
    X = np.random.default_rng(0).normal(size=(30, 1))
    y = X[:, 0] > 0.0 if "Classifier" in type(estimator).__name__ else X[:, 0]
    names = set(methods_of_rows(estimator)) - {"fit", "report"}
    for name in ["fit", *sorted(names)]:
        rows, method = Rows(X), getattr(estimator, name)
        targets = {"y": y} if "y" in inspect.signature(method).parameters else {}
        method(X=rows, **targets)
        assert set(rows.seen) == {1}, name
        with pytest.raises(ZeroDivisionError):
            method(X=Rows(X, ZeroDivisionError()), **targets)
        assert threads() == before, name


def test_distributions_and_draws_hold_blas_to_one_thread(two_threads):
    seen, Z = [], np.linspace(0.0, 1.0, 5)[:, np.newaxis]

    def mean(X):
        seen.append(threads())
        return X[:, 0]

    sampler = DecoupledSampler.from_inducing(
        RBF(0.3), Z, q_mean=np.ones(5), q_root=0.1 * np.eye(5), mean=mean
    )
    draws, before = sampler.sample_functions(3, random_state=0), threads()
    for call in (draws, draws.at, draws.value_and_grad):
        seen.clear()
        call(Z[:3])
        assert set(seen) == {1}
        assert threads() == before
    model = PLSRegressor(likelihood=Noted(), **FEW).fit(Z, Z[:, 0])
    distribution = model.predict_dist(Z)
    for call in (
        distribution.mean,
        distribution.variance,
        distribution.std,
        distribution.sample,
        distribution.interval,
    ):
        Noted.seen.clear()
        call()
        assert set(Noted.seen) == {1}
        assert threads() == before


class Noted(StudentT):
    """Notes the threads of BLAS whenever something is asked of it."""

    seen: ClassVar[list[int]] = []

    def __getattribute__(self, name):
        Noted.seen.append(threads())
        return super().__getattribute__(name)
