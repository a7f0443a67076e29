"""Rows and settings that the tests of the estimator share."""

import numpy as np

FIXED = {"optimizer": None, "noise_variance": 0.04, "normalize_y": False}


def wave(n=200, d=1, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    f = np.sin(4.0 * X[:, 0]) + 0.5 * np.cos(3.0 * X.sum(axis=1))
    return X, f + noise * rng.normal(size=n)
