"""Draws against the mean and the covariance that they should have."""

import numpy as np


def assert_moments(draws, mean, cov):
    """Mean and covariance of draws (n, s) by z-scores."""
    size = draws.shape[1]
    variance = np.maximum(np.diag(cov), 0.0)
    error = np.sqrt(variance / size)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 4.5 * error)
    centred = draws - mean[:, np.newaxis]
    error = np.sqrt((np.outer(variance, variance) + cov**2) / size)
    assert np.all(np.abs(centred @ centred.T / size - cov) < 4.5 * error)
