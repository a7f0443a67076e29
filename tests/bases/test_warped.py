"""A basis on mapped inputs: the inner basis at mapped rows, in everything."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import PredictiveDistribution
from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.perceptron import Perceptron
from skgpx._numerics.weights import GaussianWeights, WeightParticles
from skgpx.bases import EmpiricalSpectral, Fourier, InputMap, Nystroem, WarpedInputs
from skgpx.likelihoods import Gaussian

NETWORK = Perceptron((3, 5, 2))
THETA = NETWORK.start(np.random.default_rng(5))


class Network:
    """A map that knows its derivatives."""

    def __call__(self, X):
        return NETWORK(THETA, X)

    def with_pullback(self, X):
        mapped, pullback = NETWORK.with_pullback(THETA, X)
        return mapped, lambda G: pullback(G)[1]


def black_box(X):
    return NETWORK(THETA, X)


MAPS = {
    "network": InputMap(Network(), 3, floats_per_row=10),
    "black box": InputMap(black_box),
}
Z = np.random.default_rng(1).normal(size=(7, 2))
FREQUENCIES = np.random.default_rng(2).normal(size=(4, 2))
INNER = {
    "nystroem": Nystroem.from_kernel(2.0 * RBF([0.8, 1.1]), Z),
    "empirical": EmpiricalSpectral.from_rows(Matern(1.2, nu=2.5), Z, 4),
    "fourier": Fourier(FREQUENCIES, np.full(4, 0.6), tail_variance=0.2),
    "warped": WarpedInputs(
        Fourier(FREQUENCIES, np.full(4, 0.6)), InputMap(lambda X: np.tanh(X), 2)
    ),
}
maps = pytest.mark.parametrize("name", MAPS)
inner = pytest.mark.parametrize("kind", INNER)


@pytest.fixture
def X():
    return np.random.default_rng(3).normal(size=(12, 3))


def distribution_of(basis, outputs=1):
    rng = np.random.default_rng(4)
    m = basis.n_basis
    root = np.tril(rng.normal(size=(1, m, m))) / m
    return GaussianWeights(rng.normal(size=(m, outputs)), root)


@maps
@inner
def test_it_is_the_inner_basis_at_mapped_rows(kind, name, X):
    basis, one = WarpedInputs(INNER[kind], MAPS[name]), INNER[kind]
    H = black_box(X)
    features = basis(X)
    assert_array_equal(features, one(H))
    assert basis.n_basis == one.n_basis
    assert basis.white_variance == one.white_variance
    assert basis.floats_per_row == one.floats_per_row + MAPS[name].floats_per_row
    for method in ("residual_variance", "residual_covariance"):
        found = getattr(basis, method)(X, features)
        assert_array_equal(found, getattr(one, method)(H, features))
    for weights in (
        distribution_of(one),
        WeightParticles(np.ones((one.n_basis, 2, 3))),
    ):
        for found, expected in zip(
            basis.marginals(weights)(X), one.marginals(weights)(H), strict=True
        ):
            assert_array_equal(found, expected)


@maps
@inner
def test_draws_are_inner_draws_at_mapped_rows(kind, name, X):
    basis, one = WarpedInputs(INNER[kind], MAPS[name]), INNER[kind]
    weights = np.random.default_rng(0).normal(size=(one.n_basis, 2, 3))
    found = basis.draw(weights, np.random.default_rng(6))
    expected = one.draw(weights, np.random.default_rng(6))
    H = black_box(X)
    assert_array_equal(found(X), expected(H))
    assert_allclose(found.at(X[:3]), expected.at(H[:3]), rtol=1e-12)
    chosen = (2.0 * found)[[2, 0, 2]] - 1.0 * found[[1, 0, 0]]
    reference = (2.0 * expected)[[2, 0, 2]] - 1.0 * expected[[1, 0, 0]]
    assert_allclose(chosen(X), reference(H), atol=1e-12)
    again = pickle.loads(pickle.dumps(basis.map)) if name != "network" else basis.map
    assert_array_equal(again(X), H)


@maps
@inner
def test_gradients_agree_with_finite_differences(kind, name, X):
    basis = WarpedInputs(INNER[kind], MAPS[name])
    weights = np.random.default_rng(0).normal(size=(basis.n_basis, 2, 3))
    draws = basis.draw(weights, np.random.default_rng(6))
    values, gradients = draws.value_and_grad(X)
    assert_allclose(values, draws(X), rtol=1e-10, atol=1e-12)
    assert gradients.shape == (12, 2, 3, 3)
    for k, unit in enumerate(np.eye(3)):
        rise = draws(X + 1e-5 * unit) - draws(X - 1e-5 * unit)
        assert_allclose(gradients[..., k], rise / 2e-5, rtol=1e-6, atol=1e-7)


def encode(rows):
    """What a user's transformer might do with a colour and a number."""
    red = (rows[:, 0] == "red").astype(float)
    return np.column_stack((red, rows[:, 1].astype(float)))


def test_rows_need_not_be_numbers():
    rows = np.array([["red", 0.5], ["blue", -1.0], ["red", 2.0]], dtype=object)
    words = InputMap(encode, 2, numeric=False)
    one = INNER["nystroem"]
    model = LatentModel(WarpedInputs(one, words), distribution_of(one)).affine(1.0, 2.0)
    plain = LatentModel(one, distribution_of(one)).affine(1.0, 2.0)
    likelihood = Gaussian(0.1).prepare([0.0])
    found = PredictiveDistribution(model, likelihood, rows)
    expected = PredictiveDistribution(plain, likelihood, encode(rows))
    assert_array_equal(found.mean(), expected.mean())
    assert_array_equal(found.quantile([0.1, 0.9]), expected.quantile([0.1, 0.9]))
    assert_array_equal(found.covariance(), expected.covariance())
    mixture = MixtureModel((model, model), np.zeros(2))
    for weights in (model, mixture):
        draws = weights.draw(3, np.random.default_rng(0))
        assert draws(rows).shape == (3, 3)
        assert_array_equal(draws(rows.tolist())[:1], draws(rows[:1]))
        assert_allclose(draws.at(rows), np.diag(draws(rows)), rtol=1e-12)
        with pytest.raises(ValueError, match="not numbers is not known"):
            draws.value_and_grad(rows)
    given = model.draw(3, np.random.default_rng(0)).condition(rows, [1.0, 2.0, 3.0])
    assert_allclose(given(rows), np.tile([[1.0], [2.0], [3.0]], 3), atol=1e-3)
    assert model.condition(rows, np.ones((3, 1)), np.ones(3)).n_basis == 10


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X: X[:, 0], "shape"),
        (lambda X: X[1:], "for 4 rows; got shape"),
        (lambda X: X + np.nan, "finite"),
    ],
)
def test_what_a_map_gives_is_checked(function, message):
    basis = WarpedInputs(INNER["fourier"], InputMap(function))
    with pytest.raises(ValueError, match=message):
        basis(np.zeros((4, 2)))
