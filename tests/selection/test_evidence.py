import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    WhiteKernel,
)

from skgpx._numerics import laplace
from skgpx._selection import (
    PriorSettings,
    SparseEvidence,
    _evidence,
    fit_prior,
    maximise_evidence,
)
from skgpx._selection._copies import search_weights
from skgpx._selection._sparse_learner import candidates
from skgpx._validation import Rows
from skgpx.kernels import GREKernel, default_kernel
from skgpx.likelihoods import Bernoulli, Categorical, Gaussian, Poisson, StudentT

KERNELS = {
    "rbf": ConstantKernel(1.3) * RBF([0.8, 1.4]),
    "matern": ConstantKernel(0.9) * Matern(1.1, nu=1.5) + ConstantKernel(0.2),
    "gre": GREKernel(
        ConstantKernel(1.2) * RBF([0.9, 1.2]),
        np.random.default_rng(7).standard_normal((9, 2)),
        background=0.6,
    ),
    "fixed amplitude": ConstantKernel(1.3, "fixed") * RBF(0.9),
}
LIKELIHOODS = {
    "Gaussian": Gaussian(),
    "fixed Gaussian": Gaussian(noise_variance=0.2),
    "Bernoulli": Bernoulli(),
    "probit": Bernoulli("probit"),
    "StudentT": StudentT(df=4.0),
    "Poisson": Poisson(),
    "Categorical": Categorical(),
}


def rows_for(likelihood, rng, n=24):
    X = rng.standard_normal((n, 2))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    if isinstance(likelihood, Bernoulli):
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * f))).astype(np.float64)
    elif isinstance(likelihood, Categorical):
        y = np.digitize(f + 0.2 * rng.standard_normal(n), [-0.5, 0.5]).astype(float)
    elif isinstance(likelihood, Poisson):
        y = rng.poisson(np.exp(f)).astype(np.float64)
    else:
        y = f + 0.4 * rng.standard_normal(n)
    return Rows(X, y, rng.integers(1, 3, n).astype(np.float64))


def fourth_order(function, x, h=1e-3):
    slope = np.empty_like(x)
    for i in range(len(x)):
        step = np.zeros_like(x)
        step[i] = h
        near = function(x + step) - function(x - step)
        far = function(x + 2.0 * step) - function(x - 2.0 * step)
        slope[i] = (8.0 * near - far) / (12.0 * h)
    return slope


# ---- The evidence --------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_evidence_gradient_against_finite_differences(
    rng, kernel, likelihood, monkeypatch
):
    monkeypatch.setattr(laplace, "_EVIDENCE_TOLERANCE", 1e-10)
    rows = rows_for(likelihood, rng)
    likelihood = likelihood.prepare(rows.y, rows.weights)
    evidence = SparseEvidence(rows, rows.X[:6], kernel, likelihood)
    theta = np.concatenate((kernel.theta, likelihood.theta))
    theta = theta + 0.1 * rng.standard_normal(len(theta))
    evidence.value_and_gradient(theta)  # finds the mode, where later searches start
    value, gradient = evidence.value_and_gradient(theta)
    assert gradient.shape == (len(kernel.theta) + len(likelihood.theta),)
    numeric = fourth_order(lambda t: evidence.value_and_gradient(t)[0], theta)
    # what the accuracy of the mode leaves, 1e-10 nats
    scale = 1.0 + np.max(np.abs(numeric))
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=2e-5 * scale)
    negative, slope = evidence.negative(theta)
    assert negative == pytest.approx(-value, rel=1e-8)
    np.testing.assert_allclose(slope, -gradient, atol=1e-4 * scale)


@pytest.mark.parametrize("n_inducing", [6, 24])
def test_two_classes_have_one_evidence(rng, n_inducing):
    # f_1 - f_0 has twice the variance of each of the two
    rows = rows_for(Bernoulli(), rng)
    kernel = ConstantKernel(1.3) * RBF([0.8, 1.4])
    double = ConstantKernel(2.6) * RBF([0.8, 1.4])
    Z = rows.X[:n_inducing]
    two, one = (
        SparseEvidence(rows, Z, k, law.prepare(rows.y)).value_and_gradient(k.theta)
        for k, law in ((kernel, Categorical()), (double, Bernoulli()))
    )
    assert two[0] == pytest.approx(one[0], rel=1e-6)
    np.testing.assert_allclose(two[1], one[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_candidates_are_tied_in_units_of_the_columns(rng, scale):
    rows = rows_for(Bernoulli(), rng)
    X = rows.X * [1.0, scale]
    rows = rows._replace(X=X)
    default = default_kernel(X, rows.weights)
    for kernel in (default, GREKernel(default, X)):
        tied, separate = candidates(kernel, rows)
        u = rng.standard_normal(tied.n_free)
        np.testing.assert_allclose(
            tied.kernel_at(u).theta, separate.kernel_at(tied.ties @ u).theta
        )
        inner = tied.kernel_at(u)
        inner = inner.kernel if isinstance(kernel, GREKernel) else inner
        lengths = inner.k2.length_scale / default.k2.length_scale
        assert lengths[0] == pytest.approx(lengths[1])
        np.testing.assert_allclose(
            separate.kernel_at(separate.kernel.theta - separate.offset).theta,
            kernel.theta,
        )


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_gaussian_evidence_is_the_collapsed_bound(rng, kernel):
    rows = rows_for(Gaussian(), rng)
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    Z, noise = rows.X[:6], float(likelihood.noise_variance)
    X = np.repeat(rows.X, rows.weights.astype(int), axis=0)
    y = np.repeat(rows.y, rows.weights.astype(int))
    # the bound of Titsias, 2009: Q_nn is what the inducing inputs explain
    Q = kernel(X, Z) @ np.linalg.solve(kernel(Z), kernel(Z, X))
    law = multivariate_normal(np.zeros(len(y)), Q + noise * np.eye(len(y)))
    bound = law.logpdf(y) - 0.5 * np.sum(kernel.diag(X) - np.diag(Q)) / noise
    evidence = SparseEvidence(rows, Z, kernel, likelihood)
    theta = np.concatenate((kernel.theta, likelihood.theta))
    assert evidence.value_and_gradient(theta)[0] == pytest.approx(bound, rel=1e-7)


def test_all_rows_as_inducing_inputs_give_the_evidence_itself(rng):
    rows = rows_for(Gaussian(), rng, n=12)._replace(weights=np.ones(12))
    kernel, likelihood = KERNELS["rbf"], Gaussian(0.3).prepare(rows.y)
    law = multivariate_normal(np.zeros(12), kernel(rows.X) + 0.3 * np.eye(12))
    value, _ = SparseEvidence(rows, rows.X, kernel, likelihood).value_and_gradient(
        kernel.theta
    )
    assert value == pytest.approx(law.logpdf(rows.y), rel=1e-7)


def test_weights_are_repetitions(rng):
    for likelihood in (Gaussian(0.3), Bernoulli(), Categorical()):
        rows = rows_for(likelihood, rng)
        times = rows.weights.astype(int)
        written_out = Rows(
            np.repeat(rows.X, times, axis=0),
            np.repeat(rows.y, times),
            np.ones(sum(times)),
        )
        kernel, Z = KERNELS["rbf"], rows.X[:5]
        one, other = (
            SparseEvidence(
                r, Z, kernel, likelihood.prepare(r.y, r.weights)
            ).value_and_gradient(kernel.theta)
            for r in (rows, written_out)
        )
        assert one[0] == pytest.approx(other[0], rel=1e-9)
        np.testing.assert_allclose(one[1], other[1], atol=1e-4)


def test_a_failing_kernel_is_hopeless_and_not_an_error(rng):
    rows = rows_for(Gaussian(), rng)
    evidence = SparseEvidence(rows, rows.X[:4], RBF(1.0), Gaussian(0.1).prepare(rows.y))
    with np.errstate(all="ignore"):
        value, gradient = evidence.negative(np.array([np.nan]))
    assert value > 1e9
    assert np.all(np.isfinite(gradient))


# ---- The search ----------------------------------------------------------------------


def search(rows, starts, rng, m=8):
    return maximise_evidence(rows, starts, "greedy", m, rng)


def test_search_ends_where_the_slope_vanishes(rng):
    rows = rows_for(Gaussian(), rng, n=60)
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    kernel, Z = ConstantKernel(1.0) * RBF([1.0, 1.0]), rows.X[:10]
    found = maximise_evidence(rows, [(kernel, likelihood)], Z, 10, rng)
    read = rows._replace(weights=search_weights(rows))
    evidence = SparseEvidence(read, Z, found.kernel, found.likelihood)
    theta = np.concatenate((found.kernel.theta, found.likelihood.theta))
    value, gradient = evidence.value_and_gradient(theta)
    assert found.log_evidence == pytest.approx(value, rel=1e-9)
    assert np.max(np.abs(gradient)) < 0.05
    start = np.concatenate((kernel.theta, likelihood.theta))
    assert value > evidence.value_and_gradient(start)[0] + 1.0


def test_fixed_parameters_stay_and_bounds_hold(rng):
    rows = rows_for(Gaussian(), rng, n=40)
    kernel = ConstantKernel(2.5, "fixed") * RBF([0.3, 9.0], [(0.2, 0.4), (8.0, 10.0)])
    likelihood = Gaussian(noise_variance=0.7).prepare(rows.y, rows.weights)
    found = search(rows, [(kernel, likelihood)], rng)
    assert found.kernel.k1.constant_value == 2.5
    assert found.likelihood.noise_variance == 0.7
    lengths = found.kernel.k2.length_scale
    assert 0.2 * (1 - 1e-9) <= lengths[0] <= 0.4 * (1 + 1e-9)
    assert 8.0 * (1 - 1e-9) <= lengths[1] <= 10.0 * (1 + 1e-9)
    assert not np.array_equal(lengths, [0.3, 9.0])


def test_likelihood_scale_stays_within_its_bounds(rng):
    rows = rows_for(Gaussian(), rng, n=40)
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    likelihood = likelihood.with_start(noise_variance=(0.01, 0.005, 0.02))
    found = search(rows, [(ConstantKernel(1.0) * RBF(1.0), likelihood)], rng)
    assert found.likelihood.noise_variance == pytest.approx(0.02, rel=1e-6)


def test_nothing_free_is_nothing_done(rng):
    rows = rows_for(Gaussian(), rng)
    kernel, likelihood = RBF(1.0, "fixed"), Gaussian(0.1).prepare(rows.y)
    found = search(rows, [(kernel, likelihood)], rng)
    assert found.kernel is kernel
    assert found.likelihood is likelihood
    assert np.isnan(found.log_evidence)


def test_the_better_of_two_starts_is_kept():
    # a wiggle that can be signal (short lengthscale) or noise (long lengthscale)
    rng = np.random.default_rng(0)
    X = np.linspace(0.0, 6.0, 30)[:, np.newaxis]
    y = np.sin(6.0 * X[:, 0]) + 0.1 * rng.standard_normal(30)
    rows, kernel = Rows(X, y, np.ones(30)), ConstantKernel(1.0) * RBF(0.25)
    likelihood = Gaussian().prepare(y)
    short = kernel, likelihood.with_theta([np.log(0.02)])
    long = ConstantKernel(1.0) * RBF(50.0), likelihood.with_theta([np.log(0.5)])
    alone = [
        maximise_evidence(rows, [start], X, 30, np.random.default_rng(1)).log_evidence
        for start in (short, long)
    ]
    assert alone[0] > alone[1] + 5.0
    for starts in ([short, long], [long, short]):
        found = maximise_evidence(rows, starts, X, 30, np.random.default_rng(1))
        assert found.log_evidence == pytest.approx(alone[0], abs=1e-2)
        assert found.kernel.k2.length_scale < 1.0


def test_a_subset_weighs_as_much_as_all_rows(rng):
    n = 3000
    rows = Rows(rng.random((n, 1)), rng.random(n), rng.random(n) + 0.5)
    some = _evidence.subset(rows, 500, rng)
    assert some.X.shape == (500, 1)
    assert some.weights.sum() == pytest.approx(rows.weights.sum())
    place = np.searchsorted(np.sort(rows.y), some.y)
    np.testing.assert_array_equal(np.sort(rows.y)[place], some.y)
    assert _evidence.subset(rows, n, rng) is rows


# ---- The prior kernel ----------------------------------------------------------------


def settings(kernel, **changes):
    values = {
        "kernel": kernel, "prior": "gp", "optimizer": "evidence",
        "n_restarts": 1, "inducing": "greedy", "n_inducing": 10, **changes,
    }  # fmt: skip
    return PriorSettings(**values)


def prepared(rows, likelihood=None):
    return (likelihood or Gaussian()).prepare(rows.y, rows.weights)


def test_a_white_kernel_is_the_noise(rng):
    rows = rows_for(Gaussian(), rng, n=40)
    fixed = RBF(1.0, "fixed") + WhiteKernel(0.3, "fixed")
    found = fit_prior(rows, prepared(rows), settings(fixed), rng)
    assert found.kernel == RBF(1.0, "fixed")
    assert found.likelihood.noise_variance == 0.3
    narrow = RBF(1.0, "fixed") + WhiteKernel(2.0, (1.9, 2.1))
    found = fit_prior(rows, prepared(rows), settings(narrow), rng)
    assert found.likelihood.noise_variance == pytest.approx(1.9, rel=1e-6)
    with pytest.raises(ValueError, match="WhiteKernel"):
        fit_prior(rows, prepared(rows, StudentT()), settings(fixed), rng)


@pytest.mark.parametrize("prior", ["gp", "gre"])
def test_no_optimizer_keeps_the_kernel(rng, prior):
    rows = rows_for(Gaussian(), rng, n=30)
    kernel = ConstantKernel(1.7) * RBF(0.6)
    found = fit_prior(
        rows, prepared(rows), settings(kernel, optimizer=None, prior=prior), rng
    )
    inner = found.kernel.kernel if prior == "gre" else found.kernel
    assert inner == kernel
    assert inner is not kernel


@pytest.mark.parametrize("prior", ["gp", "gre"])
def test_more_starts_are_never_worse(rng, prior):
    rows = rows_for(Gaussian(), rng, n=30)
    values = [
        fit_prior(
            rows,
            prepared(rows),
            settings(None, prior=prior, n_restarts=k, inducing=rows.X[:6]),
            np.random.default_rng(3),
        ).log_evidence
        for k in (1, 2)
    ]
    assert values[1] >= values[0] - 1e-3


def test_the_default_search_of_the_gre_prior_is_not_worse_than_its_start(rng):
    rows = rows_for(Gaussian(), rng, n=50)
    Z = rows.X[:12]
    found = fit_prior(
        rows, prepared(rows), settings(None, prior="gre", inducing=Z), rng
    )
    likelihood = prepared(rows)
    start = GREKernel(default_kernel(rows.X, rows.weights), rows.X, rows.weights)
    value, _ = SparseEvidence(rows, Z, start, likelihood).value_and_gradient(
        np.concatenate((start.theta, likelihood.theta))
    )
    assert isinstance(found.kernel, GREKernel)
    assert found.log_evidence > value


def test_one_warning_names_what_ended_at_a_bound(rng):
    rows = rows_for(Gaussian(), rng, n=40)
    kernel = ConstantKernel(1.0, (0.9, 1.1)) * RBF(30.0, (20.0, 40.0))
    with pytest.warns(ConvergenceWarning, match="length_scale = .*Widen") as caught:
        fit_prior(rows, prepared(rows), settings(kernel), rng)
    assert len(caught) == 1


def test_the_callers_kernel_is_not_changed(rng):
    rows = rows_for(Gaussian(), rng, n=40)
    kernel = ConstantKernel(1.0) * RBF(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = fit_prior(rows, prepared(rows), settings(kernel), rng)
    assert kernel == ConstantKernel(1.0) * RBF(1.0)
    assert found.kernel != kernel
