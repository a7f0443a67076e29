"""Conditioned draws have the right standard deviations; their errors are predicted."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx._draws import condition, linear_draws
from skgpx._draws._frequency_choice import choose_settings, leave_one_out, misfit
from skgpx._draws._prior_parts import Setting, decompose
from skgpx.bases import Conditioning, Nystroem, draw_prior

NOISE = 1e-3


def residual_draws(basis, n_outputs, size, rng):
    """Functions whose weights in the basis are zero."""
    return basis.draw(np.zeros((basis.n_basis, n_outputs, size)), rng)


def uniform_points(n, d, seed=0):
    return np.random.default_rng(seed).random((n, d))


def posterior(kernel, X, T, noise=NOISE):
    """Weights of the points in predictions at T, and the exact covariance."""
    K = kernel(X) + (noise + 1e-10) * np.eye(len(X))
    gain = np.linalg.solve(K, kernel(X, T))
    return gain, kernel(T) - gain.T @ kernel(X, T)


def log_std_errors(features, kernel, X, T, noise=NOISE, variance=1.0):
    gain, exact = posterior(kernel, X, T, noise)
    F = features(T) - gain.T @ features(X)
    drawn = variance * np.sum(F**2, axis=1) + noise * np.sum(gain**2, axis=0)
    return 0.5 * np.log(drawn / np.diag(exact))


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


def chosen_features(kernel, X, n_basis, seed=0, **options):
    rng = np.random.default_rng(seed)
    given = Conditioning(X, NOISE)
    draws = draw_prior(
        kernel, X.shape[1], 1, 1, rng, n_basis=n_basis, given=given, **options
    )
    return draws.terms[0].features


@pytest.mark.parametrize("noise", [0.0, 0.1, "vector"])
def test_leaving_one_out_is_predicting_it_from_the_others(noise):
    X, kernel = uniform_points(30, 2), 2.0 * Matern(0.4, nu=1.5)
    level = np.linspace(0.01, 0.2, 30) if noise == "vector" else np.full(30, noise)
    (fold,) = leave_one_out(kernel, Conditioning(X, level), np.random.default_rng(3))
    features = decompose(kernel, 2)[0].feature_map(
        Setting(16), np.random.default_rng(0)
    )
    drawn = fold.covariance([(2.0, features)])
    for row in range(5):
        i = np.argmax(fold.functionals[row] == 1.0)
        others = np.delete(np.arange(30), i)
        C = kernel(X[others]) + np.diag(level[others])
        v = np.linalg.solve(C, kernel(X[others], X[[i]]))[:, 0]
        exact = 2.0 - v @ kernel(X[others], X[[i]])[:, 0]
        np.testing.assert_allclose(fold.exact[row, row], exact, rtol=1e-6)
        error = features(X[[i]])[0] - v @ features(X[others])
        given = 2.0 * error @ error + level[others] @ v**2
        np.testing.assert_allclose(drawn[row, row], given, rtol=1e-6)


def test_predicted_covariance_is_that_of_many_draws():
    X, kernel, size = uniform_points(40, 2), Matern(0.3, nu=2.5), 4000
    (fold,) = leave_one_out(kernel, Conditioning(X, 0.01), np.random.default_rng(3))
    rng = np.random.default_rng(0)
    features = decompose(kernel, 2)[0].feature_map(Setting(32), rng)
    predicted = fold.covariance([(1.0, features)])
    prior = linear_draws(features, rng.standard_normal((64, 1, size)))
    for row in range(6):
        i = np.argmax(fold.functionals[row] == 1.0)
        others = X[np.arange(40) != i]
        C = kernel(others) + 0.01 * np.eye(39)
        draws = condition(
            prior,
            kernel,
            others,
            0.1 * rng.standard_normal((39, 1, size)),
            lambda B, C=C: np.linalg.solve(C, B),
        )
        ratio = np.mean(draws(X[[i]]) ** 2) / predicted[row, row]
        assert abs(ratio - 1.0) < 4.5 * np.sqrt(2.0 / size)


@pytest.mark.parametrize(
    "kernel",
    [Matern(0.2, nu=2.5), RBF(0.2), RationalQuadratic(0.2, 1.0), Matern(0.2, nu=0.5)],
    ids=["matern-2.5", "rbf", "rational", "matern-.5"],
)
def test_draws_are_calibrated_where_plain_ones_are_not(kernel):
    X, T = uniform_points(256, 2), uniform_points(300, 2, seed=1)
    error = log_std_errors(chosen_features(kernel, X, 1024), kernel, X, T)
    low, high = np.exp(np.quantile(error, [0.1, 0.9]))
    assert low > 0.95
    assert high < 1.06
    plain = chosen_features(kernel, X, 1024, frequencies="qmc")
    assert rms(log_std_errors(plain, kernel, X, T)) > 2.0 * rms(error)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("shape", [RBF, lambda ls: Matern(ls, nu=2.5)])
def test_the_choice_is_not_worse_than_a_plain_net(d, shape):
    kernel = shape(np.sqrt(d / 100))
    auto, plain = [], []
    for seed in range(3):
        X, T = uniform_points(128, d, seed), uniform_points(200, d, seed + 50)
        for frequencies, errors in (("auto", auto), ("qmc", plain)):
            found = chosen_features(kernel, X, 256, seed, frequencies=frequencies)
            errors.append(log_std_errors(found, kernel, X, T))
    assert rms(auto) < 1.1 * rms(plain)


def test_the_covariance_error_never_grows_where_it_is_measured():
    for kernel in (RBF(0.3), Matern(1.0, nu=0.5), RBF(5.0) + 0.1 * Matern(0.1)):
        X = uniform_points(60, 3)
        given, parts = Conditioning(X, 0.01), decompose(kernel, 3)
        (setting, *_), _ = choose_settings(
            kernel, parts, 256, "auto", given, 0.02, np.random.default_rng(0)
        )
        folds = leave_one_out(kernel, given, np.random.default_rng(1))

        def error(power, parts=parts, folds=folds):
            found = []
            for seed in range(10):
                rng = np.random.default_rng(seed)
                maps = [
                    (p.variance, p.feature_map(Setting(64, "qmc", power), rng))
                    for p in parts
                ]
                found.append(misfit(folds, maps).covariance)
            return np.mean(found)

        assert error(setting.tail_power) < 1.1 * error(1.0)


def test_many_points_are_judged_by_neighbourhoods():
    X, T, kernel = (
        uniform_points(900, 2),
        uniform_points(300, 2, 1),
        Matern(0.2, nu=2.5),
    )
    given = Conditioning(X, NOISE)
    folds = leave_one_out(kernel, given, np.random.default_rng(0))
    assert [fold.points.shape for fold in folds] == [(128, 2)] * 4
    part = decompose(kernel, 2)[0]
    for power in (1.0, 2.0, 4.0):
        features = part.feature_map(
            Setting(256, "qmc", power), np.random.default_rng(5)
        )
        predicted = misfit(folds, [(1.0, features)]).std
        actual = rms(log_std_errors(features, kernel, X, T))
        assert 0.5 < predicted / actual < 1.5


@pytest.mark.parametrize("accuracy", [0.05, 0.01])
def test_enough_features_for_a_stated_accuracy(accuracy):
    X, T, kernel = (
        uniform_points(200, 2),
        uniform_points(300, 2, 1),
        Matern(0.2, nu=2.5),
    )
    features = chosen_features(kernel, X, "auto", accuracy=accuracy)
    assert rms(log_std_errors(features, kernel, X, T)) < 1.5 * accuracy


def test_accuracy_out_of_reach_warns():
    X, kernel = uniform_points(100, 6), RBF(0.5)
    with pytest.warns(UserWarning, match="With 8192 Fourier features .* not 1e-05 %"):
        chosen_features(kernel, X, "auto", accuracy=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen_features(kernel, X, "auto", accuracy=0.5)


def test_sums_with_exact_parts_and_noise():
    X, T = uniform_points(256, 2), uniform_points(200, 2, seed=1)
    kernel = Matern(0.2, nu=2.5) + 0.5 * RBF(0.5) + DotProduct() + WhiteKernel(NOISE)
    draws = draw_prior(
        kernel, 2, 1, 1, np.random.default_rng(0), given=Conditioning(X, NOISE)
    )
    clean = Matern(0.2, nu=2.5) + 0.5 * RBF(0.5) + DotProduct()
    gain, exact = posterior(clean, X, T)
    drawn = NOISE * np.sum(gain**2, axis=0)
    parts = decompose(kernel, 2)
    for term, part in zip(draws.terms, parts, strict=True):
        F = term.features(T) - gain.T @ term.features(X)
        drawn += part.variance * np.sum(F**2, axis=1)
    assert rms(0.5 * np.log(drawn / np.diag(exact))) < 0.02


@pytest.mark.parametrize("kernel", [RBF(0.3), Matern(0.5, nu=2.5)])
def test_residuals_of_an_inducing_basis_are_calibrated(kernel):
    scaled = ConstantKernel(4.0) * kernel
    basis = Nystroem.from_kernel(scaled, uniform_points(30, 2))
    T = uniform_points(200, 2, seed=1)
    size = 4000
    draws = residual_draws(basis, 1, size, np.random.default_rng(0))
    drawn = np.std(draws(T), axis=1)
    exact = np.sqrt(basis.residual_variance(T, basis(T)))
    # nearer to an inducing point the jitter of the basis is part of `exact`
    error = np.log(drawn / exact)[exact > 1e-2]
    assert len(error) > 100
    # 1 / sqrt(2 S) of it is the noise of the estimate
    assert rms(error) < 0.02 + 1.0 / np.sqrt(2.0 * size)


def test_exact_kernels_need_no_choice():
    kernel = DotProduct() + ConstantKernel(2.0)
    given = Conditioning(uniform_points(20, 2), 0.1)
    draws = draw_prior(kernel, 2, 1, 3, np.random.default_rng(0), given=given)
    assert draws(uniform_points(4, 2)).shape == (4, 3)
