import numpy as np
import pytest
from scipy import optimize

from skgpx._numerics import langevin, laplace
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.laplace import between_classes, contrasts
from skgpx._numerics.regression import (
    log_evidence,
    log_evidence_gradient,
    weight_statistics,
)
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    Poisson,
    ShiftedMixture,
    StudentT,
)
from tests.numerics.conftest import LARGEST_Z, fourth_order, name, row_target

# Likelihoods whose curvature is the second derivative, and those where it is not.
CONVEX = [
    Gaussian(noise_variance=0.4),
    Bernoulli("logit"),
    Bernoulli("probit"),
    Poisson("softplus"),
    Poisson("exp"),
]
OTHERS = [
    StudentT(df=4.0, scale=0.6),
    ShiftedMixture(shift=2.0, probability=0.3, noise_variance=0.4),
    Poisson("square"),
]
SCALAR = CONVEX + OTHERS
ALL = [*SCALAR, Categorical()]
FREE = [Gaussian(), StudentT(df=5.0), ShiftedMixture(shift=1.5)]
FREE += [HeteroscedasticGaussian(), HeteroscedasticStudentT()]


def start_of(target):
    y = target.y
    rough = np.asarray(target.likelihood.initial_latent(y)).reshape(len(y), -1)
    return laplace.projection_start(target.features, rough, target.weights)


def potential_gradient(target, w):
    """∇ψ at weights w (m, c), by outputs, flat."""
    slope = langevin.rows_value_and_gradient(target, w[:, :, np.newaxis])[1]
    return (slope[:, :, 0] + w).T.ravel()


def potential(target, w):
    value = langevin.rows_value_and_gradient(target, w[:, :, np.newaxis])[0]
    return float(value[0] + 0.5 * np.sum(w**2))


def numeric_hessian(target, w, h=1e-5):
    columns = []
    for i in range(w.size):
        step = np.zeros(w.size)
        step[i] = h
        step = step.reshape(w.shape[::-1]).T
        rise = potential_gradient(target, w + step)
        columns.append((rise - potential_gradient(target, w - step)) / (2.0 * h))
    return np.column_stack(columns)


@pytest.fixture(params=["coupled", "blocks"])
def coupling(request, monkeypatch):
    if request.param == "blocks":
        monkeypatch.setattr(laplace, "LARGEST_COUPLED", 0)
    return request.param


@pytest.mark.parametrize("optimal", [False, True], ids=["projected", "optimal"])
@pytest.mark.parametrize("likelihood", ALL, ids=name)
def test_gradient_vanishes_at_the_mode(rng, likelihood, optimal, coupling):
    target = row_target(likelihood, rng, optimal=optimal)
    mode = laplace.find_mode(target, start_of(target))
    assert mode.converged
    # half of this number is how far the energy is above its minimum, in nats
    gradient = potential_gradient(target, mode.weights)
    blocks = gradient.reshape(len(mode.root), -1)
    decrement = np.sum((mode.root.transpose(0, 2, 1) @ blocks[:, :, np.newaxis]) ** 2)
    assert decrement < 1e-8
    assert mode.energy == pytest.approx(potential(target, mode.weights))
    better = optimize.minimize(
        lambda w: potential(target, w.reshape(mode.weights.shape)),
        mode.weights.ravel(),
        method="BFGS",
    )
    assert mode.energy < better.fun + 1e-6


@pytest.mark.parametrize("optimal", [False, True], ids=["projected", "optimal"])
@pytest.mark.parametrize("likelihood", [*CONVEX, Categorical()], ids=name)
def test_root_is_that_of_the_inverse_hessian(rng, likelihood, optimal, coupling):
    target = row_target(likelihood, rng, optimal=optimal)
    mode = laplace.find_mode(target, start_of(target))
    H = numeric_hessian(target, mode.weights)
    groups, width = mode.root.shape[:2]
    assert groups == (target.n_outputs if coupling == "blocks" else 1)
    for g in range(groups):
        block = H[g * width : (g + 1) * width, g * width : (g + 1) * width]
        product = mode.root[g].T @ block @ mode.root[g]
        np.testing.assert_allclose(product, np.eye(width), atol=1e-6)


def test_root_of_a_distribution_that_is_not_log_concave_uses_the_fisher_information(
    rng,
):
    target = row_target(StudentT(df=4.0, scale=0.6), rng)
    mode = laplace.find_mode(target, start_of(target))
    fisher = target.weights * 5.0 / (7.0 * 0.36)
    H = np.eye(3) + (target.features * fisher[:, np.newaxis]).T @ target.features
    np.testing.assert_allclose(mode.root[0] @ mode.root[0].T, np.linalg.inv(H))


@pytest.mark.parametrize("likelihood", [*CONVEX, Categorical()], ids=name)
def test_a_bad_start_leads_to_the_same_mode(rng, likelihood):
    target = row_target(likelihood, rng)
    near = laplace.find_mode(target, start_of(target))
    away = laplace.find_mode(target, 5.0 * rng.standard_normal(near.weights.shape))
    assert away.converged
    np.testing.assert_allclose(away.weights, near.weights, atol=1e-4)


# ---- Evidence ------------------------------------------------------------------------


def test_evidence_is_exact_for_a_gaussian_likelihood(rng):
    target, residual = row_target(Gaussian(noise_variance=0.4), rng), rng.random(25)
    evidence, weights = laplace.laplace_evidence_gradient(
        target, residual, np.zeros((3, 1))
    )
    rows = target.features, target.y, target.weights, residual
    assert evidence.value == pytest.approx(
        log_evidence(weight_statistics(*rows), 0.4), rel=1e-9
    )
    closed = log_evidence_gradient(*rows, 0.4)
    np.testing.assert_allclose(evidence.features, closed.features, atol=1e-5)
    np.testing.assert_allclose(evidence.residual, closed.residual)
    assert potential_gradient(target, weights) == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("likelihood", CONVEX[1:], ids=name)
def test_evidence_is_the_laplace_formula(rng, likelihood):
    target = row_target(likelihood, rng)
    evidence, weights = laplace.laplace_evidence_gradient(
        target, np.zeros(25), start_of(target)
    )
    H = numeric_hessian(target, weights)
    expected = -potential(target, weights) - 0.5 * np.linalg.slogdet(H)[1]
    assert evidence.value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("likelihood", SCALAR + FREE, ids=name)
def test_evidence_gradient_against_finite_differences(rng, likelihood, monkeypatch):
    target, residual = row_target(likelihood, rng, n=6, m=2), 0.3 * rng.random(6)
    rough, mode = laplace.laplace_evidence_gradient(target, residual, start_of(target))
    # the slope is exact at the exact mode; rounding of the energies limits how near
    # the search gets to it
    monkeypatch.setattr(laplace, "EVIDENCE_TOLERANCE", 1e-14)
    evidence, mode = laplace.laplace_evidence_gradient(target, residual, mode)

    def value(features=target.features, residual=residual, theta=None):
        distribution = target.likelihood
        if theta is not None:
            distribution = distribution.with_theta(theta)
        other = target._replace(features=features, likelihood=distribution)
        return laplace.laplace_evidence_gradient(other, residual, mode)[0].value

    # scoring steps, of the Fisher information, end further from the mode
    accuracy, left = (5e-6, 1e-3) if target.n_outputs == 1 else (5e-5, 2e-2)
    largest = np.max(np.abs(evidence.features))
    tolerance = {"rtol": 1e-6, "atol": accuracy * (1.0 + largest)}
    numeric = fourth_order(lambda a: value(features=a), target.features)
    np.testing.assert_allclose(evidence.features, numeric, **tolerance)
    # what the mode's default accuracy leaves
    np.testing.assert_allclose(rough.features, numeric, rtol=left, atol=left)
    numeric = fourth_order(lambda a: value(residual=a), residual)
    np.testing.assert_allclose(evidence.residual, numeric, **tolerance)
    theta = target.likelihood.theta
    numeric = fourth_order(lambda a: value(theta=a), theta)
    np.testing.assert_allclose(evidence.parameters, numeric, **tolerance)


# ---- Refinement ----------------------------------------------------------------------


def whitened_mean_gradient(target, distribution, rng, half=20_000):
    """``rootᵀ E∇ψ`` under a Laplace posterior by Monte Carlo, with its error."""
    groups, width = distribution.root.shape[:2]
    m, c = distribution.weights.shape
    noise = rng.standard_normal((groups, width, half))
    noise = np.concatenate((noise, -noise), axis=2)
    w = distribution.weights.T.reshape(groups, width, 1) + distribution.root @ noise
    draws = w.reshape(c, m, -1).transpose(1, 0, 2)
    slope = langevin.rows_value_and_gradient(target, draws)[1] + draws
    pulled = distribution.root.transpose(0, 2, 1) @ slope.transpose(1, 0, 2).reshape(
        w.shape
    )
    pulled = pulled.reshape(groups * width, -1)
    pairs = 0.5 * (pulled[:, :half] + pulled[:, half:])
    return pairs.mean(axis=1), pairs.std(axis=1) / np.sqrt(half)


@pytest.mark.parametrize("likelihood", CONVEX, ids=name)
def test_refined_distribution_satisfies_the_variational_equations(rng, likelihood):
    target = row_target(likelihood, rng)
    refined = laplace.refine(target, laplace.find_mode(target, start_of(target)))
    gradient, error = whitened_mean_gradient(target, refined, rng)
    # in posterior standard deviations: the alternation stops within 0.005
    assert np.all(np.abs(gradient) < LARGEST_Z * error + 0.005)
    variance = np.sum((target.features @ refined.root[0]) ** 2, axis=1)
    nodes, weights = expectation_nodes(1, 30)
    f = target.features @ refined.weights + np.sqrt(variance)[:, None] * nodes[:, 0]
    distribution = target.likelihood
    curvature = distribution.curvature(target.y[:, np.newaxis], f) @ weights
    scaled = target.features * (target.weights * curvature)[:, np.newaxis]
    H = np.eye(3) + scaled.T @ target.features
    np.testing.assert_allclose(
        refined.root[0].T @ H @ refined.root[0], np.eye(3), atol=0.01
    )


def test_refinement_of_classes_stays_near_the_variational_equations(rng, coupling):
    # outputs are taken as independent and the quadrature is of degree three only: the
    # chains start within a fraction of a posterior standard deviation
    target = row_target(Categorical(), rng)
    mode = laplace.find_mode(target, start_of(target))
    gradient, _ = whitened_mean_gradient(target, laplace.refine(target, mode), rng)
    assert np.max(np.abs(gradient)) < 0.3


# ---- Smaller parts -------------------------------------------------------------------


def test_tempered_root_averages_curvatures_over_particles(rng):
    target = row_target(Bernoulli(), rng)
    particles = rng.standard_normal((3, 1, 8))
    root = laplace.tempered_root(target, particles, 0.6)[0]
    f = np.einsum("nm,ms->ns", target.features, particles[:, 0])
    curvature = Bernoulli().curvature(target.y[:, np.newaxis], f).mean(axis=1)
    scaled = target.features * (0.6 * target.weights * curvature)[:, np.newaxis]
    H = np.eye(3) + scaled.T @ target.features
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(H), rtol=1e-10)


def test_an_offset_is_a_shift_of_the_targets(rng):
    target, residual = row_target(Gaussian(noise_variance=0.4), rng), rng.random(25)
    offset = rng.standard_normal((25, 1))
    shifted = target._replace(y=target.y - offset[:, 0])
    known = target._replace(offset=offset)
    start = np.zeros((3, 1))
    ours, theirs = (laplace.find_mode(t, start) for t in (known, shifted))
    np.testing.assert_allclose(ours.weights, theirs.weights, atol=1e-9)
    np.testing.assert_allclose(ours.root, theirs.root)
    ours, theirs = (
        laplace.laplace_evidence_gradient(t, residual, start)[0]
        for t in (known, shifted)
    )
    assert ours.value == pytest.approx(theirs.value)
    np.testing.assert_allclose(ours.features, theirs.features, atol=1e-6)


# ---- Classes without their mean ------------------------------------------------------


def test_the_likelihood_is_that_of_the_contrasts(rng):
    target = row_target(Categorical(), rng)
    reduced, f = between_classes(target), rng.standard_normal((25, 3, 2))
    distribution, Q = target.likelihood, contrasts(3)
    g = np.einsum("ca,ncs->nas", Q, f)
    y = target.y
    np.testing.assert_allclose(
        reduced.likelihood.row_nll(y, g), distribution.row_nll(y, f)
    )
    np.testing.assert_allclose(
        Q @ reduced.likelihood.row_gradient(y, g),
        distribution.row_gradient(y, f),
        atol=1e-12,
    )
    W = reduced.likelihood.row_curvature(y, g)
    back = np.einsum("ca,nabs,db->ncds", Q, W, Q)
    np.testing.assert_allclose(back, distribution.row_curvature(y, f), atol=1e-12)
    # one output, or unequal residuals, are left as they are
    assert between_classes(reduced) is None
    assert between_classes(target._replace(std=rng.random((25, 3)))) is None
    assert between_classes(row_target(Bernoulli(), rng)) is None


def test_the_mode_and_root_are_those_of_all_classes(rng, monkeypatch):
    target = row_target(Categorical(), rng)
    mode = laplace.find_mode(target, np.zeros((3, 3)))
    monkeypatch.setattr(laplace, "between_classes", lambda target: None)
    plain = laplace.find_mode(target, np.zeros((3, 3)))
    np.testing.assert_allclose(mode.weights, plain.weights, atol=1e-6)
    assert mode.energy == pytest.approx(plain.energy)
    np.testing.assert_allclose(
        mode.root[0] @ mode.root[0].T, plain.root[0] @ plain.root[0].T, atol=1e-6
    )


@pytest.mark.parametrize("likelihood", [Gaussian(noise_variance=0.4), Categorical()])
def test_values_without_a_row_are_those_of_another_search(rng, likelihood):
    target = row_target(likelihood, rng)
    mode = laplace.find_mode(target, start_of(target))
    values = laplace.left_out(target, mode)
    for i in range(0, len(target.y), 7):
        weights = target.weights * (np.arange(len(target.y)) != i)
        other = laplace.find_mode(target._replace(weights=weights), mode.weights)
        expected = target.features[i] @ other.weights
        change = np.abs(target.features[i] @ mode.weights - expected).max()
        # exact for normal noise; of coupled classes up to third derivatives
        share = 1e-6 if isinstance(likelihood, Gaussian) else 0.35
        np.testing.assert_allclose(values[i], expected, atol=share * change + 1e-7)


def test_newton_steps_are_halved_where_they_go_too_far():
    # full steps for log cosh from x = 2 diverge
    def evaluate(x):
        return float(np.log(np.cosh(x)).sum()), np.tanh(x)

    def propose(x, gradient, is_slow):
        step = -gradient * np.cosh(x) ** 2
        return step, -float(step @ gradient)

    start = np.array([2.0, -0.3])
    x, energy, n_iter, converged = laplace.newton(start, evaluate, propose, 1e-10)
    assert converged
    assert n_iter < 20
    assert energy == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(x, 0.0, atol=1e-6)

    # a kink, whose energy no step decreases, is no mode that was found
    def kink(x):
        return float(np.abs(x).sum()), np.ones(2)

    x, _, n_iter, converged = laplace.newton(
        np.zeros(2), kink, lambda x, gradient, is_slow: (-gradient, 2.0), 1e-10
    )
    assert not converged
    assert n_iter == 1
    np.testing.assert_array_equal(x, 0.0)
