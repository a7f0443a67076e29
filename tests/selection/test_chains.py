import numpy as np
import pytest

from skgpx import PLSRegressor
from skgpx._selection import _evidence
from skgpx._selection._averaging import LogPosterior, langevin
from skgpx._selection._candidates import default_candidates, with_trend
from skgpx._selection._maximise import Objective
from skgpx._validation import Rows
from skgpx.likelihoods import Gaussian


def posterior_of(name, n=31):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)
    rows = Rows(X, y, rng.integers(1, 3, n).astype(np.float64))
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    families = default_candidates(rows, likelihood, unit=1.2)
    isotropic, anisotropic = families[1]
    candidates = {
        "one lengthscale": isotropic,
        "one a column": anisotropic,
        "trend": with_trend(anisotropic, rows),
    }
    candidate = candidates[name]
    return LogPosterior(candidate, rows, likelihood)


def points_of(posterior, rng, n_points):
    low, high = posterior.bounds.T
    start = posterior.candidate.coordinates_of(posterior.candidate.kernel)
    centre = np.append(start, -2.0)
    noise = 0.3 * rng.standard_normal((n_points, len(centre)))
    return np.clip(centre + noise, low, high)


CANDIDATES = ["one lengthscale", "one a column", "trend"]


@pytest.mark.parametrize("name", CANDIDATES)
def test_log_posterior_of_several_points(rng, name):
    posterior = posterior_of(name)
    points = points_of(posterior, rng, 4)
    values, gradients = posterior.values_and_gradients(points)
    np.testing.assert_allclose(posterior.values(points), values)
    evidence = posterior._evidence
    objective = Objective(posterior.candidate, [evidence])
    for point, value, gradient in zip(points, values, gradients, strict=True):
        loss, slope = objective(point)
        assert -loss == pytest.approx(value)
        np.testing.assert_allclose(gradient, -slope, rtol=1e-10, atol=1e-12)
    beyond = points.copy()
    beyond[1] = posterior.bounds[:, 1] + 1.0
    assert posterior.values(beyond)[1] == -np.inf
    there, slopes = posterior.values_and_gradients(beyond)
    assert there[1] == -np.inf
    assert not slopes[1].any()
    np.testing.assert_array_equal(np.delete(there, 1), np.delete(values, 1))


@pytest.mark.parametrize("name", CANDIDATES)
def test_langevin_chains_do_not_depend_on_each_other_or_on_compilation(
    rng, name, monkeypatch
):
    compiled = posterior_of(name)
    points = points_of(compiled, rng, 3)
    root = 0.15 * np.eye(points.shape[1])

    def walk(posterior, chosen):
        rngs = np.random.default_rng(1).spawn(3)
        return langevin(posterior, points[chosen], root, 8, [rngs[i] for i in chosen])

    together = walk(compiled, [0, 1, 2])
    assert np.mean(together != points) > 0.5
    alone = np.concatenate([walk(compiled, [i]) for i in range(3)])
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    monkeypatch.setattr(_evidence, "_COMPILED_ROWS", 0)
    by_lapack = posterior_of(name)
    assert by_lapack._evidence._form is None
    np.testing.assert_allclose(walk(by_lapack, [0, 1, 2]), together, rtol=1e-8)


def test_langevin_steps_leave_the_posterior_invariant():
    # a standard normal posterior in place of that of rows
    class Normal:
        def values_and_gradients(self, points):
            return -0.5 * np.sum(points**2, axis=1), -points

    rng = np.random.default_rng(8)
    n_chains = 4000
    points = rng.standard_normal((n_chains, 2))
    ends = langevin(Normal(), points, np.eye(2), 4, rng.spawn(n_chains))
    for moment, variance in ((ends, 1.0), (ends**2 - 1.0, 2.0), (ends**3, 15.0)):
        z = np.sqrt(n_chains / variance) * moment.mean(axis=0)
        assert np.max(np.abs(z)) < 4.5
    assert np.mean(np.sum(ends * points, axis=1)) < 1.0


def test_states_do_not_depend_on_the_number_of_jobs(rng):
    X = rng.standard_normal((125, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(125)
    fits = [PLSRegressor(random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)]
    one, two = (model.predict(X[:9], return_std=True) for model in fits)
    np.testing.assert_array_equal(one, two)
