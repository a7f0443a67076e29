import itertools
import math

import numpy as np
import pytest

from skgpx._numerics.quadrature import expectation_nodes


def normal_moment(power):
    """``E[ξ^power]``: the double factorial of power - 1."""
    return 0.0 if power % 2 else float(math.prod(range(power - 1, 0, -2)))


@pytest.mark.parametrize("n_nodes", [1, 5, 12, 20])
def test_one_output_is_exact_for_polynomials(n_nodes):
    nodes, weights = expectation_nodes(1, n_nodes)
    assert nodes.shape == (n_nodes, 1)
    assert weights.shape == (n_nodes,)
    for power in range(2 * n_nodes):
        estimate = weights @ nodes[:, 0] ** power
        size = weights @ np.abs(nodes[:, 0]) ** power
        assert abs(estimate - normal_moment(power)) <= 1e-11 * max(size, 1.0)


@pytest.mark.parametrize("c", [2, 3, 7])
def test_several_outputs_are_exact_up_to_degree_three(c):
    nodes, weights = expectation_nodes(c)
    assert nodes.shape == (2 * c, c)
    assert weights.sum() == pytest.approx(1.0)
    for degree in range(4):
        for which in itertools.combinations_with_replacement(range(c), degree):
            powers = np.bincount(np.array(which, dtype=np.intp), minlength=c)
            expected = np.prod([normal_moment(int(p)) for p in powers])
            estimate = weights @ np.prod(nodes**powers, axis=1)
            assert estimate == pytest.approx(expected, abs=1e-12)


def test_default_rule_integrates_an_exponential():
    nodes, weights = expectation_nodes(1)
    assert weights @ np.exp(1.5 * nodes[:, 0]) == pytest.approx(np.exp(1.125), rel=1e-8)
