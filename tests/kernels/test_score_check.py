"""Registered scores against densities, samplers and symmetry."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic

from skgpx.kernels import check_spectral_score, register_kernel, sample_frequencies


@pytest.mark.parametrize("d", [1, 3, 50])
@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.01),
        RBF(300.0),
        Matern(2.0, nu=0.5),
        Matern(0.1, nu=1.3),
        RationalQuadratic(0.5, 0.3),
        RationalQuadratic(0.5, 20.0),
    ],
    ids=str,
)
def test_built_in_scores_pass(kernel, d):
    rng = np.random.default_rng(0)
    omega = sample_frequencies(kernel, 100, d, rng, "halton").frequencies
    check_spectral_score(kernel, omega)


OMEGA = np.random.default_rng(0).normal(size=(30, 2))


def cauchy_score(kernel, omega):
    return -3.0 * omega / (1.0 + np.sum(omega**2, axis=1, keepdims=True))


def cauchy_sampler(kernel, n, d, rng):
    z = rng.standard_normal((n, d + 1))
    return z[:, :-1] / np.abs(z[:, -1:])


def kernel_with(**known):
    Mine = type("Mine", (RBF,), {})
    register_kernel(Mine, **known)
    return Mine()


def test_a_density_and_its_score():
    def density(kernel, omega):
        power = (1.0 + np.sum(omega**2, axis=1)) ** -1.5
        return 2.0 * np.pi * power, np.empty((len(omega), 0))

    check_spectral_score(
        kernel_with(spectral_score=cauchy_score, spectral_density=density), OMEGA
    )
    with pytest.raises(ValueError, match="is not the slope"):
        check_spectral_score(
            kernel_with(
                spectral_score=lambda k, w: -w / (1.0 + w**2), spectral_density=density
            ),
            OMEGA,
        )


@pytest.mark.parametrize(
    ("score", "named"),
    [
        (lambda k, omega: 1.0 - omega, "not odd"),
        (lambda k, omega: -omega[:, 0], r"of shape \(30, 2\); got shape \(30,\)"),
        (lambda k, omega: omega / 0.0 * 0.0, "must be finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero|invalid value:RuntimeWarning")
def test_scores_that_cannot_be(score, named):
    with pytest.raises(ValueError, match=named):
        check_spectral_score(kernel_with(spectral_score=score), OMEGA)
