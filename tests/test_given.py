"""What the user gives stays given: in fitted attributes and in predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    WhiteKernel,
)
from sklearn.linear_model import BayesianRidge, LogisticRegression

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
    TemperedRegressor,
)
from skgpx.likelihoods import (
    Beta,
    Gamma,
    Gaussian,
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    LogNormal,
    NegativeBinomial,
    ShiftedMixture,
    StudentT,
    Tobit,
)

# what is given fits the data badly, which is a finding
pytestmark = [
    pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

AMPLITUDE, NOISE = 4.0, 0.01
FREE = AMPLITUDE * RBF(0.8)
FIXED = ConstantKernel(AMPLITUDE, "fixed") * RBF(0.8, "fixed")
# rows with thirty times the noise that is given, and a variance of one
_rng = np.random.default_rng(0)
X = _rng.uniform(-3.0, 3.0, size=(80, 1))
Y = np.sin(2.0 * X[:, 0]) + np.sqrt(30.0 * NOISE) * _rng.standard_normal(80)
Y = (Y - Y.mean()) / Y.std()
LABELS = np.where(Y > 0.0, "high", "low")
NEAR, FAR = np.linspace(-3.0, 3.0, 5)[:, np.newaxis], np.array([[500.0], [-700.0]])

PLAIN = {"normalize_y": False}
SMALL = {"n_components": 2, "n_frequencies": 20, "max_iter": 20, "random_state": 0}
WAYS = {
    "without a search": (FREE, None),
    "by bounds": (FIXED, "evidence"),
}
REGRESSORS = {
    "pls": lambda k, o: PLSRegressor(
        k, optimizer=o, likelihood=Gaussian(NOISE), **PLAIN
    ),
    "fourier": lambda k, o: SpectralVGPRegressor(
        k, optimizer=o, noise_variance=NOISE, **PLAIN
    ),
    "inducing": lambda k, o: SpectralVGPRegressor(
        k, optimizer=o, noise_variance=NOISE, basis="inducing", **PLAIN
    ),
    "exact": lambda k, o: ExactGPRegressor(
        k + WhiteKernel(NOISE, "fixed"), optimizer=o, random_state=0, **PLAIN
    ),
    "stein": lambda k, o: SteinRFFRegressor(
        k, optimizer=o, noise_variance=NOISE, **PLAIN, **SMALL
    ),
    "gwi": lambda k, o: GWIRegressor("svgp", k, optimizer=o, noise_variance=NOISE),
    "networks": lambda k, o: GWIRegressor(
        "net", k, optimizer=o, noise_variance=NOISE, max_iter=2, random_state=0
    ),
    "any regressor": lambda k, o: GWIRegressor(
        BayesianRidge(), k, optimizer=o, noise_variance=NOISE
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REGRESSORS)
def test_kernel_and_noise_that_are_given(name, way):
    model = REGRESSORS[name](*WAYS[way]).fit(X, Y)
    assert_allclose(model.kernel_(NEAR), FREE(NEAR), rtol=1e-12)
    assert_allclose(model.noise_variance_, NOISE, rtol=1e-12)
    rows = np.concatenate((NEAR, FAR))
    total, latent = (
        model.predict(rows, return_std=True, include_noise=include)[1] ** 2
        for include in (True, False)
    )
    assert_allclose(total - latent, NOISE, rtol=1e-9)
    if name == "stein":
        # waves do not decay: their prior variance is the same everywhere
        assert_allclose(np.sum(model.amplitudes_**2), AMPLITUDE, rtol=1e-9)
        assert model.variance_scale_ == 1.0
    else:
        # away from the data, where the posterior is the prior
        assert_allclose(latent[-2:], AMPLITUDE, rtol=1e-3)


@pytest.mark.parametrize("bounds", ["fixed", (1e-5, 1e5)])
def test_a_white_kernel_is_a_noise_that_is_given(bounds):
    """Without a search, whatever its bounds."""
    kernel = FREE + WhiteKernel(NOISE, bounds)
    for model in (
        PLSRegressor(kernel, optimizer=None, **PLAIN),
        SpectralVGPRegressor(kernel, optimizer=None, **PLAIN),
        ExactGPRegressor(kernel, optimizer=None, random_state=0, **PLAIN),
        SteinRFFRegressor(kernel, optimizer=None, **PLAIN, **SMALL),
        GWIRegressor("svgp", kernel, optimizer=None),
    ):
        assert_allclose(model.fit(X, Y).noise_variance_, NOISE, rtol=1e-12)
    sampler = DecoupledSampler(GaussianProcessRegressor(kernel, optimizer=None))
    std = sampler.fit(X, Y).predict(FAR, return_std=True)[1]
    assert_allclose(std**2, AMPLITUDE + NOISE, rtol=1e-9)


def test_a_given_kernel_leaves_the_noise():
    """Its evidence has a maximum, and all estimators find it."""
    given = {"optimizer": None} | PLAIN
    learned = PLSRegressor(FREE, **given).fit(X, Y)
    assert learned.kernel_ == FREE
    for model in (
        PLSRegressor(FREE, likelihood=Gaussian(), **given),
        SpectralVGPRegressor(FREE, basis="inducing", **given),
        ExactGPRegressor(FREE, random_state=0, **given),
        GWIRegressor("svgp", FREE, optimizer=None),
    ):
        assert_allclose(
            model.fit(X, Y).noise_variance_, learned.noise_variance_, rtol=1e-6
        )
    waves = SteinRFFRegressor(FREE, **given, **SMALL).fit(X, Y)
    assert_allclose(np.sum(waves.amplitudes_**2), AMPLITUDE, rtol=1e-9)
    assert_allclose(waves.noise_variance_, learned.noise_variance_, rtol=0.1)
    # the evidence falls on both sides
    for factor in (0.9, 1.1):
        noise_variance = factor * learned.noise_variance_
        other = PLSRegressor(FREE, likelihood=Gaussian(noise_variance), **given)
        assert other.fit(X, Y).log_evidence_ < learned.log_evidence_


def test_a_given_kernel_leaves_other_scales():
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1.0, 1.0, (300, 1))
    y = np.sin(3.0 * inputs[:, 0]) + 0.1 * rng.standard_t(4.0, 300)
    model = PLSRegressor(RBF(0.5), likelihood=StudentT(4.0), optimizer=None)
    scale = model.fit(inputs, y).likelihood_.scale
    # by the information of n rows, (df + 3) / (2 df n), and three standard errors
    assert abs(np.log(scale / 0.1)) < 3.0 * np.sqrt(7.0 / (8.0 * 300))


def test_peaks_of_the_periodogram_keep_the_variance_of_a_kernel():
    x = np.linspace(0.0, 1.0, 120)[:, np.newaxis]
    y = 2.0 * np.sin(200.0 * x[:, 0])
    model = SteinRFFRegressor(RBF(0.5), optimizer=None, noise_variance=NOISE, **SMALL)
    model.set_params(normalize_y=False).fit(x, y)
    assert np.any(np.abs(np.abs(model.frequencies_) - 200.0) < 1.0)
    assert_allclose(np.sum(model.amplitudes_**2), 1.0, rtol=1e-9)


def test_frequencies_without_descent_are_those_of_the_kernel():
    model = SteinRFFRegressor(FIXED, **SMALL | {"max_iter": 0}).fit(X, Y)
    other = SteinRFFRegressor(FIXED, **SMALL | {"max_iter": 0}).fit(X, Y[::-1])
    assert_array_equal(model.frequencies_, other.frequencies_)


COUNTS, SHARES = np.floor(np.exp(Y)), 1.0 / (1.0 + np.exp(-Y))
LIKELIHOODS = [
    (Gaussian(NOISE), Y),
    (StudentT(df=3.0, scale=0.1), Y),
    (Tobit(scale=0.1), Y),
    (LogNormal(scale=0.1), np.exp(Y)),
    (Gamma(shape=20.0), np.exp(Y)),
    (NegativeBinomial(shape=20.0), COUNTS),
    (Beta(precision=30.0), SHARES),
    (ShiftedMixture(1.0, noise_variance=NOISE), Y),
    (HeteroscedasticGaussian(scale=0.1, variation=0.5), Y),
    (HeteroscedasticStudentT(df=5.0, scale=0.1, variation=0.5), Y),
]


@pytest.mark.parametrize(
    ("likelihood", "y"), LIKELIHOODS, ids=[type(one[0]).__name__ for one in LIKELIHOODS]
)
def test_scales_of_likelihoods_that_are_given(likelihood, y):
    """In units of y, beside a kernel that is learned."""
    model = PLSRegressor(
        AMPLITUDE * RBF(0.8, "fixed"),
        likelihood=likelihood,
        n_inducing=8,
        n_particles=20,
        max_iter=4,
        random_state=0,
    ).fit(X, y)
    given, fitted = likelihood.get_params(), model.likelihood_.get_params()
    for name, value in given.items():
        assert_allclose(fitted[name], value, rtol=1e-12)
    if isinstance(likelihood, Gaussian | StudentT):
        total, latent = (
            model.predict(NEAR, return_std=True, include_noise=include)[1] ** 2
            for include in (True, False)
        )
        assert_allclose(total - latent, likelihood.variance(0.0), rtol=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_the_variance_of_classes_that_is_given(way):
    kernel, optimizer = WAYS[way]
    for model in (
        PLSClassifier(kernel, optimizer=optimizer, max_iter=4, random_state=0),
        GWIClassifier("svgp", kernel, optimizer=optimizer, random_state=0),
        GWIClassifier(LogisticRegression(), kernel, optimizer=optimizer),
    ):
        model.fit(X, LABELS)
        assert_allclose(model.kernel_(NEAR), FREE(NEAR), rtol=1e-12)
        variance = model.latent_mean_and_variance(FAR)[1]
        assert_allclose(variance, AMPLITUDE, rtol=1e-6)


def test_numbers_of_inducing_points_and_the_model_inside():
    kernel = Matern(1.0, nu=0.5)
    for model in (
        PLSRegressor(kernel, optimizer=None, n_inducing=7),
        PLSRegressor(kernel, n_inducing=7, random_state=0),
        GWIRegressor("svgp", kernel, optimizer=None, n_inducing=7),
    ):
        assert len(model.fit(X, Y).inducing_points_) == 7
    inside = REGRESSORS["pls"](FREE, None)
    tempered = TemperedRegressor(inside, cv=2).fit(X, Y)
    assert_allclose(tempered.estimator_.noise_variance_, NOISE, rtol=1e-12)
    assert_allclose(tempered.estimator_.kernel_(NEAR), FREE(NEAR), rtol=1e-12)
