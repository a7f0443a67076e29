"""What takes any regressor, and what knows every estimator."""
