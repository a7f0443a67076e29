"""A composite kernel as a sum of products of simple ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Exponentiation,
    Product,
    Sum,
)

# Largest number of terms, and of factors of a term, of an expanded kernel.
_LARGEST = 64


@dataclass(frozen=True)
class Monomial:
    """``coefficient`` times the product of ``factors``, none a sum or product."""

    coefficient: float
    factors: tuple[Any, ...]


def expand(kernel: Any) -> list[Monomial]:
    """Write a kernel as a sum of products: constants, sums, products and powers.

    Only these exact scikit-learn types are expanded; any other kernel, and a power
    whose exponent is not a positive integer, is one factor.

    Raises
    ------
    ValueError
        If there are more than 64 terms or factors of one term.
    """
    if type(kernel) is ConstantKernel:
        return [Monomial(float(kernel.constant_value), ())]
    if type(kernel) is Sum:
        return _collected(expand(kernel.k1) + expand(kernel.k2), kernel)
    if type(kernel) is Product:
        return _multiplied(expand(kernel.k1), expand(kernel.k2), kernel)
    if is_integer_power(kernel):
        base = expand(kernel.kernel)
        power = base
        for _ in range(int(kernel.exponent) - 1):
            power = _multiplied(power, base, kernel)
        return power
    return [Monomial(1.0, (kernel,))]


def summands(kernel: Any) -> list[Any]:
    """Terms of a sum of kernels, however nested; the kernel itself if not a sum."""
    if type(kernel) is not Sum:
        return [kernel]
    return summands(kernel.k1) + summands(kernel.k2)


def sum_of(parts: list[Any]) -> Any:
    """Sum of one or more kernels."""
    return reduce(Sum, parts)


def is_integer_power(kernel: Any) -> bool:
    """Whether a kernel is another one to a positive integer power."""
    if type(kernel) is not Exponentiation:
        return False
    return kernel.exponent >= 1 and float(kernel.exponent).is_integer()


def _multiplied(
    left: list[Monomial], right: list[Monomial], whole: Any
) -> list[Monomial]:
    terms = [
        Monomial(a.coefficient * b.coefficient, a.factors + b.factors)
        for a, b in product(left, right)
    ]
    return _collected(terms, whole)


def _collected(terms: list[Monomial], whole: Any) -> list[Monomial]:
    """Merge terms with the same factor objects: (a + b)² has three terms, not four."""
    sums: dict[tuple[int, ...], Monomial] = {}
    for term in terms:
        key = tuple(sorted(map(id, term.factors)))
        known = sums.get(key, Monomial(0.0, term.factors))
        sums[key] = Monomial(known.coefficient + term.coefficient, term.factors)
    longest = max(len(term.factors) for term in sums.values())
    if max(len(sums), longest) > _LARGEST:
        raise ValueError(
            f"{whole!r} expands into {len(sums)} terms of up to {longest} factors; at "
            f'most {_LARGEST} are supported. Simplify it, or ask for prior="exact".'
        )
    return list(sums.values())
