"""Fresh inputs at which features are judged, and what is expected there."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx._draws import _frequency_choice
from skgpx._draws._frequency_choice import (
    Conditioning,
    Misfit,
    floors,
    fresh_inputs,
    probe,
)
from skgpx._draws._prior_parts import Setting, decompose
from skgpx.bases import draw_prior

X = np.random.default_rng(0).random((30, 2))
KERNEL = 2.0 * Matern(0.4, nu=1.5)


def given(noise=0.01, points=X, kernel=KERNEL, **options):
    level = np.broadcast_to(noise, len(points))
    root = np.linalg.cholesky(kernel(points) + np.diag(level))
    return Conditioning(points, noise, root, **options)


def test_half_lie_inside_and_half_outside():
    fresh = fresh_inputs(X, np.random.default_rng(1))
    inside, outside = fresh[:8], fresh[8:]
    centre = X.mean(axis=0)
    assert np.all((inside >= X.min(axis=0)) & (inside <= X.max(axis=0)))
    # a point outside the convex hull is beyond all points in some direction
    for t in outside:
        back = centre + (t - centre) / 1.1
        assert np.min(np.linalg.norm(X - back, axis=1)) < 1e-12
    angles = np.linspace(0.0, 2.0 * np.pi, 720)
    directions = np.stack((np.cos(angles), np.sin(angles)))
    beyond = (outside @ directions) > (X @ directions).max(axis=0)
    assert np.all(beyond.any(axis=1))


def test_do_not_depend_on_units():
    """Affine maps of each column carry them along; a constant column has none."""
    scale, shift = np.array([1e3, 1e-6]), np.array([5.0, -2.0])
    fresh = fresh_inputs(X, np.random.default_rng(1))
    mapped = fresh_inputs(X * scale + shift, np.random.default_rng(1))
    assert_allclose(mapped, fresh * scale + shift, rtol=1e-9)
    flat = X * [1.0, 0.0] + 7.0
    assert_allclose(fresh_inputs(flat, np.random.default_rng(1))[:, 1], 7.0)
    assert_allclose(fresh_inputs(X[:1], np.random.default_rng(1)), X[:1].repeat(16, 0))


@pytest.mark.parametrize("noise", [0.1, np.linspace(0.01, 0.2, 30)])
def test_are_predicted_as_the_process_predicts(noise):
    fold = probe(KERNEL, given(noise), np.random.default_rng(3))
    fresh = fold.points[:16]
    C = KERNEL(X) + np.diag(np.broadcast_to(noise, 30))
    V = np.linalg.solve(C, KERNEL(X, fresh))
    assert_allclose(fold.exact, KERNEL(fresh) - V.T @ KERNEL(X, fresh), atol=1e-12)
    features = decompose(KERNEL, 2)[0].feature_map(
        Setting(16), np.random.default_rng(0)
    )
    F = features(fresh) - V.T @ features(X)
    expected = 2.0 * F @ F.T + (V.T * noise) @ V
    assert_allclose(fold.covariance([(2.0, features)]), expected, atol=1e-12)


def test_features_in_blocks(monkeypatch):
    fold = probe(KERNEL, given(), np.random.default_rng(3))
    (part,) = decompose(KERNEL, 2)
    features = part.feature_map(Setting(16), np.random.default_rng(0))
    whole = fold.of(features)
    monkeypatch.setattr(_frequency_choice, "_FLOATS", 200)
    assert_allclose(fold.of(features), whole, rtol=1e-12, atol=1e-12)


def test_errors_are_ignored_where_variances_are_small_or_rounded():
    functionals = np.array([[1.0, -2.0], [1.0, 2e6]])
    assert_allclose(floors(functionals, 3.0, 1e-13), [3e-13, 3e-15 * 4e12], rtol=1e-5)
    assert_allclose(floors(functionals, 3.0, 0.0), [27e-15, 3e-15 * 4e12], rtol=1e-5)


def test_negative_variances_are_rounding_errors():
    fold = probe(KERNEL, given(), np.random.default_rng(3))
    fold = replace(fold, exact=-1e-12 * np.eye(16), fixed=np.zeros((16, 16)))
    error = _frequency_choice.misfit([fold], [])
    assert error.std == 0.0
    assert np.isfinite(error.covariance)


class TestChoice:
    """What is decided with them; errors below, at and above each limit."""

    def choose(self, monkeypatch, errors, n_basis="auto", frequencies="auto"):
        """Number of features for errors at points left out and at fresh inputs."""
        sizes = []

        def misfit(predicted, parts):
            ((_, features),) = parts
            fresh = len(predicted[0].functionals) == 16
            sizes.append(2 * len(features.amplitudes))
            error = errors(sizes[-1])[int(fresh)]
            return Misfit(error, error)

        monkeypatch.setattr(_frequency_choice, "misfit", misfit)
        draws = draw_prior(
            KERNEL, 2, 1, 1, np.random.default_rng(0), given=given(), n_basis=n_basis,
            frequencies=frequencies,
        )  # fmt: skip
        return 2 * len(draws.terms[0].features.amplitudes)

    @pytest.mark.parametrize(
        ("left_out", "fresh", "expected"),
        [
            (0.02, 0.04, 256),
            (0.0201, 0.0, 512),
            (0.0, 0.0401, 512),
            (0.0199, 0.0399, 256),
        ],
    )
    def test_size(self, monkeypatch, left_out, fresh, expected):
        def errors(size):
            return (left_out, fresh) if size == 256 else (0.0, 0.0)

        assert self.choose(monkeypatch, errors) == expected

    def test_largest_size_warns_with_figures(self, monkeypatch):
        with pytest.warns(UserWarning, match="With 8192 .* off by 15 % .* not 2 %"):
            self.choose(monkeypatch, lambda _: (0.01, 0.3))

    def test_given_size_warns_with_figures(self, monkeypatch):
        for error in (0.0999, 0.1):
            chosen = self.choose(monkeypatch, lambda _, e=error: (e, e), 64)
            assert chosen == 64
        with pytest.warns(UserWarning, match=r"^64 Fourier .* off by 11 % .*auto"):
            self.choose(monkeypatch, lambda _: (0.11, 0.11), 64)
        # whoever asks for plain frequencies has them, without a word
        self.choose(monkeypatch, lambda _: (0.11, 0.11), 64, "qmc")


@pytest.mark.parametrize("n_basis", ["auto", 64])
@pytest.mark.parametrize("n_groups", [1, 3])
def test_features_that_are_judged_are_those_of_the_draws(
    monkeypatch, n_basis, n_groups
):
    judged, plain = [], _frequency_choice.misfit

    def misfit(predicted, parts):
        judged[:] = [features.frequencies for _, features in parts]
        return plain(predicted, parts)

    monkeypatch.setattr(_frequency_choice, "misfit", misfit)
    kernel = KERNEL + RBF(0.3)
    draws = draw_prior(
        kernel, 2, 1, 6, np.random.default_rng(0), n_basis=n_basis, n_groups=n_groups,
        given=given(kernel=kernel), accuracy=0.1,
    )  # fmt: skip
    first = draws if n_groups == 1 else draws.terms[0].sets[0]
    drawn = [term.features.frequencies for term in first.terms]
    for one, other in zip(drawn, judged, strict=True):
        np.testing.assert_array_equal(one, other)


def test_negligible_variances_cost_no_features():
    points, kernel = np.random.default_rng(0).random((400, 2)), Matern(1.0, nu=2.5)

    def size(**options):
        draws = draw_prior(
            kernel, 2, 1, 1, np.random.default_rng(0), n_basis="auto",
            given=given(1e-10, points, kernel, **options),
        )  # fmt: skip
        return 2 * len(draws.terms[0].features.amplitudes)

    assert size(negligible=1e-6) == 256 < size()
