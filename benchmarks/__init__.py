"""Measurements against peers; run from the repository root with ``python -m``."""
