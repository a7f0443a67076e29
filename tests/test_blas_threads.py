"""BLAS uses as many threads as are wanted, and in the end as before."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

from skgpx import PLSRegressor, _blas_threads
from skgpx._blas_threads import blas_held_to, current_blas_threads
from skgpx._parallel import workers


def threads(*_):
    libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return min(one["num_threads"] for one in libraries)


@pytest.mark.parametrize("limits", [(1, 1), (1, 2), (2, 1), (3, 2)])
@pytest.mark.parametrize("nested", [False, True])
def test_the_lowest_limit_of_those_that_overlap_holds(limits, nested):
    with threadpool_limits(4, user_api="blas"):
        before = threads()
        one, other = (blas_held_to(most) for most in limits)
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
            assert current_blas_threads() == seen[-1]
    left = limits[0] if nested else limits[1]
    # a BLAS built for fewer threads has these
    assert seen == [min(before, n) for n in (limits[0], min(limits), left, 4)]


def test_an_error_lifts_the_limit():
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with pytest.raises(RuntimeError), blas_held_to(1):
            raise RuntimeError
        assert threads() == before


def test_workers_that_overlap_in_threads_leave_blas_as_it_was():
    inside, ended = threading.Barrier(2, timeout=30), threading.Event()

    def fit(first):
        with workers(2) as some:
            inside.wait()
            assert some.each(threads, [()] * 2) == [1, 1]
            inside.wait()
            if not first:
                assert ended.wait(timeout=30)
                assert some.each(threads, [()] * 2) == [1, 1]

    # with a limit of the user's around, which from threadpoolctl 3.8 bars other threads
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(2) as pool:
        before = threads()
        one, other = pool.submit(fit, True), pool.submit(fit, False)
        one.result()
        ended.set()
        other.result()
        assert threads() == before


def test_a_search_in_threads_leaves_blas_as_it_was():
    X = np.random.default_rng(0).normal(size=(40, 2))
    search = GridSearchCV(
        PLSRegressor(random_state=0),
        {"n_inducing": [5, 10, 15]},
        cv=2,
        n_jobs=2,
    )
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with joblib.parallel_config(backend="threading"):
            search.fit(X, X.sum(1))
        assert threads() == before


class ByThread:
    """OpenBLAS over OpenMP: each thread has a number of its own, 4 when it starts."""

    internal_api, threading_layer = "openblas", "openmp"

    def __init__(self):
        self._own = threading.local()

    @property
    def num_threads(self):
        return getattr(self._own, "count", 4)

    def set_num_threads(self, count):
        self._own.count = count


def test_each_task_is_held_where_threads_have_their_own_number(monkeypatch):
    library = ByThread()
    monkeypatch.setattr(_blas_threads, "_libraries", lambda: [library])
    with workers(2) as some:
        assert library.num_threads == 1
        assert some.each(lambda: library.num_threads, [()] * 4) == [1, 1, 1, 1]
    assert library.num_threads == 4
