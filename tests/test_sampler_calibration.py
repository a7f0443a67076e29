"""Samplers are calibrated end to end, or warn that they have not converged.

z-scores with computed standard errors and fixed seeds; larger versions are in
``benchmarks/bench_calibration.py``.
"""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.preprocessing import StandardScaler

from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import Gaussian, Poisson, StudentT

LARGEST_Z = 4.5


def fixed(kernel, likelihood, X, y, **settings):
    """A fit whose prior is the kernel as it is."""
    settings = {"n_inducing": len(X), "random_state": 0, **settings}
    model = PLSRegressor(
        kernel, likelihood=likelihood, optimizer=None, normalize_y=False, **settings
    )
    return model.fit(X, y)


def latent(model, X):
    """Latent values of the particles, (n, s)."""
    return model.posterior_.marginals(X).mean[:, 0]


# ---- Tempering -----------------------------------------------------------------------


def outliers(rng):
    """A sine with heavy-tailed noise, and far values in a tenth of the rows."""
    X = np.sort(rng.uniform(-3.0, 3.0, 150))[:, np.newaxis]
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_t(4.0, 150)
    y[rng.random(150) < 0.1] += 20.0
    return X, y


# both samplers are to agree, also where the points are few
@pytest.mark.filterwarnings("ignore:5 inducing points are too few")
def test_tempering_ends_at_the_posterior(rng):
    X, y = outliers(rng)
    settings = {"n_inducing": 5}
    models = {
        method: [
            fixed(
                1.0 * RBF(1.0), StudentT(4.0, 0.3), X, y,
                method=method, random_state=seed, **settings,
            )
            for seed in range(2)
        ]
        for method in ("smc", "ou_mala")
    }  # fmt: skip
    # the potential follows about half of chi-square: variance 5 / 2 a particle
    ends = {k: np.mean([m.energy_curve_[-1] for m in v]) for k, v in models.items()}
    error = np.sqrt(2.0 * 2.5 / 200)
    assert abs(ends["smc"] - ends["ou_mala"]) < LARGEST_Z * error
    means = {k: [latent(m, X).mean(axis=1) for m in v] for k, v in models.items()}
    spread = latent(models["ou_mala"][0], X).std(axis=1)
    apart = np.mean(means["smc"], axis=0) - np.mean(means["ou_mala"], axis=0)
    assert np.max(np.abs(apart) / (spread * np.sqrt(2.0 / 200))) < LARGEST_Z


@pytest.mark.parametrize(
    ("method", "column"), [("auto", "constant"), ("smc", "equidistant")]
)
def test_equal_modes_have_equal_shares(method, column):
    X, y = alternating()
    X = X * (column == "equidistant")
    shares = []
    for seed in range(4):
        model = fixed(
            1.0 * RBF(2.0), StudentT(4.0, 0.03), X, y, method=method, random_state=seed
        )
        size = min(model.ess_.min(), 100.0)
        shares.append(np.mean(latent(model, X[:1]) > 0.0))
        assert abs(shares[-1] - 0.5) < LARGEST_Z * 0.5 / np.sqrt(size)
    assert 0.0 < np.std(shares) < 0.15
    assert abs(np.mean(shares) - 0.5) < LARGEST_Z * np.std(shares, ddof=1) / np.sqrt(4)


def counts(rng, n, width):
    """Rows, a function of the prior, and counts whose rate is its square."""
    X = np.sort(rng.uniform(0.0, width, n))[:, np.newaxis]
    kernel = 4.0 * RBF(1.0)
    root = np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(n))
    f = root @ rng.standard_normal(n)
    return X, f, rng.poisson(f**2).astype(float), kernel


def test_square_counts_are_calibrated():
    ranks = []
    for seed in range(8):
        X, f, y, kernel = counts(np.random.default_rng(seed), 8, 6.0)
        model = fixed(kernel, Poisson("square"), X, y, random_state=seed)
        ranks.append(np.mean(latent(model, X).std(axis=0) < f.std()))
    ranks = np.array(ranks)
    # uniform ranks: mean 1/2, variance 1/12, and few of them extreme
    assert abs(ranks.mean() - 0.5) < LARGEST_Z * np.sqrt(1.0 / 12.0 / 8)
    extreme = np.mean(np.abs(ranks - 0.5) > 0.45)
    assert extreme < 0.1 + LARGEST_Z * np.sqrt(0.1 * 0.9 / 8)


def alternating():
    """Two groups of rows at the same inputs, which no smooth function joins."""
    return np.linspace(0.0, 1.0, 14)[:, np.newaxis], np.tile([1.0, -1.0], 7)


def test_sign_patterns_that_disagree_are_a_warning(rng):
    # a rate that comes near zero in many places: signs there are up to chance
    X, _, y, kernel = counts(rng, 70, 20.0)
    with pytest.warns(ConvergenceWarning, match="independent runs disagree"):
        model = fixed(kernel, Poisson("square"), X, y, n_inducing=40, method="smc")
    assert model.ess_.min() < 30


def test_modes_that_no_chain_visits_are_a_warning():
    X, y = alternating()
    with pytest.warns(ConvergenceWarning, match="has several modes"):
        fixed(1.0 * RBF(2.0), StudentT(4.0, 0.03), X, y, method="ou_mala")


# ---- What the particles are worth ----------------------------------------------------


def test_moments_of_particles_against_the_exact_distribution():
    rng = np.random.default_rng(1)
    X = rng.uniform(-3.0, 3.0, (25, 1))
    y = np.sin(X[:, 0]) + 0.5 * rng.standard_normal(25)
    n_particles, n_fits = 10, 60
    new = np.linspace(-4.0, 4.0, 9)[:, np.newaxis]
    settings = {"n_inducing": 6}
    kernel, likelihood = 1.0 * RBF(1.0), Gaussian(0.25)
    exact = fixed(kernel, likelihood, X, y, **settings)
    mean, std = exact.predict(new, return_std=True)
    # what the data have changed: the spread of φᵀw
    phi = exact.posterior_.basis(new)
    spread = np.sqrt(np.diagonal(exact.posterior_.weights.covariance(phi)))
    errors, ratios = [], []
    for seed in range(n_fits):
        model = fixed(
            kernel, likelihood, X, y, method="ou_mala", n_particles=n_particles,
            random_state=seed, **settings,
        )  # fmt: skip
        m, s = model.predict(new, return_std=True)
        assert np.all(model.ess_ <= n_particles)
        errors.append((m - mean) / spread * np.sqrt(np.min(model.ess_)))
        ratios.append(1.0 + (s**2 - std**2) / spread**2)
    errors, ratios = np.array(errors), np.array(ratios)
    # means are as far off as ess_ says: z² has mean 1
    squares = np.mean(errors**2, axis=1)
    z = (squares.mean() - 1.0) / (squares.std(ddof=1) / np.sqrt(n_fits))
    assert abs(z) < LARGEST_Z
    assert abs(errors.mean(axis=0)).max() < LARGEST_Z / np.sqrt(n_fits)
    # variances are unbiased
    each = ratios.mean(axis=1)
    z = (each.mean() - 1.0) / (each.std(ddof=1) / np.sqrt(n_fits))
    assert abs(z) < LARGEST_Z


# ---- Chains converge -----------------------------------------------------------------


def similar_digits():
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 5, 8))
    return StandardScaler().fit_transform(X[chosen][::2]), y[chosen][::2]


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (similar_digits, {"kernel": 1.0 * RBF(8.0), "n_inducing": 50}),
        (lambda: load_iris(return_X_y=True), {}),
    ],
    ids=["digits", "iris"],
)
def test_chains_of_classes_converge(data, settings):
    model = PLSClassifier(random_state=0, **settings).fit(*data())
    assert model.rhat_.max() <= 1.1
    assert model.n_iter_ < 900
