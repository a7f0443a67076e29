import numpy as np
import pytest
from numba import config
from scipy import stats

from skgpx._numerics import langevin
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Poisson,
    ShiftedMixture,
    StudentT,
)
from tests.numerics.conftest import LARGEST_Z, moment_scores, name
from tests.numerics.conftest import row_target as plain_target

LIKELIHOODS = [
    Gaussian(noise_variance=0.4),
    StudentT(df=4.0, scale=0.6),
    Bernoulli("logit"),
    Bernoulli("probit"),
    Poisson("softplus"),
    Poisson("exp"),
    Poisson("square"),
    ShiftedMixture(shift=2.0, probability=0.3, noise_variance=0.4),
    Categorical(),
]
INTERPRETED = bool(config.DISABLE_JIT)
compiled = pytest.mark.skipif(
    INTERPRETED, reason="statistical: needs the compiled loop"
)


def row_target(likelihood, rng, n=20, m=3, weighted=False, y=None):
    """Target of the compiled loop."""
    target = plain_target(likelihood, rng, n, m, weighted=weighted, y=y)
    return target._replace(code=target.likelihood.kernel_code)


def with_offset(target, rng):
    """The target with a known part of each latent value."""
    offset = 0.5 * rng.standard_normal((len(target.y), target.n_outputs))
    return target._replace(offset=offset)


def well_conditioned(rng, groups, width):
    return 0.3 * rng.standard_normal((groups, width, width)) + np.eye(width)


def moved(target, rng, groups=1):
    """The target in some other coordinates."""
    c, m = target.n_outputs, target.features.shape[1]
    width = c * m // groups
    centre = 0.3 * rng.standard_normal((groups, width))
    return langevin.in_coordinates(target, centre, well_conditioned(rng, groups, width))


# ---- The compiled loop ---------------------------------------------------------------

GROUPS = [(one, 1) for one in LIKELIHOODS] + [(LIKELIHOODS[-1], 3)]
groups_of_outputs = pytest.mark.parametrize(
    ("likelihood", "groups"), GROUPS, ids=[f"{name(a)}-{g}" for a, g in GROUPS]
)


@groups_of_outputs
def test_compiled_loop_equals_the_numpy_loop(rng, likelihood, groups):
    # more rows than fit in one block
    n = langevin.ROWS + 9
    target = row_target(likelihood, rng, n, weighted=True)
    target = moved(with_offset(target, rng), rng, groups)
    plain = target._replace(code=langevin.NUMPY)
    n_chains, n_steps = (2, 1) if INTERPRETED else (4, 3)
    z = 0.3 * rng.standard_normal((groups, target.root.shape[1], n_chains))
    for temperature in (0.3,) if INTERPRETED else (1.0, 0.3):
        for scheme in (
            langevin.ornstein_uhlenbeck(0.99),
            langevin.trajectory(0.05, 2),
            langevin.euler_maruyama(1e-3, metropolis=True),
            langevin.euler_maruyama(1e-4, metropolis=False),
        ):
            ours, theirs = (
                langevin.advance(
                    which,
                    langevin.start(which, z, temperature),
                    scheme,
                    n_steps,
                    np.random.default_rng(5),
                    temperature,
                )
                for which in (target, plain)
            )
            assert_same_run(ours, theirs)
            if not scheme.metropolis:
                np.testing.assert_array_equal(ours[1].accepted, n_steps)


def assert_same_run(ours, theirs):
    (chains, trace), (other, other_trace) = ours, theirs
    np.testing.assert_allclose(chains.z, other.z, rtol=1e-9, atol=1e-10)
    # the square link of counts changes within 1e-4 of f = 0, by 1e8 times as much as f
    rounding = 1e-7 * np.max(np.abs(other.gradient))
    np.testing.assert_allclose(chains.gradient, other.gradient, atol=rounding)
    # the compiled energy drops constants
    gap = chains.energy - other.energy
    np.testing.assert_allclose(gap, gap[0], atol=1e-9 * np.max(np.abs(other.energy)))
    for one, two in zip(trace, other_trace, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


@groups_of_outputs
def test_a_residual_is_averaged_over_its_nodes(rng, likelihood, groups):
    target = row_target(likelihood, rng, n=langevin.ROWS + 9, weighted=True)
    target = moved(with_offset(target, rng), rng, groups)
    c, n = target.n_outputs, len(target.y)
    average = target._replace(
        std=0.2 + 0.3 * rng.random((n, c)),
        nodes=rng.standard_normal((3, c)),
        node_weights=np.array([0.5, 0.3, 0.2]),
    )
    z = 0.3 * rng.standard_normal((groups, target.root.shape[1], 2))
    scheme = langevin.euler_maruyama(1e-3, metropolis=True)
    ours, theirs = (
        langevin.advance(
            which, langevin.start(which, z), scheme, 1, np.random.default_rng(5)
        )
        for which in (average, average._replace(code=langevin.NUMPY))
    )
    assert_same_run(ours, theirs)
    gap = np.abs(ours[0].gradient - langevin.start(target, ours[0].z).gradient)
    assert np.max(gap) > 1e-3


def test_quadratic_target_equals_the_gaussian_rows(rng):
    rows = row_target(Gaussian(noise_variance=0.4), rng, n=15)
    phi, y = rows.features, rows.y
    quadratic = langevin.quadratic_target(phi.T @ phi / 0.4, phi.T @ y / 0.4)
    place = 0.3 * rng.standard_normal((1, 3)), well_conditioned(rng, 1, 3)
    z = rng.standard_normal((1, 3, 5))
    for scheme in (
        langevin.ornstein_uhlenbeck(0.8),
        langevin.euler_maruyama(1e-2, metropolis=False),
    ):
        ours, theirs = (
            langevin.advance(
                target, langevin.start(target, z), scheme, 6, np.random.default_rng(5)
            )
            for target in (
                langevin.in_coordinates(t, *place) for t in (quadratic, rows)
            )
        )
        assert_same_run(ours, theirs)


def test_the_argument_stays_as_it_is_and_steps_can_be_split(rng):
    target = row_target(Bernoulli(), rng)
    chains = langevin.start(target, rng.standard_normal((1, 3, 6)))
    before = [a.copy() for a in chains]
    scheme = langevin.ornstein_uhlenbeck(0.5)
    whole, trace = langevin.advance(target, chains, scheme, 6, np.random.default_rng(1))
    for one, other in zip(chains, before, strict=True):
        np.testing.assert_array_equal(one, other)
    stream, state, parts = np.random.default_rng(1), chains, []
    for _ in range(6):
        state, one = langevin.advance(target, state, scheme, 1, stream)
        parts.append((one.accepted, state.z, state.z**2))
    np.testing.assert_allclose(state.z, whole.z, rtol=1e-13)
    for ours, theirs in zip(trace, zip(*parts, strict=True), strict=True):
        np.testing.assert_allclose(ours, np.sum(theirs, axis=0), rtol=1e-12)


# ---- The potential -------------------------------------------------------------------


@groups_of_outputs
def test_gradient_against_finite_differences(rng, likelihood, groups):
    target = row_target(likelihood, rng, weighted=True)
    target = moved(target, rng, groups)
    width, h = target.root.shape[1], 1e-5
    # the square link of counts changes within 1e-4 of f = 0
    relative = 1e-5 if getattr(likelihood, "link", "") == "square" else 1e-6
    z = 0.5 * rng.standard_normal((groups, width, 1))
    steps = h * np.eye(groups * width).reshape(groups, width, groups * width)
    for temperature in (1.0, 0.3):
        up, down = (
            langevin.start(target, z + sign * steps, temperature).energy
            for sign in (1.0, -1.0)
        )
        gradient = langevin.start(target, z, temperature).gradient[:, :, 0].ravel()
        numeric = (up - down) / (2.0 * h)
        error = relative * (1.0 + np.max(np.abs(numeric)))
        np.testing.assert_allclose(gradient, numeric, atol=error)


@groups_of_outputs
def test_energy_is_the_definition_in_any_coordinates(rng, likelihood, groups):
    target = row_target(likelihood, rng, weighted=True)
    other = moved(target, rng, groups)
    z = 0.5 * rng.standard_normal((groups, other.root.shape[1], 4))
    v = other.centre[:, :, np.newaxis] + other.root @ z
    w = v.reshape(target.n_outputs, -1, 4).transpose(1, 0, 2)
    np.testing.assert_array_equal(langevin.weights_of(other, z), w)
    f = np.einsum("nm,mcs->ncs", target.features, w)
    nll = target.likelihood.row_nll(target.y, f)
    expected = 0.7 * target.weights @ nll + 0.5 * np.sum(w**2, axis=(0, 1))
    gap = langevin.start(other, z, 0.7).energy - expected
    np.testing.assert_allclose(gap, gap[0], atol=1e-10)


# ---- Schemes -------------------------------------------------------------------------


class Cliff(Gaussian):
    """Not a number beyond f = 1."""

    def nll(self, y, f):
        return np.where(np.asarray(f) > 1.0, np.nan, super().nll(y, f))


def test_a_proposal_without_an_energy_is_never_accepted(rng):
    target = row_target(Cliff(noise_variance=1.0), rng, n=4, m=1)
    target = target._replace(code=langevin.NUMPY, features=np.ones((4, 1)))
    chains = langevin.start(target, np.zeros((1, 1, 50)))
    scheme = langevin.euler_maruyama(0.5, metropolis=True)
    after, trace = langevin.advance(target, chains, scheme, 20, rng)
    assert np.all(after.z <= 1.0)
    assert np.all(np.isfinite(after.energy))
    assert 0.0 < trace.accepted.mean() < 20.0


# ---- Stationary distributions -------------------------------------------------------


SCHEMES = {
    "mala": langevin.euler_maruyama(0.4, metropolis=True),
    "ou": langevin.ornstein_uhlenbeck(0.7),
    "bold-ou": langevin.ornstein_uhlenbeck(0.2),
    "trajectory": langevin.trajectory(0.6, 3),
    "without-centre": langevin.without_centre(0.4),
}


@compiled
@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("stiff", [False, True])
def test_adjusted_schemes_leave_a_gaussian_distribution_invariant(rng, scheme, stiff):
    A = np.diag([0.5, 1.5, 3.0, 4.0])
    A[0, 1:] = A[1:, 0] = 0.2
    b = rng.standard_normal(4)
    if stiff:
        # nearly every drift is longer than allowed, and shortened
        A, b = np.diag([9.0, 1600.0]), np.zeros(2)
        while scheme.drift > 0.02:
            scheme = langevin.halve_step(scheme)
    p, mean, covariance = len(b), np.linalg.solve(A, b), np.linalg.inv(A)
    target = langevin.quadratic_target(A - np.eye(p), b)
    noise = np.linalg.cholesky(covariance) @ rng.standard_normal((p, 20_000))
    exact = mean[:, np.newaxis] + noise
    chains = langevin.start(target, exact[np.newaxis])
    after, trace = langevin.advance(target, chains, scheme, 10, rng)
    if stiff:
        kept = exact if scheme.centred else 0.0
        excess = np.linalg.norm(chains.gradient[0] - kept, axis=0)
        assert np.mean(excess > 2.0 * np.sqrt(2.0)) > 0.5
    # the steps do something, and the test is needed
    assert (0.02 if stiff else 0.05) < trace.accepted.mean() / 10 < 0.999
    z = moment_scores(after.z[0], mean, covariance)
    assert np.max(np.abs(z)) < LARGEST_Z


def draws_on_a_grid(rng, log_density, low, high, size):
    """Draws by inversion from a density on the line, and its cdf."""
    grid = np.linspace(low, high, 200_001)
    density = np.exp(log_density(grid) - np.max(log_density(grid)))
    cdf = np.concatenate(([0.0], np.cumsum(density[1:] + density[:-1])))
    cdf /= cdf[-1]
    return np.interp(rng.random(size), cdf, grid), lambda x: np.interp(x, grid, cdf)


ONE_DIMENSIONAL = [
    (Bernoulli(), np.array([1.0, 1.0, 1.0, 0.0])),
    (StudentT(df=3.0, scale=0.5), np.array([-2.0, 0.0, 2.5, 2.6])),
    (Poisson("exp"), np.array([0.0, 0.0, 1.0, 0.0])),
]


@compiled
@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize(
    ("likelihood", "y"), ONE_DIMENSIONAL, ids=[name(a) for a, _ in ONE_DIMENSIONAL]
)
def test_adjusted_schemes_leave_a_skewed_distribution_invariant(
    rng, likelihood, y, scheme
):
    target = row_target(likelihood, rng, n=4, m=1, y=y)
    target = target._replace(features=np.full((4, 1), 1.3))

    def log_density(w):
        return -likelihood.nll(y[:, np.newaxis], 1.3 * w).sum(axis=0) - 0.5 * w**2

    exact, cdf = draws_on_a_grid(rng, log_density, -8.0, 8.0, 40_000)
    chains = langevin.start(target, exact[np.newaxis, np.newaxis])
    after, trace = langevin.advance(target, chains, scheme, 8, rng)
    assert 0.05 < trace.accepted.mean() / 8 < 0.999
    draws = after.z[0, 0]
    # P(|N(0, 1)| > 4.5) is 7e-6
    assert stats.kstest(draws, cdf).pvalue > 7e-6
    for power in (1, 2, 3):
        fresh = draws_on_a_grid(rng, log_density, -8.0, 8.0, 400_000)[0] ** power
        now = draws**power
        error = np.sqrt(now.var() / now.size + fresh.var() / fresh.size)
        assert abs(now.mean() - fresh.mean()) < LARGEST_Z * error
