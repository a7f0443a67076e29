"""Tobit and LogNormal as normal noise, in closed form where no row is censored."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skgpx._shell.validation import Rows, canonical_rows
from skgpx._types import Mask
from skgpx.likelihoods import Gaussian, Likelihood, LogNormal, Tobit


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
        In nats.
    """

    stated: Likelihood
    likelihood: Likelihood
    rows: Rows
    constant: float = 0.0

    @classmethod
    def of(cls, likelihood: Likelihood, rows: Rows) -> NormalForm:
        """Gaussian or Tobit for y or log y; other likelihoods stay as they are."""
        # subclasses may have other densities
        if type(likelihood) not in (Tobit, LogNormal):
            return cls(likelihood, likelihood, rows)
        rows = canonical_rows(*rows)
        stated = likelihood.prepare(rows.y, rows.weights, rows.known)
        if rows.known is not None and not np.any(rows.known):
            rows = rows._replace(known=None)
        constant = 0.0
        if type(likelihood) is LogNormal:
            # p(y) = p(log y) / y where y is observed
            log_y = np.log(rows.y)
            observed: float | Mask = 1.0
            if rows.known is not None:
                observed = rows.known == 0.0
            constant = float(rows.weights @ (observed * log_y))
            rows = rows._replace(y=log_y)
        reduced = _reduced(likelihood, rows.known is not None)
        return cls(stated, reduced, rows, constant)

    def fitted(self, likelihood: Likelihood) -> Likelihood:
        """The stated likelihood with the scale of the fitted one of y'."""
        if type(likelihood) is type(self.stated):
            return likelihood
        scale = float(np.sqrt(likelihood.variance(0.0)))
        return self.stated._replace(scale=scale)

    def reduced(self, stated: Likelihood) -> Likelihood:
        """The likelihood of y' with the scale of a stated one."""
        return _reduced(stated, self.rows.known is not None)


def _reduced(likelihood: Likelihood, censored: bool) -> Likelihood:
    if type(likelihood) not in (Tobit, LogNormal):
        return likelihood
    scale = getattr(likelihood, "scale", None)
    if censored:
        return Tobit(scale)
    if scale is None:
        return Gaussian()
    return Gaussian(scale**2)
