"""Rules: the formulas that the library has for each type of kernel.

A rule is looked up by the exact type. A subclass often has another formula (``Matern``
is a subclass of ``RBF``), and therefore inherits no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter

from skgpx._types import Array, Kernel
from skgpx.kernels._priors import Prior

# A pair of floats, one pair for each entry, "fixed" or a prior.
Bounds: TypeAlias = "tuple[float, float] | Array | str | Prior"
Rule = Callable[..., Any]
# Maps cotangents of values to the slopes of their inner product with the values.
Pullback = Callable[[Array], Array]
ValuesAndPullback = tuple[Array, Pullback]

_RULES: dict[tuple[str, type], Rule] = {}


def rule_of(kernel: Kernel, name: str) -> Any:
    """Return the rule of this name for the kernel's exact type; None if unknown.

    Names are the arguments of :func:`register_kernel`, and for kernels of the library
    "diagonal_pullback", "log_spectral_density", "stacked" and "triangle".
    """
    return _RULES.get((name, type(kernel)))


def is_rule(name: str, *types: type) -> Callable[[Rule], Rule]:
    """Decorate a function that is the rule of this name for several types."""

    def register(rule: Rule) -> Rule:
        for kernel_type in types:
            _RULES[name, kernel_type] = rule
        return rule

    return register


class RuledKernel(Kernel):
    """A kernel that is evaluated by its rule "pullback".

    `_gradient` of a subclass returns the matrix and all its slopes.
    """

    def __call__(
        self,
        X: Array,
        Y: Array | None = None,
        eval_gradient: bool = False,
    ) -> Any:
        """Kernel matrix ``k(X, Y)`` and, on request, its gradient.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        Y : ndarray of shape (m, d), default=None
            None means X.
        eval_gradient : bool, default=False
            Only supported when Y is None.

        Returns
        -------
        K : ndarray of shape (n, m)
        K_gradient : ndarray of shape (n, n, n_theta)
            Derivatives in ``theta``; only if ``eval_gradient``.

        Raises
        ------
        ValueError
            If the gradient is requested between two sets of points.
        """
        left = np.atleast_2d(X)
        if eval_gradient:
            if Y is not None:
                raise ValueError("Gradient can only be evaluated when Y is None.")
            return self._gradient(left)
        right = None if Y is None else np.atleast_2d(Y)
        K, _ = rule_of(self, "pullback")(self, left, right)
        return K

    def _gradient(self, X: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    @staticmethod
    def _specified(name: str) -> Any:
        """Property with the specification of a parameter that has ``name_bounds``."""

        def specification(kernel: Kernel) -> Hyperparameter:
            value = getattr(kernel, name)
            bounds = getattr(kernel, f"{name}_bounds")
            return Hyperparameter(name, "numeric", bounds, np.size(value))

        return property(specification, doc=f"Specification of ``{name}``.")

    def _by_column(self, name: str, n_columns: int, highest: float = np.inf) -> Array:
        """Values of a hyperparameter for the columns of the kernel, (n_columns,).

        Raises
        ------
        ValueError
            If it has neither one entry nor one for each column, or is out of range.
        """
        values = np.asarray(getattr(self, name), dtype=np.float64)
        in_range = np.all((values > 0.0) & (values <= highest))
        if not in_range or values.size not in (1, n_columns):
            limit = "" if np.isinf(highest) else " and at most one"
            raise ValueError(
                f"{type(self).__name__} expects a {name} above zero{limit}, one or one "
                f"for each of the {n_columns} columns that it takes; got {values}."
            )
        return np.broadcast_to(values, (n_columns,))


def free_slopes(parameter: Hyperparameter, by_entry: Array) -> Array:
    """Slopes in the free logarithms of a hyperparameter, from slopes in each entry.

    ``by_entry`` has shape (..., d); a hyperparameter of one element is shared.
    """
    if parameter.fixed:
        return by_entry[..., :0]
    if parameter.n_elements == 1:
        return by_entry.sum(axis=-1, keepdims=True)
    return by_entry


def register_kernel(
    kernel_type: type,
    *,
    pullback: Rule | None = None,
    input_gradient: Rule | None = None,
    spectral_sampler: Rule | None = None,
    spectral_density: Rule | None = None,
    spectral_score: Rule | None = None,
) -> None:
    """Register gradients and frequencies of a kernel of your own.

    All arguments are optional; a rule that is left out stays as it is registered.
    Registration is for the exact type: subclasses often have other formulas, and
    inherit no rule.

    Parameters
    ----------
    kernel_type : type
        Class of the kernel.
    pullback : callable, optional
        Faster gradients of kernel matrices in the hyperparameters: ``rule(kernel, X,
        Y) -> (K, pullback)``, where ``pullback(G)`` is ``Σ_ij G_ij dK_ij / dtheta``,
        shape (n_theta,), and leaves G unchanged. ``Y`` is None for ``k(X, X)``. Without
        a rule scikit-learn's ``eval_gradient`` is used in blocks.
    input_gradient : callable, optional
        For gradients of drawn functions: ``rule(kernel, X, Z) -> (K, pullback)``, where
        ``pullback(G)`` maps (n, m) to ``Σ_j G_ij ∇ₓ k(x_i, z_j)``, shape (n, d).
    spectral_sampler : callable, optional
        For Fourier features: ``sampler(kernel, n_frequencies, d, rng)`` returns angular
        frequencies (n_frequencies, d), in radians per unit of the input, with
        ``k(x, y) / k(x, x) = E[cos(ω·(x - y))]``. Where a hundred or more are drawn
        they are compared with the kernel, and a wrong law raises a ValueError.
    spectral_density : callable, optional
        For Fourier functions on a box: ``density(kernel, omega)`` returns
        ``S(ω) = ∫ k(r) cos(ω·r) dr`` at angular frequencies omega (R, d), shape (R,),
        and its derivatives in ``kernel.theta``, shape (R, p). S must not increase with
        any ``|ω_i|``.
    spectral_score : callable, optional
        For Stein features: ``score(kernel, omega)`` returns ``∇ log S(ω)``, (R, d).

    Raises
    ------
    ValueError
        If the type is not a class of kernels, or something else is not callable.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import register_kernel, sample_frequencies
    >>> class Wave(RBF):
    ...     "cos(x - y), without hyperparameters."
    ...     def __call__(self, X, Y=None, eval_gradient=False):
    ...         return np.cos(np.subtract.outer(X[:, 0], (X if Y is None else Y)[:, 0]))
    >>> register_kernel(Wave, spectral_sampler=lambda k, n, d, rng: np.ones((n, d)))
    >>> wave = Wave(1.0, "fixed")
    >>> frequencies, amplitudes = sample_frequencies(
    ...     wave, 2, 1, np.random.default_rng(0)
    ... )
    >>> amplitudes.round(3)
    array([0.707, 0.707])
    """
    given = {
        "pullback": pullback,
        "input_gradient": input_gradient,
        "spectral_sampler": spectral_sampler,
        "spectral_density": spectral_density,
        "spectral_score": spectral_score,
    }
    rules = {name: rule for name, rule in given.items() if rule is not None}
    if not (isinstance(kernel_type, type) and issubclass(kernel_type, Kernel)):
        raise ValueError(
            "register_kernel expects the class of a kernel, a subclass of "
            f"sklearn.gaussian_process.kernels.Kernel; got {kernel_type!r}. Pass the "
            "class, as in register_kernel(YourKernel, ...), not an instance."
        )
    for name, rule in rules.items():
        if not callable(rule):
            raise ValueError(f"{name} must be a function; got {rule!r}.")
    # formulas of an earlier density do not hold for a new one
    if "spectral_density" in rules:
        _RULES.pop(("log_spectral_density", kernel_type), None)
        if ("spectral_density", kernel_type) in _RULES:
            _RULES.pop(("spectral_score", kernel_type), None)
    _RULES.update({(name, kernel_type): rule for name, rule in rules.items()})


def no_sampler(part: Kernel, kernel: Kernel, reason: str = "") -> ValueError:
    """Build the error for a part of a kernel that has no spectral features."""
    name = type(part).__name__
    described = repr(part)
    if part is not kernel:
        described += f", a part of {kernel!r}"
    return ValueError(
        f"{described} has no spectral sampler{reason}. Give it one with "
        f"skgpx.kernels.register_kernel({name}, spectral_sampler=...) if stationary, "
        'or draw with prior="exact", whose cost grows with the cube of the number of '
        "distinct points at which the draws are evaluated."
    )
