"""Fourier functions, inducing points or a process, by bounds on the same rows."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp import _series_choice
from skgpx._spectral_vgp._series_choice import falls_short

# of a rough process, the noise often ends at nothing
pytestmark = pytest.mark.filterwarnings("ignore:The noise variance ended at nothing")


def truth(X):
    return np.sin(6.0 * X[:, 0]) * np.cos(4.0 * X[:, 1]) + X[:, -1]


def rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, truth(X) + 0.1 * rng.standard_normal(n)


def error(model, d):
    X = np.random.default_rng(9).random((500, d))
    return np.sqrt(np.mean((model.predict(X) - truth(X)) ** 2))


@pytest.mark.parametrize("kernel", [None, 1.0 * Matern(1.0, nu=1.5)], ids=str)
@pytest.mark.parametrize(("n", "d"), [(120, 2), (40, 3)])
def test_the_larger_bound_is_taken(n, d, kernel):
    X, y = rows(n, d)
    fits = {
        basis: SpectralVGPRegressor(kernel, basis=basis, random_state=0).fit(X, y)
        for basis in ("auto", "fourier", "inducing")
    }
    best = max(("fourier", "inducing"), key=lambda b: fits[b].log_evidence_)
    auto = fits["auto"]
    if auto.basis_ == best:
        assert_allclose(auto.log_evidence_, fits[best].log_evidence_)
        assert_allclose(auto.predict(X), fits[best].predict(X))
    else:
        # the functions were so close to the exact process that points were not tried
        assert auto.log_evidence_ > fits[best].log_evidence_ - 0.5
    if kernel is None:
        assert auto.basis_ == "inducing"
        assert error(auto, d) < error(fits["fourier"], d)
    assert auto.domain_.shape == (d, 2)
    assert auto.cycles_.shape == (0, d)


@pytest.mark.parametrize(
    "parameters",
    [{"basis": "fourier"}, {"domain": [(0, 1), (0, 1)]}, {"tau": 1.0},
     {"alpha": 1.0}, {"eigenvalues": "exponential"}, {"ordering": "prior"},
     {"n_basis": 101}, {"extrapolation": "error"}, {"optimizer": None}],
    ids=str,
)  # fmt: skip
def test_parameters_of_functions_keep_them(parameters):
    X, y = rows(40, 2)
    assert SpectralVGPRegressor(**parameters).fit(X, y).basis_ == "fourier"


def test_one_input_and_streams_keep_functions():
    X, y = rows(40, 2)
    assert SpectralVGPRegressor().fit(X[:, :1], y).basis_ == "fourier"
    assert SpectralVGPRegressor().partial_fit(X, y).basis_ == "fourier"


def test_a_fit_that_took_points_goes_on_with_them():
    X, y = rows(120, 2)
    model = SpectralVGPRegressor(random_state=0).fit(X[:60], y[:60])
    assert model.basis_ == "inducing"
    before = error(model, 2)
    model.partial_fit(X[60:], y[60:])
    assert model.basis_ == "inducing"
    assert error(model, 2) < before + 0.02


def test_only_the_fit_that_is_taken_warns():
    rng = np.random.default_rng(0)
    X, y = rng.random((80, 2)), rng.standard_normal(80)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SpectralVGPRegressor(1.0 * RBF(1.0)).fit(X, y)
    assert len(said) <= 1


# ---- A Markov process of one input ---------------------------------------------------


@pytest.fixture
def few_functions(monkeypatch):
    """Limits a tenth as high as they are: 84 rows are as many as 804 were."""
    monkeypatch.setitem(_series_choice.FIRST_FUNCTIONS, 1, 21)
    monkeypatch.setattr(_series_choice, "MOST_REFINED", 21)


def rough(n, seed=0):
    """A process that forgets a tenth of its value from row to row."""
    rng = np.random.default_rng(seed)
    f, noise = np.zeros(n), rng.standard_normal(n)
    for i in range(1, n):
        f[i] = 0.9 * f[i - 1] + np.sqrt(0.19) * noise[i]
    x = np.arange(float(n))
    return x[:, np.newaxis], f + 0.05 * rng.standard_normal(n)


@pytest.mark.usefixtures("few_functions")
@pytest.mark.parametrize("n", [83, 84, 85])
def test_numbers_of_rows_that_can_tell_a_rough_function(n):
    X, y = rough(n)
    model = SpectralVGPRegressor().fit(X, y)
    assert model.basis_ == ("fourier" if n < 84 else "markov")
    if n >= 84:
        fourier = SpectralVGPRegressor(basis="fourier").fit(X, y)
        assert model.log_evidence_ > fourier.log_evidence_
        assert "process" in model.stage_seconds_


@pytest.mark.usefixtures("few_functions")
def test_rows_held_out_are_read_off_their_neighbours():
    X, y = rough(400)
    kept = np.random.default_rng(1).random(400) < 0.75
    errors = {}
    for basis in ("auto", "fourier"):
        model = SpectralVGPRegressor(basis=basis).fit(X[kept], y[kept])
        mean, std = model.predict(X[~kept], return_std=True)
        errors[model.basis_] = np.sqrt(np.mean((mean - y[~kept]) ** 2))
        if basis == "auto":
            assert 0.88 < np.mean(np.abs(mean - y[~kept]) < 1.96 * std) <= 1.0
    assert errors["markov"] < errors["fourier"]


def test_what_falls_short():
    common = {"noise": 1.0, "weight": 900.0, "most": 2000}
    for size, tail, expected in [
        (224, 1.0, False),
        (225, 1.0, True),
        (226, 1.0, True),
        (225, 0.04, False),
        (225, 0.0401, True),
    ]:
        assert falls_short(size, tail, **common) is expected
    for most, expected in [(223, True), (224, True), (225, False)]:
        assert falls_short(224, 1.0, **(common | {"most": most})) is expected
    for weight, expected in [(803.0, False), (804.0, True)]:
        assert falls_short(2000, 1.0, **(common | {"weight": weight})) is expected


@pytest.mark.usefixtures("few_functions")
@pytest.mark.parametrize(
    "parameters",
    [{"basis": "fourier"}, {"domain": [(0, 120)]}, {"tau": 1.0}, {"alpha": 1.0},
     {"ordering": "prior"}, {"n_basis": 31}, {"max_basis": 31},
     {"extrapolation": "error"}, {"kernel": 1.0 * RBF(2.0, (1.0, 3.0))}],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_parameters_of_functions_keep_them_from_a_process(parameters):
    X, y = rough(120)
    assert SpectralVGPRegressor(**parameters).fit(X, y).basis_ == "fourier"


@pytest.mark.usefixtures("few_functions")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_given_kernel_is_followed_where_functions_fall_short():
    X, y = rough(120)
    kernel = 1.0 * Matern(2.0, (0.5, 50.0), nu=0.5)
    model = SpectralVGPRegressor(kernel).fit(X, y)
    assert model.basis_ == "markov"
    named = SpectralVGPRegressor(kernel, basis="markov").fit(X, y)
    assert_allclose(model.log_evidence_, named.log_evidence_)
    assert SpectralVGPRegressor(kernel).partial_fit(X, y).basis_ == "fourier"


@pytest.mark.usefixtures("few_functions")
def test_a_fit_that_took_a_process_goes_on_with_it():
    X, y = rough(140)
    model = SpectralVGPRegressor().fit(X[:120], y[:120])
    assert model.basis_ == "markov"
    waves = len(model.cycles_)
    model.partial_fit(X[120:], y[120:])
    assert model.basis_ == "markov"
    assert model.domain_[0, 1] == 139.0
    assert len(model.cycles_) <= waves


def test_smooth_functions_need_no_process():
    x = np.random.default_rng(0).random((1500, 1))
    y = np.sin(9.0 * x[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(1500)
    one, other = (SpectralVGPRegressor(basis=b).fit(x, y) for b in ("auto", "fourier"))
    assert one.basis_ == "fourier"
    assert "process" not in one.stage_seconds_
    # a kernel on the same functions has the larger bound, and half of the error
    assert one.log_evidence_ > other.log_evidence_
    f = np.sin(9.0 * x[:, 0])
    errors = [np.sqrt(np.mean((m.predict(x) - f) ** 2)) for m in (one, other)]
    assert errors[0] < 0.6 * errors[1]


def test_waves_are_found_beside_a_process_where_the_noise_is_known(rng):
    hour, decay = np.arange(24.0 * 60.0), np.exp(-0.25)
    turns, rest = 2.0 * np.pi * hour / 24.0, np.zeros(len(hour))
    for i in range(1, len(hour)):
        rest[i] = decay * rest[i - 1] + 0.19 * rng.standard_normal()
    y = 2.0 * np.sin(turns) + 0.7 * np.sin(3.0 * turns) + rest
    y += 0.1 * rng.standard_normal(len(hour))
    X, by_rows = hour[:, np.newaxis], np.full(len(y), 0.01)
    free = SpectralVGPRegressor().fit(X, y)
    one_for_all = SpectralVGPRegressor(noise_variance=0.01).fit(X, y)
    one_a_row = SpectralVGPRegressor().fit(X, y, noise_variance=by_rows)
    for model in (one_for_all, one_a_row):
        assert model.basis_ == "markov"
        for period in (24.0, 8.0):
            assert np.min(np.abs(model.cycles_ - 1.0 / period)) < 0.5 / hour[-1]
        assert abs(model.log_evidence_ - free.log_evidence_) < 3.0
