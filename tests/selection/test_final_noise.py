from functools import cache

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgpx import PLSRegressor, SpectralVGPRegressor
from skgpx._numerics.regression import log_evidence, posterior, weight_statistics
from skgpx._numerics.series_evidence import ScaleProfile
from skgpx._row_statistics import row_statistics
from skgpx._selection._final_noise import _TIGHT
from skgpx._selection._search_rows import ABUNDANT_ROWS, SOME_ROWS, Sample
from skgpx._selection._sparse_density import KeptOut
from skgpx._validation import Rows, canonical_rows
from skgpx.bases import Nystroem
from skgpx.likelihoods import Gaussian

NOISE = 0.05
ROUGH = ConstantKernel(1.0, "fixed") * Matern([0.7, 0.7], "fixed", nu=0.5)
SMOOTH = ConstantKernel(1.0, "fixed") * RBF([1.0, 1.0], "fixed")


def some_rows(n, kernel, other=0):
    """A draw of the process by 3000 random waves, and noise; or other rows of it."""
    rng = np.random.default_rng(0)
    waves = rng.standard_normal((2, 3000)) / kernel.k2.length_scale[0]
    if kernel is ROUGH:
        # spectral law of the Matern kernel of order ½: t with one degree of freedom
        waves /= np.sqrt(rng.chisquare(1.0, 3000))
    shift, weights = rng.uniform(0.0, 2.0 * np.pi, 3000), rng.standard_normal(3000)
    X = rng.uniform(-2.0, 2.0, (n + other, 2))
    f = np.sqrt(2.0 / 3000) * np.cos(X @ waves + shift) @ weights
    y = f + np.sqrt(NOISE) * rng.standard_normal(n + other)
    return X[-other:], y[-other:]


def bound_noise(model, X, y):
    rows = canonical_rows(X, y, np.ones(len(y)))
    statistics = row_statistics(model.posterior_.basis, rows, None)
    return ScaleProfile.of(statistics).best_noise_variance()


@cache
def fitted(n, rough, n_inducing):
    kernel = ROUGH if rough else SMOOTH
    X, y = some_rows(n, kernel)
    model = PLSRegressor(
        kernel, n_inducing=n_inducing, normalize_y=False, random_state=0
    )
    return model.fit(X, y), X, y


def test_density_of_rows_kept_out_is_that_of_predictions():
    X, y = some_rows(300, SMOOTH)
    basis = Nystroem.from_kernel(SMOOTH, X[:20])
    rows = Rows(X[:200], y[:200], np.ones(200))
    statistics = row_statistics(basis, rows, None)
    kept_out = KeptOut.of(basis, Rows(X[200:], y[200:], np.arange(1.0, 101.0)))
    law, features = posterior(statistics, NOISE), basis(X[200:])
    variance = np.sum((features @ law.root[0]) ** 2, axis=1) + NOISE
    variance += basis.residual_variance(X[200:], features)
    mean = features @ law.mean[:, 0]
    density = norm.logpdf(y[200:], mean, np.sqrt(variance))
    # rows are drawn by weight, so each counts once
    expected = density.mean()
    assert kept_out.density(statistics, NOISE) == pytest.approx(expected, rel=1e-9)
    best, value = kept_out.best_noise(statistics, 1e-3, 1.0)
    grid = [kept_out.density(statistics, noise) for noise in np.geomspace(1e-3, 1, 60)]
    assert value >= max(grid) - 1e-3
    assert kept_out.density(statistics, best) == value


def test_statistics_without_the_rows_kept_out():
    X, y = some_rows(300, SMOOTH)
    basis = Nystroem.from_kernel(SMOOTH, X[:20])
    whole = row_statistics(basis, Rows(X, y, np.ones(300)), None)
    kept_out = KeptOut.of(basis, Rows(X[200:], y[200:], np.ones(100)))
    rest = whole.add(kept_out.statistics(), -1.0)
    features = basis(X[:200])
    residual = basis.residual_variance(X[:200], features)
    plain = weight_statistics(features, y[:200], np.ones(200), residual)
    for one, other in zip(rest, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [SOME_ROWS, SOME_ROWS + 1])
def test_few_rows_keep_the_noise_of_the_search(n):
    model, X, y = fitted(n, False, 450)
    best = bound_noise(model, X, y)
    if n <= SOME_ROWS:
        assert model.noise_variance_ != pytest.approx(best, rel=1e-9)
    else:
        assert model.noise_variance_ == pytest.approx(best, rel=1e-6)
    assert model.noise_variance_ == pytest.approx(NOISE, rel=4.0 * np.sqrt(2.0 / n))


@pytest.mark.parametrize(
    ("n", "rough"),
    [(ABUNDANT_ROWS - 1, True), (ABUNDANT_ROWS, True), (ABUNDANT_ROWS, False)],
)
@pytest.mark.filterwarnings("ignore:.*too few for this function")
def test_rows_kept_out_judge_where_much_is_left_out(n, rough):
    model, X, y = fitted(n, rough, 60)
    best = bound_noise(model, X, y)
    basis = model.posterior_.basis
    left_out = np.mean(basis.residual_variance(X, basis(X)))
    assert (left_out <= _TIGHT * best) != rough
    if n < ABUNDANT_ROWS or not rough:
        assert model.noise_variance_ == pytest.approx(best, rel=1e-6)
        return
    # the bound counts what is left out as noise, and predictions once more
    assert model.noise_variance_ < 0.5 * best
    rows = canonical_rows(X, y, np.ones(n))
    bound = log_evidence(row_statistics(basis, rows, None), best)
    assert model.log_evidence_ == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("estimator", ["pls", "spectral"])
def test_intervals_cover_where_much_is_left_out(estimator):
    model, X, y = fitted(ABUNDANT_ROWS, True, 60)
    if estimator == "spectral":
        model = SpectralVGPRegressor(
            ROUGH, basis="inducing", n_basis=60, normalize_y=False, random_state=0
        ).fit(X, y)
    X, y = some_rows(ABUNDANT_ROWS, ROUGH, other=2000)
    mean, std = model.predict(X, return_std=True)
    covered = np.mean(np.abs(y - mean) <= norm.ppf(0.975) * std)
    # with the noise of the bound .99 and more are covered
    assert 0.93 < covered < 0.98


def test_a_fixed_noise_is_kept():
    X, y = some_rows(ABUNDANT_ROWS, ROUGH)
    model = PLSRegressor(ROUGH, n_inducing=60, normalize_y=False, random_state=0)
    model.set_params(likelihood=Gaussian(0.123)).fit(X, y)
    assert model.noise_variance_ == pytest.approx(0.123)
    model.set_params(likelihood=Gaussian(), optimizer=None).fit(X, y)
    start = Gaussian().prepare(y).variance(0.0)
    assert model.noise_variance_ == pytest.approx(start)


def test_weights_do_not_count_twice_among_the_rows_that_judge():
    rng = np.random.default_rng(0)
    heavy = np.repeat([9.0, 1.0], 30_000)
    rows = Rows(rng.random((60_000, 1)), heavy + rng.random(60_000), heavy)
    judges = Sample.of(rows, rng).judges
    share = np.average(judges.y > 5.0, weights=judges.weights)
    # drawn without replacement after 1500 others: a little less than nine tenths
    assert 0.86 < share < 0.9 + 4.0 * np.sqrt(0.09 / len(judges.y))


def test_spectral_noise_follows_later_rows_and_stays_within_bounds():
    X, y = some_rows(ABUNDANT_ROWS, ROUGH)
    model = SpectralVGPRegressor(
        ROUGH, basis="inducing", n_basis=60, normalize_y=False, random_state=0
    )
    first = model.partial_fit(X, y).noise_variance_
    louder = y + 2.0 * np.random.default_rng(1).standard_normal(len(y))
    assert model.partial_fit(X, louder).noise_variance_ > 2.0 * first
    bounded = SpectralVGPRegressor(
        ROUGH + WhiteKernel(0.5, (0.7, 0.8)),
        basis="inducing",
        n_basis=60,
        normalize_y=False,
        random_state=0,
    ).fit(X[:500], y[:500])
    assert bounded.noise_variance_ * (1.0 + 1e-9) >= 0.7
