"""Rows and brief settings that the tests of the estimators share."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

# A fixed prior, and few epochs.
FIXED = {"kernel": RBF([1.0, 1.5]), "optimizer": None, "noise_variance": 0.05}
BRIEF = {**FIXED, "n_estimators": 2, "max_iter": 20, "random_state": 0}


def wavy(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = 3.0 + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y


@pytest.fixture(scope="session")
def rows():
    return wavy(160)
