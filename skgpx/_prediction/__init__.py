"""What fitted estimators have in common: `predict`, and everything like it."""
