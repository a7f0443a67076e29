"""Annealed Langevin chains of hyperparameters, and Laplace's approximations."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import logsumexp
from scipy.stats import kstest, multivariate_normal, norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import PLSRegressor
from skgpx._hyperparameters import _evidence
from skgpx._hyperparameters._annealing import (
    Form,
    LogPosterior,
    Particles,
    anneal,
    draws_from_priors,
    effective_size,
    forms_of,
    move,
    weighted_draws,
)
from skgpx._hyperparameters._candidates import (
    default_candidates,
    of_kernel,
    with_trend,
)
from skgpx._hyperparameters._maximise import Objective, best_of, maximise
from skgpx._hyperparameters._modes import Mode, draws_near, in_order, modes_of
from skgpx._shell.validation import DefaultKernel, Rows
from skgpx.kernels import CategoricalKernel
from skgpx.likelihoods import Gaussian


def rows_of(n=31):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)
    return Rows(X, y, rng.integers(1, 3, n).astype(np.float64))


def posterior_of(name, n=31):
    rows = rows_of(n)
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    if "categories" in name:
        return posterior_of_categories(rows, likelihood, name)
    families = default_candidates(rows, likelihood, unit=1.2)
    isotropic, anisotropic = families[1]
    candidates = {
        "one lengthscale": isotropic,
        "one a column": anisotropic,
        "trend": with_trend(anisotropic, rows, likelihood),
    }
    return LogPosterior(candidates[name], rows, likelihood)


def posterior_of_categories(rows, likelihood, name):
    codes = np.random.default_rng(6).integers(0, 3, (len(rows.y), 2))
    rows = rows._replace(X=np.concatenate((rows.X, codes), axis=1))
    factor = CategoricalKernel(np.full(2, 0.5), n_categories=3)
    categories = DefaultKernel(factor, [2, 3])
    families = default_candidates(rows, likelihood, 1.2, categories)
    isotropic, anisotropic = families[1]
    candidate = isotropic
    if "trend" in name:
        candidate = with_trend(anisotropic, rows, likelihood)
    return LogPosterior(candidate, rows, likelihood)


def points_of(posterior, rng, n_points):
    low, high = posterior.bounds.T
    start = posterior.candidate.coordinates_of(posterior.candidate.kernel)
    centre = np.append(start, -2.0)
    noise = 0.3 * rng.standard_normal((n_points, len(centre)))
    return np.clip(centre + noise, low, high)


CANDIDATES = [
    "one lengthscale",
    "one a column",
    "trend",
    "categories, one lengthscale",
    "categories, trend",
]


# ---- The log posterior ---------------------------------------------------------------


@pytest.mark.parametrize("name", CANDIDATES)
def test_log_posterior_of_several_points(rng, name):
    posterior = posterior_of(name)
    points = points_of(posterior, rng, 4)
    particles = posterior.evaluate(7, points)
    np.testing.assert_array_equal(particles.owner, 7)
    values = particles.log_densities(1.0)
    slopes = particles.slopes(1.0)
    objective = Objective(posterior.candidate, [posterior.evidence])
    for point, value, gradient in zip(points, values, slopes, strict=True):
        loss, slope = objective(point)
        assert -loss == pytest.approx(value)
        np.testing.assert_allclose(gradient, -slope, rtol=1e-10, atol=1e-12)
    without = posterior.evaluate(7, points, with_slopes=False)
    np.testing.assert_allclose(without.log_densities(1.0), values)
    log_prior, _ = posterior.candidate.log_prior(points, posterior.likelihood)
    np.testing.assert_allclose(particles.log_densities(0.0), log_prior)
    beyond = points.copy()
    beyond[1] = posterior.bounds[:, 1] + 1.0
    there = posterior.evaluate(7, beyond)
    assert there.log_densities(0.5)[1] == -np.inf
    assert not there.slopes(1.0)[1].any()
    np.testing.assert_array_equal(
        np.delete(there.log_densities(1.0), 1), np.delete(values, 1)
    )


@pytest.mark.parametrize("name", CANDIDATES[2:])
def test_slopes_of_the_log_posterior(rng, name):
    posterior = posterior_of(name)
    (point,) = points_of(posterior, rng, 1)
    h = 1e-5
    steps = h * np.eye(len(point))
    # not beyond the bounds
    high = posterior.bounds[:, 1] - h
    point = np.clip(point, posterior.bounds[:, 0] + h, high)
    upper = posterior.evaluate(0, point + steps).log_densities(1.0)
    lower = posterior.evaluate(0, point - steps).log_densities(1.0)
    slopes = posterior.evaluate(0, point[np.newaxis]).slopes(1.0)[0]
    np.testing.assert_allclose((upper - lower) / (2.0 * h), slopes, atol=1e-6)


def test_correlations_have_the_prior_of_a_lengthscale(rng):
    """That of standardised categories: an RBF of two of them is the correlation."""
    posterior = posterior_of("categories, one lengthscale")
    candidate = posterior.candidate
    assert posterior.candidate.reference(posterior.likelihood).positions.size == 0
    draws = candidate.draw_prior(20_000, posterior.likelihood, rng)
    draws = draws[:, : candidate.n_free]
    low, high = candidate.bounds.T
    draws = draws[np.all((low <= draws) & (draws <= high), axis=1)]
    correlation = np.exp(candidate.log_parameters(draws)[:, -1])
    assert np.all((correlation > 0.0) & (correlation <= 1.0))
    # two different entries of a column of standard deviation one: ½ |x - y|² is one
    length_scale = np.exp(draws[:, -1])
    k = [RBF(scale)([[0.0]], [[np.sqrt(2.0)]]).item() for scale in length_scale[:50]]
    np.testing.assert_allclose(correlation[:50], k, rtol=1e-6)
    prior = norm(candidate.mean[1], candidate.std[1])
    np.testing.assert_equal(candidate.mean[1:], candidate.mean[1])
    low_level, high_level = prior.cdf(candidate.bounds[-1])

    def cdf(value):
        return (prior.cdf(value) - low_level) / (high_level - low_level)

    assert kstest(draws[:, -1], cdf).pvalue > 1e-3
    # coordinates of a kernel, and back
    u = candidate.clip(draws[0])
    again = candidate.coordinates_of(candidate.kernel_at(u))
    np.testing.assert_allclose(again, u, rtol=1e-6)
    # a correlation of one is the longest lengthscale
    kernel = candidate.kernel_at(u)
    kernel.theta = np.append(kernel.theta[:-1], 0.0)
    assert candidate.coordinates_of(kernel)[-1] == candidate.bounds[-1, 1]


def test_draws_from_the_prior_have_its_distribution(rng):
    posterior = posterior_of("one a column")
    candidate = posterior.candidate
    draws = candidate.draw_prior(20_000, posterior.likelihood, rng)
    assert draws.shape == (20_000, 4)
    lengthscale = norm(candidate.mean[1], candidate.std[1])
    assert kstest(draws[:, 1], lengthscale.cdf).pvalue > 1e-3
    # E exp(log p(θ)) by draws is ∫ p², here by a grid of the noise alone
    grid = np.linspace(-40.0, 30.0, 20_001)
    points = np.column_stack([np.tile(candidate.mean, (len(grid), 1)), grid])
    log_density, _ = candidate.log_prior(points, posterior.likelihood)
    density = np.exp(log_density - logsumexp(log_density) - np.log(grid[1] - grid[0]))
    cumulative = np.cumsum(density) * (grid[1] - grid[0])
    result = kstest(draws[:, 3], lambda value: np.interp(value, grid, cumulative))
    assert result.pvalue > 1e-3


def test_a_reference_stands_for_a_missing_prior(rng):
    """It is a density, and has no effect on the posterior."""
    rows = rows_of()
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    kernel = ConstantKernel(1.0, (0.2, 30.0)) * RBF(1.0, (0.5, 4.0))
    posterior = LogPosterior(of_kernel(kernel, rows, 1.2), rows, likelihood)
    low, high = posterior.bounds.T
    points = rng.uniform(low, high, (6, 3))
    particles = posterior.evaluate(0, points)
    objective = Objective(posterior.candidate, [posterior.evidence])
    losses = [objective(point)[0] for point in points]
    np.testing.assert_allclose(particles.log_densities(1.0), -np.array(losses))
    reference = posterior.candidate.reference(likelihood)
    assert reference.positions.tolist() == [0, 1]
    # by a grid of the lengthscale
    grid = np.tile(reference.centre, (4001, 1))
    grid[:, 1] = np.linspace(*reference.bounds[1], 4001)
    log_density, _ = reference.log_density(grid)
    at_centre = reference.log_density(reference.centre[np.newaxis])[0][0]
    draws = reference.draw(20_000, rng)
    assert np.all((draws >= reference.bounds[:, 0]) & (draws <= reference.bounds[:, 1]))
    cumulative = np.cumsum(np.exp(log_density - at_centre))
    cumulative /= cumulative[-1]
    result = kstest(draws[:, 1], lambda value: np.interp(value, grid[:, 1], cumulative))
    assert result.pvalue > 1e-3
    # both coordinates: the density integrates to one
    axes = [np.linspace(*bounds, 201) for bounds in reference.bounds]
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(reference.log_density(mesh)[0]).reshape(201, 201)
    total = trapezoid(trapezoid(density, axes[1], axis=1), axes[0])
    assert total == pytest.approx(1.0, abs=1e-3)


# ---- Chains --------------------------------------------------------------------------


@pytest.mark.parametrize("name", CANDIDATES)
def test_chains_do_not_depend_on_compilation(rng, name, monkeypatch):
    compiled = posterior_of(name)
    points = points_of(compiled, rng, 3)
    owner = np.zeros(3, dtype=np.intp)

    def walk(posterior):
        form = Form({0: posterior}, points.shape[1])
        form.root = 0.15 * np.eye(points.shape[1])
        chains = form.evaluate(owner, points)
        return form.walk(chains, 0.7, 8, np.random.default_rng(1))

    together, step_size = walk(compiled)
    assert together.points.shape == (24, points.shape[1])
    assert np.mean(together.points[-3:] != points) > 0.5
    monkeypatch.setattr(_evidence, "_COMPILED_ROWS", 0)
    by_lapack = posterior_of(name)
    assert by_lapack.evidence._form is None
    states, same_size = walk(by_lapack)
    np.testing.assert_allclose(states.points, together.points, rtol=1e-8)
    assert step_size == pytest.approx(same_size)


class Normal:
    """A normal log evidence of mean one and variance v, under a standard prior."""

    def __init__(self, mean=1.0, variance=0.5):
        self.mean = mean
        self.variance = variance

    def evaluate(self, owner, points):
        residuals = points - self.mean
        return Particles(
            owner=np.full(len(points), owner),
            log_weight=np.zeros(len(points)),
            points=points,
            log_prior=-0.5 * np.sum(points**2, axis=1),
            log_evidence=-0.5 * np.sum(residuals**2, axis=1) / self.variance,
            prior_slopes=-points,
            evidence_slopes=-residuals / self.variance,
        )

    class evidence:
        class rows:
            y = np.zeros(3)


def test_langevin_steps_leave_the_posterior_invariant():
    rng = np.random.default_rng(8)
    form = Form({0: Normal()}, 2)
    form.root = np.eye(2)
    # the posterior of β = ½: precision 1 + 1, mean ½
    n_chains = 4000
    start = 0.5 + rng.standard_normal((n_chains, 2)) / np.sqrt(2.0)
    chains = form.evaluate(np.zeros(n_chains, dtype=np.intp), start)
    states, _ = form.walk(chains, 0.5, 4, rng)
    ends = np.sqrt(2.0) * (states.points[-n_chains:] - 0.5)
    for moment, variance in ((ends, 1.0), (ends**2 - 1.0, 2.0), (ends**3, 15.0)):
        z = np.sqrt(n_chains / variance) * moment.mean(axis=0)
        assert np.max(np.abs(z)) < 4.5


def test_a_population_has_the_probabilities_and_moments_of_two_candidates():
    # evidences of normal distributions in closed form
    posteriors = {0: Normal(1.0, 0.5), 1: Normal(3.0, 0.2)}
    log_evidences = [
        norm(0.0, np.sqrt(1.0 + posterior.variance)).logpdf(posterior.mean)
        + 0.5 * np.log(2.0 * np.pi * posterior.variance)
        for posterior in posteriors.values()
    ]
    exact = np.exp(np.subtract(log_evidences, logsumexp(log_evidences)))
    shares = []
    means = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        form = Form(posteriors, 1)
        draws = [
            posterior.evaluate(owner, rng.standard_normal((100, 1)))
            for owner, posterior in posteriors.items()
        ]
        population = anneal([(form, Particles.joined(draws))], 16, 8, rng)
        ((_, particles),) = weighted_draws(population, 64, rng)
        is_first = particles.owner == 0
        shares.append(np.mean(is_first))
        means.append(np.mean(particles.points[is_first]))
    # the posterior of the first has precision 1 + 2 and mean 2/3
    for values, expected in ((shares, exact[0]), (means, 2.0 / 3.0)):
        standard_error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 4.0 * standard_error
        assert standard_error < 0.03


@pytest.mark.parametrize("n", [31, 125])
def test_a_population_does_not_depend_on_the_number_of_jobs(n):
    rows = rows_of(n)
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    families = default_candidates(rows, likelihood, unit=1.2)
    candidates = [candidate for family in families for candidate in family]
    points = []
    for n_jobs in (1, 2):
        rng = np.random.default_rng(2)
        forms = forms_of(candidates, rows, likelihood)
        assert [sorted(form.posteriors) for form in forms] == [[0, 2, 4], [1, 3, 5]]
        population = draws_from_priors(forms, 64, rng)
        population = anneal(population, 8, 4, rng, n_jobs)
        points.append(np.concatenate([group.points.ravel() for _, group in population]))
    np.testing.assert_array_equal(*points)


def test_states_do_not_depend_on_the_number_of_jobs(rng):
    X = rng.standard_normal((160, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(160)
    fits = [PLSRegressor(random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)]
    one, two = (model.predict(X[:9], return_std=True) for model in fits)
    np.testing.assert_array_equal(one, two)


# ---- Modes ---------------------------------------------------------------------------


def test_draws_near_the_modes_have_the_moments_of_the_population():
    # two routes to the posterior of one candidate: from its prior, and from its mode
    rows = rows_of(80)
    rows = rows._replace(weights=np.ones(80))
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    candidate = default_candidates(rows, likelihood, unit=1.2)[1][0]
    posterior = LogPosterior(candidate, rows, likelihood)
    result = best_of(
        [
            maximise(candidate, [posterior.evidence], start, 100, tolerance=1e-6)
            for start in candidate.starts()
        ]
    )
    means = {"prior": [], "modes": []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        forms = forms_of([candidate], rows, likelihood)
        population = draws_from_priors(forms, 128, rng)
        population = anneal(population, 16, 8, rng)
        means["prior"].append(population[0][1].points.mean(axis=0))
        forms = forms_of([candidate], rows, likelihood)
        modes = modes_of([result], forms, n_jobs=1)
        population = draws_near(modes, forms, 128, rng, n_jobs=1)
        population = move(population, 1.0, 16, 8, rng)
        means["modes"].append(population[0][1].points.mean(axis=0))
    from_prior, from_modes = (np.array(values) for values in means.values())
    variance = (from_prior.var(axis=0, ddof=1) + from_modes.var(axis=0, ddof=1)) / 20
    z = (from_prior.mean(axis=0) - from_modes.mean(axis=0)) / np.sqrt(variance)
    assert np.max(np.abs(z)) < 4.0
    assert np.all(np.sqrt(variance) < 0.15)


@pytest.mark.parametrize("inward", [(0.0, 0.0), (-1.0, 0.0), (1.0, -1.0)])
def test_the_density_of_a_mode_is_that_of_its_draws(rng, inward):
    # coordinates at a bound are independent of the others
    is_free = not np.any(inward)
    root = np.array([[0.8, 0.0], [0.5 * is_free, 0.3]])
    mode = Mode(
        owner=0,
        point=np.array([1.0, -2.0]),
        root=root,
        log_posterior=0.0,
        inward=np.array(inward),
    )
    draws = mode.draws(4000, rng)
    assert np.all((draws - mode.point) * inward >= 0.0)
    # E_t [p / t] = 1 for any density p, here the normal one within the bounds
    p = multivariate_normal(mode.point, root @ root.T)
    log_density = p.logpdf(draws) + np.count_nonzero(inward) * np.log(2.0)
    ratios = np.exp(log_density - mode.log_densities(draws))
    standard_error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert abs(ratios.mean() - 1.0) < 4.0 * standard_error
    assert standard_error < 0.02


def test_draws_near_a_mode_at_bounds_have_weights(rng):
    # without noise a column without a part has the longest lengthscale there is
    X = rng.standard_normal((60, 3))
    rows = Rows(X, np.sin(X[:, 0]) + X[:, 1] ** 2, np.ones(60))
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    candidate = default_candidates(rows, likelihood, unit=1.0)[1][1]
    posterior = LogPosterior(candidate, rows, likelihood)
    start = candidate.starts()[0]
    result = maximise(candidate, [posterior.evidence], start, 200, tolerance=1e-8)
    form = Form({0: posterior}, len(result.point))
    (mode,) = modes_of([result], [form], n_jobs=1)
    assert np.any(mode.inward)
    population = draws_near([mode], [form], 400, rng, n_jobs=1)
    # no draw is beyond that bound, and many of them count
    ((_, particles),) = population
    low, high = posterior.bounds.T
    is_inside = (low <= particles.points) & (particles.points <= high)
    assert np.all(is_inside[:, mode.inward != 0.0])
    assert effective_size(population) > 80.0


class Zero:
    """A log prior, and a reference, of zero."""

    def log_prior(self, points, likelihood):
        return np.zeros(len(points)), np.zeros(points.shape)

    def log_density(self, points):
        return self.log_prior(points, None)


class TwoModes(LogPosterior):
    """A log posterior with two normal modes, of 0.8 and 0.2 of the mass."""

    masses = np.array([0.8, 0.2])
    centres = np.array([-3.0, 3.0])
    stds = np.array([0.4, 1.0])

    def __init__(self):
        self.candidate = Zero()
        self.likelihood = None
        self._reference = Zero()
        self.bounds = np.array([[-np.inf, np.inf]])

    def _log_evidence(self, points, with_slopes=True):
        terms = np.log(self.masses) + norm.logpdf(points, self.centres, self.stds)
        return logsumexp(terms, axis=1), np.zeros(points.shape)

    def modes(self):
        log_posteriors = self._log_evidence(self.centres[:, np.newaxis])[0]
        return [
            Mode(
                owner=0,
                point=np.array([centre]),
                root=np.array([[std]]),
                log_posterior=float(log_posterior),
                inward=np.zeros(1),
            )
            for centre, std, log_posterior in zip(
                self.centres, self.stds, log_posteriors, strict=True
            )
        ]


def test_two_modes_of_unequal_mass_keep_their_probabilities(rng):
    posterior = TwoModes()
    form = Form({0: posterior}, n_coordinates=1)
    ((_, particles),) = draws_near(posterior.modes(), [form], 2000, rng, n_jobs=1)
    weights = np.exp(particles.log_weight - particles.log_weight.max())
    weights /= weights.sum()
    is_first = particles.points[:, 0] < 0.5
    share = weights @ is_first
    standard_error = np.sqrt(np.sum((weights * (is_first - share)) ** 2))
    assert abs(share - 0.8) < 4.0 * standard_error
    assert standard_error < 0.02


def test_draws_in_order_are_taken_evenly(rng):
    # means of systematic draws: in their order closer to those of all draws
    form = Form({0: TwoModes()}, n_coordinates=1)
    population = draws_near(TwoModes().modes(), [form], 400, rng, n_jobs=1)
    ((_, particles),) = population
    mean = np.average(particles.points, weights=np.exp(particles.log_weight), axis=0)
    shuffled = [(form, particles.take(rng.permutation(len(particles.owner))))]
    errors = []
    for ordered in (shuffled, in_order(shuffled)):
        draws = [weighted_draws(ordered, 20, rng)[0][1].points for _ in range(50)]
        errors.append(np.mean((np.mean(draws, axis=1) - mean) ** 2))
    assert errors[1] < 0.3 * errors[0]
