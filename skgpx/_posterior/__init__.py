"""Posteriors that are normal distributions: by regression, and given nearest rows."""
