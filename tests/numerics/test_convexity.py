import numpy as np
import pytest

from skgpx._numerics import langevin
from skgpx._numerics.modes import is_log_concave
from skgpx._selection import row_target
from skgpx._validation import Rows
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Poisson,
    ShiftedMixture,
    StudentT,
)


class Laplace(Likelihood):
    """A kink, but convex."""

    location_scale = True

    def nll(self, y, f):
        return np.abs(y - f) + np.log(2.0)

    def gradient(self, y, f):
        return np.sign(f - y)


def target_of(likelihood, y, scale=1.0):
    y = np.asarray(y, dtype=np.float64)
    features = scale * np.ones((len(y), 1))
    rows = Rows(features, y, np.ones(len(y)))
    return row_target(features, rows, likelihood.prepare(y))


COUNTS = [0, 1, 2, 5, 9, 30]


@pytest.mark.parametrize(
    ("likelihood", "y", "expected"),
    [
        (Gaussian(noise_variance=0.1), COUNTS, True),
        (Laplace(), COUNTS, True),
        (Bernoulli(), [0, 1, 1], True),
        (Bernoulli("probit"), [0, 1, 1], True),
        (Categorical(), [0, 1, 2, 1], True),
        (Poisson(), COUNTS, True),
        (Poisson("exp"), COUNTS, True),
        (Poisson("square"), COUNTS, False),
        (Poisson("square"), [0, 0, 0], True),
        (StudentT(scale=0.1), COUNTS, False),
        (ShiftedMixture(3.0, noise_variance=0.1), COUNTS, False),
        # so close that the two normal distributions are one bump
        (ShiftedMixture(0.1, noise_variance=1.0), COUNTS, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_log_concavity_is_found(likelihood, y, expected, scale):
    assert is_log_concave(target_of(likelihood, y, scale)) == expected


def test_only_what_the_prior_reaches_counts():
    # convex for |y - f| < sqrt(df) scale = 2
    far, near = (target_of(StudentT(scale=1.0), [0.0], s) for s in (0.4, 0.6))
    assert is_log_concave(far)
    assert not is_log_concave(near)


def test_a_quadratic_potential_is_convex():
    assert is_log_concave(langevin.quadratic_target(np.eye(2), np.ones(2)))
