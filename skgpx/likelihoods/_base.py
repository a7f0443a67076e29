"""The contract of a likelihood, and everything that is derived from it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import optimize
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from skgpx._numerics import crps
from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._numerics.quantiles import Cdf, UseOfCdf, coordinate_on, quantile
from skgpx._types import Array, ArrayLike, Generator, Index, Selection
from skgpx.likelihoods import _predictive

# Start, lower and upper bound of each scale parameter.
Scales = dict[str, tuple[float, float, float]]


class RowForm(NamedTuple):
    """Rows with a quantity of their own, in terms of one likelihood for all of them.

    ``Σ ω nll(y, f; known) = Σ ω' nll(y', factor f) + Σ ω constant``.

    Attributes
    ----------
    likelihood : Likelihood
        Likelihood of the terms on the right: the likelihood itself, which compiled
        formulas need, or the one that `at_rows` returns.
    y, weights : ndarray of shape (n,)
        ``y'`` and ``ω'``.
    factor : ndarray of shape (n,) or None
        Factor of the latent values; None for ones.
    constant : ndarray of shape (n,) or None
        In nats; None for zeros.
    """

    likelihood: Likelihood
    y: Array
    weights: Array
    factor: Array | None = None
    constant: Array | None = None


class Likelihood(BaseEstimator):
    """Conditional distribution of one observation given its latent value, ``p(y | f)``.

    A likelihood is a small object of parameters and pure functions. To write one,
    subclass this class and implement, in vectorised NumPy and elementwise (``y`` and
    ``f`` broadcast against each other), `nll`, `mean`, `variance` and `sample`; `cdf`
    for quantiles; `gradient`, `curvature` and `check_support` where the defaults do not
    fit; `base_latent` for the level to which predictions return far from the data, and
    `initial_latent` for its scale; `example_targets` where targets cannot be sampled
    before `prepare`. Set `discrete`, `log_scale` and `support` where they differ from
    the defaults. Positive parameters that are learned when they are
    left None are named in `scale_names`, with their range in `starting_scales`. Then
    run :func:`skgpx.likelihoods.check_likelihood` on it.

    With several latent outputs a row, y has shape (n,) and f shape (n, c, s); `nll`,
    `mean`, `variance`, `cdf` and `sample` return (n, s), `gradient` (n, c, s) and
    `curvature` (n, c, c, s).

    The constructor only stores its parameters, as they are: fitted copies replace
    parameters without calling it, so derived values are computed where they are needed.

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
    support : tuple of float
        Class attribute: the interval of y, without its ends for real numbers. Quantiles
        stay inside; they are found faster by the logarithm of y on ``(0.0, inf)``, and
        by its log odds on ``(0.0, 1.0)``. The default is ``(-inf, inf)``.
    smooth : bool
        Class attribute: `nll` has an informative gradient. Methods that follow it
        refuse a likelihood without one.
    n_outputs : int
        Class attribute: latent outputs per row; see `n_outputs_` after `prepare`.
    has_closed_form : bool
        Class attribute: y is f plus normal noise of variance ``variance(0.0)``, so that
        the posterior of the weights and the evidence have a closed form.
    has_scale_of_y : bool
        Class attribute: a monotone function of y has the latent function as location.
    has_residuals : bool
        Class attribute: ``y - mean(f)`` of a row says how well it is predicted; not so
        for bounds of y.
    close_to_gaussian : bool
        Class attribute: kernels that are learned as if y had normal noise are good
        starts, so that families of kernels compete on y itself.
    overdispersed_version : str or None
        Class attribute: what to use instead for counts that vary more; None where that
        is not tested. The test takes a further method, ``overdispersed_nll(y, mean,
        precision)``: `nll` (n,) of such counts, which vary the less the more precise.
    has_varying_scale : bool
        Class attribute: the second of two functions is the logarithm of the scale of
        noise around the first. `of_scale` is then the likelihood of errors of the
        first.
    heteroscedastic_version : str or None
        Class attribute: name of the likelihood with the same shape and a scale that
        varies with x; None where there is none.
    kernel_code : int or None
        Class attribute: code of the compiled formula for this likelihood; None for
        likelihoods that are written in NumPy only.
    row_quantity : {"exposure", "noise_variance", "censoring"} or None
        Class attribute: name of the quantity of each row that `fit` accepts. A
        likelihood that names one uses `known_` in its functions, and implements
        `row_form` if it has a compiled formula.
    known_ : float or ndarray of shape (n, 1)
        Set by `at_rows`: this quantity of the rows; 1 (0 for censoring) where none is
        given.
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
    support: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    smooth: ClassVar[bool] = True
    has_closed_form: ClassVar[bool] = False
    has_scale_of_y: ClassVar[bool] = False
    has_residuals: ClassVar[bool] = True
    close_to_gaussian: ClassVar[bool] = False
    overdispersed_version: ClassVar[str | None] = None
    has_varying_scale: ClassVar[bool] = False
    heteroscedastic_version: ClassVar[str | None] = None
    n_outputs: ClassVar[int] = 1
    kernel_code: int | None = None
    row_quantity: ClassVar[str | None] = None
    scale_names: ClassVar[tuple[str, ...]] = ()

    known_: Array | float = 1.0
    free_: tuple[str, ...]
    n_outputs_: int
    base_latent_: Array
    _log_bounds: Array

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError(
                f"{name} of {type(self).__name__} is not set yet: call prepare(y)."
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    # ---- What a likelihood must define ---------------------------------------------

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-log p(y | f)`` in nats, with all normalising constants."""
        raise NotImplementedError(self._missing("nll(y, f)"))

    def mean(self, f: ArrayLike) -> Array:
        """``E[y | f]``, in units of y."""
        raise NotImplementedError(self._missing("mean(f)"))

    def variance(self, f: ArrayLike) -> Array:
        """``Var[y | f]``, in squared units of y."""
        raise NotImplementedError(self._missing("variance(f)"))

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw one observation per element of f."""
        raise NotImplementedError(self._missing("sample(f, rng)"))

    # ---- What it may define --------------------------------------------------------

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``P(Y <= y | f)``; needed for quantiles and intervals only."""
        raise NotImplementedError(self._missing("cdf(y, f)"))

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Differentiate `nll` in f; the default is a central difference."""
        return _difference(self.nll, y, f, 1e-5)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Non-negative substitute for the second derivative of `nll` in f.

        Used for preconditioning and approximations, never to define the target. The
        default is the positive part of a central difference of `gradient`.
        """
        second = _difference(self.gradient, y, f, 1e-4)
        if second.ndim < 4:
            return np.maximum(second, 0.0)
        # several outputs: Hessians (n, s, c, c) without their negative eigenvalues
        transposed = np.swapaxes(second, 1, 2)
        symmetric = 0.5 * (second + transposed)
        hessian = np.moveaxis(symmetric, 3, 1)
        eigenvalues, V = np.linalg.eigh(hessian)
        # V max(Λ, 0) Vᵀ
        positive = np.maximum(eigenvalues, 0.0)
        scaled_vectors = V * positive[..., np.newaxis, :]
        positive_part = scaled_vectors @ np.swapaxes(V, 2, 3)
        return np.moveaxis(positive_part, 1, 3)

    def takes_classes(self, n_classes: int) -> bool:  # noqa: ARG002
        """Whether y may be class numbers ``0, ..., n_classes - 1``."""
        return False

    def base_latent(self, y: Array, weights: Array) -> float | Array:  # noqa: ARG002
        """Latent level of all targets together: the prior mean of the function.

        Usually the link of the weighted mean of y; far from the data predictions
        return to it. One number, or one for each output (c,). The default, 0, suits
        likelihoods that are `location_scale`: their y is centred.
        """
        return 0.0

    def initial_latent(self, y: ArrayLike) -> Array:
        """Rough latent value for each y: where a search for the mode may start.

        Its spread around the base sets the scale of the latent function. The default is
        the base itself, (n,), or (n, c) for several outputs.
        """
        base = self._base(1)
        latent = np.broadcast_to(base, (*np.shape(y), len(base)))
        if len(base) == 1:
            return latent[..., 0]
        return latent

    def example_targets(self, rng: Generator, n: int) -> Array:
        """Targets (n,) that the likelihood accepts, for tests and `check_likelihood`.

        The default samples them at standard normal latent values, with scale parameters
        of one where they are None. Override it where `sample` needs attributes that
        only `prepare` sets, such as the number of classes.
        """
        scales = dict.fromkeys(self._unset_scales(), 1.0)
        likelihood = self._replace(**scales)
        f = rng.standard_normal((n, self.n_outputs, 1))
        targets = likelihood.sample(_one_output(f), rng)
        return doubles(targets)[:, 0]

    def check_support(self, y: Array) -> None:
        """Raise a ValueError if y is outside the support, saying what it should be."""
        n_invalid = int(np.sum(~np.isfinite(y)))
        if n_invalid:
            raise ValueError(
                f"{type(self).__name__} expects finite y; got {n_invalid} values that "
                "are NaN or infinite. Remove these rows."
            )

    def check_parameters(self) -> None:
        """Raise a ValueError if a scale parameter is neither None nor positive.

        Shapes and precisions, which have no unit, lie between 1e-12 and 1e12, scales
        between 1e-120 and 1e120, and variances between the squares of these.
        """
        for name in self.scale_names:
            if getattr(self, name) is None:
                continue
            value = self._scale(name)
            largest = 1e12
            if self.location_scale or (self.has_varying_scale and name == "scale"):
                largest = 1e240 if name.endswith("variance") else 1e120
            if not 1.0 / largest <= value <= largest:
                expected = f"positive and finite, from {1.0 / largest:g} to {largest:g}"
                raise self._impossible_scale(name, expected)

    def starting_scales(self, y: Array, weights: Array) -> Scales:  # noqa: ARG002
        """(start, lower bound, upper bound) for each name in `scale_names`.

        From targets (n,) and their weights (n,); called if one of them is None. All
        are positive, in the units of the parameter. The default is 1 between 1e-4 and
        1e4 for each.
        """
        return dict.fromkeys(self.scale_names, (1.0, 1e-4, 1e4))

    def kernel_parameters(self) -> Array:
        """Parameters of the compiled formula, shape (p,)."""
        return np.empty(0)

    def scaled(self, factor: float) -> Self:  # noqa: ARG002
        """Copy that describes the distribution of ``factor * y`` given ``factor * f``.

        ``factor`` is positive. Likelihoods that are not `location_scale` return an
        unchanged copy; the others return ``self.rescaled(scale=factor)``, for example.
        """
        return self._replace()

    def row_form(self, y: Array, weights: Array, known: Array | None) -> RowForm:
        """Rows with `known` (n,), or None, in terms of one likelihood."""
        return RowForm(self._given(known), y, weights)

    def _count_outputs(self, y: Array) -> int:  # noqa: ARG002
        return self.n_outputs

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
            Quantity of each row: its exposure, its censoring, or the variance of its
            noise in units of the likelihood's own.

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
        y = doubles(y)
        if sample_weight is None:
            sample_weight = np.ones(y.shape)
        weights = doubles(sample_weight)
        self.check_parameters()
        self._given(known).check_support(y)
        rows = self.row_form(y, weights, known)

        # scale parameters that are learned, with their starts and bounds
        free = self._unset_scales()
        scales = rows.likelihood._checked_starts(free, rows.y, rows.weights)
        starts = {name: scales[name][0] for name in free}
        bounds = [scales[name][1:] for name in free]
        prepared = self._replace(
            **starts,
            free_=free,
            n_outputs_=self._count_outputs(rows.y),
            _log_bounds=np.log(bounds).reshape(-1, 2),
        )

        base = rows.likelihood.base_latent(rows.y, rows.weights)
        return prepared.with_base(base)._completed(rows.y, rows.weights)

    def _completed(self, y: Array, weights: Array) -> Self:  # noqa: ARG002
        """Prepared copy, with further attributes that a subclass derives from y."""
        return self

    def with_base(self, base: ArrayLike) -> Self:
        """Prepared copy with the prior mean of the latent function replaced."""
        base = doubles(base)
        has_shape = base.shape in ((), (self.n_outputs_,))
        if not has_shape or not np.all(np.isfinite(base)):
            raise ValueError(
                f"base_latent of {type(self).__name__} must return a finite number, or "
                f"one for each of the {self.n_outputs_} outputs; got {base!r}."
            )
        return self._replace(base_latent_=np.full(self.n_outputs_, base))

    def centred(self, variance: float) -> Self:
        """Prepared copy with a base that gives ``E[y]`` its value at the present base.

        The expectation is over ``f ~ N(base, variance)``. A curved link changes it:
        odds, for example, move towards even ones. The base stays if no base within 8
        standard deviations has this expectation, for several outputs, and if the class
        has no `base_latent` of its own.
        """
        has_no_base = type(self).base_latent is Likelihood.base_latent
        if has_no_base or self.n_outputs_ > 1 or variance <= 0.0:
            return self
        present_mean = float(self.mean(self.base_latent_)[0])

        def excess(base: float) -> float:
            """``E[y]`` under ``f ~ N(base, variance)``, less the mean at present."""
            prior = LatentMixture(
                mean=np.full((1, 1, 1), base),
                variance=np.full((1, 1, 1), variance),
                weights=np.ones(1),
            )
            return float(self.predictive_mean(prior)[0]) - present_mean

        base = float(self.base_latent_[0])
        std = float(np.sqrt(variance))
        low = base - 8.0 * std
        high = base + 8.0 * std
        with np.errstate(all="ignore"):
            if not excess(low) * excess(high) < 0.0:
                return self
            root = optimize.brentq(excess, low, high, xtol=1e-6 * std)
            return self.with_base(root)

    def at_rows(self, known: Array) -> Self:
        """Distribution of rows with this quantity (n,); f then has shape (n, s)."""
        return self._replace(known_=known[:, np.newaxis])

    def at_some(self, rows: Selection) -> Self:
        """Distribution of a selection of the rows (k,), with their quantity."""
        if isinstance(self.known_, float):
            return self
        return self._replace(known_=self.known_[rows])

    def of_models(
        self,
        owner: Index | None,  # noqa: ARG002
    ) -> list[tuple[Self, Selection]]:
        """Likelihoods of the models of f, and the columns that each model owns.

        Latent values (n, s) or (n, c, s) may come from several models, column j from
        model ``owner[j]``. The default is one likelihood of all.
        """
        return [(self, slice(None))]

    def _normal_variance(self) -> Array | float | None:
        """Variance of normal noise behind y, a number or one for each row (n, 1).

        If y is a function of ``f + noise``, and of variables that do not depend on
        scale parameters; otherwise, and by default, None.
        """
        return None

    def rough_latent(self, y: Array, known: Array | None) -> Array:
        """`initial_latent` of rows with their quantity, if they have one."""
        return self._given(known).initial_latent(y)

    def _given(self, known: Array | None) -> Self:
        """Distribution of rows with this quantity (n,), or without one."""
        if known is None:
            return self
        return self.at_rows(known)

    def _base(self, n_outputs: int) -> Array:
        """Prior mean of the latent function (c,); zeros before `prepare`."""
        return getattr(self, "base_latent_", np.zeros(n_outputs))

    def _unset_scales(self) -> tuple[str, ...]:
        """Names of the scale parameters that are None."""
        return tuple(name for name in self.scale_names if getattr(self, name) is None)

    def _missing(self, method: str) -> str:
        return (
            f"{type(self).__name__} does not implement {method}, which is needed here."
        )

    def _replace(self, **changes: Any) -> Self:
        """Shallow copy with attributes replaced; instances are never modified."""
        replaced = copy.copy(self)
        for name, value in changes.items():
            setattr(replaced, name, value)
        return replaced

    # ---- Scale parameters, fixed or estimated --------------------------------------

    @property
    def theta(self) -> Array:
        """Logarithms of the free scale parameters, shape (p,); p may be 0."""
        scales = [getattr(self, name) for name in self.free_]
        return np.log(scales, dtype=np.float64)

    @property
    def theta_bounds(self) -> Array:
        """Bounds of `theta`, shape (p, 2)."""
        return self._log_bounds

    def with_theta(self, theta: ArrayLike) -> Self:
        """Copy with the free scale parameters replaced by ``exp(theta)``."""
        values = np.exp(doubles(theta)).tolist()
        return self._replace(**dict(zip(self.free_, values, strict=True)))

    def with_start(self, **starts: tuple[float, float, float]) -> Self:
        """Copy with (start, lower bound, upper bound) of free parameters replaced."""
        values = {}
        log_bounds = np.array(self._log_bounds)
        for name, (start, low, high) in starts.items():
            row = self.free_.index(name)
            values[name] = start
            log_bounds[row] = np.log([low, high])
        return self._replace(**values, _log_bounds=log_bounds)

    def rescaled(self, **factors: float) -> Self:
        """Copy with parameters multiplied by factors, bounds included; None stays.

        `scaled` of a `location_scale` likelihood returns it: for a standard deviation
        ``self.rescaled(scale=factor)``, for a variance ``factor**2``.
        """
        changes = {
            name: getattr(self, name) * factor
            for name, factor in factors.items()
            if getattr(self, name) is not None
        }
        if hasattr(self, "free_"):
            free_factors = [factors[name] for name in self.free_]
            log_factors = np.log(free_factors).reshape(-1, 1)
            changes["_log_bounds"] = self._log_bounds + log_factors
        return self._replace(**changes)

    def _checked_starts(
        self,
        free: tuple[str, ...],
        y: Array,
        weights: Array,
    ) -> Scales:
        """`starting_scales`, or a ValueError that says what is wrong with them."""
        if not free:
            return {}
        scales = self.starting_scales(y, weights)
        for name in free:
            numbers = np.asarray(scales.get(name), dtype=np.float64)
            valid = numbers.shape == (3,) and bool(np.all(np.isfinite(numbers)))
            if valid:
                start, low, high = numbers.tolist()
                valid = 0.0 < low <= start <= high
            if not valid:
                raise ValueError(
                    f"starting_scales of {type(self).__name__} must map {name!r}, which"
                    " is None and therefore learned, to positive numbers (start, lower "
                    f"bound, upper bound); got {scales.get(name)!r}."
                )
        return scales

    def _scale(self, name: str) -> float:
        """Value of a scale parameter; a ValueError unless it is a positive number."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(
                f"{type(self).__name__}({name}=None) is not set yet: call prepare(y),"
                f" or pass a number as {name}."
            )
        if not (is_number(value) and value > 0.0):
            raise self._impossible_scale(name, "positive and finite")
        return float(value)

    def _impossible_scale(self, name: str, expected: str) -> ValueError:
        return ValueError(
            f"{type(self).__name__} expects {name} to be {expected}, "
            f"or None to estimate it; got {getattr(self, name)!r}."
        )

    # ---- Row-wise functions: y (n,), f (n, c, s) -----------------------------------

    def row_nll(self, y: Array, f: Array) -> Array:
        """`nll` of each row and draw, shape (n, s)."""
        return self.nll(*_elementwise(y, f))

    def row_gradient(self, y: Array, f: Array) -> Array:
        """Gradient of `row_nll` in the latent values, shape (n, c, s)."""
        gradient = self.gradient(*_elementwise(y, f))
        if f.shape[1] == 1:
            return gradient[:, np.newaxis]
        return gradient

    def row_curvature(self, y: Array, f: Array) -> Array:
        """Positive semi-definite curvature, shape (n, c, c, s)."""
        curvature = self.curvature(*_elementwise(y, f))
        if f.shape[1] == 1:
            return curvature[:, np.newaxis, np.newaxis]
        return curvature

    def row_mean(self, f: Array) -> Array:
        """Conditional mean of each row and draw, shape (n, s)."""
        return self.mean(_one_output(f))

    def row_variance(self, f: Array) -> Array:
        """Conditional variance of each row and draw, shape (n, s)."""
        return self.variance(_one_output(f))

    def row_cdf(self, y: Array, f: Array) -> Array:
        """Conditional distribution function of each row and draw, shape (n, s)."""
        return self.cdf(*_elementwise(y, f))

    def _cdf_at(self, f: Array) -> Cdf:
        """`row_cdf` at latent values f: of y (k,) and the index of k rows, (k, s)."""

        def cdf(y: Array, rows: Selection) -> Array:
            return self.at_some(rows).row_cdf(y, f[rows])

        return cdf

    # ---- Predictive functionals of a latent mixture --------------------------------

    def predictive_mean(self, mixture: LatentMixture) -> Array:
        """``E[y]``, shape (n,)."""
        return self.predictive_moments(mixture)[0]

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """``E[y]`` and ``Var[y]``, noise included, (n,) each."""

        def evaluate(rows: Selection, f: Array) -> tuple[Array, Array]:
            of_rows = self.at_some(rows)
            return of_rows.row_mean(f), of_rows.row_variance(f)

        # Var y = Var E[y | f] + E Var[y | f]
        mean, spread, noise = _predictive.moments(evaluate, mixture)
        return mean, spread + noise

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """``Var E[y | f]``: the variance without the noise, shape (n,)."""
        _, variance = self._moments_of_mean(mixture)
        return variance

    def _moments_of_mean(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of ``E[y | f]``, (n,) each."""

        def evaluate(rows: Selection, f: Array) -> tuple[Array, float]:
            return self.at_some(rows).row_mean(f), 0.0

        mean, variance, _ = _predictive.moments(evaluate, mixture)
        return mean, variance

    def predictive_cdf(self, y: Array, mixture: LatentMixture) -> Array:
        """``P(Y <= y)`` of each row at its own y (n,), shape (n,)."""
        y = doubles(y)
        probability = np.empty(len(mixture.mean))

        def evaluate(cdf: Cdf, rows: Selection) -> None:
            probability[rows] = cdf(y[rows], slice(None))

        self._by_cdf(evaluate, mixture)
        return probability

    def _by_cdf(
        self,
        evaluate: UseOfCdf,
        mixture: LatentMixture,
    ) -> None:
        """Call ``evaluate(cdf, rows)`` with the predictive distribution function.

        The rows come in parts, and a part may come again with a more accurate function.
        ``cdf(y, index)`` is the function of ``rows[index]``. A call for all of them, by
        ``slice(None)``, also checks how accurate it is.
        """
        _predictive.by_cdf(self, evaluate, mixture)

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats, shape (n,).

        Rows with a likelihood that is narrow relative to the distribution of f get more
        nodes, in the end along the latent line.
        """
        y = doubles(y)
        return _predictive.log_density(self, y, mixture)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """Smallest y with ``P(Y <= y) >= p`` for each p (q,), shape (n, q).

        Every p lies strictly between 0 and 1. Exact integers for a discrete
        distribution; otherwise its level is p, usually to 1e-11, however close to the
        end of the support. Takes 3 to 8 evaluations of the distribution function for
        each p, more where it is far from a normal distribution.
        """
        levels = np.atleast_1d(doubles(p))
        coordinate = coordinate_on(self.support, self.discrete)

        # start: the quantiles of a normal variable of these moments
        mean, variance = self._rough_moments(mixture)
        location, scale = coordinate.location_and_scale(mean, np.sqrt(variance))
        start = location[:, np.newaxis] + scale[:, np.newaxis] * ndtri(levels)
        with np.errstate(over="ignore"):
            quantiles = coordinate.backward(start)

        def evaluate(cdf: Cdf, rows: Selection) -> None:
            for k, level in enumerate(levels.tolist()):
                quantiles[rows, k] = quantile(
                    cdf,
                    level,
                    quantiles[rows, k],
                    scale[rows],
                    coordinate,
                )
                # a call for all rows checks the accuracy of the function
                cdf(quantiles[rows, k], slice(None))

        self._by_cdf(evaluate, mixture)
        return quantiles

    def _rough_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Finite mean and variance (n,) of y, to start searches for quantiles."""
        f, weights = atoms(mixture, 3)
        with np.errstate(over="ignore", invalid="ignore"):
            conditional_means = self.row_mean(f)
            mean = conditional_means @ weights
            # Var y = E[(E[y | f] - E y)² + Var[y | f]]
            squares = (conditional_means - mean[:, np.newaxis]) ** 2
            total = squares + self.row_variance(f)
            variance = total @ weights
        mean = np.where(np.isfinite(mean), mean, 0.0)
        if not np.all(np.isfinite(variance)):
            # heavy tails: the noise has the variance 1 / curvature at its mode
            variance = squares @ weights
            if self.location_scale:
                mode = mean[:, np.newaxis, np.newaxis]
                precision = self.row_curvature(mean, mode)[:, 0, 0, 0]
                variance = variance + 1.0 / precision
        usable = (variance > 0.0) & (variance < np.inf)
        return mean, np.where(usable, variance, 1.0)

    def predictive_crps(self, y: Array, mixture: LatentMixture) -> Array:
        """Continuous ranked probability score at y (n,), in the units of y, (n,)."""
        y = doubles(y)
        scores = np.empty(len(mixture.mean))
        quantiles = self.predictive_quantile(crps.LEVELS, mixture)
        score = crps.continuous_crps
        if self.discrete:
            score = crps.discrete_crps

        def evaluate(cdf: Cdf, rows: Selection) -> None:
            def cdf_of_columns(values: Array) -> Array:
                columns = [cdf(column, slice(None)) for column in values.T]
                return np.stack(columns, axis=1)

            scores[rows] = score(y[rows], cdf_of_columns, quantiles[rows])

        self._by_cdf(evaluate, mixture)
        return scores


def _elementwise(y: Array, f: Array) -> tuple[Array, Array]:
    """Arguments of a likelihood's functions, of rows y (n,) and f (n, c, s)."""
    if f.shape[1] == 1:
        return y[:, np.newaxis], f[:, 0]
    return y, f


def _one_output(f: Array) -> Array:
    """Latent values (n, c, s), as (n, s) if there is one output."""
    if f.shape[1] == 1:
        return f[:, 0]
    return f


def _difference(
    function: Callable[[ArrayLike, ArrayLike], Array],
    y: ArrayLike,
    f: ArrayLike,
    relative: float,
) -> Array:
    """Central differences in f, elementwise or in each of several outputs (axis 1)."""
    f = doubles(f)
    h = relative * (1.0 + np.abs(f))
    if f.ndim < 3:
        rise = function(y, f + h) - function(y, f - h)
        return rise / (2.0 * h)
    n_outputs = f.shape[1]
    outputs = np.arange(n_outputs)[:, np.newaxis]
    slopes = []
    for k in range(n_outputs):
        step = np.where(outputs == k, h, 0.0)
        rise = function(y, f + step) - function(y, f - step)
        width = 2.0 * h[:, k]
        if rise.ndim > 2:
            # of a gradient (n, c, s)
            width = width[:, np.newaxis]
        slopes.append(rise / width)
    return np.stack(slopes, axis=1)


def doubles(values: ArrayLike) -> Array:
    """Values as an array of doubles.

    Raises
    ------
    TypeError
        For complex numbers, of which NumPy would drop the imaginary part.
    """
    array = np.asarray(values)
    if array.dtype.kind == "c":
        raise TypeError("y, f and predictions must be real; got complex numbers.")
    return array.astype(np.float64, copy=False)


def residuals(y: ArrayLike, f: ArrayLike) -> Array:
    """``y - f``, of real numbers."""
    return doubles(np.subtract(y, f))


def several_outputs(f: ArrayLike) -> Array:
    """Latent values of likelihoods with several outputs, (n, c, s).

    Raises
    ------
    ValueError
        For another number of axes.
    """
    latent = doubles(f)
    if latent.ndim != 3:
        raise ValueError(
            "A likelihood with several latent outputs expects f of shape (n_rows, "
            f"n_outputs, n_draws); got {latent.shape}."
        )
    return latent


def is_number(value: object) -> bool:
    """Whether a parameter is a finite real number (True and False are not)."""
    if isinstance(value, bool | np.bool_):
        return False
    return isinstance(value, Real) and bool(np.isfinite(float(value)))


def check_integers(likelihood: Likelihood, y: Array, values: str, remedy: str) -> None:
    """Raise a ValueError unless y holds integers from 0 on, described by `values`."""
    invalid = y[(y < 0.0) | (y != np.floor(y))]
    if invalid.size:
        name = type(likelihood).__name__
        raise ValueError(
            f"{name} expects y = {values}; got {invalid.size} negative or fractional "
            f"values, for example {invalid[0]:g}. {remedy}"
        )
