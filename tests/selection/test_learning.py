"""What is learned from rows, through the public door."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import poisson, qmc
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    Sum,
    WhiteKernel,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx.likelihoods import Binomial, Gaussian, Poisson, StudentT


def wave(seed, n=150, d=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    f = np.sin(6.0 * X[:, 0])
    return X, f, f + 0.2 * rng.standard_normal(n), rng


def root_mean_square(errors):
    return float(np.sqrt(np.mean(errors**2)))


# ---- Which kernel --------------------------------------------------------------------


@pytest.mark.parametrize("seed", [2, 3])
def test_a_wave_in_one_of_five_columns(seed):
    rng = np.random.default_rng(seed)
    X, new = rng.uniform(-2.0, 2.0, (2, 250, 5))
    y = np.sin(3.0 * np.pi * X[:, 0]) + 0.1 * rng.standard_normal(250)
    model = PLSRegressor(random_state=0).fit(X, y)
    # the mean of y was predicted
    errors = model.predict(new) - np.sin(3.0 * np.pi * new[:, 0])
    assert root_mean_square(errors) < 0.1
    assert model.findings_ == ()


# chains of ten particles that have not converged understate rates given other rows
@pytest.mark.filterwarnings("ignore:The counts are overdispersed")
@pytest.mark.parametrize("likelihood", [StudentT(df=30.0), Poisson("exp")])
def test_every_likelihood_has_rough_kernels(likelihood):
    X = np.linspace(0.0, 1.0, 150)[:, np.newaxis]
    rng = np.random.default_rng(0)
    steps = rng.standard_normal((2, 150))
    smooth, rough = np.sin(9.0 * X[:, 0]), 0.25 * np.cumsum(steps[0])
    kernels = []
    for f in (smooth, rough):
        y = f + 0.1 * steps[1]
        if likelihood.discrete:
            y = rng.poisson(np.exp(np.clip(f, -2.0, 2.0) + 3.0))
        model = PLSRegressor(
            likelihood=likelihood, n_particles=10, max_iter=20, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            kernel = model.fit(X, y).kernel_
        # beside a trend, if it has one
        product = kernel.k1 if isinstance(kernel, Sum) else kernel
        kernels.append(product.k2)
    assert type(kernels[0]) is RBF
    assert isinstance(kernels[1], Matern)
    assert kernels[1].nu == 1.5


def proportions(n, seed):
    """Lengths of animals of all sizes, whose sexes differ in their proportions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    size = rng.standard_normal(n)
    X = np.outer(size, [0.95, 0.97, 0.99, 0.99, 0.98])
    X += np.outer(y, [0.18, -0.22, 0.05, -0.05, 0.0])
    return X + 0.06 * rng.standard_normal(X.shape), y


# averaged, and by the evidence of inducing points
@pytest.mark.parametrize("n", [100, 300])
def test_log_odds_may_be_linear(n):
    X, y = proportions(n + 1000, seed=0)
    peer = LogisticRegression(C=100.0, max_iter=1000).fit(X[:n], y[:n])
    model = PLSClassifier(random_state=0).fit(X[:n], y[:n])
    loss = log_loss(y[n:], model.predict_proba(X[n:]))
    assert loss < log_loss(y[n:], peer.predict_proba(X[n:])) + 0.01
    # without a trend it is four times as large
    assert loss < 0.06
    assert "a linear trend" in model.report()["search"]["kernel"]


# particles of steeper lines do not converge: -0.24 without a trend, -0.32 then
def test_log_odds_of_four_classes_may_be_linear():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1120, 3))
    y = np.argmax(X @ rng.standard_normal((3, 4)), axis=1)
    model = PLSClassifier(random_state=0).fit(X[:120], y[:120])
    assert log_loss(y[120:], model.predict_proba(X[120:])) < 0.2
    assert "a linear trend" in model.report()["search"]["kernel"]


def test_log_rates_may_be_linear():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1100, 5))
    rates = np.exp(1.5 + X @ [1.2, -0.8, 0.5, 0.0, 0.0])
    y = rng.poisson(rates)
    model = PLSRegressor(likelihood=Poisson(), random_state=0)
    model.fit(X[:100], y[:100])
    excess = np.mean(
        poisson.logpmf(y[100:], rates[100:])
        - model.log_predictive_density(X[100:], y[100:])
    )
    # 0.07 without a trend, and 0.6 if rates are no exponentials
    assert excess < 0.05
    assert "a linear trend" in model.report()["search"]["kernel"]


def test_more_columns_than_matter():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 200, 20))
    f = [np.sin(2.0 * x[:, 0]) + x[:, 1] for x in (X, new)]
    model = PLSRegressor(random_state=0).fit(X, f[0] + 0.1 * rng.standard_normal(200))
    assert root_mean_square(model.predict(new) - f[1]) < 0.25 * f[1].std()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("estimator", [PLSRegressor, SteinRFFRegressor])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("every_state")
def test_no_signal_is_noise(estimator, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(-1.0, 1.0, (200, 5)), rng.standard_normal(200)
    model = estimator(random_state=0)
    if estimator is SteinRFFRegressor:
        model.set_params(n_frequencies=30)
    model.fit(X, y)
    std = model.predict(X, return_std=True)[1]
    # averages keep some probability of a function
    is_averaged = len(getattr(model, "hyperparameter_states_", ())) > 0
    assert np.ptp(std) < (0.4 if is_averaged else 0.1)
    assert root_mean_square(model.predict(X) - y.mean()) < 0.15
    if estimator is PLSRegressor:
        assert [one.check for one in model.findings_] == ["no signal"]
        # one of the states
        assert model.noise_variance_ > 0.9 * np.var(y)


def rough_table(n, seed=0):
    """A rough function of three columns that matter more or less, and one idle one."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 4))
    kernel = Matern([0.5, 1.0, 4.0, 1e5], nu=0.5)
    f = np.linalg.cholesky(kernel(X) + 1e-9 * np.eye(n)) @ rng.standard_normal(n)
    return X, f + 0.1 * rng.standard_normal(n)


def test_no_family_that_is_given_has_more_evidence():
    X, y = rough_table(550)
    chosen = PLSRegressor(hyperparameters="maximise", random_state=0).fit(X, y)
    evidences = []
    for nu in (0.5, 1.5, 2.5):
        kernel = ConstantKernel() * Matern(np.ones(4), nu=nu)
        evidences.append(PLSRegressor(kernel, random_state=0).fit(X, y).log_evidence_)
    # their hyperparameters have no prior, which costs some evidence
    assert chosen.log_evidence_ > max(evidences) - 2.0
    assert chosen.kernel_.k2.nu == 0.5
    assert np.size(chosen.kernel_.k2.length_scale) == 4


@pytest.mark.filterwarnings("ignore:The residuals:UserWarning")
def test_rows_of_a_day_share_what_a_trend_leaves():
    rng = np.random.default_rng(0)
    days, effects = rng.standard_normal((2, 200))
    day = rng.integers(200, size=1200)
    X = rng.standard_normal((1200, 3))
    X[:, 1] = days[day]
    f = X @ [1.0, 0.5, -0.5] + 0.5 * effects[day]
    y = f + 0.1 * rng.standard_normal(1200)
    # 500 of these rows take the effects of days for noise, whose rmse is a half
    model = PLSRegressor(random_state=0).fit(X[:700], y[:700])
    assert root_mean_square(model.predict(X[700:]) - f[700:]) < 0.3


def test_what_rows_do_not_tell_apart_is_averaged_at_any_number_of_rows():
    X, f, _, rng = wave(0, n=640, d=2)
    y = f + 0.5 * rng.standard_normal(len(f))
    numbers = []
    for n in (300, 301, 640):
        model = PLSRegressor(random_state=0).fit(X[:n], y[:n])
        states = model.hyperparameter_states_
        assert sum(state.weight for state in states) == pytest.approx(1.0)
        assert len({state.name for state in states}) > 1
        numbers.append(len(states))
    assert numbers == sorted(numbers, reverse=True)


# ---- Series: trend and season --------------------------------------------------------


def series(seed, n=168):
    """Months whose season drifts, on a curved trend, some of them missing."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) / 12.0
    turn = 2.0 * np.pi * t
    f = 0.3 * t + 0.02 * t**2 + (1.0 + 0.03 * t) * np.sin(turn) + 0.4 * np.cos(2 * turn)
    kept = (rng.random(n) < 0.9) | (t >= t[-36])
    return t[kept, np.newaxis], (f + 0.15 * rng.standard_normal(n))[kept]


def periods(model):
    parameters = model.kernel_.get_params().items()
    return [value for name, value in parameters if name.endswith("__periodicity")]


@pytest.mark.usefixtures("every_state")
def test_a_season_is_found_and_continued():
    inside = []
    for seed, hyperparameters in enumerate(("auto", "maximise", "maximise")):
        t, y = series(seed)
        model = PLSRegressor(hyperparameters=hyperparameters, random_state=0)
        model.fit(t[:-36], y[:-36])
        assert periods(model) == pytest.approx([1.0], abs=0.01)
        assert root_mean_square(y[-36:] - model.predict(t[-36:])) < 0.5
        low, high = model.predict_interval(t[-36:], 0.95).T
        inside.append((low <= y[-36:]) & (y[-36:] <= high))
    assert 0.85 < np.mean(inside) < 0.99
    assert "a season" in model.report()["search"]["kernel"]


def test_days_and_weeks():
    rng = np.random.default_rng(0)
    hour = np.sort(rng.choice(2000, 170, replace=False)).astype(float)
    y = np.sin(hour * np.pi / 12.0) + np.sin(hour * np.pi / 84.0)
    y += 0.2 * rng.standard_normal(170)
    model = PLSRegressor(random_state=0).fit(hour[:, np.newaxis], y)
    assert sorted(periods(model)) == pytest.approx([24.0, 168.0], rel=0.01)


@pytest.mark.parametrize(
    ("seed", "hyperparameters"), [(0, "auto"), (1, "maximise"), (2, "maximise")]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_season_in_noise_and_random_walks(seed, hyperparameters):
    rng = np.random.default_rng(seed)
    t, noise = np.arange(90.0)[:, np.newaxis], rng.standard_normal(90)
    model = PLSRegressor(hyperparameters=hyperparameters, random_state=0)
    for y in (noise, np.cumsum(noise), np.cumsum(np.cumsum(noise))):
        assert periods(model.fit(t, y)) == []


# ---- A kernel that is given ----------------------------------------------------------


def test_fixed_parameters_stay_and_bounds_hold():
    X, _, y, _ = wave(0, 60, 2)
    kernel = ConstantKernel(2.5, "fixed") * RBF([0.3, 9.0], [(0.2, 0.4), (8.0, 10.0)])
    model = PLSRegressor(kernel, likelihood=Gaussian(0.05), random_state=0).fit(X, y)
    assert model.kernel_.k1.constant_value == 2.5
    assert model.noise_variance_ == pytest.approx(0.05)
    lengths = model.kernel_.k2.length_scale
    assert 0.2 * (1 - 1e-9) <= lengths[0] <= 0.4 * (1 + 1e-9)
    assert 8.0 * (1 - 1e-9) <= lengths[1] <= 10.0 * (1 + 1e-9)
    assert kernel == ConstantKernel(2.5, "fixed") * RBF(
        [0.3, 9.0], [(0.2, 0.4), (8.0, 10.0)]
    )


def test_one_warning_names_what_ended_at_a_bound():
    X, _, y, _ = wave(0, 60)
    kernel = ConstantKernel(1.0, (0.9, 1.1)) * RBF(30.0, (20.0, 40.0))
    with pytest.warns(ConvergenceWarning, match="length_scale = ") as caught:
        PLSRegressor(kernel, random_state=0).fit(X, y)
    assert len(caught) == 1


# ---- Weights and copies --------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("likelihood", [None, StudentT()])
def test_weights_of_ten_leave_the_noise(d, likelihood):
    X, f, y, _ = wave(0, d=d)
    model = PLSRegressor(
        likelihood=likelihood, hyperparameters="maximise", random_state=0
    )
    model.fit(X, y, sample_weight=np.full(150, 10.0))
    scale = np.sqrt(float(model.likelihood_.variance(0.0)))
    assert 0.13 < scale < 0.3
    assert root_mean_square(model.predict(X) - f) < 0.1


def test_repeated_rows_are_weights():
    X, _, y, _ = wave(4, n=60)
    weights = np.full(60, 4.0)
    weights[:20] = 1.0
    counts = weights.astype(int)
    repeated = np.repeat(X, counts, 0), np.repeat(y, counts)
    one = PLSRegressor(random_state=0).fit(X, y, sample_weight=weights)
    two = PLSRegressor(random_state=0).fit(*repeated)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert np.sqrt(one.noise_variance_) > 0.1
    drawn = DecoupledSampler(random_state=0).fit(*repeated)
    assert np.sqrt(np.exp(drawn.kernel_.theta[-1])) > 0.1


def test_frequencies_of_whole_numbers_are_kept():
    """Counts of ratings at each of five inputs: their mean is the weighted one."""
    X = np.repeat(np.arange(5.0), 3)[:, np.newaxis]
    y = np.tile([1.0, 2.0, 3.0], 5) + 2.0 * X[:, 0]
    weights = np.tile([1.0, 1.0, 48.0], 5)
    model = PLSRegressor(random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.predict(X[::3]), 2.94 + 2.0 * X[::3, 0], atol=0.1)


def test_equal_classes_are_evidence():
    X = np.repeat(np.arange(8.0), 25)[:, np.newaxis]
    model = PLSClassifier(random_state=0).fit(X, X[:, 0] % 4 < 2)
    odds = model.predict_proba(X[::25])[:, 1]
    assert np.all(np.abs(odds - (np.arange(8) % 4 < 2)) < 0.1)


# ---- Few rows ------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("d", [1, 3])
def test_one_row_is_uncertain_far_away(d, copies):
    model = PLSRegressor(random_state=0)
    model.fit(np.full((copies, d), 0.3), np.full(copies, 5.0))
    mean, std = model.predict(np.full((1, d), 1e3), return_std=True)
    near, close = model.predict(np.full((1, d), 0.3), return_std=True)
    assert mean == pytest.approx([5.0])
    assert near == pytest.approx([5.0])
    assert close[0] < std[0]


@pytest.mark.parametrize("n", [2, 3])
def test_two_rows_are_uncertain_far_away(n, rng):
    X, y = rng.random((n, 2)), 5.0 + 2.0 * rng.standard_normal(n)
    model = PLSRegressor(random_state=0).fit(X, y)
    std = model.predict(np.full((1, 2), 1e3), return_std=True)[1]
    assert 0.5 * y.std() < std[0] < 3.0 * y.std()


# ---- Capacity ------------------------------------------------------------------------


def waves(half, noise, n=400):
    rng = np.random.default_rng(0)
    X = rng.uniform(-half, half, (n, 2))
    f = np.sin(2.0 * X[:, 0]) * np.cos(2.0 * X[:, 1])
    return X, f + noise * rng.standard_normal(n), f


@pytest.mark.parametrize(("n_inducing", "noise"), [(10, 0.01), (10, 0.5), (30, 0.1)])
def test_too_few_points_are_a_finding_and_enough_are_none(n_inducing, noise):
    X, y, f = waves(3.0, noise)
    model = PLSRegressor(
        ConstantKernel() * RBF(),
        likelihood=Gaussian(),
        n_inducing=n_inducing,
        random_state=0,
    )
    with pytest.warns(ConvergenceWarning, match="too few for this function") as caught:
        model.fit(X, y)
    assert [one.filename for one in caught] == [__file__]
    assert np.mean((model.predict(X) - f) ** 2) > 0.2 * f.var()
    # warnings are errors
    enough = model.set_params(n_inducing="auto" if n_inducing == 30 else 60).fit(X, y)
    assert np.mean((enough.predict(X) - f) ** 2) < 0.2 * f.var()


@pytest.mark.parametrize("family", ["student", "counts", "classes"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # the chains are short
def test_too_few_points_are_a_finding_of_every_likelihood(family):
    X, y, f = waves(3.0, 0.1)
    settings = {"kernel": ConstantKernel() * RBF(), "max_iter": 1, "random_state": 0}
    model = PLSRegressor(likelihood=StudentT(), **settings)
    if family == "counts":
        y = np.random.default_rng(0).poisson(np.exp(1.5 + f))
        model.set_params(likelihood=Poisson("exp"))
    if family == "classes":
        model, y = PLSClassifier(**settings), y > 0.0
    few = model.set_params(n_inducing=12).fit(X, y)
    assert few.unexplained_ > 0.1
    assert "too few inducing points" in [one.check for one in few.findings_]
    enough = model.set_params(n_inducing="auto").fit(X, y)
    assert enough.unexplained_ < 0.1
    assert "too few inducing points" not in [one.check for one in enough.findings_]


def test_no_advice_to_take_points_that_cannot_act():
    """The points span a smooth prior up to rounding, whatever the noise."""
    X = 4.0 * qmc.Sobol(2, seed=0).random(128) - 2.0
    y = (1.0 - X[:, 0]) ** 2 + 100.0 * (X[:, 1] - X[:, 0] ** 2) ** 2
    model = PLSRegressor(likelihood=Gaussian(), random_state=0).fit(X, y)
    assert len(model.inducing_points_) < 64
    assert model.findings_ == ()
    model.set_params(hyperparameters="maximise")
    assert model.fit(X, y, noise_variance=1e-6).findings_ == ()


@pytest.mark.parametrize(
    ("estimator", "n", "length_scales"),
    [
        (PLSRegressor(), 2500, [3.0]),
        (SpectralVGPRegressor(basis="inducing"), 2500, [5.0, 5.0]),
        (ExactGPRegressor(), 1000, [5.0, 5.0]),
    ],
    ids=["points", "sums", "exact"],
)
def test_points_that_suffice_leave_the_std_of_the_function_as_it_is(
    estimator, n, length_scales
):
    """Many rows know a smooth function much better than a single row does."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (n, len(length_scales)))
    y = np.sin(0.3 * X[:, 0]) + 0.5 * rng.standard_normal(n)
    grid, kernel = (
        np.vstack((X[:100], X.min(axis=0), X.max(axis=0))),
        RBF(length_scales),
    )
    fixed = {"optimizer": None, "normalize_y": False, "random_state": 0}
    model = estimator.set_params(kernel=kernel + WhiteKernel(0.25), **fixed).fit(X, y)
    std = model.predict(grid, return_std=True, include_noise=False)[1]
    L = np.linalg.cholesky(kernel(X) + 0.25 * np.eye(n))
    explained = np.sum(np.linalg.solve(L, kernel(X, grid)) ** 2, axis=0)
    assert_allclose(std, np.sqrt(1.0 - explained), rtol=0.05)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_few_points_leave_out_of_many_rows_is_counted_once():
    """As the variance of the function, and not as noise, too."""
    X, _, y, _ = wave(0, 6000)
    y += np.sin(60.0 * X[:, 0])
    # a season would need no more than fifteen points
    kernel = ConstantKernel() * RBF(0.03, "fixed")
    model = PLSRegressor(kernel, n_inducing=15, random_state=0)
    model.fit(X[:5000], y[:5000])
    assert model.unexplained_ > 0.02
    mean, std = model.predict(X[5000:], return_std=True)
    assert np.mean(((y[5000:] - mean) / std) ** 2) == pytest.approx(1.0, abs=0.1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_kernel_is_learned_with_as_many_points_as_are_used():
    """Counts that vary beyond their inputs need a point a row, smooth starts few."""
    rng = np.random.default_rng(0)
    X, trials = rng.uniform(-2.0, 2.0, (120, 8)), np.full(120, 200.0)
    log_odds = X[:, 0] + 0.7 * rng.standard_normal(120)
    y = rng.binomial(200, 1.0 / (1.0 + np.exp(-log_odds))).astype(float)
    how = {"likelihood": Binomial(), "random_state": 0, "max_iter": 1}
    found = []
    for n_inducing in ("auto", 120):
        model = PLSRegressor(n_inducing=n_inducing, **how)
        found.append(model.fit(X, y, exposure=trials).kernel_)
    assert_allclose(found[0].theta, found[1].theta, atol=0.05)


@pytest.mark.parametrize("likelihood", [StudentT(), Poisson()])
def test_a_wave_takes_the_points_that_it_needs(likelihood):
    """Fifty cycles are beyond a hundred points, if they are no season."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(1100, 1))
    f = np.sin(100.0 * np.pi * X[:, 0] ** 1.3)
    y = f + 0.1 * rng.standard_t(4, 1100)
    if likelihood.discrete:
        y, f = rng.poisson(np.exp(1.5 + f)), np.exp(1.5 + f)
    model = PLSRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    assert len(model.inducing_points_) > 120
    assert root_mean_square(model.predict(X) - f) < 0.3 * f.std()


@pytest.mark.parametrize(("n_columns", "n_classes"), [(8, 2), (2, 3)])
def test_probabilities_of_certain_classes_are_at_most_one(n_columns, n_classes):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1400, n_columns))
    scores = X @ rng.standard_normal((n_columns, n_classes if n_classes > 2 else 1))
    y = np.argmax(scores, axis=1) if n_classes > 2 else np.ravel(scores > 0.0)
    model = PLSClassifier(random_state=0).fit(X[:400], y[:400])
    probabilities = model.predict_proba(5.0 * X[400:])
    assert np.max(probabilities) == 1.0
    assert np.min(probabilities) >= 0.0
    assert log_loss(y[400:], probabilities) < 0.1
