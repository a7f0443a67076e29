"""What a likelihood declares about itself, against what it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skgpx.likelihoods._base import Likelihood

Array = NDArray[np.float64]

# Shift and factor of y and f for likelihoods that are `location_scale`.
_SHIFT, _FACTOR = 0.75, 3.0


class Case(NamedTuple):
    """A prepared likelihood with targets (n,) and latent values (n, c, s)."""

    likelihood: Likelihood
    y: Array
    f: Array
    rng: np.random.Generator


def check_instance(likelihood: Any) -> None:
    """Raise a ValueError unless this is an instance, not a class, of Likelihood."""
    if isinstance(likelihood, type):
        raise ValueError(
            "check_likelihood expects an instance of a likelihood; got the class "
            f"{likelihood.__name__}. Call it: check_likelihood({likelihood.__name__}())"
            ", with the arguments of its constructor if it needs some."
        )
    if not isinstance(likelihood, Likelihood):
        raise ValueError(
            "check_likelihood expects an instance of a subclass of "
            f"skgpx.likelihoods.Likelihood; got {likelihood!r}."
        )


def constructor(likelihood: Likelihood) -> Iterator[str]:
    """The constructor stores its parameters, unchanged, and nothing else."""
    try:
        fresh = clone(likelihood)
        derived = sorted(set(vars(fresh)) - set(fresh.get_params()))
    except (AttributeError, RuntimeError, TypeError) as error:
        yield (
            "the constructor must store each parameter under its own name and as it "
            f"was given: {error}."
        )
        return
    if derived:
        yield (
            f"the constructor sets {', '.join(derived)} beside its parameters: fitted "
            "copies get new parameters without calling it, and would keep the old "
            "values. Compute them where they are needed, or in a property."
        )


def symmetry(case: Case) -> Iterator[str]:
    """``nll(y, f) = nll(y, -f)`` where that is declared."""
    likelihood, y, f, _ = case
    if not likelihood.symmetric:
        return
    nll, mirrored = likelihood.row_nll(y, f), likelihood.row_nll(y, -f)
    if not np.allclose(nll, mirrored, rtol=1e-8, atol=1e-8):
        worst = np.unravel_index(np.argmax(np.abs(nll - mirrored)), nll.shape)
        yield (
            f"symmetric is declared, but at y = {y[worst[0]]:g} nll is {nll[worst]:g} "
            f"at f and {mirrored[worst]:g} at -f: remove symmetric = True."
        )


def location_and_scale(case: Case) -> Iterator[str]:
    """Shifting and scaling y shifts and scales f, where that is declared."""
    likelihood, y, f, _ = case
    if not likelihood.location_scale:
        return
    nll, c, k = likelihood.row_nll(y, f), _SHIFT, _FACTOR
    shifted = likelihood.row_nll(y + c, f + c)
    level = likelihood.row_mean(f + c) - likelihood.row_mean(f)
    if not (np.allclose(shifted, nll, rtol=1e-8, atol=1e-8) and np.allclose(level, c)):
        yield (
            "location_scale is declared, but adding a number to y and f changes nll, "
            "or does not add it to mean(f): remove location_scale = True."
        )
        return
    scaled = likelihood.scaled(k).row_nll(k * y, k * f)
    if not np.allclose(scaled, nll + np.log(k), rtol=1e-8, atol=1e-8):
        yield (
            f"location_scale is declared, but nll(y, f) and that of scaled({k:g}) at "
            f"{k:g} y and {k:g} f differ by something else than log({k:g}): let "
            "scaled(factor) return a copy whose scale parameters are multiplied "
            "accordingly, check the constants of nll, or remove location_scale = True."
        )


def randomness(case: Case) -> Iterator[str]:
    """All of the randomness of `sample` comes from the generator it is given."""
    likelihood, _, f, _ = case
    at = f if f.shape[1] > 1 else f[:, 0]
    one, same, other = (
        likelihood.sample(at, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    if not np.array_equal(one, same):
        yield (
            "sample gives different draws for equal states of rng: take all random "
            "numbers from rng."
        )
    elif np.array_equal(one, other):
        yield "sample ignores rng: it gives the same draws for different seeds."


def starts(case: Case) -> Iterator[str]:
    """Rough latent values of every row; weights that count as repetitions."""
    likelihood, y, f, rng = case
    n, c, _ = f.shape
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64)
    if rough.size != n * c or not np.all(np.isfinite(rough)):
        yield (
            f"initial_latent must return {n * c} finite values for {n} targets and "
            f"{c} outputs; got shape {rough.shape}, {np.sum(~np.isfinite(rough))} of "
            "them not finite."
        )
    times = rng.integers(1, 4, n)
    unset = clone(likelihood).set_params(**dict.fromkeys(likelihood.free_))
    weighted = unset.prepare(y, times.astype(np.float64))
    repeated = unset.prepare(np.repeat(y, times))
    for name in ("base_latent_", "theta"):
        pair = getattr(weighted, name), getattr(repeated, name)
        if not np.allclose(*pair, rtol=1e-6, atol=1e-8):
            method = "base_latent" if name == "base_latent_" else "starting_scales"
            yield (
                f"{method} gives {pair[0]} for rows of weights 1, 2 and 3 but {pair[1]}"
                " for as many repetitions of them: use the weights."
            )
