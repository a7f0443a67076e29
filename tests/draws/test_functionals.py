"""Draws that are conditioned on slopes, means over boxes and differences."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import (
    DecoupledSampler,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx.likelihoods import Gaussian
from tests.numerics.conftest import LARGEST_Z, moment_scores
from tests.pls.test_functionals import (
    KERNEL,
    NOISE,
    dense,
    drawn,
    fixed,
    functionals,
    sides,
)


def joined(first, second):
    """Rows of two sets, and what they see."""
    n = len(first[0]), len(second[0])
    blank = {"derivative": -1, "widths": 0.0, "against": np.nan}
    seen = {}
    for name, value in blank.items():
        parts = [
            rows[1].get(name, np.full(k if name == "derivative" else (k, 2), value))
            for rows, k in zip((first, second), n, strict=True)
        ]
        seen[name] = np.concatenate(parts)
    return np.concatenate((first[0], second[0])), seen


def of_draws(draws, rows):
    """Functionals of draws (n, s), by 9 nodes a box."""
    nodes, masses = np.polynomial.legendre.leggauss(3)
    offsets = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2) / 2.0
    masses = np.outer(masses, masses).ravel() / 4.0
    total = np.zeros((len(rows[0]), draws.n_draws))
    for sign, X, derivative, widths in sides(rows[0], **rows[1]):
        for column in range(-1, 2):
            chosen = np.flatnonzero((derivative == column) & (sign != 0.0))
            points = X[chosen, np.newaxis] + offsets * widths[chosen, np.newaxis]
            if column == -1:
                values = draws(points.reshape(-1, 2))
            else:
                values = draws.value_and_grad(points.reshape(-1, 2))[1][..., column]
            means = masses @ values.reshape(len(chosen), 9, -1)
            total[chosen] += sign[chosen, np.newaxis] * means
    return total


def data(rng, n=25):
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, drawn(rng, (X, {}))


@pytest.mark.parametrize("kind", ["values", "everything"])
def test_the_exact_process(kind, rng):
    """Of fits to values and to functionals, with all rows as points."""
    rows = functionals(rng, 20, kind)
    further = functionals(rng, 6)
    new = functionals(rng, 4)
    everything = joined(rows, further)
    y = drawn(rng, everything)
    model = fixed().fit(rows[0], y[:20], **rows[1])
    draws = model.sample_functions(300, random_state=0)
    given = draws.condition(further[0], y[20:], NOISE, 0, **further[1])
    mean, cov, _ = dense(everything, y, NOISE, new)
    scores = moment_scores(of_draws(given, new), mean, cov)
    assert np.abs(scores).max() < LARGEST_Z


MODELS = {
    "points": PLSRegressor(KERNEL, random_state=0),
    "averaged": PLSRegressor(1.0 * RBF(1.0), hyperparameters="average", random_state=0),
    "fourier": SpectralVGPRegressor(1.0 * RBF([1.0, 1.0]), random_state=0),
    "series": SpectralVGPRegressor(1.0 * RBF(1.0), n_basis=300, random_state=0),
    "waves": SteinRFFRegressor(
        1.0 * RBF(1.0), n_frequencies=40, max_iter=20, random_state=0
    ),
    "data": DecoupledSampler(GaussianProcessRegressor(KERNEL, alpha=NOISE)),
}


@pytest.mark.parametrize("name", MODELS)
def test_draws_have_what_was_observed_without_noise(name, rng):
    X, y = data(rng)
    draws = MODELS[name].fit(X, y).sample_functions(12, random_state=0)
    rows = functionals(rng, 12)
    observed = drawn(rng, rows)
    given = draws.condition(rows[0], observed, random_state=0, **rows[1])
    seen = of_draws(given, rows)
    assert_allclose(seen, np.repeat(observed[:, np.newaxis], 12, axis=1), atol=2e-4)
    new = rng.uniform(-1.0, 1.0, (4, 2))
    step = np.array([1e-4, 0.0])
    slopes = given.value_and_grad(new)[1][..., 0]
    # functions of a Matern kernel have few derivatives
    assert_allclose((given(new + step) - given(new - step)) / 2e-4, slopes, atol=0.05)
    # first some, then the others, without noise
    parts = [
        {key: value[part] for key, value in rows[1].items()}
        for part in (slice(5), slice(5, None))
    ]
    twice = draws.condition(rows[0][:5], observed[:5], **parts[0])
    twice = twice.condition(rows[0][5:], observed[5:], **parts[1])
    assert_allclose(twice(new), given(new), atol=1e-4)
    # and values after functionals
    later = given.condition(new, np.zeros(4))
    assert_allclose(later(new), np.zeros((4, 12)), atol=1e-4)


def test_draws_of_averaged_models_are_conditioned_under_their_own(rng):
    X, y = data(rng)
    draws = MODELS["averaged"].fit(X, y).sample_functions(40, random_state=0)
    seen = {"derivative": [0, 1], "widths": [[0.0, 0.0], [0.3, 1.2]]}
    given = draws.condition(X[:2], [0.5, -0.5], **seen)
    assert len(np.unique(draws.owner)) > 1
    for k in np.unique(draws.owner):
        chosen = np.flatnonzero(draws.owner == k)
        alone = draws[chosen].condition(X[:2], [0.5, -0.5], **seen)
        assert_allclose(alone(X), given(X)[:, chosen], atol=1e-9)


def test_means_of_rough_functions(rng):
    """Functions without slopes have means over boxes, and one-sided gradients."""
    x = np.linspace(0.0, 3.0, 12)[:, np.newaxis]
    sampler = DecoupledSampler(GaussianProcessRegressor(Matern(0.7, nu=0.5)))
    draws = sampler.fit(x, np.sin(x[:, 0])).sample_functions(5, random_state=0)
    given = draws.condition([[4.0]], [2.0], widths=1.0)
    grid = 3.5 + (np.arange(4000)[:, np.newaxis] + 0.5) / 4000
    assert_allclose(given(grid).mean(axis=0), 2.0, atol=0.1)
    assert given.value_and_grad(grid[:2])[1].shape == (2, 5, 1)
    with pytest.raises(ValueError, match=r"nu=0\.5"):
        draws.condition([[4.0]], [2.0], derivative=0)


def test_several_targets(rng):
    X, y = data(rng)
    model = MODELS["points"].fit(X, np.column_stack((y, X[:, 0])))
    targets = np.array([[0.5, 0.1], [-0.3, 0.2]])
    draws = model.sample_functions(4, random_state=0)
    given = draws.condition(X[:2], targets, derivative=[0, 1])
    slopes = given.value_and_grad(X[:2])[1]
    for row in range(2):
        expected = np.repeat(targets[row][:, np.newaxis], 4, axis=1)
        assert_allclose(slopes[row, :, :, row], expected, atol=1e-5)


def test_names_of_columns_and_values():
    x = np.linspace(0.0, 3.0, 20)
    table = pd.DataFrame({"speed": x, "load": np.cos(x)})
    model = PLSRegressor(1.0 * RBF(1.0), random_state=0).fit(table, np.sin(x))
    draws = model.sample_functions(5, random_state=0)
    named = draws.condition(table[:1], [1.0], 0.1, 0, derivative="load")
    numbered = draws.condition(table[:1], [1.0], 0.1, 0, derivative=[1])
    assert_array_equal(named(table), numbered(table))
    # rows that see values are rows
    plain = draws.condition(table[:1], [1.0], 0.1, 0)
    stated = draws.condition(table[:1], [1.0], 0.1, 0, derivative=-1, widths=0.0)
    assert_allclose(stated(table), plain(table), atol=1e-9)
    against = draws.condition(table[:1], [1.0], 0.1, 0, against=table[1:2])
    assert against(table).shape == (20, 5)


REFUSED = {
    "a column": ({"derivative": "speed"}, "derivative expects -1"),
    "as many": ({"derivative": [0, 0]}, "shape"),
    "negative": ({"widths": [[-1.0, 0.0]]}, "not negative"),
    "not finite": ({"widths": [[np.nan, 0.0]]}, "finite"),
    "columns": ({"against": [[1.0]]}, "against expects"),
    "rows": ({"against": [[1.0, 0.0], [1.0, 0.0]]}, "a row for each"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name, rng):
    X, y = data(rng)
    draws = fixed().fit(X, y).sample_functions(3, random_state=0)
    seen, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        draws.condition(X[:1], [0.0], **seen)


def test_categories_are_refused():
    x = np.linspace(0.0, 3.0, 20)
    table = pd.DataFrame({"x": x, "kind": pd.Categorical(["a", "b"] * 10)})
    draws = PLSRegressor(random_state=0).fit(table, np.sin(x)).sample_functions(3)
    with pytest.raises(ValueError, match="columns of categories"):
        draws.condition(table[:1], [0.0], derivative="kind")


@pytest.mark.parametrize("n_neighbors", [10, "auto"])
def test_nearest_rows_and_series_are_refused(n_neighbors, rng):
    x = rng.uniform(0.0, 9.0, (320, 1))
    model = PLSRegressor(
        1.0 * Matern(1.0, nu=1.5) if n_neighbors == "auto" else 1.0 * RBF(1.0),
        n_inducing=10 if n_neighbors == 10 else "auto",
        n_neighbors=n_neighbors,
        optimizer=None,
        likelihood=Gaussian(0.01),
        random_state=0,
    ).fit(x, np.sin(x[:, 0]))
    draws = model.sample_functions(3, random_state=0)
    with pytest.raises(ValueError, match="nearest rows, from a series"):
        draws.condition([[1.0]], [0.0], derivative=0)
