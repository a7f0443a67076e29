"""The optimal potential of Theorem 1, the bound of Theorem 2, and Algorithm 1."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSClassifier, PLSRegressor
from skgpx._hyperparameters import row_target
from skgpx._numerics import langevin
from skgpx._pls._potential import optimal_target
from skgpx._shell.validation import Rows
from skgpx.likelihoods import (
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Poisson,
    StudentT,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::skgpx.exceptions.FitWarning",
)
LARGEST_Z = 4.5
KERNEL = 4.0 * RBF(0.7)
# Four points for a function that needs more.
FEW = {
    "kernel": KERNEL,
    "inducing": np.linspace(-2.5, 2.5, 4)[:, np.newaxis],
    "optimizer": None,
    "random_state": 0,
}


def labels(n=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    return X, rng.random(n) < expit(2.0 * np.sin(2.0 * X[:, 0]))


def average_logistic_loss(f, std):
    """``E log(1 + exp(f + std ξ))`` by the trapezoidal rule, f (n, s), std (n,)."""
    xi = np.linspace(-6.0, 6.0, 41)
    masses = stats.norm.pdf(xi) / stats.norm.pdf(xi).sum()
    total = np.zeros_like(f)
    for node, mass in zip(xi, masses, strict=True):
        total += mass * np.logaddexp(0.0, f + std[:, np.newaxis] * node)
    return total


def importance_sample(model, X, y, std, rng, size=20_000):
    """Weights (4, size), their masses, and V* - V_∞, from a wide normal proposal."""
    particles = model.particles_[:, 0]
    proposal = stats.multivariate_normal(
        particles.mean(axis=1), 1.3 * np.cov(particles), seed=rng
    )
    w = proposal.rvs(size).T
    base = float(model.likelihood_.base_latent_[0])
    f = base + model.posterior_.basis(X) @ w
    projected = np.sum(np.logaddexp(0.0, f) - y[:, np.newaxis] * f, axis=0)
    optimal = np.sum(average_logistic_loss(f, std) - y[:, np.newaxis] * f, axis=0)
    prior = 0.5 * np.sum(w**2, axis=0)
    log_masses = -(prior + optimal) - proposal.logpdf(w.T)
    masses = np.exp(log_masses - log_masses.max())
    return w, masses / masses.sum(), optimal - projected


def test_particles_follow_the_optimal_distribution_of_theorem_1():
    X, y = labels()
    models = {
        potential: PLSClassifier(
            **FEW, potential=potential, n_particles=1000, tol=1.0, max_iter=30
        ).fit(X, y)
        for potential in ("projected", "optimal")
    }
    basis = models["optimal"].posterior_.basis
    std = np.sqrt(basis.residual_variance(X, basis(X)))
    w, masses, gap = importance_sample(
        models["optimal"], X, y, std, np.random.default_rng(1)
    )
    mean = w @ masses
    variance = (w - mean[:, np.newaxis]) ** 2 @ masses
    error = np.sqrt((w - mean[:, np.newaxis]) ** 2 @ masses**2 + variance / 1000)
    optimal, projected = (
        models[name].particles_[:, 0] for name in ("optimal", "projected")
    )
    z = (optimal.mean(axis=1) - mean) / error
    assert np.max(np.abs(z)) < LARGEST_Z
    assert_allclose(optimal.var(axis=1), variance, rtol=0.2)
    shift = np.abs(projected.mean(axis=1) - mean) / np.sqrt(variance)
    assert np.max(shift) > 0.2
    # of the densities themselves: exp(gap) turns the one into the other
    ratio = np.exp(gap - gap.min())
    log_constant = np.log(masses @ ratio) + gap.min()
    masses_projected = masses * ratio / (masses @ ratio)
    divergence = masses_projected @ gap - log_constant
    bound = models["projected"].report()["inference"]["divergence_bound_nats"]
    assert 0.01 < divergence < bound
    # (28), with slopes of at most one
    assert_allclose(bound, 0.5 * len(y) * np.sum(std**2))
    assert "divergence_bound_nats" not in models["optimal"].report()["inference"]


def test_the_bound_is_for_convex_lipschitz_likelihoods():
    X, _ = labels()
    y = np.round(2.0 + np.sin(X[:, 0]))
    for likelihood in (StudentT(4.0, 1.0), Poisson("exp")):
        model = PLSRegressor(likelihood=likelihood, **FEW).fit(X, y)
        assert "divergence_bound_nats" not in model.report()["inference"]
    weighted, repeated = (
        PLSRegressor(likelihood=Poisson("softplus"), **FEW).fit(X, y, weights)
        if weights is not None
        else PLSRegressor(likelihood=Poisson("softplus"), **FEW).fit(
            np.tile(X, (2, 1)), np.tile(y, 2)
        )
        for weights in (np.full(len(y), 2.0), None)
    )
    assert_allclose(weighted._divergence_bound, repeated._divergence_bound)


@pytest.mark.parametrize(
    ("likelihood", "n_classes"),
    [
        (StudentT(4.0, 0.3), 3),
        (Poisson("softplus"), 3),
        (HeteroscedasticGaussian(), 3),
        (Categorical(), 2),
        (Categorical(), 3),
        (Categorical(), 6),
    ],
)
def test_value_and_gradient_of_the_potential(likelihood, n_classes):
    rng = np.random.default_rng(0)
    n, m = 20, 3
    features = 0.5 * rng.standard_normal((n, m))
    y = (np.arange(n) % n_classes).astype(float)
    rows = Rows(features, y, rng.integers(1, 3, n).astype(float))
    prepared = likelihood.prepare(y, rows.weights)
    c = prepared.n_outputs_
    variance = rng.uniform(0.1, 0.5, n)
    projected = row_target(features, rows, prepared)
    target, quadrature = optimal_target(projected, variance)
    assert quadrature.error <= quadrature.tolerance
    z = 0.3 * rng.standard_normal((1, m * c, 2))
    chains = langevin.start(target, z)
    for direction in rng.standard_normal((3, *z.shape)):
        step = 1e-5 * direction
        energies = [langevin.start(target, z + s * step).energy for s in (1.0, -1.0)]
        slope = np.sum(chains.gradient * direction, axis=(0, 1))
        assert_allclose((energies[0] - energies[1]) / 2e-5, slope, rtol=1e-6)
    # the average over draws of the residual; its linear part has an average of zero
    w = z.reshape(c, m, 2).transpose(1, 0, 2)
    centre = (features @ w[:, :, 0] + projected.offset)[:, :, np.newaxis]
    std = np.sqrt(variance)[:, np.newaxis, np.newaxis]
    away = std * rng.standard_normal((n, c, 20_000))
    linear = np.sum(prepared.row_gradient(y, centre) * away, axis=1)
    sample = rows.weights @ (prepared.row_nll(y, centre + away) - linear)
    standard_error = sample.std() / np.sqrt(sample.size)
    # compiled formulas leave out what is constant in f
    whole = langevin.start(target._replace(code=langevin.NUMPY), z)
    assert_allclose(whole.gradient, chains.gradient, rtol=1e-9)
    quadrature = whole.energy[0] - 0.5 * np.sum(z[..., 0] ** 2)
    # the rule for many classes is of degree three
    of_rule = 0.01 * abs(quadrature) if c > 4 else 1e-3
    assert abs(quadrature - sample.mean()) < LARGEST_Z * standard_error + of_rule


def test_under_gaussian_noise_the_potentials_are_the_same():
    X, _ = labels()
    y = np.sin(2.0 * X[:, 0])
    for method in ("exact", "mala"):
        means = [
            PLSRegressor(
                **FEW, likelihood=Gaussian(0.1), method=method, potential=potential
            )
            .fit(X, y)
            .predict(X)
            for potential in ("projected", "optimal")
        ]
        assert_array_equal(*means)


def test_a_residual_that_is_much_wider_than_the_likelihood_is_reported():
    X, _ = labels()
    y = np.sin(5.0 * X[:, 0])
    model = PLSRegressor(
        **FEW,
        likelihood=StudentT(4.0, 1e-3),
        potential="optimal",
        method="ula",
        n_particles=2,
        max_iter=20,
    )
    with pytest.warns(UserWarning, match="potential=.optimal."):
        model.fit(X, y)
    assert "potential not resolved" in [one.check for one in model.findings_]


# ---- Algorithm 1: initial law and step sizes -----------------------------------------


def test_chains_forget_their_initial_law():
    X, y = labels()
    settings = {**FEW, "n_particles": 400, "tol": 1.0, "max_iter": 60}
    reference = PLSClassifier(**settings).fit(X, y).particles_
    mean, std = reference.mean(axis=2), reference.std(axis=2)
    error = std * np.sqrt(2.0 / 400.0)
    far = np.full((4, 1, 400), 3.0)
    for method, init, max_iter in (
        ("ou_mala", "prior", 60),
        ("mala", far, 200),
        ("ula", "prior", 400),
    ):
        model = PLSClassifier(
            **{**settings, "max_iter": max_iter}, method=method, init=init
        )
        particles = model.fit(X, y).particles_
        assert np.max(np.abs(particles.mean(axis=2) - mean) / error) < LARGEST_Z
        assert_allclose(particles.std(axis=2), std, rtol=0.25)
    # the start itself: a step too small to move
    model.set_params(init=far, step_size=1e-12, max_iter=20)
    assert_allclose(model.fit(X, y).particles_, far, atol=1e-4)


def test_a_schedule_of_step_sizes():
    X, y = labels()
    settings = {**FEW, "method": "ula", "n_particles": 20, "tol": 1.0, "max_iter": 60}
    number, one = (
        PLSClassifier(**settings, step_size=step_size).fit(X, y).particles_
        for step_size in (0.01, [0.01])
    )
    assert_array_equal(number, one)
    model = PLSClassifier(**settings, step_size=[0.01, 0.003, 0.001]).fit(X, y)
    assert model.n_iter_ == 60
    assert len(model.energy_curve_) == 6
    for wrong in ({"step_size": [0.1, -0.1]}, {"step_size": [0.1], "method": "mala"}):
        with pytest.raises(ValueError, match="step_size expects"):
            PLSClassifier(**{**settings, **wrong}).fit(X, y)
    with pytest.raises(ValueError, match=r"init must have shape \(4, 1, 20\)"):
        PLSClassifier(**settings, init=np.zeros((3, 1, 20))).fit(X, y)


def test_an_average_over_many_classes_that_fails_is_a_finding():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (60, 1))
    y = np.arange(60) % 10
    brief = {"n_inducing": 5, "optimizer": None, "n_particles": 5, "max_iter": 20}
    model = PLSClassifier(
        9.0 * RBF(0.3), potential="optimal", random_state=0, **brief
    ).fit(X, y)
    assert "potential not resolved" in [finding.check for finding in model.findings_]
