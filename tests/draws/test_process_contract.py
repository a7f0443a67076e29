"""What every process promises: its covariance, and that of what observations leave."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from skgpx import _draws
from skgpx._draws import FiniteProcess, InputMap, KernelProcess, Process
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases import Fourier, Nystroem, WarpedInputs

KERNEL = 1.5 * RBF(0.4)
X = np.linspace(0.05, 1.9, 6)[:, np.newaxis]
Z = np.linspace(0.0, 2.0, 4)[:, np.newaxis]
FOURIER = Fourier(np.array([[0.7], [2.0], [4.5]]), np.array([0.9, 0.6, 0.3]))


def normal_weights(basis):
    rng = np.random.default_rng(4)
    m = basis.n_basis
    root = np.tril(rng.standard_normal((1, m, m))) / m
    return GaussianWeights(np.zeros((m, 1)), root)


def of_basis(basis):
    """Process of a basis, and its covariance by dense formulas."""
    weights = normal_weights(basis)
    features = basis(X)
    residual = basis.residual_covariance(X, features)
    return basis.process(weights), weights.covariance(features) + residual


NYSTROEM = Nystroem.from_kernel(KERNEL, Z)
# Every class, in the forms that it has, and covariances at X.
PROCESSES = {
    "prior": (KernelProcess.prior(KERNEL, 1, 1), KERNEL(X)),
    "inducing variables": of_basis(NYSTROEM),
    "finitely many functions": of_basis(FOURIER),
    "mapped inputs": of_basis(WarpedInputs(NYSTROEM, InputMap(np.square, 1))),
}
every_process = pytest.mark.parametrize(
    ("process", "expected"), PROCESSES.values(), ids=PROCESSES.keys()
)
OBSERVED = X[[1, 4]]
NOISE = np.array([0.1, 0.02])


def conditional(K):
    """Gain and covariance given noisy observations at rows 1 and 4."""
    among = K[np.ix_([1, 4], [1, 4])] + np.diag(NOISE)
    gain = np.linalg.solve(among, K[[1, 4]]).T
    return gain, K - gain @ K[[1, 4]]


def test_every_class_is_tested():
    classes = {one for one in vars(_draws).values() if isinstance(one, type)}
    processes = {one for one in classes if issubclass(one, Process)} - {Process}
    assert processes == {type(process) for process, _ in PROCESSES.values()}
    assert processes == {FiniteProcess, KernelProcess}


@every_process
def test_covariance(process, expected):
    assert_allclose(process.covariance(X), expected, atol=1e-8)
    doubled = process.scaled(np.array([-2.0]))
    assert_allclose(doubled.covariance(X), 4.0 * expected, atol=1e-8)
    assert_allclose(process.covariance(X[:3]), expected[:3, :3], atol=1e-8)


@every_process
def test_what_observations_leave_is_the_conditional_distribution(process, expected):
    discrepancy = np.array([0.4, -0.7]).reshape(2, 1, 1)
    change, after = process.update(OBSERVED, discrepancy, NOISE)
    gain, covariance = conditional(expected)
    assert_allclose(change(X)[:, 0], gain @ discrepancy[:, 0, 0], atol=1e-6)
    assert_allclose(after.covariance(X), covariance, atol=1e-6)


@every_process
def test_observations_may_come_one_after_the_other(process, expected):
    zeros = np.zeros((1, 1, 1))
    after = process
    for k in range(2):
        _, after = after.learn(OBSERVED[[k]], zeros, NOISE[[k]])
    assert_allclose(after.covariance(X), conditional(expected)[1], atol=1e-6)


@pytest.mark.parametrize(
    "basis",
    [NYSTROEM, FOURIER, WarpedInputs(NYSTROEM, InputMap(np.square, 1))],
    ids=["inducing variables", "finitely many functions", "mapped inputs"],
)
def test_draws_before_and_after_conditioning(basis):
    """Moments by z-scores; draws of one call may share frequencies."""
    process, K = of_basis(basis)
    weights = normal_weights(basis)
    y = np.array([1.0, -0.5])
    gain, covariance = conditional(K)
    rng = np.random.default_rng(6)
    n_calls = 25
    values = {"before": [], "after": []}
    for seed in range(n_calls):
        draws = basis.draw(weights.draw(100, rng), rng).with_process(process)
        values["before"].append(draws(X))
        conditioned = draws.condition(OBSERVED, y, NOISE, random_state=seed)
        values["after"].append(conditioned(X))
    moments = {"before": (np.zeros(len(X)), K), "after": (gain @ y, covariance)}
    for time, (mean, covariance) in moments.items():
        centred = np.array(values[time]) - mean[:, np.newaxis]
        products = centred @ np.swapaxes(centred, 1, 2) / 100.0
        for estimates, truth in ((centred.mean(axis=2), 0.0), (products, covariance)):
            error = np.std(estimates, axis=0, ddof=1) / np.sqrt(n_calls)
            gap = np.abs(np.mean(estimates, axis=0) - truth)
            assert np.max(gap / (error + 1e-7)) < 4.5
