"""Priors of hyperparameters, stated where scikit-learn's kernels take bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from skgpx._types import Array


class Prior:
    """A prior distribution of a hyperparameter, in place of its bounds.

    Every kernel of scikit-learn and of this library takes it: ``RBF(1.0,
    Prior(lognorm(0.5, scale=2.0)))``, alone or inside of sums, products and
    :class:`Columns`. Fits maximise the log evidence plus the log densities of the
    logarithms of the hyperparameters, ``log p(θ) + log θ``; the value in the kernel is
    where a search starts. Other hyperparameters have their bounds only.

    Parameters
    ----------
    distribution : frozen distribution, or list of them
        Continuous, of `scipy.stats`, with a positive median. For a hyperparameter with
        one entry a column: one for all entries, or a list of one for each.

    Attributes
    ----------
    distributions : list
        One, or one for each entry.
    bounds : ndarray of shape (1, 2) or (q, 2)
        The search stays within 1e-5 and 1e5 times the median, and the support.

    Notes
    -----
    Lengthscales are in the units of X. Where an estimator standardises y, as all do for
    a Gaussian or another likelihood of location and scale (SpectralVGPRegressor unless
    ``normalize_y=False``), a ConstantKernel and a WhiteKernel hold fractions of the
    variance of y, and the slope of Linear is in standard deviations of y. Otherwise
    they refer to the latent function, such as log odds or log rates.

    The prior has no effect without a search (``optimizer=None``), nor in scikit-learn's
    GaussianProcessRegressor, for which this is a pair of bounds. A kernel of your own
    takes it as ``name_bounds`` of the hyperparameter ``name``. A noise variance with a
    prior is the result of the search, without a correction for the inducing points;
    without one it has the default prior, except on Fourier functions.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import halfnorm, lognorm
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from skgpx import PLSRegressor
    >>> from skgpx.kernels import Prior
    >>> X = np.linspace(0.0, 1.0, 30)[:, np.newaxis]
    >>> kernel = RBF(1.0, Prior(lognorm(0.01, scale=0.3)))
    >>> kernel += WhiteKernel(0.1, Prior(halfnorm(scale=0.2)))
    >>> model = PLSRegressor(kernel=kernel, hyperparameters="maximise", random_state=0)
    >>> model.fit(X, np.sin(9.0 * X[:, 0])).kernel_
    RBF(length_scale=0.294)
    """

    def __init__(self, distribution: object) -> None:
        if isinstance(distribution, Sequence) and len(distribution):
            self.distributions = list(distribution)
        else:
            self.distributions = [distribution]
        self._summary = np.array([_summary_of(entry) for entry in self.distributions])
        self.bounds = self._summary[:, :2]

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        return np.array(self.bounds, dtype=dtype)

    def __deepcopy__(self, memo: dict[int, object]) -> Prior:
        # kernels are cloned at every step of a search
        return self

    def __eq__(self, other: object) -> bool:
        # two copies of a frozen distribution are not equal, but their summaries are
        if not isinstance(other, Prior):
            return False
        return np.array_equal(self._summary, other._summary)

    __hash__ = None  # type: ignore[assignment]


def _summary_of(distribution: Any) -> tuple[float, ...]:
    """Lower and upper limit of a search, median and log density at the median."""
    try:
        median = float(distribution.median())
        support = distribution.support()
        log_density = float(distribution.logpdf(median))
    except (AttributeError, TypeError):
        median = np.nan
    if not 0.0 < median < np.inf:
        raise ValueError(
            "Prior expects a frozen continuous distribution with a positive median, "
            "such as scipy.stats.lognorm(0.5, scale=2.0), or a list of one for each "
            f"entry of the hyperparameter; got {distribution!r}."
        )
    # short of the limits of the support, where the density may be zero
    low, high = (median + 0.999 * (limit - median) for limit in support)
    return max(low, 1e-5 * median), min(high, 1e5 * median), median, log_density


def stated_log_density(stated: Sequence[Any], theta: Array) -> tuple[Any, Array]:
    """Log density of logarithms, ``Σ log p(exp θ_i) + θ_i``, and its gradient.

    For theta of shape (p,) or (s, p). Entries without a distribution, or for which
    `theta` is too short, do not count.
    """
    step = 1e-7
    value = np.zeros(theta.shape[:-1])
    gradient = np.zeros(theta.shape)
    # one call for all entries that share a distribution
    entries_of: dict[int, list[int]] = {}
    for i, distribution in enumerate(stated[: theta.shape[-1]]):
        if distribution is not None:
            entries_of.setdefault(id(distribution), []).append(i)
    for entries in entries_of.values():
        distribution = stated[entries[0]]
        nodes = np.add.outer(np.array([-step, 0.0, step]), theta[..., entries])
        below, centre, above = distribution.logpdf(np.exp(nodes)) + nodes
        value = value + centre.sum(axis=-1)
        gradient[..., entries] = (above - below) / (2.0 * step)
    return value[()], gradient
