"""Likelihoods of a function of y, and of bounds, as those that f has in closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skgpx._shell.validation import Rows, canonical_rows
from skgpx.likelihoods import Gaussian, Likelihood, LogNormal, Tobit, Warped


class NormalForm(NamedTuple):
    """Rows and a likelihood that give f the same posterior as the user's likelihood.

    ``Σ ω nll(y, f; stated) = Σ ω nll(y', f; likelihood) + constant``

    Attributes
    ----------
    stated : Likelihood
        The user's; prepared, unless it is the `likelihood` itself.
    likelihood : Likelihood
    rows : Rows
        With targets ``y'``.
    constant : float
        In nats; of y on a scale less the logarithm of the slopes of the scale.
    """

    stated: Likelihood
    likelihood: Likelihood
    rows: Rows
    constant: float = 0.0

    @classmethod
    def of(cls, likelihood: Likelihood, rows: Rows) -> NormalForm:
        """That of g(y) for y on a scale, and of rows without censoring."""
        # subclasses may have other densities
        if type(likelihood) not in (Tobit, LogNormal, Warped):
            return cls(likelihood, likelihood, rows)
        rows = canonical_rows(*rows)
        stated = likelihood.prepare(rows.y, rows.weights, rows.known)
        form = cls.of_prepared(stated, rows)
        # what was not stated is free
        return form._replace(likelihood=form.reduced(likelihood))

    @classmethod
    def of_prepared(cls, stated: Likelihood, rows: Rows) -> NormalForm:
        """That of other rows, under a likelihood that has been fitted.

        Raises
        ------
        ValueError
            If y is outside of the support of its scale.
        """
        lowest, _ = stated.support
        if isinstance(stated, Warped) and np.any(rows.y <= lowest):
            raise ValueError(
                f"The first rows had positive y, and {stated!r} was fitted; got "
                f"{np.min(rows.y):g}. Fit all rows, or state likelihood=Gaussian()."
            )
        if rows.known is not None and not np.any(rows.known):
            rows = rows._replace(known=None)
        constant = 0.0
        if isinstance(stated, LogNormal | Warped):
            # p(y) = p(g(y)) g'(y) where y is observed
            of_rows = stated
            if rows.known is not None:
                of_rows = stated.at_rows(rows.known)
            log_slope = of_rows.log_slope(rows.y[:, np.newaxis])[:, 0]
            # of the targets that are known
            constant = -float(np.nansum(rows.weights * log_slope.T))
            rows = rows._replace(y=stated.forward(rows.y))
        reduced = _reduced(stated, rows.known is not None)
        return cls(stated, reduced, rows, constant)

    def fitted(self, likelihood: Likelihood) -> Likelihood:
        """The stated likelihood with the scale of the fitted one of y'."""
        if self.stated is self.likelihood:
            return likelihood
        return _with_scale_of(self.stated, likelihood)

    def reduced(self, stated: Likelihood) -> Likelihood:
        """The likelihood of y' with the scale of a stated one."""
        return _reduced(stated, self.rows.known is not None)


def _reduced(likelihood: Likelihood, censored: bool) -> Likelihood:
    if type(likelihood) is Warped:
        return _reduced(likelihood.base, censored)
    if type(likelihood) not in (Tobit, LogNormal):
        return likelihood
    scale = getattr(likelihood, "scale", None)
    if censored:
        return Tobit(scale)
    if scale is None:
        return Gaussian()
    return Gaussian(scale**2)


def _with_scale_of(stated: Likelihood, fitted: Likelihood) -> Likelihood:
    """A likelihood that was fitted as another one, with the scale of that one."""
    if isinstance(stated, Warped):
        return stated._replace(likelihood=_with_scale_of(stated.base, fitted))
    if type(fitted) is type(stated):
        return fitted
    return stated._replace(scale=float(np.sqrt(fitted.variance(0.0))))
