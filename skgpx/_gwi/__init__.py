"""Gaussian-process uncertainty around a mean function: Gaussian Wasserstein inference."""
