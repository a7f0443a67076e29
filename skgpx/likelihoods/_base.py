"""The contract of a likelihood, and everything that is derived from it."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize
from scipy.special import ndtri

from skgpx._numerics import crps
from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods import _predictive
from skgpx.likelihoods._scales import ScaleParameters

Array = NDArray[np.float64]

# Rows in one search for quantiles: their quadrature nodes stay in the cache.
_ROWS = 64
# How far a curved link may move the base, in prior standard deviations, and the bases
# that are tried where none within that range is right.
_REACH, _TRIALS = 8.0, 161


class RowForm(NamedTuple):
    """Rows of which more is known than X, as rows of which nothing more is.

    ``Σ ω nll(y, f; known) = Σ ω' nll(y', factor f) + Σ ω constant``, where the terms on
    the right are those of the likelihood itself.

    Attributes
    ----------
    y, weights : ndarray of shape (n,)
        ``y'`` and ``ω'``.
    factor : ndarray of shape (n,) or None
        Of the latent values; None for ones.
    constant : ndarray of shape (n,) or None
        In nats; None for zeros.
    """

    y: Array
    weights: Array
    factor: Array | None = None
    constant: Array | None = None


class Likelihood(ScaleParameters):
    """Conditional distribution of one observation given its latent value, ``p(y | f)``.

    A likelihood is a small object of parameters and pure functions. To write one,
    subclass this class and implement, in vectorised NumPy and elementwise (``y`` and
    ``f`` broadcast against each other), `nll`, `gradient`, `mean`, `variance` and
    `sample`; `cdf` for quantiles; `curvature` and `check_support` where the defaults
    do not fit; `base_latent` for the level to which predictions return far from the
    data, and `initial_latent` for its scale. Positive parameters that are learned when
    they are left None are named in `scale_names`, with their range in
    `starting_scales`. Then run :func:`skgpx.likelihoods.check_likelihood` on it.

    The constructor stores its parameters as they are and nothing else: fitted copies
    replace parameters without calling it, so anything derived is computed where it is
    needed.

    Everything else is derived here: the fitted copy (`prepare`), the row-wise functions
    that the samplers use, and the predictive functionals of a latent mixture.

    Attributes
    ----------
    location_scale : bool
        Class attribute: shifting and scaling y only shifts and scales f, so y may be
        centred and scaled before fitting.
    heavy_tailed : bool
        Class attribute: outliers are expected, so y is centred by its median and scaled
        by its quartiles instead of its mean and standard deviation.
    symmetric : bool
        Class attribute: ``nll(y, f) == nll(y, -f)``, so that a posterior may have a
        second mode, which chains started at the first would miss.
    log_scale : bool
        Class attribute: f is on the scale of log odds or log rates, so that a prior
        standard deviation of 6 allows everything. The default kernel stops there;
        otherwise it has bounds around the spread of `initial_latent`.
    discrete : bool
        Class attribute: y takes integer values.
    smooth : bool
        Class attribute: `nll` has a gradient that says where to go. Methods that follow
        it refuse a likelihood that has none.
    n_outputs : int
        Class attribute: latent outputs per row; see `n_outputs_` after `prepare`.
    kernel_code : int or None
        Class attribute: code of the compiled formula for this likelihood; None for
        likelihoods that are written in NumPy only.
    row_quantity : {"exposure", "noise_variance"} or None
        Class attribute: what `fit` may know of each row; see `row_form` and
        `at_rows`, which a likelihood that names something must implement.
    scale_names : tuple of str
        Class attribute: the positive constructor parameters that, when left None,
        are estimated along with the kernel.
    free_ : tuple of str
        Set by `prepare`: the names in `scale_names` that were None.
    n_outputs_ : int
        Set by `prepare`: number of latent outputs.
    base_latent_ : ndarray of shape (`n_outputs_`,)
        Set by `prepare`: prior mean of the latent function.

    Examples
    --------
    Positive targets, such as waiting times, with a shape that is learned:

    >>> import numpy as np
    >>> from scipy.special import gammaln
    >>> from skgpx.likelihoods import (Likelihood, check_likelihood)
    >>> class Gamma(Likelihood):
    ...     '''Positive targets with mean exp(f); the variance is exp(2 f) / shape.'''
    ...
    ...     scale_names = ("shape",)
    ...     log_scale = True
    ...
    ...     def __init__(self, shape=None):
    ...         self.shape = shape
    ...
    ...     def starting_scales(self, y, weights):
    ...         return {"shape": (1.0, 1e-2, 1e3)}
    ...
    ...     def nll(self, y, f):
    ...         a, ratio = self.shape, y * np.exp(-np.clip(f, -300.0, 300.0))
    ...         constant = gammaln(a) - a * np.log(a) + np.log(y)
    ...         return a * (ratio - np.log(y) + f) + constant
    ...
    ...     def gradient(self, y, f):
    ...         return self.shape * (1.0 - y * np.exp(-np.clip(f, -300.0, 300.0)))
    ...
    ...     def mean(self, f):
    ...         return np.exp(f)
    ...
    ...     def variance(self, f):
    ...         return np.exp(2.0 * f) / self.shape
    ...
    ...     def sample(self, f, rng):
    ...         return rng.gamma(self.shape, np.exp(f) / self.shape)
    ...
    ...     def base_latent(self, y, weights):
    ...         return np.log(np.average(y, weights=weights))
    ...
    ...     def initial_latent(self, y):
    ...         return np.log(y)
    ...
    ...     def check_support(self, y):
    ...         super().check_support(y)
    ...         if np.any(y <= 0.0):
    ...             raise ValueError("Gamma expects positive y.")
    >>> check_likelihood(Gamma())
    >>> prepared = Gamma().prepare([1.0, 2.0, 6.0])
    >>> prepared.free_, prepared.shape, prepared.base_latent_.round(3)
    (('shape',), 1.0, array([1.099]))
    """

    location_scale: ClassVar[bool] = False
    heavy_tailed: ClassVar[bool] = False
    symmetric: bool = False
    log_scale: bool = False
    discrete: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    n_outputs: ClassVar[int] = 1
    kernel_code: int | None = None
    row_quantity: ClassVar[str | None] = None

    n_outputs_: int
    base_latent_: Array

    # ---- What a likelihood must define ---------------------------------------------

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-log p(y | f)`` in nats, with all normalising constants."""
        raise NotImplementedError(self._missing("nll(y, f)"))

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Differentiate `nll` in f."""
        raise NotImplementedError(self._missing("gradient(y, f)"))

    def mean(self, f: ArrayLike) -> Array:
        """``E[y | f]``, in units of y."""
        raise NotImplementedError(self._missing("mean(f)"))

    def variance(self, f: ArrayLike) -> Array:
        """``Var[y | f]``, in squared units of y."""
        raise NotImplementedError(self._missing("variance(f)"))

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw one observation per element of f."""
        raise NotImplementedError(self._missing("sample(f, rng)"))

    # ---- What it may define --------------------------------------------------------

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``P(Y <= y | f)``; needed for quantiles and intervals only."""
        raise NotImplementedError(self._missing("cdf(y, f)"))

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Non-negative substitute for the second derivative of `nll` in f.

        Used for preconditioning and approximations, never to define the target. The
        default is the positive part of a central difference of `gradient`.
        """
        f = np.asarray(f, dtype=np.float64)
        h = 1e-5 * (1.0 + np.abs(f))
        rise = self.gradient(y, f + h) - self.gradient(y, f - h)
        return np.maximum(rise / (2.0 * h), 0.0)

    def base_latent(
        self,
        y: Array,  # noqa: ARG002
        weights: Array,  # noqa: ARG002
    ) -> float | Array:
        """Latent level of the targets as a whole: the prior mean of the function.

        Usually the link of the weighted mean of y; far from the data predictions
        return to it. One number, or one for each output (c,). The default, 0, suits
        likelihoods that are `location_scale`, whose y is centred.
        """
        return 0.0

    def initial_latent(self, y: ArrayLike) -> Array:
        """Rough latent value for each y: where a search for the mode may start.

        Its spread around the base tells how large the latent function is. The default
        is the base itself.
        """
        return np.zeros(np.shape(y)) + self._base(1)[0]

    def check_support(self, y: Array) -> None:
        """Raise a ValueError if y is outside the support, saying what it should be."""
        bad = int(np.sum(~np.isfinite(y)))
        if bad:
            raise ValueError(
                f"{type(self).__name__} expects finite y; got {bad} values that are"
                " NaN or infinite. Remove these rows."
            )

    def kernel_parameters(self) -> Array:
        """Parameters of the compiled formula, shape (p,)."""
        return np.empty(0)

    def scaled(self, factor: float) -> Self:  # noqa: ARG002
        """Copy that describes the distribution of ``factor * y`` given ``factor * f``.

        ``factor`` is positive. Likelihoods that are not `location_scale` return an
        unchanged copy; those that are return ``self.rescaled(scale=factor)``, say.
        """
        return self._replace()

    def _count_outputs(self, y: Array) -> int:  # noqa: ARG002
        return self.n_outputs

    # ---- Rows of which something more is known -------------------------------------

    def row_form(
        self,
        y: Array,
        weights: Array,
        known: Array | None,  # noqa: ARG002
    ) -> RowForm:
        """Rows with `known` (n,), or None, in terms of the likelihood itself."""
        return RowForm(y, weights)

    def at_rows(self, known: Array) -> Any:
        """Predictive functionals of rows of which this is known (n,)."""
        raise NotImplementedError(self._missing("at_rows(known)"))

    def rough_latent(self, y: Array, known: Array | None) -> Array:  # noqa: ARG002
        """`initial_latent` of rows of which something is known."""
        return self.initial_latent(y)

    # ---- The fitted copy ------------------------------------------------------------

    def prepare(
        self,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        known: Array | None = None,
    ) -> Self:
        """Copy with everything set that depends on the targets; self is unchanged.

        Parameters
        ----------
        y : array-like of shape (n,)
            Targets; classes are encoded 0, ..., K - 1.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights.
        known : ndarray of shape (n,), default=None
            What is known of each row: its exposure, or the variance of its noise in
            units of the likelihood's own.

        Returns
        -------
        likelihood : Likelihood
            With `free_`, `n_outputs_`, `base_latent_`, and a data-based start in each
            scale parameter that was None.

        Raises
        ------
        ValueError
            If a parameter or a target is outside its range.
        """
        y = np.asarray(y, dtype=np.float64)
        weights = np.ones(y.shape) if sample_weight is None else sample_weight
        weights = np.asarray(weights, dtype=np.float64)
        self.check_parameters()
        self.check_support(y)
        y, weights = self.row_form(y, weights, known)[:2]
        free = tuple(name for name in self.scale_names if getattr(self, name) is None)
        scales = self._checked_starts(free, y, weights)
        return self._replace(
            **{name: scales[name][0] for name in free},
            free_=free,
            n_outputs_=self._count_outputs(y),
            _log_bounds=np.log([scales[name][1:] for name in free]).reshape(-1, 2),
        ).with_base(self.base_latent(y, weights))

    def with_base(self, base: ArrayLike) -> Self:
        """Prepared copy with the prior mean of the latent function replaced."""
        base = np.asarray(base, dtype=np.float64)
        if base.shape not in ((), (self.n_outputs_,)) or not np.all(np.isfinite(base)):
            raise ValueError(
                f"base_latent of {type(self).__name__} must return a finite number, or "
                f"one for each of the {self.n_outputs_} outputs; got {base!r}."
            )
        return self._replace(base_latent_=np.full(self.n_outputs_, base))

    def centred(self, variance: float) -> Self:
        """Prepared copy whose base makes ``E[y]`` what it is at the present base.

        The expectation is over ``f ~ N(base, variance)``: a link that is curved moves
        it, odds towards even ones. Where no base within 8 standard deviations has it,
        the one among them that comes closest, to a tenth of a standard deviation. The
        base stays for several outputs, and if the class has no `base_latent` of its
        own.
        """
        silent = type(self).base_latent is Likelihood.base_latent
        if silent or self.n_outputs_ > 1 or variance <= 0.0:
            return self
        base, std = float(self.base_latent_[0]), float(np.sqrt(variance))
        rate = float(self.mean(np.array([base]))[0])

        def excess(at: ArrayLike) -> Array:
            mean = np.reshape(np.asarray(at, dtype=np.float64), (-1, 1, 1))
            latent = LatentMixture(mean, np.full(mean.shape, variance), np.ones(1))
            return self.predictive_mean(latent) - rate

        trials = np.linspace(base - _REACH * std, base + _REACH * std, _TRIALS)
        with np.errstate(all="ignore"):
            found = excess(trials)
            if not found[0] * found[-1] < 0.0:
                distance = np.where(np.isnan(found), np.inf, np.abs(found))
                return self.with_base(trials[np.argmin(distance)])
            root = optimize.brentq(
                lambda at: float(excess(at)[0]), *trials[[0, -1]], xtol=1e-6 * std
            )
        return self.with_base(root)

    def _base(self, n_outputs: int) -> Array:
        """Prior mean of the latent function (c,); zeros before `prepare`."""
        base: Array = getattr(self, "base_latent_", np.zeros(n_outputs))
        return base

    def _missing(self, method: str) -> str:
        return (
            f"{type(self).__name__} does not implement {method}, which is needed here."
        )

    # ---- Row-wise functions: y (n,), f (n, c, s) -----------------------------------

    def row_nll(self, y: Array, f: Array) -> Array:
        """`nll` of each row and draw, shape (n, s)."""
        return self.nll(y[:, np.newaxis], f[:, 0])

    def row_gradient(self, y: Array, f: Array) -> Array:
        """Gradient of `row_nll` in the latent values, shape (n, c, s)."""
        return self.gradient(y[:, np.newaxis], f[:, 0])[:, np.newaxis]

    def row_curvature(self, y: Array, f: Array) -> Array:
        """Positive semi-definite curvature, shape (n, c, c, s)."""
        return self.curvature(y[:, np.newaxis], f[:, 0])[:, np.newaxis, np.newaxis]

    def row_mean(self, f: Array) -> Array:
        """Conditional mean of each row and draw, shape (n, s)."""
        return self.mean(f[:, 0])

    def row_variance(self, f: Array) -> Array:
        """Conditional variance of each row and draw, shape (n, s)."""
        return self.variance(f[:, 0])

    def row_cdf(self, y: Array, f: Array) -> Array:
        """Conditional distribution function of each row and draw, shape (n, s)."""
        return self.cdf(y[:, np.newaxis], f[:, 0])

    # ---- Predictive functionals of a latent mixture --------------------------------

    def predictive_mean(self, mixture: LatentMixture) -> Array:
        """``E[y]``, shape (n,)."""
        return _predictive.moments(self, mixture, noise=False)[0]

    def predictive_variance(self, mixture: LatentMixture) -> Array:
        """``Var[y]``, noise included, shape (n,)."""
        return self.predictive_moments(mixture)[1]

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """`predictive_mean` and `predictive_variance` in one pass."""
        mean, spread, noise = _predictive.moments(self, mixture, noise=True)
        return mean, spread + noise

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """``Var E[y | f]``: the variance without the noise, shape (n,)."""
        if self.location_scale:
            return mixture.moments()[1][:, 0]
        return _predictive.moments(self, mixture, noise=False)[1]

    def predictive_cdf(self, y: Array, mixture: LatentMixture) -> Array:
        """``P(Y <= y)`` of each row at its own y (n,), shape (n,)."""
        y, out = np.asarray(y, dtype=np.float64), np.empty(len(mixture.mean))
        fine = _predictive.cdf_refinements(self, mixture)
        for rows, values, weights in _predictive.by_refinement(mixture, fine):
            given = self.at_some(rows)
            out[rows] = given._average_cdf(y[rows], given._conditions(values), weights)
        return out

    def _conditions(self, values: Array) -> Array:
        """What the distribution function depends on, of atoms (n, c, a)."""
        return values

    def _average_cdf(self, y: Array, values: Array, weights: Array) -> Array:
        """Distribution function at y (n,), averaged over atoms (n, c, a)."""
        average: Array = self.row_cdf(y, values) @ weights
        return average

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats, shape (n,).

        Rows for which the likelihood is narrow beside the distribution of f get more
        nodes, in the end along the latent line.
        """
        y = np.asarray(y, dtype=np.float64)
        return _predictive.log_density(self, y, mixture)

    def predictive_crps(self, y: Array, mixture: LatentMixture) -> Array:
        """Continuous ranked probability score at y (n,), in the units of y, (n,)."""
        y = np.asarray(y, dtype=np.float64)

        def cdf(z: Array) -> Array:
            return self.predictive_cdf(z, mixture)

        if self.discrete:
            low, high = self.predictive_quantile((1e-9, 1.0 - 1e-9), mixture).T
            return crps.discrete_crps(y, cdf, low, high)

        def columns(z: Array) -> Array:
            return np.stack([cdf(one) for one in z.T], axis=1)

        quantiles = self.predictive_quantile(crps.LEVELS, mixture)
        return crps.continuous_crps(y, columns, quantiles)

    def at_some(self, rows: NDArray[np.intp]) -> Self:  # noqa: ARG002
        """Distribution of some of the rows (k,), where it is that of given rows."""
        return self

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """Smallest y with ``P(Y <= y) >= p`` for each p (q,), shape (n, q).

        Every p lies strictly between 0 and 1. Exact integers for a discrete
        distribution, otherwise to 1e-12 of the spread. Takes about 20 evaluations of
        the distribution function for each p, on blocks of rows that fit in the cache.
        """
        levels = np.atleast_1d(np.asarray(p, dtype=np.float64)).tolist()
        search = _predictive.continuous_quantile
        if self.discrete:
            search = _predictive.discrete_quantile
        mean, variance = self.predictive_moments(mixture)
        usable = np.isfinite(variance) & (variance > 0.0)
        centre = np.where(np.isfinite(mean), mean, 0.0)
        spread = np.sqrt(np.where(usable, variance, 1.0))
        out = np.empty((len(mean), len(levels)))
        fine = _predictive.cdf_refinements(self, mixture)
        for block, values, weights in _predictive.by_refinement(mixture, fine):
            for i in range(0, len(block), _ROWS):
                some, rows = slice(i, i + _ROWS), block[i : i + _ROWS]
                given = self.at_some(rows)
                atoms = given._conditions(values[some])
                average = partial(given._average_cdf, values=atoms, weights=weights)
                for j, level in enumerate(levels):
                    start = centre[rows]
                    if self.discrete:
                        start = start + float(ndtri(level)) * spread[rows]
                    out[rows, j] = search(average, level, start, spread[rows])
        return out
