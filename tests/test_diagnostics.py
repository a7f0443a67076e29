"""Checks of a fit: what they find, and that a fit warns once."""

import warnings

import numpy as np
import pytest

from skgpx.diagnostics import Finding, conclude, residual_autocorrelation
from skgpx.exceptions import ConvergenceWarning, FitWarning


class Fitted:
    """What `conclude` needs of an estimator: attributes."""


def concluded(findings):
    model = Fitted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        conclude(model, findings)
    return model, caught


def test_several_findings_make_one_warning_a_category():
    found = (
        Finding("a", "First."),
        Finding("b", "Second."),
        Finding("c", "Third.", ConvergenceWarning),
    )
    model, caught = concluded([found[0], None, *found[1:]])
    assert model.findings_ == found
    assert [one.category for one in caught] == [FitWarning, ConvergenceWarning]
    assert "- First.\n- Second." in str(caught[0].message)
    assert str(caught[1].message) == "Third."


def test_a_fit_without_findings_does_not_warn():
    model, caught = concluded([None])
    assert model.findings_ == ()
    assert not caught


@pytest.mark.parametrize("d", [1, 3])
def test_residuals_of_neighbours(d):
    rng = np.random.default_rng(d)
    X = rng.uniform(size=(400, d))
    noise = rng.standard_normal(400)
    missed = np.sin(20.0 * X[:, 0]) + noise
    assert residual_autocorrelation(X, noise, float(np.var(noise))) is None
    found = residual_autocorrelation(X, missed, float(np.var(missed)))
    assert found is not None
    assert "along column 0" in found.message
