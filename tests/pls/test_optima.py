"""Searches end where their gradient vanishes, whatever the likelihood."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from skgpx._hyperparameters import rough_start, row_target
from skgpx._numerics import langevin, laplace
from skgpx._numerics.expectations import expectation_nodes
from skgpx._shell.validation import Rows
from skgpx.bases import Nystroem
from skgpx.likelihoods import HeteroscedasticGaussian, HeteroscedasticStudentT
from tests.likelihoods.test_contract import CATEGORICAL, SCALAR, targets

OF_TWO = [HeteroscedasticGaussian(scale=0.5), HeteroscedasticStudentT(scale=0.5)]


def half_squared_decrement(target, mode):
    """In nats, with the curvatures of the mode; averaged over the nodes of a target."""
    f = langevin.latent_values(target, mode.weights)
    slope = np.zeros_like(f)
    for node, mass in zip(target.nodes, target.node_weights, strict=True):
        at = (f + target.std * node)[:, :, np.newaxis]
        slope += mass * target.likelihood.row_gradient(target.y, at)[:, :, 0]
    gradient = (target.features.T @ slope + mode.weights).T
    white = np.einsum("gpq,gp->gq", mode.root, gradient.reshape(len(mode.root), -1))
    return 0.5 * np.sum(white**2)


@pytest.mark.parametrize("likelihood", [*SCALAR, CATEGORICAL, *OF_TWO], ids=repr)
@pytest.mark.parametrize("variance", [1.0, 9.0])
def test_searches_for_a_mode_end_where_the_gradient_vanishes(likelihood, variance):
    rng = np.random.default_rng(0)
    n = 60
    X = rng.uniform(0.0, 4.0, (n, 1))
    y = rng.permutation(targets(likelihood, n))
    prepared = likelihood.prepare(y, np.ones(n))
    basis = Nystroem.from_kernel(
        variance * RBF(0.5), np.linspace(0.0, 4.0, 12)[:, None]
    )
    target = row_target(basis(X), Rows(X, y, np.ones(n), None), prepared)
    mode = laplace.find_mode(target, rough_start(target))
    assert mode.converged
    assert half_squared_decrement(target, mode) < 1e-9
    # as rough as a start may be
    rough = laplace.find_mode(target, rough_start(target), 1e-2)
    assert half_squared_decrement(target, rough) < 1e-2
    if target.n_outputs > 1:
        return
    # the normal distribution of the start of chains
    refined = laplace.refine(target, mode)
    nodes, masses = expectation_nodes(1)
    spread = laplace.latent_variance(target.features, refined.root, 1)
    averaged = target._replace(std=np.sqrt(spread), nodes=nodes, node_weights=masses)
    assert half_squared_decrement(averaged, refined) < 1e-2
