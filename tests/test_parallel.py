"""Maps and sums over items, in order and as they arrive."""

import operator
import os
import threading
import time
from functools import reduce

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skgpx._shell.parallel import (
    WorkerCache,
    blas_jobs,
    parallel_map,
    parallel_stream,
    side_by_side,
    workers,
)


def part(i):
    # later items are ready first
    time.sleep(0.002 * (i % 3 == 0))
    return np.exp(np.sin(i) * 30.0)


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5])
def test_sums_have_the_bits_of_the_order(n_jobs):
    total = 0.0
    for i in range(40):
        total = total + part(i)
    items = ((i,) for i in range(40))
    assert reduce(operator.add, parallel_stream(part, items, n_jobs)) == total
    assert sum(parallel_map(part, [(i,) for i in range(40)], n_jobs)) == total
    with joblib.parallel_config(backend="loky", n_jobs=2):
        items = [(i,) for i in range(40)]
        assert reduce(operator.add, parallel_stream(part, items, None)) == total


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_items_are_read_when_they_are_needed(n_jobs):
    taken, ahead, lock = [0, 0], [], threading.Lock()

    def items():
        for i in range(60):
            taken[0] += 1
            yield (i,)

    def slow(i):
        with lock:
            taken[1] += 1
            ahead.append(taken[0] - taken[1])
        return 1

    assert reduce(operator.add, parallel_stream(slow, items(), n_jobs)) == 60
    assert max(ahead) <= 2 * n_jobs


def test_an_error_in_an_item_is_raised():
    with pytest.raises(ZeroDivisionError):
        reduce(
            operator.add, parallel_stream(operator.truediv, [(1.0, 1.0), (1.0, 0)], 2)
        )


def blas_threads(*_):
    libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return min(one["num_threads"] for one in libraries)


@pytest.mark.parametrize("threads", [1, 2])
def test_without_a_number_there_are_as_many_jobs_as_threads_of_blas(threads):
    with threadpool_limits(threads, user_api="blas"):
        assert blas_jobs(None) == blas_threads() <= threads
        assert blas_jobs(3) == 3
        # what joblib is told, or the loop around, decides
        with joblib.parallel_config(n_jobs=3):
            assert blas_jobs(None) is None
        with joblib.parallel_config(backend="threading"):
            assert blas_jobs(None) == blas_threads()
        inner = joblib.Parallel(n_jobs=2, prefer="threads")(
            joblib.delayed(blas_jobs)(None) for _ in range(2)
        )
        assert inner == [None, None]


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_tasks_side_by_side_have_one_thread_of_blas_each(n_jobs):
    with threadpool_limits(2, user_api="blas"):
        assert side_by_side(blas_threads, [(), ()], n_jobs) == [1, 1]
        assert side_by_side(blas_threads, [], n_jobs) == []
    assert side_by_side(part, [(i,) for i in range(5)], n_jobs) == [
        part(i) for i in range(5)
    ]


def process(*_):
    return os.getpid()


def scaled(factor, offset, i):
    return factor * part(i) + offset


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("in_threads", [False, True])
def test_what_all_calls_share_comes_first(backend, in_threads):
    expected, items = [scaled(2.0, 1.0, i) for i in range(9)], [(i,) for i in range(9)]
    with joblib.parallel_config(backend=backend, n_jobs=2):
        how = {"in_threads": in_threads}
        assert parallel_map(scaled, items, None, 2.0, 1.0, **how) == expected
        stream = parallel_stream(scaled, iter(items), 2, 2.0, 1.0, **how)
        assert list(stream) == expected
        with workers(None, 2.0, 1.0, **how) as run:
            assert run(scaled, items) == expected
        with workers(None, WorkerCache(2.0), 1.0, **how) as run:
            assert run(scaled, items) == expected
            here = {os.getpid()} == set(run(process, items))
            assert here == (in_threads or backend == "threading")
