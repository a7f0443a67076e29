"""Exposures of counts and known noise of rows, through the public doors."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

from skgpx import ExactGPRegressor, PLSRegressor, SpectralVGPRegressor
from skgpx.likelihoods import Bernoulli, Gaussian, Poisson, ShiftedMixture, StudentT

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Nothing but noise was found"),
]

N = 40
rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, size=(N, 1))
NOISE = np.exp(rng.normal(-3.0, 1.5, size=N))
Y = np.sin(X[:, 0]) + np.sqrt(NOISE) * rng.normal(size=N)
GRID = np.linspace(-4.0, 4.0, 9)[:, np.newaxis]
EXPOSURE = np.exp(rng.normal(0.0, 1.5, size=N))
RATE = np.exp(1.0 + np.sin(X[:, 0]))
COUNTS = rng.poisson(EXPOSURE * RATE).astype(float)

KEPT = {"kernel": RBF(1.0), "optimizer": None, "normalize_y": False}
ALL = {"inducing": X, "n_inducing": N, "random_state": 0}
COUNTING = {**KEPT, "n_particles": 50, **ALL}
links = pytest.mark.parametrize("link", ["exp", "softplus", "square"])
RATES = PLSRegressor(1.0 * RBF(1.0), n_particles=50, n_inducing=10, random_state=0)


def moments(model, X=GRID, **given):
    return np.array(model.predict(X, return_std=True, include_noise=False, **given))


# ---- Known noise: the same as GaussianProcessRegressor(alpha=array) ------------------

MODELS = {
    "pls": PLSRegressor(**KEPT, **ALL),
    "inducing": SpectralVGPRegressor(basis="inducing", n_basis=N, **KEPT),
    "empirical": SpectralVGPRegressor(basis="empirical", n_basis=N, **KEPT),
    # n_basis="auto" leaves out what would change variances by 2 %
    "fourier": SpectralVGPRegressor(basis="fourier", n_basis=101, **KEPT),
}


@pytest.mark.parametrize("name", MODELS)
def test_known_noise_is_alpha_of_the_exact_process(name):
    model = sklearn.clone(MODELS[name]).fit(X, Y, noise_variance=NOISE)
    exact = GaussianProcessRegressor(RBF(1.0), alpha=NOISE, optimizer=None).fit(X, Y)
    expected = np.array(exact.predict(GRID, return_std=True))
    tolerance = 2e-3 if name == "fourier" else 1e-5
    assert_allclose(moments(model), expected, atol=tolerance)
    value = exact.log_marginal_likelihood_value_
    assert_allclose(model.log_evidence_, value, atol=0.01)
    assert_allclose(model.noise_variance_, NOISE.mean())


@pytest.mark.parametrize("likelihood", [None, StudentT(df=1e6)])
def test_the_search_finds_what_the_exact_process_finds(likelihood):
    exact = GaussianProcessRegressor(1.0 * RBF(1.0), alpha=NOISE).fit(X, Y)
    model = PLSRegressor(
        1.0 * RBF(1.0), likelihood=likelihood, normalize_y=False, **ALL
    ).fit(X, Y, noise_variance=NOISE)
    assert_allclose(model.kernel_.theta, exact.kernel_.theta, atol=0.02)
    value = exact.log_marginal_likelihood_value_
    assert_allclose(model.log_evidence_, value, atol=1e-3)


CONSTANT = {
    "pls": (PLSRegressor(**KEPT, **ALL), {"likelihood": Gaussian(0.07)}),
    "student": (
        PLSRegressor(likelihood=StudentT(), **KEPT, **ALL),
        {"likelihood": StudentT(scale=np.sqrt(0.07))},
    ),
    "inducing": (MODELS["inducing"], {"noise_variance": 0.07}),
    "fourier": (MODELS["fourier"], {"noise_variance": 0.07}),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_a_constant_noise_is_the_parameter(name):
    model, scalar = CONSTANT[name]
    one = sklearn.clone(model).fit(X, Y, noise_variance=np.full(N, 0.07))
    number = sklearn.clone(model).fit(X, Y, noise_variance=0.07)
    other = sklearn.clone(model).set_params(**scalar).fit(X, Y)
    for fitted in (one, number):
        assert_allclose(moments(fitted), moments(other), atol=1e-9)
        assert_allclose(
            fitted.predict(GRID, return_std=True)[1],
            other.predict(GRID, return_std=True)[1],
        )
        assert_allclose(fitted.log_evidence_, other.log_evidence_, rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        PLSRegressor(random_state=0),
        PLSRegressor(RBF(), likelihood=StudentT(), random_state=0),
        SpectralVGPRegressor(),
        ExactGPRegressor(random_state=0),
    ],
    ids=["pls", "student", "sums", "exact"],
)
@pytest.mark.filterwarnings("ignore:With 8192 Fourier features")
def test_rows_without_noise_are_met(model):
    """Alone with the least noise that would be learned, or beside noisy ones."""
    f = np.sin(X[:, 0])
    least = sklearn.clone(model).fit(X, f, noise_variance=1e-8 * f.var())
    assert_allclose(model.fit(X, f, noise_variance=0.0).predict(X), f, atol=1e-3)
    inside = GRID[np.abs(GRID[:, 0]) < 3.0]
    assert_allclose(model.predict(inside), least.predict(inside), atol=1e-3)
    exact = np.arange(N) < N // 2
    mixed = model.fit(
        X, np.where(exact, f, Y), noise_variance=np.where(exact, 0, NOISE)
    )
    assert_allclose(mixed.predict(X[exact]), f[exact], atol=1e-3)
    if isinstance(model, PLSRegressor):
        density = model.log_predictive_density(X[~exact], f[~exact], noise_variance=0.0)
        assert np.all(density > 0.0)


def test_weights_are_repetitions_of_noise_too():
    weights = rng.integers(0, 3, size=N)
    twice = np.repeat(np.arange(N), weights)
    for model in (MODELS["pls"], MODELS["inducing"]):
        model = sklearn.clone(model).set_params(optimizer="evidence")
        one = sklearn.clone(model).fit(X, Y, weights, noise_variance=NOISE)
        other = sklearn.clone(model).fit(
            X[twice], Y[twice], noise_variance=NOISE[twice]
        )
        assert_allclose(moments(one), moments(other), atol=1e-6)
        assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-6)


# ---- Known noise in predictions ------------------------------------------------------


@pytest.mark.parametrize("likelihood", [None, StudentT(df=5.0)])
def test_predictions_take_the_noise_of_their_rows(likelihood):
    model = PLSRegressor(likelihood=likelihood, **KEPT, **ALL)
    model.fit(X, Y, noise_variance=NOISE)
    latent = moments(model)[1]
    factor = 1.0 if likelihood is None else 5.0 / 3.0
    noise = np.linspace(0.1, 2.0, len(GRID))
    std = model.predict(GRID, return_std=True, noise_variance=noise)[1]
    assert_allclose(std**2, latent**2 + factor * noise)
    mean = model.predict(GRID, return_std=True)[1]
    assert_allclose(mean**2, latent**2 + factor * NOISE.mean())
    covariance = model.predict(GRID, return_cov=True, noise_variance=noise)[1]
    assert_allclose(np.diag(covariance), std**2)
    distribution = model.predict_dist(GRID, noise_variance=noise)
    bounds = model.predict_interval(GRID, 0.8, noise_variance=noise)
    assert_allclose(distribution.cdf(bounds[:, 0]), 0.1, atol=1e-6)
    assert_allclose(distribution.cdf(bounds[:, 1]), 0.9, atol=1e-6)
    y = model.sample_y(GRID, 4000, random_state=0, noise_variance=noise)
    assert_allclose(np.mean(y < bounds[:, [0]], axis=1), 0.1, atol=0.025)
    centre = model.predict(GRID)
    narrow = model.log_predictive_density(GRID, centre, noise_variance=1e-3)
    wide = model.log_predictive_density(GRID, centre, noise_variance=1e3)
    assert np.all(narrow > wide)


# ---- Exposure ------------------------------------------------------------------------


@links
def test_rows_in_terms_of_rates_have_the_likelihood_of_counts(link):
    likelihood = Poisson(link).prepare(COUNTS, np.ones(N), EXPOSURE)
    f = np.random.default_rng(3).normal(1.0, 0.5, size=N)
    form = likelihood.row_form(COUNTS, np.full(N, 2.0), EXPOSURE)
    rates = likelihood.mean(f)
    expected = -stats.poisson.logpmf(COUNTS, EXPOSURE * rates)
    whole = 2.0 * (form.constant + 0.0)
    assert_allclose(form.weights * likelihood.nll(form.y, f) + whole, 2.0 * expected)
    rows = likelihood.at_rows(EXPOSURE)
    column = f[:, np.newaxis]
    assert_allclose(rows.row_nll(COUNTS, column[:, np.newaxis])[:, 0], expected)
    assert_allclose(
        rows.row_gradient(COUNTS, column[:, np.newaxis])[:, 0, 0],
        EXPOSURE * likelihood.gradient(form.y, f),
    )
    assert_allclose(
        rows.row_curvature(COUNTS, column[:, np.newaxis])[:, 0, 0, 0],
        EXPOSURE * likelihood.curvature(form.y, f),
    )
    cdf = stats.poisson.cdf(COUNTS, EXPOSURE * rates)
    assert_allclose(rows.row_cdf(COUNTS, column[:, np.newaxis])[:, 0], cdf)


def test_integer_exposures_are_counts_that_were_added_up():
    """Counts of one rate add to a count of the summed exposure: the same posterior."""
    times = np.random.default_rng(4).integers(1, 4, size=12)
    inputs = np.linspace(-2.0, 2.0, 12)[:, np.newaxis]
    parts = np.random.default_rng(5).poisson(3.0, size=times.sum()).astype(float)
    owner = np.repeat(np.arange(12), times)
    options = {**COUNTING, "inducing": inputs, "n_inducing": 12, "n_particles": 400}
    model = PLSRegressor(likelihood=Poisson("softplus"), **options)
    added = np.bincount(owner, parts)
    one = sklearn.clone(model).fit(inputs, added, exposure=times)
    other = model.fit(inputs[owner], parts)
    (mean, std), (expected, deviation) = (moments(m, inputs) for m in (one, other))
    z = (mean - expected) / (deviation * np.sqrt(2.0 / 400.0))
    assert np.max(np.abs(z)) < 4.5
    assert np.max(np.abs(np.log(std / deviation))) < 4.5 * np.sqrt(1.0 / 400.0) * 1.5


@links
def test_known_rates_are_found_and_exposures_scale_the_distribution_of_counts(link):
    model = sklearn.clone(RATES).set_params(likelihood=Poisson(link))
    model.fit(X, COUNTS, exposure=EXPOSURE)
    assert np.mean(np.abs(np.log(model.predict(X) / RATE))) < 0.3
    distribution, one = model.predict_dist(X, exposure=EXPOSURE), model.predict_dist(X)
    assert_allclose(distribution.mean(), EXPOSURE * one.mean(), rtol=1e-10)
    # Var y = e E rate + e² Var rate
    spread = EXPOSURE**2 * one.variance(include_noise=False)
    assert_allclose(distribution.variance(), EXPOSURE * one.mean() + spread, rtol=1e-6)
    assert_allclose(distribution.variance(include_noise=False), spread, rtol=1e-6)
    each = np.repeat(np.arange(0, N, 10), 400)
    counts = model.predict_dist(X[each], exposure=EXPOSURE[each])
    density = counts.log_density(np.tile(np.arange(400.0), N // 10))
    total = logsumexp(density.reshape(-1, 400), axis=1)
    assert_allclose(total, 0.0, atol=1e-3)
    lower, upper = distribution.quantile((0.05, 0.95)).T
    assert np.all(distribution.cdf(upper) >= 0.95 - 1e-9)
    assert np.all(distribution.cdf(upper - 1.0) < 0.95)
    y = distribution.sample(3000, random_state=0)
    assert_array_equal(y, np.floor(y))
    error = 4.5 * distribution.std() / np.sqrt(3000)
    assert np.all(np.abs(y.mean(axis=1) - distribution.mean()) < error)
    assert np.mean((lower <= COUNTS) & (upper >= COUNTS)) > 0.85


def test_exposures_that_are_far_from_one():
    """Person-years by the hundred thousand: rates are as many times smaller."""
    usual, other = (
        sklearn.clone(RATES)
        .set_params(likelihood=Poisson("exp"))
        .fit(X, COUNTS, exposure=scale * EXPOSURE)
        for scale in (1.0, 1e5)
    )
    assert_allclose(1e5 * other.predict(X), usual.predict(X), rtol=0.1)
    assert_allclose(other.log_evidence_, usual.log_evidence_, atol=0.5)


# ---- Through pipelines and metadata routing ------------------------------------------


def test_exposures_are_routed_on_request():
    counting = PLSRegressor(likelihood=Poisson(), **{**COUNTING, "inducing": "greedy"})
    with sklearn.config_context(enable_metadata_routing=True):
        model = sklearn.clone(counting)
        model.set_fit_request(exposure=True).set_predict_request(exposure=True)
        model.set_score_request(exposure=True)
        pipeline = make_pipeline(StandardScaler(), model)
        pipeline.fit(X, COUNTS, exposure=EXPOSURE)
        found = pipeline.predict(X, exposure=EXPOSURE)
        mean, std = pipeline.predict(X, exposure=EXPOSURE, return_std=True)
        score = pipeline.score(X, COUNTS, exposure=EXPOSURE)
        scores = [1.0]
        # before, scores of pipelines themselves took no metadata in cross-validation
        if parse_version(sklearn.__version__) >= parse_version("1.8"):
            scores = cross_val_score(
                pipeline, X, COUNTS, cv=3, params={"exposure": EXPOSURE}
            )
        noisy = PLSRegressor(**KEPT, random_state=0)
        noisy.set_fit_request(noise_variance=True)
        noisy = make_pipeline(noisy).fit(X, Y, noise_variance=NOISE)
        assert_allclose(noisy[-1].noise_variance_, NOISE.mean())
    inputs = StandardScaler().fit_transform(X)
    direct = sklearn.clone(counting).fit(inputs, COUNTS, exposure=EXPOSURE)
    assert_array_equal(found, direct.predict(inputs, exposure=EXPOSURE))
    assert_array_equal(found, mean)
    assert std.shape == mean.shape
    assert score == direct.score(inputs, COUNTS, exposure=EXPOSURE)
    assert np.mean(scores) > 0.5


@pytest.mark.filterwarnings("ignore:The counts are overdispersed")
def test_scores_of_counts_without_their_exposures_warns():
    options = {**COUNTING, "inducing": "greedy", "n_inducing": 5, "n_particles": 5}
    model = PLSRegressor(likelihood=Poisson(), **options)
    model.fit(X, COUNTS, exposure=EXPOSURE)
    for score in (model.score, model.log_predictive_density):
        with pytest.warns(UserWarning, match="fitted with exposures") as record:
            score(X, COUNTS)
        assert record[0].filename == __file__
        score(X, COUNTS, exposure=EXPOSURE)
    search = GridSearchCV(model, {"n_inducing": [4, 5]}, cv=2)
    with pytest.warns(UserWarning, match="set_score_request"):
        search.fit(X, COUNTS, exposure=EXPOSURE)
    model.fit(X, COUNTS).score(X, COUNTS)


# ---- Refused at the door -------------------------------------------------------------

COUNTS_OF = PLSRegressor(likelihood=Poisson())
NOISY = {"noise_variance": NOISE}
REFUSED = [
    (PLSRegressor(), {"exposure": EXPOSURE}, r"exposure of rows is for counts"),
    (COUNTS_OF, NOISY, "noise_variance of rows is for normal and Student noise"),
    (PLSRegressor(likelihood=ShiftedMixture(0.5)), NOISY, "noise_variance of rows is"),
    (PLSRegressor(), {"noise_variance": NOISE[:3]}, r"of shape \(40,\).*got shape"),
    (PLSRegressor(), {"noise_variance": -NOISE}, "must be not negative, and finite"),
    (PLSRegressor(), {"noise_variance": np.full(N, np.nan)}, "negative, and finite"),
    (PLSRegressor(), {"noise_variance": ["a"] * N}, "could not convert"),
    (COUNTS_OF, {"exposure": np.zeros(N)}, "exposure must be positive"),
    (PLSRegressor(likelihood=Gaussian(0.1)), NOISY, "a noise of its own"),
    (PLSRegressor(likelihood=StudentT(scale=0.1)), NOISY, "a noise of its own"),
    (PLSRegressor(RBF() + WhiteKernel()), NOISY, "a WhiteKernel"),
    (SpectralVGPRegressor(noise_variance=0.1), NOISY, "its own"),
    (SpectralVGPRegressor(RBF() + WhiteKernel()), NOISY, "a WhiteKernel"),
]


def test_what_does_not_fit_is_refused_before_the_search():
    for model, given, message in REFUSED:
        targets = COUNTS if model is COUNTS_OF else Y
        with pytest.raises(ValueError, match=message):
            model.fit(X, targets, **given)


@pytest.mark.filterwarnings("ignore:The counts are overdispersed")
def test_predictions_refuse_it_too():
    model = PLSRegressor(likelihood=Poisson(), **COUNTING).fit(X, COUNTS)
    for call in (
        model.predict,
        model.predict_quantiles,
        model.predict_interval,
        model.predict_dist,
        model.sample_y,
    ):
        with pytest.raises(ValueError, match="noise_variance of rows is for"):
            call(X, noise_variance=NOISE)
        with pytest.raises(ValueError, match="exposure must"):
            call(X, exposure=-1.0)
    with pytest.raises(ValueError, match="noise_variance of rows is for"):
        model.log_predictive_density(X, COUNTS, noise_variance=NOISE)
    assert Bernoulli().row_quantity is None


def test_rows_are_not_added_to_models_with_noise_of_rows():
    options = {**KEPT, "domain": [[-4.0, 4.0]], "n_basis": 9}
    model = SpectralVGPRegressor(**options).fit(X, Y, noise_variance=NOISE)
    with pytest.raises(ValueError, match="neither take more rows"):
        model.partial_fit(X, Y)
    fresh = SpectralVGPRegressor(**options).partial_fit(X, Y)
    assert np.isfinite(fresh.log_evidence_)


@pytest.mark.parametrize(
    "model",
    [
        PLSRegressor(RBF(1.0), optimizer=None, inducing=X[:9]),
        SpectralVGPRegressor(RBF(1.0), basis="inducing", optimizer=None, n_basis=9),
        SpectralVGPRegressor(RBF(1.0), optimizer=None, domain=[[-4.0, 4.0]]),
    ],
    ids=["pls", "inducing", "fourier"],
)
def test_a_row_of_hardly_any_information_moves_nothing(model):
    clean = sklearn.clone(model).fit(X, Y, noise_variance=NOISE)
    more = np.append(X, X[:1], axis=0), np.append(Y, 1e3)
    other = sklearn.clone(model).fit(*more, noise_variance=np.append(NOISE, 1e12))
    for one, two in zip(moments(other), moments(clean), strict=True):
        assert_allclose(one, two, rtol=0.0, atol=1e-4)
