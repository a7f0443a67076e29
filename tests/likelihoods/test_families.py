"""Counts, amounts, shares, grades and censored targets: limits, rows, recovery."""

import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import PLSRegressor
from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods import (
    Bernoulli,
    Beta,
    Binomial,
    Gamma,
    Gaussian,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Tobit,
)
from skgpx.metrics import PredictiveScorer, neg_log_predictive_density


def name_of(value):
    """The same in every process, as the addresses in a repr are not."""
    return type(value).__name__


F = np.linspace(-3.0, 3.0, 25)
ZEROS_ONES, GRID = np.array([[0.0], [1.0]]), np.array([[-1.5], [0.3], [2.0]])
COUNTS, POSITIVE = np.array([[0.0], [3.0], [40.0]]), np.exp(GRID)
MIXTURE = LatentMixture(
    np.array([[[-0.5, 1.0]], [[0.2, 0.4]], [[1.0, 3.0]]]),
    np.array([[[0.3, 0.1]], [[0.0, 0.2]], [[1.0, 0.5]]]),
    np.array([0.3, 0.7]),
)

# ---- What they become in a limit -----------------------------------------------------


@pytest.mark.parametrize(
    ("likelihood", "other", "y", "rtol"),
    [
        (NegativeBinomial(1e9), Poisson("exp"), COUNTS, 1e-5),
        (Binomial("logit"), Bernoulli("logit"), ZEROS_ONES, 1e-9),
        (Binomial("probit"), Bernoulli("probit"), ZEROS_ONES, 1e-9),
        (Ordinal(thresholds=[0.0]), Bernoulli("probit"), ZEROS_ONES, 1e-7),
        (Tobit(0.5), Gaussian(0.25), GRID, 1e-12),
    ],
    ids=name_of,
)
def test_limits(likelihood, other, y, rtol):
    for name in ("nll", "gradient", "curvature", "cdf"):
        pair = (getattr(one, name)(y, F) for one in (likelihood, other))
        assert_allclose(*pair, rtol=rtol, atol=1e-7, err_msg=name)
    for name in ("mean", "variance"):
        assert_allclose(getattr(likelihood, name)(F), getattr(other, name)(F), rtol)


def test_log_normal_is_normal_on_the_logarithm():
    likelihood, other, log_y = LogNormal(0.5), Gaussian(0.25), np.log(POSITIVE)
    assert_allclose(likelihood.nll(POSITIVE, F), other.nll(log_y, F) + log_y)
    y, log_y = POSITIVE[:, 0], log_y[:, 0]
    density = other.predictive_log_density(log_y, MIXTURE) - log_y
    assert_allclose(likelihood.predictive_log_density(y, MIXTURE), density)
    levels = [0.1, 0.9]
    expected = np.exp(other.predictive_quantile(levels, MIXTURE))
    assert_allclose(likelihood.predictive_quantile(levels, MIXTURE), expected)
    frozen = stats.lognorm(0.5, scale=np.exp(F))
    assert_allclose(likelihood.mean(F), frozen.mean())
    assert_allclose(likelihood.variance(F), frozen.var())


TIMES, TRIALS = np.array([0.2, 1.0, 7.0]), np.array([4.0, 3.0, 90.0])
MU, P = TIMES[:, np.newaxis] * np.exp(F), special.expit(F)
FLAGS = np.array([-1.0, 0.0, 1.0])
KNOWN = [
    (
        NegativeBinomial(2.5).at_rows(TIMES),
        COUNTS,
        stats.nbinom(2.5, 2.5 / (2.5 + MU)),
    ),
    (Gamma(2.5).at_rows(TIMES), POSITIVE, stats.gamma(2.5, scale=MU / 2.5)),
    (Binomial().at_rows(TRIALS), COUNTS, stats.binom(TRIALS[:, np.newaxis], P)),
    (Beta(6.0), special.expit(GRID), stats.beta(6.0 * P, 6.0 * (1.0 - P))),
    (StudentT(5.0, 0.7), GRID, stats.t(5.0, F, 0.7)),
]
BOUNDS = [
    (Tobit(0.7).at_rows(FLAGS), GRID),
    (LogNormal(0.7).at_rows(FLAGS), POSITIVE),
]


@pytest.mark.parametrize(("likelihood", "y", "frozen"), KNOWN, ids=name_of)
def test_distributions_of_scipy(likelihood, y, frozen):
    density = frozen.logpmf(y) if likelihood.discrete else frozen.logpdf(y)
    assert_allclose(likelihood.nll(y, F), -density, rtol=1e-9, atol=1e-9)
    assert_allclose(likelihood.cdf(y, F), frozen.cdf(y), rtol=1e-9, atol=1e-12)
    shape = np.broadcast_shapes(y.shape, F.shape)
    assert_allclose(likelihood.mean(np.broadcast_to(F, shape)), frozen.mean() + 0 * y)
    spread = likelihood.variance(np.broadcast_to(F, shape))
    assert_allclose(spread, frozen.var() + 0 * y)


@pytest.mark.parametrize(
    ("likelihood", "y"), [case[:2] for case in KNOWN] + BOUNDS, ids=name_of
)
def test_derivatives_of_rows_of_which_more_is_known(likelihood, y):
    h = 1e-5
    rise = likelihood.nll(y, F + h) - likelihood.nll(y, F - h)
    gradient, curvature = likelihood.gradient(y, F), likelihood.curvature(y, F)
    assert_allclose(gradient, rise / (2.0 * h), rtol=1e-6, atol=1e-7)
    bend = likelihood.gradient(y, F + h) - likelihood.gradient(y, F - h)
    assert np.all(curvature >= 0.0)
    if not isinstance(likelihood, Beta | StudentT):
        assert_allclose(curvature, bend / (2.0 * h), rtol=1e-6, atol=1e-7)


def test_curvature_of_shares_is_the_fisher_information():
    likelihood, draws = Beta(6.0), np.random.default_rng(0)
    f = np.full((1, 100_000), 1.2)
    square = likelihood.gradient(likelihood.sample(f, draws), f) ** 2
    error = square.std() / np.sqrt(square.size)
    assert abs(square.mean() - likelihood.curvature(0.5, 1.2)) < 4.5 * error


@pytest.mark.parametrize(("likelihood", "y"), BOUNDS, ids=name_of)
def test_probability_beyond_a_bound(likelihood, y):
    """Integrated over f, and equal to the distribution function of the true value."""
    below = likelihood.predictive_cdf(y[:, 0], MIXTURE)
    density = likelihood.predictive_log_density(y[:, 0], MIXTURE)
    assert_allclose(density[[0, 2]], np.log([below[0], 1.0 - below[2]]), rtol=1e-9)
    free = likelihood._replace(known_=0.0).predictive_log_density(y[:, 0], MIXTURE)
    assert_allclose(density[1], free[1])


def test_thresholds_are_coordinates_of_the_search():
    y = np.repeat([0.0, 1.0, 2.0, 3.0], [10, 40, 30, 20])
    likelihood = Ordinal().prepare(y)
    assert likelihood.n_grades == 4
    share = special.ndtr(np.array(likelihood.thresholds) / np.sqrt(2.0))
    assert_allclose(share, np.array([10.5, 51.0, 81.5]) / 102.0)
    assert_allclose(likelihood.with_theta(likelihood.theta).theta, likelihood.theta)
    moved = likelihood.with_theta(np.add(likelihood.theta, [0.3, 0.0, 0.5]))
    gaps = np.diff(likelihood.thresholds) * np.exp([0.0, 0.5])
    assert_allclose(np.diff(moved.thresholds), gaps)
    low, high = likelihood.theta_bounds.T
    assert np.all((low < likelihood.theta) & (likelihood.theta < high))
    fixed = Ordinal(thresholds=[-1.0, 1.0]).prepare([0.0, 1.0])
    assert not len(fixed.theta)
    assert fixed.with_theta([]).thresholds == [-1.0, 1.0]
    # the highest grade may be missing
    assert len(Ordinal(n_grades=6).prepare(y).thresholds) == 5


# ---- Through PLSRegressor ------------------------------------------------------------

N, N_TEST = 300, 300
RNG = np.random.default_rng(1)
X = RNG.uniform(size=(N + N_TEST, 1))
LATENT = 1.5 * np.sin(6.0 * X[:, 0])
EXPOSURE = RNG.uniform(0.5, 5.0, N + N_TEST)
TRIED = RNG.integers(1, 20, N + N_TEST).astype(float)
LIMIT = RNG.normal(0.5, 1.0, N + N_TEST)
ROWS = {"exposure": EXPOSURE, "trials": TRIED}
MODEL = PLSRegressor(1.0 * RBF(0.3), n_inducing=15, n_particles=50, random_state=0)
TRUTH = [
    (NegativeBinomial(3.0), "exposure"),
    (Gamma(4.0), "exposure"),
    (Gamma(1.0), None),
    (LogNormal(0.5), "censoring"),
    (Tobit(0.5), "censoring"),
    (Beta(10.0), None),
    (Binomial(), "trials"),
    (Ordinal(thresholds=(-1.0, 0.0, 1.5)), None),
]


def made_up(truth, kind):
    """Observed targets, their true values, and what is known of the rows."""
    known = ROWS.get(kind)
    rows = truth if known is None else truth.at_rows(known)
    y = rows.sample(LATENT[:, np.newaxis], np.random.default_rng(2))[:, 0]
    if kind == "censoring":
        limit = np.exp(LIMIT) if isinstance(truth, LogNormal) else LIMIT
        return np.minimum(y, limit), y, {"censoring": (y > limit) * 1.0}
    return y, y, {} if known is None else {"exposure": known}


@pytest.mark.parametrize(("truth", "kind"), TRUTH, ids=name_of)
def test_made_up_data_are_recovered(truth, kind):
    y, true, given = made_up(truth, kind)
    train = {name: values[:N] for name, values in given.items()}
    learned = type(truth)(*[None] * len(truth.scale_names))
    model = sklearn.clone(MODEL).set_params(likelihood=learned)
    model.fit(X[:N], y[:N], **train)
    # scales, in standard errors from the information of the rows at the true f
    free = truth.scale_names or ("thresholds",) * isinstance(truth, Ordinal)
    rows = truth._replace(free_=free)
    rows = rows.at_rows(*train.values()) if train else rows
    theta, scores, f = rows.theta, [], LATENT[:N, np.newaxis]
    for step in 1e-3 * np.eye(len(theta)):
        up, down = (
            rows.with_theta(theta + h).nll(y[:N, None], f) for h in (step, -step)
        )
        scores.append((up - down)[:, 0] / 2e-3)
    if scores:
        error = np.sqrt(np.diag(np.linalg.inv(np.array(scores) @ np.transpose(scores))))
        assert np.all(np.abs(model.likelihood_.theta - theta) < 4.5 * error)
    # the mean of fresh targets, and how many of them are in the intervals
    test = {k: values[N:] for k, values in given.items() if k != "censoring"}
    mean, std = model.predict(X[N:], return_std=True, **test)
    z = np.sum(true[N:] - mean) / np.sqrt(np.sum(std**2))
    assert abs(z) < 4.5
    assert model.score(X[N:], true[N:], **test) > 0.0
    distribution = model.predict_dist(X[N:], **test)
    low, high = model.predict_interval(X[N:], 0.9, **test).T
    inside = (low <= true[N:]) & (true[N:] <= high)
    expected = distribution.cdf(high) - distribution.cdf(low)
    if truth.discrete:
        expected += np.exp(distribution.log_density(low))
    spread = np.sqrt(np.sum(expected * (1.0 - expected)))
    assert abs(np.sum(inside - expected)) < 4.5 * spread
    # draws, and log densities of rows that were held out, against the truth
    draws = model.sample_y(X[N:], 400, random_state=0, **test)
    error = draws.std(axis=1) / 20.0 + 1e-12
    assert np.max(np.abs(draws.mean(axis=1) - mean) / error) < 6.0
    held_out = {k: values[N:] for k, values in given.items()}
    density = model.log_predictive_density(X[N:], y[N:], **held_out)
    best = truth.at_rows(*held_out.values()) if held_out else truth
    loss = -best.nll(y[N:, np.newaxis], LATENT[N:, np.newaxis])[:, 0] - density
    assert abs(loss.mean()) < 0.05 + 4.5 * loss.std() / np.sqrt(N_TEST)


@pytest.mark.filterwarnings("ignore:3 inducing points are too few")
def test_in_pipelines_searches_and_pickles():
    y, _, given = made_up(TRUTH[3][0], "censoring")
    X_, y_, flags = X[:120], y[:120], given["censoring"][:120]
    with sklearn.config_context(enable_metadata_routing=True):
        model = sklearn.clone(MODEL).set_fit_request(censoring=True)
        model.set_params(likelihood=LogNormal())
        pipeline = make_pipeline(StandardScaler(), model)
        scorer = PredictiveScorer(neg_log_predictive_density)
        scorer = scorer.set_score_request(censoring=True)
        grid = {"plsregressor__n_inducing": [3, 15]}
        search = GridSearchCV(pipeline, grid, scoring=scorer, cv=3)
        search.fit(X_, y_, censoring=flags)
    assert search.best_params_ == {"plsregressor__n_inducing": 15}
    direct = sklearn.clone(model).fit(
        StandardScaler().fit_transform(X_), y_, censoring=flags
    )
    copied = pickle.loads(pickle.dumps(search.best_estimator_))
    rows = StandardScaler().fit(X_).transform(X[-5:])
    assert_array_equal(copied.predict(X[-5:]), direct.predict(rows))
    folds = skgpx.cross_val_predict_dist(
        sklearn.clone(model), X_, y_, cv=3, params={"censoring": flags}
    )
    assert folds.log_density(y_).mean() > -2.0


class Laplace(Likelihood):
    """Of the user, with kinks; the exposure of a row is the scale of its noise."""

    location_scale = True
    row_quantity = "exposure"

    def nll(self, y, f):
        return np.abs(y - f) / self.known_ + np.log(2.0 * self.known_)

    def gradient(self, y, f):
        return np.sign(f - y) / self.known_

    def mean(self, f):
        return np.asarray(f, dtype=float)

    def variance(self, f):
        return 2.0 * self.known_**2 * np.ones(np.shape(f))

    def initial_latent(self, y):
        return np.asarray(y, dtype=float)

    def sample(self, f, rng):
        return rng.laplace(f, self.known_ * np.ones(np.shape(f)))


def test_known_rows_of_a_likelihood_with_kinks():
    """More of them than are in a block of the chains or are tried for kinks."""
    rng = np.random.default_rng(3)
    X_, scale = rng.uniform(size=(400, 1)), np.where(np.arange(400) % 2, 0.05, 3.0)
    y = Laplace().at_rows(scale).sample(np.sin(6.0 * X_), rng)[:, 0]
    model = sklearn.clone(MODEL).set_params(likelihood=Laplace(), normalize_y=False)
    mean, std = model.fit(X_, y, exposure=scale).predict(
        X_, return_std=True, include_noise=False
    )
    z = (mean - np.sin(6.0 * X_[:, 0])) / std
    assert np.sqrt(np.mean(z**2)) < 2.0
    assert np.max(std) < 0.1


TARGETS = np.array([0.5, 1.0, 2.0, 3.0])
INTEGERS = np.array([0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("likelihood", "y", "given", "message"),
    [
        (NegativeBinomial(), -TARGETS, {}, "0, 1, 2, .*got 4 negative.* Use Gamma"),
        (NegativeBinomial(shape=-1), INTEGERS, {}, "shape to be positive"),
        (Gamma(), INTEGERS, {}, "positive y; got 1 values.*Remove these rows"),
        (LogNormal(), -TARGETS, {}, "LogNormal expects positive y; got 4"),
        (Gamma(), INTEGERS, {}, r"a limit: Tobit\(\) with.*censoring=-\(y == 0\)"),
        (LogNormal(), INTEGERS, {}, r"a limit: Tobit\(\) with.*censoring=-\(y == 0\)"),
        (Beta(), 25.0 * INTEGERS, {}, "got 4 other.*Divide percentages by 100"),
        (Beta(), TARGETS, {}, "strictly between 0 and 1; got 3 other.*Use Binomial"),
        (Binomial(), INTEGERS, {}, "got 2 of 1 in row 2. Pass the number of succ"),
        (Binomial(), TARGETS, {"exposure": 4.0}, "expects y = 0, 1, ..., trials; got"),
        (Binomial(), INTEGERS, {"exposure": 3.5}, "whole numbers of trials"),
        (Binomial(), INTEGERS, {"exposure": -INTEGERS}, "must be positive"),
        (Binomial("identity"), INTEGERS, {}, "expects link in"),
        (Ordinal(), TARGETS, {}, "0, 1, ..., K - 1; got 1 .*Encode the grades"),
        (Ordinal(n_grades=3), INTEGERS, {}, "grades up to 2; got 3. Pass n_grades"),
        (Ordinal(thresholds=[1.0, 0.0]), INTEGERS, {}, "increasing.*Sort them"),
        (Ordinal(3, [0.0]), INTEGERS, {}, "one fewer than grades.*n_grades=3"),
        (
            Ordinal(n_grades=2.5),
            INTEGERS,
            {},
            "an integer from 2 to 1000, or None; got 2.5",
        ),
        (Tobit(), TARGETS, {"censoring": [1, 0]}, r"of shape \(4,\).*got shape \(2,\)"),
        (Tobit(), TARGETS, {"censoring": 2 * INTEGERS}, r"must be 1 \(y is a lower"),
        (Tobit(), TARGETS, {"exposure": TARGETS}, "exposure of rows is for counts"),
        (Gaussian(), TARGETS, {"censoring": INTEGERS}, "is for censored targets"),
    ],
    ids=name_of,
)
def test_what_is_refused(likelihood, y, given, message):
    with pytest.raises(ValueError, match=message):
        PLSRegressor(likelihood=likelihood).fit(np.zeros((4, 1)), y, **given)


def test_thresholds_are_not_set_before_a_fit():
    with pytest.raises(ValueError, match="not set yet: call prepare"):
        Ordinal().nll(0.0, 0.0)
