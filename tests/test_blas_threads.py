"""BLAS uses as many threads as are wanted, and in the end as before."""

from __future__ import annotations

import inspect
import os
import signal
import threading
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_info, threadpool_limits

import skgpx
from skgpx import DecoupledSampler, FunctionDraws, PLSRegressor
from skgpx._numerics import blas_threads
from skgpx._numerics.blas_threads import (
    OneBlasThread,
    current_blas_threads,
    one_blas_thread,
    threads_for,
)
from skgpx._prediction.distribution import NormalDistribution
from skgpx._shell.parallel import workers


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


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        yield before
        assert threads() == before


def test_large_matrices_have_the_threads_of_the_user(two_threads):
    with one_blas_thread():
        with threads_for(10**4):
            assert threads() == two_threads
        with threads_for(10):
            assert threads() == 1
        # results must not depend on the number of workers
        with workers(1), threads_for(10**4):
            assert threads() == current_blas_threads() == 1
        assert threads() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are spawned here")
@pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
@pytest.mark.parametrize("within", [False, True])
def test_a_forked_process_counts_its_own_thread_only(two_threads, within):
    def state():
        """Threads now, and of large matrices within a context; the lock is free."""
        with one_blas_thread(), threads_for(10**4):
            large = threads()
        return f"{threads()} {large}"

    entered, leave = threading.Event(), threading.Event()

    def other():
        # one thread computes, and holds the lock in this moment
        with one_blas_thread(), blas_threads._LOCK:
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with one_blas_thread() if within else nullcontext():
        thread.start()
        entered.wait()
        read, write = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(10)
            with suppress(BaseException):
                os.write(write, state().encode())
            os._exit(0)
        leave.set()
        thread.join()
        os.close(write)
        os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        expected = 1 if within else two_threads
        assert pipe.read() == f"{expected} {two_threads}"


def test_every_public_method_holds_blas_to_one_thread():
    classes = [one for one in vars(skgpx).values() if isinstance(one, type)]
    classes += [FunctionDraws, NormalDistribution]
    ours = [one for one in classes if issubclass(one, OneBlasThread)]
    assert len(ours) >= 13
    for one in ours:
        for name, method in inspect.getmembers(one, inspect.isfunction):
            if not name.startswith("_") and method.__module__.startswith("skgpx."):
                assert hasattr(method, "holds_blas"), (one, name)


def test_errors_in_public_methods_restore_the_threads(two_threads):
    with pytest.raises(ValueError, match="NaN"):
        PLSRegressor().fit([[np.nan]], [0.0])


def test_draws_hold_blas_to_one_thread(two_threads):
    seen, Z = [], np.linspace(0.0, 1.0, 5)[:, np.newaxis]

    def mean(X):
        seen.append(threads())
        return X[:, 0]

    sampler = DecoupledSampler.from_inducing(
        RBF(0.3), Z, q_mean=np.ones(5), q_root=0.1 * np.eye(5), mean=mean
    )
    draws = sampler.sample_functions(3, random_state=0)
    for call in (draws, draws.at, draws.value_and_grad):
        seen.clear()
        call(Z[:3])
        assert set(seen) == {1}
        assert threads() == two_threads
