"""Fits to slopes, means over boxes and differences, and their predictions."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import erf, expit
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skgpx import (
    ExactGPRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
    cross_val_predict_dist,
)
from skgpx.exceptions import FitWarning
from skgpx.kernels import GREKernel
from skgpx.likelihoods import (
    Gaussian,
    LogNormal,
    Poisson,
    ShiftedMixture,
    StudentT,
    Warped,
)
from skgpx.metrics import crps, neg_crps_scorer
from tests.numerics.conftest import LARGEST_Z, moment_scores

N = 80
SCALES = np.array([1.1, 1.6])
AMPLITUDE = 1.5
KERNEL = ConstantKernel(AMPLITUDE) * RBF(SCALES)
NOISE = 0.01
# each with its arguments of fit and of predictions
KINDS = ["values", "slopes", "boxes", "differences", "everything"]


def functionals(rng, n, kind="everything"):
    """Rows X (n, 2), and what they see of f there."""
    X = rng.uniform(-2.0, 2.0, (n, 2))
    seen = {}
    chosen = np.arange(n)
    if kind in ("slopes", "everything"):
        seen["derivative"] = chosen % 3 - 1
    if kind in ("boxes", "everything"):
        is_box = (chosen % 4 > 1)[:, np.newaxis]
        seen["widths"] = is_box * rng.uniform(0.0, 0.4, (n, 2)).round(1)
    if kind in ("differences", "everything"):
        against = rng.uniform(-2.0, 2.0, (n, 2))
        against[chosen % 5 > 2] = np.nan
        seen["against"] = against
    return X, seen


def antiderivative(u, order, scale):
    """Derivatives, and antiderivatives of negative order, of ``exp(-u²/2 scale²)``."""
    t = u / scale
    value = np.exp(-0.5 * t**2)
    integral = np.sqrt(np.pi / 2.0) * scale * erf(t / np.sqrt(2.0))
    return np.select(
        [order == k for k in range(-2, 3)],
        [
            u * integral + scale**2 * value,
            integral,
            value,
            -t / scale * value,
            (t**2 - 1.0) / scale**2 * value,
        ],
    )


def one_column(left, right, scale):
    """Covariances of functionals of one column; each side is (x, is_slope, width)."""
    x, x_slope, x_width = (part[:, np.newaxis] for part in left)
    z, z_slope, z_width = right
    total = 0.0
    for x_end in (1.0, -1.0):
        for z_end in (1.0, -1.0):
            # ends of a box, or a point once
            x_weight = np.where(x_width > 0.0, x_end / np.maximum(x_width, 0.1), 0.0)
            x_weight = x_weight + (x_width == 0.0) * (x_end > 0.0)
            z_weight = np.where(z_width > 0.0, z_end / np.maximum(z_width, 0.1), 0.0)
            z_weight = z_weight + (z_width == 0.0) * (z_end > 0.0)
            u = x + 0.5 * x_end * x_width - z - 0.5 * z_end * z_width
            z_order = z_slope.astype(int) - (z_width > 0.0)
            order = x_slope.astype(int) - (x_width > 0.0) + z_order
            values = antiderivative(u, order, scale)
            total = total + x_weight * z_weight * (1 - 2 * (z_order % 2)) * values
    return total


def sides(X, derivative=None, widths=None, against=None):
    """Signs (n,) and points (n, 2) of values, and of what is subtracted of them."""
    if against is None:
        against = np.full(X.shape, np.nan)
    derivative = np.broadcast_to(-1 if derivative is None else derivative, len(X))
    widths = np.zeros(X.shape) if widths is None else widths
    is_difference = ~np.isnan(against[:, 0])
    other = np.where(is_difference[:, np.newaxis], against, 0.0)
    return [
        (np.ones(len(X)), X, derivative, widths),
        (-1.0 * is_difference, other, derivative, widths),
    ]


def covariance(left, right):
    """Of functionals of functions with the covariance `KERNEL`, in closed form."""
    total = 0.0
    for sign, X, a, x_widths in sides(left[0], **left[1]):
        for other_sign, Z, b, z_widths in sides(right[0], **right[1]):
            product = AMPLITUDE * np.outer(sign, other_sign)
            for j, scale in enumerate(SCALES):
                product = product * one_column(
                    (X[:, j], a == j, x_widths[:, j]),
                    (Z[:, j], b == j, z_widths[:, j]),
                    scale,
                )
            total = total + product
    return total


def dense(rows, y, noise, new):
    """Mean and covariance of functionals of the exact posterior; log evidence."""
    K = covariance(rows, rows) + np.diag(np.broadcast_to(noise, len(y)))
    k = covariance(rows, new)
    solved = np.linalg.solve(K, np.column_stack((y, k)))
    mean = k.T @ solved[:, 0]
    evidence = multivariate_normal(np.zeros(len(y)), K).logpdf(y)
    return mean, covariance(new, new) - k.T @ solved[:, 1:], evidence


def drawn(rng, rows, noise=NOISE):
    """Targets of functionals of a function drawn from the prior."""
    K = covariance(rows, rows) + np.diag(np.broadcast_to(noise, len(rows[0])))
    return np.linalg.cholesky(K) @ rng.standard_normal(len(rows[0]))


def fixed(n_inducing=N, likelihood=None, **settings):
    return PLSRegressor(
        KERNEL,
        likelihood=likelihood or Gaussian(NOISE),
        optimizer=None,
        normalize_y=False,
        n_inducing=n_inducing,
        random_state=0,
        **settings,
    )


def searched(kernel=None, **settings):
    return PLSRegressor(
        kernel or ConstantKernel() * RBF([1.0, 1.0]),
        hyperparameters="maximise",
        random_state=0,
        **settings,
    )


def moments(model, new, seen, **options):
    return np.array(model.predict(new, return_std=True, **seen, **options))


# ---- The exact process ---------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_all_rows_as_points_give_the_exact_process(kind, rng):
    rows = functionals(rng, N, kind)
    y = drawn(rng, rows)
    model = fixed().fit(rows[0], y, **rows[1])
    for new_kind in KINDS:
        new = functionals(rng, 20, new_kind)
        mean, cov, evidence = dense(rows, y, NOISE, new)
        found = model.predict(new[0], return_cov=True, include_noise=False, **new[1])
        assert_allclose(found[0], mean, atol=2e-6)
        assert_allclose(found[1], cov, atol=2e-6)
    assert_allclose(model.log_evidence_, evidence, atol=1e-4)
    # a part of the points is enough, in standard deviations
    few = fixed(60).fit(rows[0], y, **rows[1])
    mean_of_few, std = moments(few, new[0], new[1], include_noise=False)
    exact_std = np.sqrt(np.diag(cov))
    assert np.all(np.abs(mean_of_few - mean) < 0.01 * exact_std)
    assert_allclose(std, exact_std, rtol=0.01)


def test_known_noise_of_each_row(rng):
    rows = functionals(rng, N)
    noise = np.exp(rng.normal(-4.0, 1.0, N))
    y = drawn(rng, rows, noise)
    new = functionals(rng, 20)
    mean, cov, evidence = dense(rows, y, noise, new)
    model = fixed(likelihood=Gaussian()).fit(
        rows[0], y, noise_variance=noise, **rows[1]
    )
    found = moments(model, new[0], new[1], noise_variance=0.3)
    assert_allclose(found, (mean, np.sqrt(np.diag(cov) + 0.3)), atol=2e-6)
    assert_allclose(model.log_evidence_, evidence, atol=1e-4)


def test_further_rows_are_those_of_one_fit(rng):
    rows = functionals(rng, N, "slopes")
    y = drawn(rng, rows)
    derivative = np.where(np.arange(N) < 60, rows[1]["derivative"], -1)
    points = fixed(inducing=rows[0][::4])
    one = clone(points).fit(rows[0], y, derivative=derivative)
    other = clone(points).fit(rows[0][:60], y[:60], derivative=derivative[:60])
    other.partial_fit(rows[0][60:], y[60:])
    new = functionals(rng, 20)
    assert_allclose(moments(other, *new), moments(one, *new), atol=1e-8)
    assert_allclose(other.log_evidence_, one.log_evidence_)


def test_draws_have_the_slopes_that_are_predicted(rng):
    rows = functionals(rng, 20)
    y = drawn(rng, rows)
    model = fixed().fit(rows[0], y, **rows[1])
    new = rng.uniform(-2.0, 2.0, (4, 2))
    twice = np.concatenate((new, new))
    derivative = np.repeat([-1, 0], 4)
    at, seen = new[:2] + 0.1, [1.0, -0.5]
    sampled, unconditioned, conditioned = [], [], []
    for seed in range(2):
        draws = model.sample_functions(400, random_state=seed)
        given = draws.condition(at, seen, NOISE, random_state=seed)
        for functions, values in ((draws, unconditioned), (given, conditioned)):
            f, gradients = functions.value_and_grad(new)
            values.append(np.concatenate((f, gradients[..., 0])))
        sampled.append(model.sample_y(twice, 400, seed, derivative=derivative))
    together = [
        np.concatenate((rows[0], at)),
        {
            "derivative": np.append(rows[1]["derivative"], [-1, -1]),
            "widths": np.concatenate((rows[1]["widths"], np.zeros((2, 2)))),
            "against": np.concatenate((rows[1]["against"], np.full((2, 2), np.nan))),
        },
    ]
    new_rows = twice, {"derivative": derivative}
    mean, cov, _ = dense(rows, y, NOISE, new_rows)
    mean_given, cov_given, _ = dense(together, np.append(y, seen), NOISE, new_rows)
    for values, moments_of_rows in (
        (unconditioned, (mean, cov)),
        (sampled, (mean, cov + NOISE * np.eye(8))),
        (conditioned, (mean_given, cov_given)),
    ):
        scores = moment_scores(np.concatenate(values, axis=1), *moments_of_rows)
        assert np.abs(scores).max() < LARGEST_Z


@pytest.mark.parametrize("likelihood", [None, StudentT(df=1e6, scale=0.1)])
def test_slopes_of_fits_to_values(rng, likelihood):
    """Differences of their predictions; chains have particles instead of moments."""
    X = rng.uniform(-2.0, 2.0, (50, 2))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(50)
    model = fixed(likelihood=likelihood).fit(X, y)
    new = rng.uniform(-2.0, 2.0, (10, 2))
    step = [[0.0, 1e-4]]
    difference = (model.predict(new + step) - model.predict(new - step)) / 2e-4
    slope = model.predict(new, derivative=1)
    assert_allclose(slope, difference, atol=1e-5)
    assert_allclose(
        model.predict(new + 1.0, against=new),
        model.predict(new + 1.0) - model.predict(new),
        atol=1e-9,
    )
    nodes, masses = np.polynomial.legendre.leggauss(5)
    grid = new[:, np.newaxis] + 0.25 * np.outer(nodes, [1.0, 0.0])
    means = model.predict(grid.reshape(-1, 2)).reshape(10, 5) @ masses / 2.0
    assert_allclose(model.predict(new, widths=[[0.5, 0.0]] * 10), means, atol=1e-7)


# ---- Equivalences --------------------------------------------------------------------


def test_rows_that_see_values_are_rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    y = 3.0 + np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(60)
    plain = searched(likelihood=Gaussian()).fit(X, y)
    for seen in (
        {"derivative": -1},
        {"derivative": np.full(60, -1)},
        {"widths": np.zeros((60, 2))},
        {"against": np.full((60, 2), np.nan)},
    ):
        model = clone(plain).fit(X, y, **seen)
        assert_allclose(moments(model, X, {}), moments(plain, X, {}), rtol=1e-4)
        assert_allclose(model.kernel_.theta, plain.kernel_.theta, atol=0.01)
        assert_allclose(model.log_evidence_, plain.log_evidence_, atol=1e-3)
        assert_allclose(model.noise_variance_, plain.noise_variance_, rtol=1e-3)


@pytest.mark.parametrize("kind", ["slopes", "everything"])
def test_the_order_of_rows_and_their_repetition_do_not_matter(kind, rng):
    X, seen = functionals(rng, 25, kind)
    y = drawn(rng, (X, seen))
    weights = rng.integers(0, 3, 25)
    model = searched().fit(X, y, sample_weight=weights, **seen)
    rows = rng.permutation(25)
    rows = np.repeat(rows, weights[rows])
    repeated = {name: values[rows] for name, values in seen.items()}
    other = searched().fit(X[rows], y[rows], **repeated)
    new = functionals(rng, 20)
    assert_allclose(moments(other, *new), moments(model, *new), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS[1:4])
def test_units_of_y_and_of_a_column(kind, rng):
    """A level that slopes do not see, and a slope of y that is one over units of x."""
    X, seen = functionals(rng, 30, kind)
    y = drawn(rng, (X, seen))
    derivative = seen.get("derivative", np.full(30, -1))
    against = seen.get("against", np.full((30, 2), np.nan))
    level = (derivative == -1) & np.isnan(against[:, 0])
    factor = np.where(derivative == 0, 100.0, 1.0)
    column = np.array([0.01, 1.0])
    moved = {
        name: values * column if name != "derivative" else values
        for name, values in seen.items()
    }
    kernel = KERNEL.clone_with_theta(KERNEL.theta)
    model = searched(kernel).fit(X, y, **seen)
    scaled = np.log(np.append(AMPLITUDE, SCALES * column))
    other = searched(kernel.clone_with_theta(scaled))
    other.set_params(kernel__k2__length_scale_bounds=(1e-7, 1e5))
    other.fit(X * column, factor * (5.0 * y + 700.0 * level), **moved)
    expected = factor * (5.0 * moments(model, X, seen) + np.outer([700.0, 0.0], level))
    scale = 5.0 * factor * y.std()
    found = moments(other, X * column, moved)
    # the prior of the noise is in units of values and of slopes together
    assert_allclose(found / scale, expected / scale, atol=0.01)
    # f itself
    mean = model.predict(X, include_noise=False)
    assert_allclose(other.predict(X * column), 5.0 * mean + 700.0, atol=0.05)


def test_a_difference_and_its_negative_are_one_observation(rng):
    X, seen = functionals(rng, 40, "differences")
    y = drawn(rng, (X, seen))
    against = seen["against"]
    is_difference = ~np.isnan(against[:, :1])
    swapped = np.where(is_difference, against, X)
    other = np.where(is_difference, X, np.nan)
    sign = np.where(is_difference[:, 0], -1.0, 1.0)
    one = fixed().fit(X, y, **seen)
    two = fixed().fit(swapped, sign * y, against=other)
    assert_allclose(moments(one, X, {}), moments(two, X, {}), atol=1e-6)


# ---- Learned noise, and coverage -----------------------------------------------------


def test_slopes_have_a_noise_of_their_own_and_are_covered():
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 6.0, (120, 1))
    derivative = np.where(np.arange(120) < 60, -1, 0)

    def f(X, derivative):
        x = X[:, 0]
        slope = 2.0 * np.cos(2.0 * x) - 0.5 * np.sin(0.5 * x)
        return np.where(derivative < 0, 4.0 + np.sin(2.0 * x) + np.cos(0.5 * x), slope)

    noise = np.where(derivative < 0, 0.02, 0.5)
    y = f(X, derivative) + noise * rng.standard_normal(120)
    model = PLSRegressor(random_state=0).fit(X, y, derivative=derivative)
    new = np.repeat(np.linspace(0.1, 5.9, 200), 2)[:, np.newaxis]
    along = np.tile([-1, 0], 200)
    truth = f(new, along)
    mean, std = model.predict(new, return_std=True, derivative=along)
    _, latent = model.predict(
        new, return_std=True, include_noise=False, derivative=along
    )
    learned = np.sqrt(std**2 - latent**2)
    for kind, size in ((-1, 0.02), (0, 0.5)):
        is_kind = along == kind
        # the relative error of a standard deviation of 60 rows is 0.09
        z = (np.log(learned[is_kind]) - np.log(size)) / 0.09
        assert np.abs(z).max() < LARGEST_Z
        errors = (mean - truth)[is_kind] / latent[is_kind]
        assert 0.3 < np.sqrt(np.mean(errors**2)) < 1.7
        values = truth[is_kind] + size * rng.standard_normal(200)
        low, high = model.predict_interval(
            new[is_kind], coverage=0.9, derivative=along[is_kind]
        ).T
        held = np.mean((low < values) & (values < high))
        assert abs(held - 0.9) < 4.5 * np.sqrt(0.09 / 200.0)
    density = model.log_predictive_density(new, truth, derivative=along)
    assert_allclose(density, norm(mean, std).logpdf(truth), atol=1e-6)
    # the evidence is that of the rows with the noise of each
    kinds = np.where(derivative < 0, 0.02, 0.5) ** 2
    noises = model.predict(X, return_std=True, derivative=derivative)[1] ** 2
    noises -= (
        model.predict(X, return_std=True, include_noise=False, derivative=derivative)[1]
        ** 2
    )
    assert_allclose(np.log(noises), np.log(kinds), atol=1.0)
    chosen = searched(1.0 * RBF(1.0)).fit(X, y, derivative=derivative)
    noise = chosen.noise_variance_ * np.append(chosen._noise_of_slopes, 1.0)[derivative]
    exact = PLSRegressor(chosen.kernel_, optimizer=None, n_inducing=120, random_state=0)
    exact.fit(X, y, derivative=derivative, noise_variance=noise)
    assert_allclose(chosen.log_evidence_, exact.log_evidence_, atol=0.05)
    # the slopes tell about values
    alone = PLSRegressor(random_state=0).fit(X[:60], y[:60])
    at = new[::2]
    error, error_alone = (
        np.sqrt(np.mean((one.predict(at) - f(at, -1)) ** 2)) for one in (model, alone)
    )
    assert error < error_alone


def test_slopes_alone_and_differences_alone_know_f_up_to_a_constant():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (40, 1))
    other = rng.uniform(0.0, 6.0, (40, 1))
    new, base = np.linspace(0.5, 5.5, 9)[:, np.newaxis], np.full((9, 1), 3.0)
    truth = 1e3 * np.sin(new[:, 0]) - 1e3 * np.sin(3.0)
    differences = 1e3 * (np.sin(X[:, 0]) - np.sin(other[:, 0]))
    for y, seen in (
        (1e3 * np.cos(X[:, 0]), {"derivative": 0}),
        (differences, {"against": other}),
    ):
        model = PLSRegressor(random_state=0)
        if "derivative" in seen:
            with pytest.warns(FitWarning, match="All rows are slopes"):
                model.fit(X, y, **seen)
            assert [finding.check for finding in model.findings_] == ["no level"]
        else:
            model.fit(X, y, **seen)
        found = moments(model, new, {"against": base}, include_noise=False)
        assert_allclose(found[0], truth, atol=1.0)
        assert np.all(found[1] < 5.0)
        # the level itself is not known
        assert np.all(moments(model, new, {})[1] > 100.0)


# ---- Other likelihoods ---------------------------------------------------------------


def test_preferences_have_the_posterior_of_the_utility(rng):
    """Against draws of the prior that are weighted by the likelihood."""
    rows = functionals(rng, 12, "differences")
    against = rng.uniform(-2.0, 2.0, (12, 2))
    rows = rows[0], {"against": against}
    labels = drawn(rng, rows) > 0.0
    new = rng.uniform(-2.0, 2.0, (4, 2))
    together = (
        np.concatenate((rows[0], new)),
        {"against": np.concatenate((against, np.full((4, 2), np.nan)))},
    )
    K = covariance(together, together) + 1e-10 * np.eye(16)
    f = np.linalg.cholesky(K) @ rng.standard_normal((16, 200_000))
    weights = np.prod(
        expit(np.where(labels, 1.0, -1.0)[:, np.newaxis] * f[:12]), axis=0
    )
    weights /= weights.sum()
    mean = f[12:] @ weights
    variance = f[12:] ** 2 @ weights - mean**2
    model = PLSClassifier(
        KERNEL, optimizer=None, n_inducing=12, n_particles=1000, random_state=0
    )
    swap = np.arange(12) % 2 == 0
    X = np.where(swap[:, np.newaxis], against, rows[0])
    other = np.where(swap[:, np.newaxis], rows[0], against)
    flipped = clone(model).fit(X, labels ^ swap, against=other)
    model.fit(rows[0], labels, against=against)
    for one in (model, flipped):
        found = one.latent_mean_and_variance(new)
        assert_allclose(np.ravel(found[0]), mean, atol=0.15)
        assert_allclose(np.ravel(found[1]), variance, rtol=0.15)
    # the preference of a pair and of its mirror image
    proba = model.predict_proba(new, against=new[::-1])
    assert_allclose(proba[::-1], proba[:, ::-1], atol=1e-9)
    assert_array_equal(model.predict(new, against=new[::-1]), proba[:, 1] > 0.5)
    score = model.score(rows[0], labels, against=against)
    predicted = model.predict(rows[0], against=against)
    assert score == np.mean(predicted == labels)
    log_proba = model.predict_log_proba(new, against=new[::-1])
    assert_allclose(np.exp(log_proba), proba)
    density = model.log_predictive_density(new, [True] * 4, against=new[::-1])
    assert_allclose(density, log_proba[:, 1])
    assert model.sample_y(new, 3, random_state=0, against=new[::-1]).shape == (4, 3)


def test_small_boxes_of_counts_are_values(rng):
    X = rng.uniform(-2.0, 2.0, (40, 2))
    counts = rng.poisson(np.exp(1.0 + np.sin(X[:, 0])))
    model = fixed(20, likelihood=Poisson(), n_particles=200).fit(X, counts)
    boxes = clone(model).fit(X, counts, widths=np.full((40, 2), 1e-5))
    assert_allclose(boxes.predict(X), model.predict(X), rtol=0.05)
    wide = model.predict(X, widths=np.full((40, 2), 1e-5))
    assert_allclose(wide, model.predict(X), rtol=1e-6)


# ---- The interface -------------------------------------------------------------------

FRAME = pd.DataFrame(
    {
        "a": np.linspace(0.0, 3.0, 12),
        "b": np.linspace(0.0, 1.0, 12) ** 2,
        "c": pd.Categorical(["x", "y"] * 6),
    }
)
Y = np.sin(FRAME["a"].to_numpy())


def test_data_frames_name_their_columns():
    names = [-1, "a", "b", -1] * 3
    numbers = [-1, 0, 1, -1] * 3
    kept = FRAME[["a", "b"]]
    one = fixed().fit(kept, Y, derivative=names)
    two = fixed().fit(kept.to_numpy(), Y, derivative=numbers)
    assert_array_equal(
        one.predict(kept, derivative="b", against=kept[::-1]),
        two.predict(kept.to_numpy(), derivative=1, against=kept.to_numpy()[::-1]),
    )
    # beside categories, whose rows may be compared
    model = PLSRegressor(optimizer=None, random_state=0)
    model.fit(FRAME, Y, derivative=["a", -1] * 6, against=FRAME[::-1])
    found = model.predict(FRAME, against=FRAME[::-1])
    assert_allclose(found, -found[::-1], atol=1e-9)


def test_pickles_and_clones(rng):
    X, seen = functionals(rng, 20)
    model = fixed().fit(X, drawn(rng, (X, seen)), **seen)
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(moments(loaded, X, seen), moments(model, X, seen))
    again = clone(model).fit(X, X[:, 0])
    assert_array_equal(
        moments(again, X, seen), moments(fixed().fit(X, X[:, 0]), X, seen)
    )
    # a fit forgets what the one before it saw
    model.fit(X, X[:, 0])
    assert_array_equal(moments(model, X, seen), moments(again, X, seen))


def test_metadata_reach_fits_and_predictions(rng):
    X, seen = functionals(rng, 30)
    y = drawn(rng, (X, seen))
    request = dict.fromkeys(seen, True)
    train, test = np.arange(15), np.arange(15, 30)
    folds = [(train, test), (test, train)]
    expected = np.empty(30)
    scores = []
    for fold, held_out in folds:
        model = fixed().fit(X[fold], y[fold], **{k: v[fold] for k, v in seen.items()})
        rest = {k: v[held_out] for k, v in seen.items()}
        expected[held_out] = model.predict(X[held_out], **rest)
        scores.append(model.score(X[held_out], y[held_out], **rest))
    of_all = fixed().fit(X, y, **seen).predict(X, **seen)
    held_out = cross_val_predict_dist(fixed(), X, y, cv=folds, params=seen)
    assert_allclose(held_out.mean(), expected, atol=1e-12)
    with sklearn.config_context(enable_metadata_routing=True):
        model = fixed().set_fit_request(**request).set_predict_request(**request)
        model.set_score_request(**request)
        pipeline = make_pipeline(FunctionTransformer(), model)
        for one in (model, pipeline):
            found = one.fit(X, y, **seen).predict(X, **seen)
            assert_allclose(found, of_all, atol=1e-12)
            found = cross_val_score(one, X, y, cv=folds, params=seen)
            assert_allclose(found, scores, atol=1e-12)
        scorer = neg_crps_scorer.set_score_request(**request)
        found = cross_val_score(model, X, y, cv=folds, params=seen, scoring=scorer)
    assert_allclose(-found.mean(), crps(y, held_out), rtol=1e-6)


def refused(name):
    """A model, arguments of a fit that it refuses, and what the error names."""
    X = FRAME[["a", "b"]]
    ones = np.ones((12, 2))
    nan = np.full((12, 2), np.nan)
    half = np.where(np.arange(24).reshape(12, 2) == 3, np.nan, 1.0)
    kinds = {
        "unknown name": (X, {"derivative": ["z"] * 12}, "among .*'a', 'b'.*got 'z'"),
        "unknown column": (X, {"derivative": 2}, "0 to 1.*got 2"),
        "negative": (X, {"derivative": -2}, "got -2"),
        "fraction": (X, {"derivative": 0.5}, "got 0.5"),
        "mask": (X, {"derivative": np.arange(12) > 5}, "derivative expects.*False"),
        "nan": (X, {"derivative": np.full(12, np.nan)}, "derivative expects.*nan"),
        "length": (X, {"derivative": [0, 1]}, r"shape \(12,\).*\(2,\)"),
        "category": (FRAME, {"derivative": "c"}, "categories"),
        "box of category": (FRAME, {"widths": np.ones((12, 3))}, "categories"),
        "negative width": (X, {"widths": -ones}, "widths must.*not negative"),
        "nan width": (X, {"widths": nan}, "widths must be finite"),
        "shape of widths": (X, {"widths": ones[:3]}, "widths must have the shape"),
        "columns against": (ones, {"against": np.ones((12, 3))}, "against.*3 features"),
        "rows against": (X, {"against": X[:3]}, "against must have a row"),
        "half against": (ones, {"against": half}, "against.*NaN"),
        "names against": (X, {"against": X.rename(columns={"a": "d"})}, "against.*d"),
    }
    return kinds[name] if name else list(kinds)


@pytest.mark.parametrize("name", refused(None))
def test_what_does_not_fit_x_is_refused_and_leaves_the_model(name):
    X, seen, message = refused(name)
    model = PLSRegressor(optimizer=None, n_inducing=5, random_state=0)
    model.fit(np.cumsum(X, axis=0) if isinstance(X, np.ndarray) else X, Y)
    state = joblib.hash(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, **seen)
    with pytest.raises(ValueError, match=message):
        model.predict(X, **seen)
    assert joblib.hash(vars(model)) == state


REFUSED_MODELS = {
    "Matern 1/2": (PLSRegressor(Matern(nu=0.5)), "Matern.*nu=0.5.*no slope"),
    "sum": (PLSRegressor(RBF() + Matern(nu=0.5)), "Matern.*nu=0.5.*no slope"),
    "season": (PLSRegressor(RBF() * ExpSineSquared()), "ExpSine.*no slope"),
    "power": (PLSRegressor(RBF() ** 2), r"\*\* 2.*no slope"),
    "GRE": (PLSRegressor(GREKernel(RBF(), np.zeros((1, 1)))), "GREKernel.*no slope"),
    "counts": (PLSRegressor(likelihood=Poisson()), "Poisson.*another scale"),
    "logarithms": (PLSRegressor(likelihood=LogNormal()), "LogNormal.*another scale"),
    "powers": (PLSRegressor(likelihood=Warped()), "Warped.*another scale"),
    "shift": (PLSRegressor(likelihood=ShiftedMixture(2.0)), "Shifted.*another scale"),
}


@pytest.mark.parametrize("name", REFUSED_MODELS)
def test_models_without_slopes_are_refused(name):
    model, message = REFUSED_MODELS[name]
    x = np.linspace(0.0, 3.0, 12)[:, np.newaxis]
    state = joblib.hash(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(x, np.ones(12) + x[:, 0] // 1.0, derivative=0)
    assert joblib.hash(vars(model)) == state


def test_targets_and_models_without_points_are_refused(rng):
    X = rng.uniform(0.0, 3.0, (30, 1))
    y = np.sin(X[:, 0])
    with pytest.raises(ValueError, match="an estimator for each"):
        PLSRegressor().fit(X, np.column_stack((y, y)), derivative=0)
    for model in (
        PLSRegressor(RBF(), optimizer=None, n_neighbors=5, n_inducing=5),
        ExactGPRegressor(RBF(), optimizer=None),
    ):
        with pytest.raises(ValueError, match=r"value_and_grad\(X\)"):
            model.fit(X, y).predict(X, derivative=0)


def test_rows_of_dask_are_refused(rng):
    da = pytest.importorskip("dask.array")
    X = rng.uniform(0.0, 3.0, (40, 1))
    y = np.sin(X[:, 0])
    lazy = da.from_array(X, chunks=(20, 1)), da.from_array(y, chunks=20)
    with pytest.raises(ValueError, match="derivative"):
        PLSRegressor().fit(*lazy, derivative=0)
    with pytest.raises(ValueError, match="against"):
        PLSClassifier().fit(lazy[0], lazy[1] > 0.0, against=X)
    model = PLSRegressor(RBF(), optimizer=None, n_inducing=5).fit(X, y)
    with pytest.raises(ValueError, match="widths"):
        model.predict(lazy[0], widths=X)


def test_white_noise_in_the_kernel_is_noise(rng):
    X, seen = functionals(rng, 30)
    y = drawn(rng, (X, seen))
    model = fixed().set_params(kernel=KERNEL + WhiteKernel(NOISE), likelihood=None)
    model.fit(X, y, **seen)
    expected = fixed().fit(X, y, **seen)
    assert_allclose(moments(model, X, seen), moments(expected, X, seen), atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        PLSRegressor(hyperparameters="maximise", random_state=0),
        SpectralVGPRegressor(basis="inducing"),
        SteinRFFRegressor(n_components=1, n_frequencies=20, max_iter=1, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_white_noise_that_is_fixed_is_that_of_slopes(model, rng):
    X = rng.uniform(-2.0, 2.0, (40, 1))
    sees_slopes = np.arange(40) >= 20
    noise = np.where(sees_slopes, 0.5, 0.05) * rng.standard_normal(40)
    y = (
        np.where(sees_slopes, 2.0 * np.cos(2.0 * X[:, 0]), np.sin(2.0 * X[:, 0]))
        + noise
    )
    kernel = ConstantKernel() * RBF() + WhiteKernel(0.01, "fixed")
    model = clone(model).set_params(kernel=kernel, normalize_y=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, y, derivative=np.where(sees_slopes, 0, -1))
    assert_allclose(model.noise_variance_, 0.01)
