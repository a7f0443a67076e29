"""Paths of drawn drifts against closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm

from skgpx._draws import linear_draws
from skgpx._draws._features import LinearFeatures
from skgpx.simulation import simulate_ode, simulate_sde

SIZE = 5
RNG = np.random.default_rng(0)
# one matrix for each path: stable, with rotation
MATRICES = -0.5 * np.eye(2) + RNG.normal(scale=0.7, size=(SIZE, 2, 2))
SHIFTS = RNG.normal(size=(SIZE, 2))
TIMES = np.array([0.0, 0.3, 0.5, 1.0])


def linear(matrices, shifts):
    """Draws ``A x + b``, (s, c, d) and (s, c)."""
    weights = np.concatenate((matrices, shifts[:, :, np.newaxis]), axis=2)
    return linear_draws(LinearFeatures(), weights.transpose(2, 1, 0).copy())


DRIFT = linear(MATRICES, SHIFTS)
EACH = [
    linear(MATRICES[:, [0]], SHIFTS[:, [0]]),
    linear(MATRICES[:, [1]], SHIFTS[:, [1]]),
]


def solution(A, b, x0, t):
    """``dx/dt = A x + b`` in closed form."""
    augmented = np.zeros((3, 3))
    augmented[:2, :2], augmented[:2, 2] = A, b
    return (expm(t * augmented) @ np.append(x0, 1.0))[:2]


class TestOrdinary:
    @pytest.mark.parametrize("drift", [DRIFT, EACH, tuple(EACH)])
    def test_linear_drift_in_closed_form(self, drift):
        paths = simulate_ode(drift, [1.0, -1.0], TIMES, n_substeps=40)
        assert paths.shape == (4, SIZE, 2)
        truth = [
            [solution(MATRICES[i], SHIFTS[i], [1.0, -1.0], t) for i in range(SIZE)]
            for t in TIMES
        ]
        assert_allclose(paths, truth, rtol=1e-7, atol=1e-7)

    def test_error_is_of_fourth_order(self):
        def error(n_substeps):
            end = simulate_ode(DRIFT, [1.0, -1.0], [0.0, 2.0], n_substeps=n_substeps)
            fine = simulate_ode(DRIFT, [1.0, -1.0], [0.0, 2.0], n_substeps=400)
            return np.abs(end - fine)[-1].max()

        assert 14.0 < error(20) / error(40) < 18.0

    def test_a_start_for_each_path(self):
        starts = RNG.normal(size=(SIZE, 2))
        paths = simulate_ode(DRIFT, starts, TIMES)
        assert_array_equal(paths[0], starts)
        one = simulate_ode(DRIFT[2], starts[2], TIMES)
        assert_allclose(one[:, 0], paths[:, 2], rtol=1e-12)

    @pytest.mark.parametrize("for_each_path", [False, True])
    def test_controls_are_further_inputs(self, for_each_path):
        # dx/dt = u(t), one state: the integral of cos
        drift = linear(np.tile([[[0.0, 1.0]]], (SIZE, 1, 1)), np.zeros((SIZE, 1)))
        phase = np.linspace(0.0, 1.0, SIZE)[:, np.newaxis] * for_each_path

        def controls(t):
            return np.cos(t + phase) if for_each_path else np.cos(t)

        paths = simulate_ode(drift, [0.0], TIMES, controls=controls, n_substeps=20)
        truth = np.sin(TIMES[:, np.newaxis] + phase[:, 0]) - np.sin(phase[:, 0])
        assert_allclose(paths[:, :, 0], truth, rtol=1e-7, atol=1e-9)

    def test_paths_that_explode_are_reported(self):
        drift = linear(np.full((1, 1, 1), 1e300), np.zeros((1, 1)))
        with (
            np.errstate(all="ignore"),
            pytest.raises((FloatingPointError, ValueError), match="finite"),
        ):
            simulate_ode(drift, [1e10], [0.0, 1.0, 2.0])


class TestStochastic:
    @pytest.mark.parametrize(
        "diffusion",
        [0.4, [0.4, 0.7], [[0.4, 0.0], [0.3, 0.5]], lambda x: 0.4 + 0.0 * x],
        ids=["number", "diagonal", "matrix", "callable"],
    )
    def test_moments_of_brownian_motion_with_drift(self, diffusion):
        size, b = 4000, np.array([0.5, -1.0])
        drift = linear(np.zeros((size, 2, 2)), np.tile(b, (size, 1)))
        paths = simulate_sde(
            drift, [1.0, 2.0], [0.0, 0.5, 2.0], diffusion, n_substeps=3, random_state=0
        )
        G = 0.4 if callable(diffusion) else np.asarray(diffusion)
        G = G if np.ndim(G) == 2 else np.eye(2) * G
        end, cov = paths[-1] - [1.0, 2.0] - 2.0 * b, 2.0 * G @ G.T
        error = np.sqrt(np.diag(cov) / size)
        assert np.all(np.abs(end.mean(axis=0)) < 4.5 * error)
        variance = np.diag(cov)
        error = np.sqrt((np.outer(variance, variance) + cov**2) / size)
        assert np.all(np.abs(end.T @ end / size - cov) < 4.5 * error)
        # increments are independent
        early, late = paths[1, :, 0] - 1.0, paths[2, :, 0] - paths[1, :, 0]
        assert abs(np.arctanh(np.corrcoef(early, late)[0, 1])) < 4.5 / np.sqrt(size)

    def test_no_noise_is_an_euler_scheme_and_seeds_repeat(self):
        fine = simulate_ode(DRIFT, [1.0, -1.0], TIMES)
        still = simulate_sde(DRIFT, [1.0, -1.0], TIMES, 0.0, n_substeps=2000)
        assert_allclose(still, fine, atol=5e-3)
        run = [
            simulate_sde(DRIFT, [1.0, -1.0], TIMES, 0.3, random_state=3)
            for _ in range(2)
        ]
        assert_array_equal(*run)


START = [1.0, 1.0]
BAD = [
    (simulate_ode, ((), START, TIMES), "drift must be"),
    (simulate_ode, ([1.0], START, TIMES), "drift must be"),
    (simulate_ode, ([EACH[0], EACH[1][:2]], START, TIMES), "same length"),
    (simulate_ode, (DRIFT, [1.0], TIMES), r"x0 must have shape \(2,\) or \(5, 2\)"),
    (simulate_ode, (DRIFT, [1.0, np.nan], TIMES), "x0 must be finite"),
    (simulate_ode, (DRIFT, START, [0.0, 1.0, 1.0]), "strictly"),
    (simulate_ode, (DRIFT, START, 0.0), "t must have shape"),
    (simulate_sde, (DRIFT, START, TIMES[::-1], 0.1), "must increase"),
    (simulate_sde, (DRIFT, START, TIMES, [1.0, 1.0, 1.0]), "diffusion must be"),
    (simulate_sde, (DRIFT, START, TIMES, np.nan), "diffusion must be"),
    (simulate_sde, (DRIFT, START, TIMES, lambda x: x[:, :1]), "same shape"),
]


def test_what_does_not_fit_is_refused():
    for function, arguments, message in BAD:
        with pytest.raises(ValueError, match=message):
            function(*arguments)
    with pytest.raises(ValueError, match="n_substeps"):
        simulate_ode(DRIFT, START, TIMES, n_substeps=0)
