"""Moments of draws, for latent models and their bases."""

import numpy as np


def assert_moments(values, mean, covariance, slack=0.0):
    """z-scores of draws (n, s); features of a prior may err by a slack."""
    size, variance = values.shape[1], np.diagonal(covariance)
    z = (values.mean(axis=1) - mean) / np.sqrt(variance / size)
    assert np.max(np.abs(z)) < 4.5
    products = np.outer(variance, variance)
    error = 4.5 * np.sqrt((products + covariance**2) / size) + slack * products**0.5
    assert np.all(np.abs(np.cov(values) - covariance) < error)
