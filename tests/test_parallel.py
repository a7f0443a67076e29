"""Maps and sums over items, in order and as they arrive."""

import operator
import threading
import time

import joblib
import numpy as np
import pytest

from skgpx._parallel import parallel_map, parallel_sum, worker_pool


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
    assert parallel_sum(part, items, operator.add, n_jobs) == total
    assert sum(parallel_map(part, [(i,) for i in range(40)], n_jobs)) == total
    with joblib.parallel_config(backend="loky", n_jobs=2):
        items = [(i,) for i in range(40)]
        assert parallel_sum(part, items, operator.add, None) == total


@pytest.mark.parametrize("n_jobs", [None, 1, 3])
def test_workers_stay_for_many_rounds(n_jobs):
    items = [(i,) for i in range(7)]
    with worker_pool(n_jobs) as each:
        for _ in range(3):
            assert each(part, items) == [part(i) for i in range(7)]


def test_one_item_is_its_own_sum():
    assert parallel_sum(part, [(4,)], operator.add, 2) == part(4)


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

    assert parallel_sum(slow, items(), operator.add, n_jobs) == 60
    assert max(ahead) <= 2 * n_jobs


def test_an_error_in_an_item_is_raised():
    with pytest.raises(ZeroDivisionError):
        parallel_sum(operator.truediv, [(1.0, 1.0), (1.0, 0)], operator.add, 2)
