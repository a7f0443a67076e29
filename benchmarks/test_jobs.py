"""Pieces of a benchmark in processes: the same results in the same order."""

import math

import pytest

from benchmarks.jobs import each


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_are_in_the_order_of_the_tasks(n_jobs):
    """As many processes as asked for change nothing."""
    tasks = [(9.0, 2.0), (4.0, 3.0), (2.0, 5.0)]
    assert each(math.pow, tasks, n_jobs) == [81.0, 64.0, 32.0]
