import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from skgpx._hyperparameters import rough_latent_values, rough_start, row_target
from skgpx._numerics import langevin, laplace, modes
from skgpx._numerics.modes import is_log_concave
from skgpx._numerics.smoothing import SmoothedLikelihood, is_smoothed, smoothed
from skgpx._shell.validation import Rows
from skgpx.bases import Nystroem
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Poisson,
    ShiftedMixture,
    StudentT,
)
from tests.numerics import conftest


class Laplace(Likelihood):
    """A kink, but convex."""

    location_scale = True

    def __init__(self, scale=0.4):
        self.scale = scale

    def nll(self, y, f):
        return np.abs(np.subtract(y, f)) / self.scale + np.log(2.0 * self.scale)

    def gradient(self, y, f):
        return np.sign(np.subtract(f, y)) / self.scale


# ---- Log-concavity -------------------------------------------------------------------


def target_of(likelihood, y, scale=1.0):
    y = np.asarray(y, dtype=np.float64)
    features = scale * np.ones((len(y), 1))
    rows = Rows(features, y, np.ones(len(y)))
    return row_target(features, rows, likelihood.prepare(y))


COUNTS = [0, 1, 2, 5, 9, 30]


@pytest.mark.parametrize(
    ("likelihood", "y", "expected"),
    [
        (Gaussian(noise_variance=0.1), COUNTS, True),
        (Laplace(), COUNTS, True),
        (Bernoulli(), [0, 1, 1], True),
        (Bernoulli("probit"), [0, 1, 1], True),
        (Categorical(), [0, 1, 2, 1], True),
        (Poisson("softplus"), COUNTS, True),
        (Poisson("exp"), COUNTS, True),
        (Poisson("square"), COUNTS, False),
        (Poisson("square"), [0, 0, 0], True),
        (StudentT(scale=0.1), COUNTS, False),
        (ShiftedMixture(3.0, noise_variance=0.1), COUNTS, False),
        # so close that the two normal distributions are one bump
        (ShiftedMixture(0.1, noise_variance=1.0), COUNTS, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_log_concavity_is_found(likelihood, y, expected, scale):
    assert is_log_concave(target_of(likelihood, y, scale)) == expected


def test_only_what_the_prior_reaches_counts():
    # convex for |y - f| < sqrt(df) scale = 2
    far, near = (target_of(StudentT(scale=1.0), [0.0], s) for s in (0.4, 0.6))
    assert is_log_concave(far)
    assert not is_log_concave(near)


# ---- Several modes -------------------------------------------------------------------


def surveyed(likelihood, features, y, seed=0, base=None):
    y = np.asarray(y, dtype=np.float64)
    likelihood = likelihood.prepare(y)
    likelihood = likelihood if base is None else likelihood.with_base(base)
    target = row_target(features, Rows(features, y, np.ones(len(y))), likelihood)
    first = laplace.find_mode(target, rough_start(target))
    rough, rng = rough_latent_values(target), np.random.default_rng(seed)
    found = modes.survey(target, first, rough, likelihood.symmetric, rng)
    return first, (found[0], modes.evidence_gaps(found))


@pytest.mark.parametrize("seed", range(5))
def test_two_equal_modes_of_two_groups_of_rows(seed):
    y = np.tile([1.0, -1.0], 7)
    first, found = surveyed(StudentT(scale=0.03), np.ones((14, 1)), y, seed)
    # the rough start is the saddle between them
    assert abs(first.weights[0, 0]) < 1e-9
    best, gaps = found
    assert abs(abs(best.weights[0, 0]) - 1.0) < 0.02
    assert best.energy < first.energy - 20.0
    assert np.any(gaps < modes.RIVAL)
    assert gaps.min() < 0.01


def test_one_mode_has_no_rivals(rng):
    features = rng.standard_normal((40, 3))
    y = features @ rng.standard_normal(3) + 0.1 * rng.standard_t(4, 40)
    first, found = surveyed(StudentT(scale=0.1), features, y)
    assert found[0] is first
    assert len(found[1]) == 0


@pytest.mark.parametrize("base", [0.0, 0.5])
def test_mirror_images_are_no_rivals(base):
    counts = [20.0, 25.0, 18.0]
    _, (_, gaps) = surveyed(Poisson("square"), np.full((3, 1), 5.0), counts, base=base)
    assert not np.any(gaps < modes.RIVAL)


def test_signs_of_two_neighbourhoods_are_rivals():
    # two neighbourhoods that know nothing of each other
    features = np.repeat(np.eye(2), 3, axis=0) * 4.0
    _, (_, gaps) = surveyed(Poisson("square"), features, np.full(6, 9.0), base=0.0)
    assert np.any(gaps < modes.RIVAL)
    assert gaps.min() < 0.01


@pytest.mark.parametrize(("n_columns", "base"), [(1, 0.0), (1, 1.0), (2, 0.0)])
def test_signs_of_a_function_that_crosses_zero_are_found(rng, n_columns, base):
    X = rng.uniform(-3.0, 3.0, (200, n_columns))
    f = 3.0 * np.sin(2.0 * X.sum(axis=1, keepdims=True) / n_columns)
    y = rng.poisson(f[:, 0] ** 2).astype(float)
    likelihood = Poisson("square").prepare(y).with_base(base)
    features = Nystroem.from_kernel(4.0 * RBF(1.0), X[:40])(X)
    target = row_target(features, Rows(X, y, np.ones(200)), likelihood)
    rough = rough_latent_values(target)
    one_sign = laplace.find_mode(target, rough_start(target))
    truth = laplace.projection_start(features, f - base, target.weights)
    found = modes.survey(target, one_sign, rough, True, rng)
    evidence = modes.log_evidence(laplace.find_mode(target, truth))
    assert modes.log_evidence(one_sign) < evidence - 5.0
    assert modes.log_evidence(found[0]) > evidence - 1.0
    assert found == sorted(found, key=modes.log_evidence, reverse=True)


def test_modes_of_many_rows_are_those_of_all_rows(rng, monkeypatch):
    monkeypatch.setattr(modes, "_SIGNED_ROWS", 100)
    features = np.repeat(np.eye(2), 100, axis=0) * 4.0
    y = rng.poisson(9.0, 200).astype(float)
    first, (best, gaps) = surveyed(Poisson("square"), features, y, base=0.0)
    assert np.abs(best.weights).ravel() == pytest.approx(np.abs(first.weights.ravel()))
    assert gaps.min() < 0.01


def test_laplace_evidence_of_a_quadratic_potential(rng):
    A = rng.standard_normal((4, 4))
    root = A[np.newaxis]
    mode = laplace.Mode(np.zeros((4, 1)), root, 3.0, 1, True)
    # ∫ exp(-3 - ½ xᵀ(A Aᵀ)⁻¹x) dx, without (2π)²
    expected = np.log(abs(np.linalg.det(A))) - 3.0
    assert modes.log_evidence(mode) == pytest.approx(expected)


# ---- Kinks ---------------------------------------------------------------------------


def test_only_kinks_are_smoothed(rng):
    once = smoothed(conftest.row_target(Laplace(), rng))
    assert is_smoothed(once)
    assert smoothed(once) is once
    smooth = conftest.row_target(Gaussian(1.0), rng)
    assert smoothed(smooth) is smooth


def test_smoothed_laplace_is_hubers_function(rng):
    distribution = Laplace(0.4)
    one = SmoothedLikelihood(distribution, np.zeros(4), np.ones(4))
    assert one.information == pytest.approx(1.0 / 0.4**2)
    h = 0.2
    f = np.linspace(-1.0, 1.0, 41)
    y, at = np.zeros(41), f[:, np.newaxis, np.newaxis]
    huber = np.where(np.abs(f) < h, 0.5 * (f**2 / h + h), np.abs(f)) / 0.4
    nll = one.row_nll(y, at)[:, 0] - np.log(0.8)
    # what 16 nodes leave of a kink
    np.testing.assert_allclose(nll, huber, atol=5e-3)
    slope = np.clip(f / h, -1.0, 1.0) / 0.4
    np.testing.assert_allclose(one.row_gradient(y, at).ravel(), slope, atol=1e-12)
    np.testing.assert_allclose(one.row_curvature(y, at), 1.0 / 0.4**2)


def test_the_mode_is_near_that_of_the_likelihood_itself(rng):
    target = conftest.row_target(Laplace(), rng, 60, 5)
    mode = laplace.find_mode(smoothed(target), np.zeros((5, 1)))
    assert mode.converged
    assert mode.n_iter < 60

    def energy(w):
        value = langevin.rows_value_and_gradient(target, w[:, np.newaxis, np.newaxis])
        return value[0][0] + 0.5 * np.sum(w**2)

    best = energy(mode.weights[:, 0])
    for step in (0.1, 0.3):
        around = step * rng.standard_normal((50, 5))
        assert min(energy(mode.weights[:, 0] + a) for a in around) > best - 0.5
