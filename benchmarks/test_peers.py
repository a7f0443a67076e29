"""The peers compute what they claim to: `pytest benchmarks` (needs the bench extra)."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import Matern

from benchmarks import bench_loops, neuron
from benchmarks.peers import iterative, optimal_frequencies, weight_space
from benchmarks.problems import (
    LIKELIHOODS,
    NOISE_VARIANCE,
    SHIFT,
    STUDENT_T,
    make_problem,
)

langevin = pytest.importorskip("benchmarks.peers.langevin")
svgp = pytest.importorskip("benchmarks.peers.svgp")
# The peers' own deprecation warnings are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")


def log_density(likelihood, y, f):
    """Log p(y | f) up to constants in f, written independently of the peers."""
    match likelihood:
        case "gaussian":
            return -((y - f) ** 2) / (2 * NOISE_VARIANCE)
        case "bernoulli":
            return y * f - np.logaddexp(0, f)
        case "student_t":
            df, scale = STUDENT_T["df"], STUDENT_T["scale"]
            return -(df + 1) / 2 * np.log1p(((y - f) / scale) ** 2 / df)
        case "poisson":
            return y * np.log(f**2) - f**2
    p, shift = SHIFT["probability"], SHIFT["shift"]
    terms = [np.log(p) - (y - f - shift) ** 2 / (2 * NOISE_VARIANCE)]
    terms += [np.log(1 - p) - (y - f) ** 2 / (2 * NOISE_VARIANCE)]
    return logsumexp(terms, axis=0)


def derivative(function, f, width=1e-6):
    """Fourth-order central difference, elementwise."""
    near = function(f + width) - function(f - width)
    far = function(f + 2 * width) - function(f - 2 * width)
    return (8 * near - far) / (12 * width)


@pytest.mark.parametrize("arrangement", ["gpytorch", "lazy", "precomputed"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_torch_step_equals_equation_236(likelihood, arrangement):
    """U - eta E dc - eta U / lambda + sqrt(2 eta) xi, and the energy after it."""
    problem = make_problem(likelihood, n=40, m=6, n_particles=5)
    vectors, values = problem.nystroem()
    E = vectors.T @ problem.kernel(problem.Z, problem.X)
    U, eta, y = problem.start, problem.step_size, problem.y[:, None]
    xi = np.random.default_rng(1).standard_normal(U.shape)
    slope = -derivative(lambda f: log_density(likelihood, y, f), E.T @ U)
    moved = U - eta * (E @ slope + U / values[:, None]) + np.sqrt(2 * eta) * xi
    cost = -log_density(likelihood, y, E.T @ moved).sum(0)
    energy = (cost + 0.5 * (moved**2 / values[:, None]).sum(0)).mean()

    peer = langevin.TorchLangevin(problem, arrangement)
    peer.update(noise=xi)
    np.testing.assert_allclose(peer.particles.numpy(), moved, rtol=0, atol=1e-7)
    np.testing.assert_allclose(peer.energy(), energy, rtol=1e-7)


@pytest.mark.parametrize("arrangement", ["gpytorch", "lazy", "precomputed"])
def test_torch_noise_is_standard_normal(arrangement):
    """Mean 0 and variance 1 within 4.5 standard errors."""
    problem = make_problem("gaussian", n=40, m=6, n_particles=4000)
    langevin.torch.manual_seed(0)
    noise = langevin.TorchLangevin(problem, arrangement)._draw_noise().numpy()
    assert abs(noise.mean()) * np.sqrt(noise.size) < 4.5
    assert abs(noise.var() - 1) * np.sqrt(noise.size / 2) < 4.5


def test_svgp_reaches_the_collapsed_bound():
    """With everything but q fixed, the SVGP optimum is Titsias' bound."""
    problem = make_problem("gaussian", n=60, m=8, n_particles=1)
    Kzz = problem.kernel(problem.Z, problem.Z)
    Kzx = problem.kernel(problem.Z, problem.X)
    Q = Kzx.T @ np.linalg.solve(Kzz, Kzx)
    covariance = Q + NOISE_VARIANCE * np.eye(60)
    fit = problem.y @ np.linalg.solve(covariance, problem.y)
    bound = -0.5 * (fit + np.linalg.slogdet(2 * np.pi * covariance)[1])
    bound -= (problem.amplitude * 60 - np.trace(Q)) / (2 * NOISE_VARIANCE)

    peer = svgp.SVGP(problem, learn_hyperparameters=False, learning_rate=0.05)
    for _ in range(2000):
        loss = peer.epoch()
    assert -60 * loss <= bound + 1e-3 * abs(bound)
    np.testing.assert_allclose(-60 * loss, bound, rtol=5e-3)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_our_step_is_the_peers_step(likelihood):
    """Without noise both schemes are the same map of the particles."""
    ours = pytest.importorskip("benchmarks.ours")
    problem = make_problem(likelihood, 60, 8, 12)
    if likelihood == "poisson":
        # ours has a rate of at least 1e-8, which bends the singular gradient near zero
        vectors, _ = problem.nystroem()
        f = problem.kernel(problem.X, problem.Z) @ vectors @ problem.start
        chosen = np.abs(f).min(0) > 0.005
        problem = problem._replace(start=problem.start[:, chosen])
    peer = langevin.TorchLangevin(problem, "precomputed")
    peer.update(np.zeros(problem.start.shape))
    target, root = ours.target_of(problem)
    centre = np.zeros((1, len(root[0])))
    moved = ours.langevin.in_coordinates(target, centre, root)
    still = ours.Scheme(problem.step_size, 0.0, False)
    chains = ours.langevin.start(moved, problem.start[np.newaxis])
    rng = np.random.default_rng(0)
    chains, _ = ours.langevin.advance(moved, chains, still, 1, rng)
    expected = peer.particles.numpy()
    rtol = 2e-3 if likelihood == "poisson" else 1e-6
    np.testing.assert_allclose(chains.z[0], expected, rtol=rtol, atol=1e-9)


def sparse_models():
    """Two small sparse processes with a distribution of their values."""
    rng = np.random.default_rng(0)
    Z, models = rng.uniform(size=(6, 3)), []
    for variance, scale in ((2.0, 0.5), (0.5, 0.9)):
        length_scale = scale * np.array([1.0, 2.0, 3.0])
        K = neuron._kernel(variance, length_scale)(Z)
        K += neuron.JITTER * variance * np.eye(6)
        # as after six observations with noise
        S = K - K @ np.linalg.solve(K + 0.1 * np.eye(6), K)
        models.append(
            neuron.SparseDrift(variance, length_scale, 0.1, Z, rng.normal(size=6), S)
        )
    return models


def test_iterative_factor_is_that_of_the_posterior_covariance():
    """L Lᵀ at the visited inputs, and the mean of the drift drawn last."""
    models, n = sparse_models(), 8
    process = iterative.sparse_process(models)
    visited = np.random.default_rng(1).uniform(size=(n, 3))
    for i, (model, sampler) in enumerate(
        zip(models, bench_loops.samplers(models), strict=True)
    ):
        L, z, projected = np.empty(n * (n + 1) // 2), np.empty(n), np.empty((n, 6))
        drawn = [
            iterative._drift_along(
                process.points, process.length_scales[i], process.variances[i],
                process.alpha[i], process.R[i], visited, projected, L, z, t, 0.5,
            )
            for t in range(n)
        ]  # fmt: skip
        root = np.zeros((n, n))
        root[np.tril_indices(n)] = L
        mean, covariance = sampler.predict(visited, return_cov=True)
        tolerance = 2.0 * iterative._JITTER * model.variance
        np.testing.assert_allclose(root @ root.T, covariance, atol=tolerance)
        np.testing.assert_allclose(drawn, mean + root.sum(axis=1) * 0.5, atol=1e-6)


def test_weight_space_draws_have_the_moments_of_the_linear_model():
    """Mean and variance within 4.5 standard errors."""
    rng = np.random.default_rng(0)
    X, y, n_draws = rng.uniform(size=(20, 2)), rng.normal(size=20), 4000
    draws = weight_space.sample_weight_space(X, y, 64, n_draws, 0.3, 0.1, rng)
    new = rng.uniform(size=(5, 2))
    features = draws.terms[0].features
    Phi, phi = features(X), features(new)
    A = Phi.T @ Phi + 0.1 * np.eye(64)
    mean = phi @ np.linalg.solve(A, Phi.T @ y)
    variance = 0.1 * np.einsum("nm,mn->n", phi, np.linalg.solve(A, phi.T))
    values = draws(new)
    z = (values.mean(axis=1) - mean) / np.sqrt(variance / n_draws)
    assert np.all(np.abs(z) < 4.5)
    z = (values.var(axis=1) / variance - 1.0) / np.sqrt(2.0 / n_draws)
    assert np.all(np.abs(z) < 4.5)


def test_jax_moves_frequencies_as_we_do():
    """Ten steps, bandwidths by medians."""
    pytest.importorskip("jax")
    stein = pytest.importorskip("benchmarks.bench_stein")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    omega, scale = rng.standard_normal((2, 5, 3)), np.array([1.0, 2.0, 0.7])
    ours = stein.OurStein(X, y, omega, scale, 0.1)
    peer = stein.JaxStein(X, y, omega, scale, 0.1)
    for _ in range(10):
        ours.step()
        peer.step()
    np.testing.assert_allclose(ours.frequencies, peer.frequencies, rtol=1e-7, atol=1e-9)


def test_celerite_has_the_likelihood_of_the_process():
    """Of few rows, up to its approximation of the kernel."""
    celerite = pytest.importorskip("benchmarks.peers.celerite")
    rng = np.random.default_rng(0)
    t, y = np.sort(rng.uniform(0.0, 5.0, 40)), rng.standard_normal(40)
    C = 0.8**2 * Matern(0.6, nu=1.5)(t[:, None]) + 0.3 * np.eye(40)
    expected = multivariate_normal(np.zeros(40), C).logpdf(y)
    value = celerite.log_likelihood(t, y, np.log([0.8, 0.6, 0.3]))
    np.testing.assert_allclose(value, expected, atol=1e-4)


def test_botorch_stays_where_constraints_hold():
    """The largest sum of two inputs, given that their sum is at most 0.7."""
    peer = pytest.importorskip("benchmarks.peers.bayesian_optimisation")
    X = np.random.default_rng(0).uniform(size=(12, 2))
    sums = X.sum(axis=1, keepdims=True)
    proposal = peer.propose_feasible(X, -sums, sums - 0.7, (), seed=0)
    assert abs(proposal.sum() - 0.7) < 0.1


def test_the_expected_error_of_frequencies_is_that_of_samples():
    """And its slope that of finite differences."""
    rng = np.random.default_rng(0)
    omega, s = rng.standard_normal((7, 3)), 0.4
    differences = np.sqrt(s) * rng.standard_normal((200_000, 3))
    kernel = np.exp(-0.5 * np.sum(differences**2, axis=1))
    squares = (np.cos(differences @ omega.T).mean(axis=1) - kernel) ** 2
    value, slope = optimal_frequencies.mean_square(omega, s)
    error = 4.0 * squares.std() / np.sqrt(len(squares))
    exact = value * (1.0 + 2.0 * s) ** -1.5
    assert abs(squares.mean() - exact) < error

    way = rng.standard_normal(omega.shape)
    up, down = (
        optimal_frequencies.mean_square(omega + h * way, s)[0] for h in (1e-5, -1e-5)
    )
    np.testing.assert_allclose((up - down) / 2e-5, np.sum(slope * way), rtol=1e-7)
