"""What is chosen for many rows, through the public door."""

import logging

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx import PLSClassifier, PLSRegressor
from skgpx.exceptions import ConvergenceWarning
from skgpx.kernels import length_scales
from skgpx.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    NegativeBinomial,
    StudentT,
)


@pytest.mark.usefixtures("abundant_early")
def test_a_rough_function_and_a_trend():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 1600, 2))
    f, f_new = (
        np.sign(x[:, 0] - 0.3) + np.sign(x[:, 1]) + 2.0 * x[:, 1] for x in (X, new)
    )
    y = f + 0.3 * rng.standard_normal(len(f))
    model = PLSRegressor(random_state=0).fit(X, y)
    chosen = model.report()["search"]["kernel"]
    assert chosen.startswith("Matern 0.5")
    assert chosen.endswith("a linear trend")
    # nearest rows complete the points beside a trend, too
    assert model.posterior_.n_neighbors > 0
    errors = model.predict(new[:1000]) - f_new[:1000]
    # beside jumps of two: it falls with the distance of the rows
    assert np.sqrt(np.mean(errors**2)) < 0.3


def test_points_alone_where_they_predict_better():
    """A smooth function of many columns: more points, without nearest rows."""
    rng = np.random.default_rng(0)
    X, new = np.split(rng.uniform(size=(3800, 4)), [3500])
    kernel = ConstantKernel(1.0) * RBF(0.3)
    # a draw of the process, by its frequencies
    frequencies, phases = rng.standard_normal((4, 2000)) / 0.3, rng.uniform(size=2000)
    weights = rng.standard_normal(2000) / np.sqrt(1000.0)
    f, f_new = (
        np.cos(x @ frequencies + 2.0 * np.pi * phases) @ weights for x in (X, new)
    )
    y = f + 0.3 * rng.standard_normal(3500)
    y_new = f_new + 0.3 * rng.standard_normal(300)
    densities = []
    for n_neighbors in ("auto", 40):
        model = PLSRegressor(
            kernel,
            likelihood=Gaussian(0.09),
            n_neighbors=n_neighbors,
            optimizer=None,
            random_state=0,
        )
        model.fit(X, y)
        densities.append(model.log_predictive_density(new, y_new).mean())
        if n_neighbors == "auto":
            assert model.posterior_.n_neighbors == 0
            assert model.findings_ == ()
    assert densities[0] > densities[1] - 0.01


def ridges(n, n_new=1000):
    """Rows of a rough function of three columns, and its values."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n + n_new, 3))
    f = np.abs(np.sin(9.0 * X[:, 0] + 2.0 * X[:, 1])) + np.sin(5.0 * X[:, 1])
    return X, f, rng


@pytest.mark.usefixtures("abundant_early")
def test_trends_of_several_targets():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 2))
    trends = 2.0 * X @ [[1.0, 0.5], [0.0, -1.0]]
    F = np.column_stack((np.sign(X[:, 0] - 0.3), np.sign(X[:, 1]))) + trends
    Y = F[:1050] + 0.3 * rng.standard_normal((1050, 2))
    model = PLSRegressor(n_neighbors=20, random_state=0).fit(X[:1050], Y)
    assert model.report()["search"]["kernel"].endswith("a linear trend")
    errors = np.sqrt(np.mean((model.predict(X[1050:]) - F[1050:]) ** 2, axis=0))
    assert np.all(errors < 0.35)


@pytest.mark.usefixtures("abundant_early")
def test_student_noise_of_many_degrees_of_freedom_is_normal():
    X, f, rng = ridges(1050)
    y = f + 0.2 * rng.standard_normal(len(f))
    kernel = ConstantKernel() * Matern([1.0, 1.0, 1.0], nu=1.5)
    means = []
    for likelihood in (Gaussian(), StudentT(df=1e4)):
        model = PLSRegressor(
            kernel,
            likelihood=likelihood,
            n_neighbors=20,
            random_state=0,
        )
        means.append(model.fit(X[:1050], y[:1050]).predict(X[1050:]))
    assert model.likelihood_.scale == pytest.approx(0.2, rel=0.05)
    errors = [np.sqrt(np.mean((mean - f[1050:]) ** 2)) for mean in means]
    assert errors[1] == pytest.approx(errors[0], rel=0.1)


@pytest.mark.usefixtures("abundant_early")
def test_gross_outliers_among_many_rows():
    X, f, rng = ridges(1050)
    y = f + 0.1 * rng.standard_t(4.0, size=len(f))
    y[:1050:10] += 8.0 * rng.standard_normal(105)
    likelihood = StudentT(df=2.0)
    model = PLSRegressor(likelihood=likelihood, n_neighbors=20, random_state=0)
    mean = model.fit(X[:1050], y[:1050]).predict(X[1050:])
    # a tenth of the spread of f, and less than the noise without outliers
    assert np.sqrt(np.mean((mean - f[1050:]) ** 2)) < 0.07


@pytest.mark.usefixtures("abundant_early")
def test_the_shape_of_many_overdispersed_counts():
    X, f, rng = ridges(1050)
    rate = np.exp(2.0 * f) * rng.gamma(2.0, 0.5, size=len(f))
    y = rng.poisson(rate).astype(float)
    model = PLSRegressor(likelihood=NegativeBinomial(), n_neighbors=20, random_state=0)
    model.fit(X[:1050], y[:1050])
    # the standard error of the logarithm is about 0.06
    assert abs(np.log(model.likelihood_.shape / 2.0)) < 0.2
    assert np.corrcoef(np.log(model.predict(X[1050:])), f[1050:])[0, 1] > 0.97


@pytest.mark.usefixtures("abundant_early")
def test_kernel_of_three_classes_of_many_rows(caplog):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2100, 2))
    # draws of the process, by its frequencies
    frequencies, phases = rng.standard_normal((2, 1000)) / 0.1, rng.uniform(size=1000)
    weights = 3.0 * rng.standard_normal((1000, 3)) / np.sqrt(500.0)
    latent = np.cos(X @ frequencies + 2.0 * np.pi * phases) @ weights
    # the largest of log odds with Gumbel's noise has their softmax probabilities
    y = np.argmax(latent + rng.gumbel(size=latent.shape), axis=1)
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(0.3)
    model = PLSClassifier(kernel, n_neighbors=30, random_state=0)
    with caplog.at_level(logging.INFO, logger="skgpx"):
        model.fit(X[:1050], y[:1050])
    lines = [record.getMessage() for record in caplog.records]
    searches = [line for line in lines if ": search, density" in line]
    # a round that gains, at least, and one that does not
    assert 1 < len(searches) < len(lines)
    amplitude, lengthscale = np.exp(model.kernel_.theta)
    # two contrasts in about a hundred squares of a lengthscale: a standard error of 0.1
    assert abs(np.log(amplitude / 9.0)) < 0.7
    assert lengthscale == pytest.approx(0.1, rel=0.2)
    expected = softmax(latent[1050:], axis=1)
    probabilities = model.predict_proba(X[1050:])
    divergence = np.sum(expected * np.log(expected / probabilities), axis=1)
    assert divergence.mean() < 0.15


@pytest.mark.usefixtures("abundant_early")
def test_the_log_scale_has_a_kernel_of_its_own():
    """Noise that varies with one column around a function of the other."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (2600, 2))
    scale = 0.3 * np.exp(X[:, 1])
    y = np.sin(3.0 * X[:, 0]) + scale * rng.standard_normal(2600)
    seen = slice(0, 1050)
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0])
    likelihood = HeteroscedasticGaussian()
    model = PLSRegressor(kernel, likelihood=likelihood, random_state=0)
    model.fit(X[seen], y[seen])
    assert model.posterior_.n_neighbors == 40
    of_location = length_scales(model.kernel_, 2)
    of_scale = length_scales(model.likelihood_.scale_kernel_, 2)
    assert of_location[0] < 0.5 * of_location[1]
    assert of_scale[1] < 0.5 * of_scale[0]
    new = X[1050:]
    likelihood = model.likelihood_
    latent = model.posterior_.marginals(new).mean[:, 1, 0]
    log_scale = np.log(likelihood.scale) + likelihood.variation * latent
    assert np.sqrt(np.mean((log_scale - np.log(scale[1050:])) ** 2)) < 0.2
    low, high = model.predict_interval(new, 0.9).T
    inside = (low <= y[1050:]) & (y[1050:] <= high)
    # 333 rows each
    for third in np.array_split(np.argsort(new[:, 1]), 3):
        assert abs(inside[third].mean() - 0.9) < 4.0 * np.sqrt(0.9 * 0.1 / 333)
    of_scale = model.report()["prior"]["kernel_of_log_scale"]
    assert of_scale == repr(likelihood.scale_kernel_)


@pytest.mark.usefixtures("abundant_early")
def test_chains_have_one_kernel_for_a_location_and_its_scale():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (1050, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.3 * np.exp(X[:, 1]) * rng.standard_normal(1050)
    model = PLSRegressor(
        ConstantKernel(1.0) * RBF([1.0, 1.0]),
        likelihood=HeteroscedasticGaussian(),
        method="mala",
        n_particles=8,
        max_iter=20,
        random_state=0,
    )
    # twenty steps are few
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert model.posterior_.n_neighbors == 0
    assert model.likelihood_.scale_kernel_ is None
    assert "kernel_of_log_scale" not in model.report()["prior"]
