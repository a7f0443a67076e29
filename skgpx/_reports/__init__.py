"""What a fit has learned, as text, as a table and as named hyperparameters."""
