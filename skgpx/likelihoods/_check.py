"""Check of a likelihood that a user wrote: what it declares, against what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from skgpx.likelihoods._base import Likelihood

Array = NDArray[np.float64]
Problems = Iterator[str]

# What a function that was written for single numbers raises when it meets an array.
_FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)


def check_likelihood(
    likelihood: Likelihood,
    y: ArrayLike | None = None,
    random_state: int = 0,
) -> None:
    """Check a likelihood against its contract, and report every problem.

    Looks for: functions that do not broadcast, a gradient that is not the derivative
    of `nll` (or has the wrong sign), a negative or undefined curvature, overflow at
    latent values of +-1000, a missing support check, a `prepare` that changes its
    object, a constructor that stores more than its parameters, a `sample` that does
    not use its generator, moments or a distribution function that contradict the
    samples, a distribution function that decreases, an `nll` without its constants,
    `symmetric` or `location_scale` that do not hold, and starts that ignore weights.
    Functions of a scale parameter are checked at two values of it.

    Parameters
    ----------
    likelihood : Likelihood
        An instance of a subclass of :class:`Likelihood`.
    y : array-like of shape (n,), default=None
        Targets that the likelihood accepts; by default a few usual kinds are tried.
    random_state : int, default=0
        Seed of the latent values and samples.

    Raises
    ------
    ValueError
        With one line for each problem, or if `likelihood` is not an instance.

    Examples
    --------
    >>> from skgpx.likelihoods import StudentT, check_likelihood
    >>> check_likelihood(StudentT(df=5.0, scale=2.0))
    """
    if not isinstance(likelihood, Likelihood):
        raise ValueError(
            "check_likelihood expects an instance of a subclass of "
            f"skgpx.likelihoods.Likelihood, not a class; got {likelihood!r}."
        )
    rng, name = np.random.default_rng(random_state), type(likelihood).__name__
    problems = list(_constructor(likelihood))
    if not problems:
        before = repr(likelihood.get_params())
        prepared, targets = _prepare(likelihood, y, rng)
        if repr(likelihood.get_params()) != before:
            problems.append("prepare changed the parameters of its object.")
        f = rng.standard_normal((targets.size, prepared.n_outputs_, 3))
        shapes = _attempt(_shapes, prepared, targets, f)
        problems += [*_support(prepared, targets), *shapes]
        if not shapes:
            for check in (_gradient, _curvature, _overflow, _declared, _starts):
                problems += _attempt(check, prepared, targets, f)
            problems += _attempt(_samples, prepared, f)
        if not problems:
            # where a parameter is 1, a constant may hide
            for key in prepared.scale_names:
                value = 2.0 * float(getattr(prepared, key))
                other = prepared._replace(**{key: value})
                found = _attempt(_gradient, other, targets, f)
                found += _attempt(_samples, other, f)
                problems += [f"with {key} = {value:g}: {one}" for one in found]
    if problems:
        lines = "\n".join(f"- {problem}" for problem in problems)
        raise ValueError(f"{name} breaks the contract of a likelihood:\n{lines}")


def _attempt(check: Callable[..., Problems], *case: Any) -> list[str]:
    """Problems that a check finds; if the check itself raises, that is one."""
    try:
        with np.errstate(all="ignore"):
            return list(check(*case))
    except _FAILURES as error:
        topic = check.__name__.strip("_")
        return [f"{topic}: raised {type(error).__name__}: {error}"]


def _prepare(
    likelihood: Likelihood,
    y: ArrayLike | None,
    rng: np.random.Generator,
) -> tuple[Likelihood, Array]:
    """Fitted copy and targets: those given, or the first usual kind it accepts."""
    real, integers = rng.standard_normal(60), np.arange(60.0)
    positive, counts = np.exp(real), rng.poisson(2.0, 60).astype(np.float64)
    usual = [real, positive, positive / (1.0 + positive), counts]
    usual += [integers % 3.0, integers % 2.0]
    complaint = ""
    for targets in usual if y is None else [np.asarray(y, dtype=np.float64)]:
        try:
            return likelihood.prepare(targets), targets
        except _FAILURES as error:
            complaint = str(error)
    name = type(likelihood).__name__
    raise ValueError(f"{name} accepts no targets: {complaint}. Pass y.")


def _constructor(likelihood: Likelihood) -> Problems:
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
            "copies get new parameters without calling it. Use a property."
        )


def _support(likelihood: Likelihood, y: Array) -> Problems:
    """Refusal of targets that no likelihood, or no discrete one, may accept."""
    bad = {"NaN": np.nan, "infinity": np.inf}
    if likelihood.discrete:
        bad["the fraction 0.5"] = 0.5
    for name, value in bad.items():
        try:
            likelihood.prepare(np.append(y, value))
        except ValueError:
            continue
        yield f"prepare accepts {name} in y: raise a ValueError in check_support."


def _shapes(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """Functions of (n,) targets and (n, c, s) latent values return full arrays."""
    n, c, s = f.shape
    results = {
        "nll": (likelihood.row_nll(y, f), (n, s)),
        "gradient": (likelihood.row_gradient(y, f), (n, c, s)),
        "curvature": (likelihood.row_curvature(y, f), (n, c, c, s)),
        "mean": (likelihood.row_mean(f), (n, s)),
        "variance": (likelihood.row_variance(f), (n, s)),
    }
    for name, (result, expected) in results.items():
        if np.shape(result) != expected:
            yield (
                f"{name} is not vectorised: expected shape {expected} from y (n, 1) and"
                f" f (n, s) as rows; got {np.shape(result)}."
            )


def _gradient(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """Gradient against central differences of the nll, output by output."""
    gradient, numeric, h = likelihood.row_gradient(y, f), np.empty_like(f), 1e-5
    for k in range(f.shape[1]):
        step = h * (np.arange(f.shape[1]) == k)[:, np.newaxis]
        rise = likelihood.row_nll(y, f + step) - likelihood.row_nll(y, f - step)
        numeric[:, k] = rise / (2.0 * h)
    tolerance = 1e-5 * (1.0 + np.abs(numeric) + np.max(np.abs(numeric)))
    wrong = ~(np.abs(gradient - numeric) <= tolerance)
    if wrong.any() and np.all(np.abs(gradient + numeric) <= tolerance):
        yield "gradient has the wrong sign: it must be d nll / d f, not d log p / d f."
    elif wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        yield (
            f"gradient is not the derivative of nll: at y = {y[at[0]]:g}, f = "
            f"{f[at]:g} it is {gradient[at]:g}, finite differences give "
            f"{numeric[at]:g}."
        )


def _curvature(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """Finite and positive semi-definite."""
    curvature = likelihood.row_curvature(y, f)
    if not np.all(np.isfinite(curvature)):
        yield "curvature is NaN or infinite: return a finite value >= 0."
        return
    lowest = float(np.linalg.eigvalsh(np.moveaxis(curvature, 3, 1)).min())
    if lowest < -1e-10 * (1.0 + float(np.max(np.abs(curvature)))):
        yield (
            f"curvature is negative ({lowest:g}): return a majorant, the Fisher"
            " information, or the positive part."
        )


def _overflow(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """Finite values far from the data."""
    for far in (1e3, -1e3):
        extreme = np.zeros_like(f)
        extreme[:, 0] = far
        for name in ("nll", "gradient", "curvature"):
            if not np.all(np.isfinite(getattr(likelihood, f"row_{name}")(y, extreme))):
                yield (
                    f"{name} overflows or is NaN at f = {far:g}: use logaddexp, expit,"
                    " log1p, or clip."
                )


def _declared(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """What `symmetric` and `location_scale` declare of the nll."""

    def equal(a: Array, b: Array) -> bool:
        return np.allclose(a, b, rtol=1e-8, atol=1e-8)

    nll, c, k = likelihood.row_nll(y, f), 0.75, 3.0
    if likelihood.symmetric and not equal(nll, likelihood.row_nll(y, -f)):
        gap = np.abs(nll - likelihood.row_nll(y, -f))
        row = np.unravel_index(np.argmax(gap), gap.shape)[0]
        yield (
            f"symmetric is declared, but at y = {y[row]:g} nll(y, f) and nll(y, -f)"
            f" differ by {np.max(gap):g}: remove symmetric = True."
        )
    if not likelihood.location_scale:
        return
    level = likelihood.row_mean(f + c) - likelihood.row_mean(f)
    if not (equal(likelihood.row_nll(y + c, f + c), nll) and np.allclose(level, c)):
        yield (
            "location_scale is declared, but adding a number to y and f changes nll, "
            "or does not add it to mean(f): remove location_scale = True."
        )
    elif not equal(likelihood.scaled(k).row_nll(k * y, k * f), nll + np.log(k)):
        yield (
            f"location_scale is declared, but nll(y, f) and that of scaled({k:g}) at "
            f"{k:g} y and {k:g} f differ by something else than log({k:g}): let "
            "scaled(factor) return a copy whose scale parameters are multiplied "
            "accordingly, check the constants of nll, or remove location_scale = True."
        )


def _starts(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """Rough latent values of every row; weights that count as repetitions."""
    n, c, _ = f.shape
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64)
    if rough.size != n * c or not np.all(np.isfinite(rough)):
        yield (
            f"initial_latent must return {n * c} finite values for {n} targets and "
            f"{c} outputs; got shape {rough.shape}, {np.sum(~np.isfinite(rough))} of "
            "them not finite."
        )
    times = np.arange(n) % 3 + 1
    unset = clone(likelihood).set_params(**dict.fromkeys(likelihood.free_))
    weighted = unset.prepare(y, times.astype(np.float64))
    repeated = unset.prepare(np.repeat(y, times))
    for name, method in (("base_latent_", "base_latent"), ("theta", "starting_scales")):
        pair = getattr(weighted, name), getattr(repeated, name)
        if not np.allclose(*pair, rtol=1e-6, atol=1e-8):
            yield (
                f"{method} gives {pair[0]} for rows of weights 1, 2 and 3 but {pair[1]}"
                " for as many repetitions of them: use the weights."
            )


# ---- Samples: moments, distribution function, constants ------------------------------


def _samples(likelihood: Likelihood, f: Array) -> Problems:
    """Draws for five rows, and what they show of the moments and the densities."""
    few, size = f[:5, :, :1], 4000
    many = np.repeat(few, size, axis=2)
    at = many if many.shape[1] > 1 else many[:, 0]
    draws, same, other = (
        likelihood.sample(at, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    if np.shape(draws) != (len(few), size):
        yield f"sample returns shape {np.shape(draws)}: return one y per element of f."
    elif not np.array_equal(draws, same):
        yield "sample gives different draws for equal states of rng."
    elif np.array_equal(draws, other):
        yield "sample ignores rng: it gives the same draws for different seeds."
    else:
        yield from _moments(likelihood, few, draws)
        yield from _distribution(likelihood, few, draws)


def _moments(likelihood: Likelihood, few: Array, draws: Array) -> Problems:
    """Mean and variance against samples, in standard errors computed from them."""
    mean, variance = likelihood.row_mean(few), likelihood.row_variance(few)
    std = np.std(draws, axis=1, keepdims=True) + 1e-300
    deviations = {"mean": (draws, mean, 0.05 * std)}
    if np.all(np.isfinite(variance)):
        deviations["variance"] = ((draws - mean) ** 2, variance, 0.15 * std**2)
    for name, (values, expected, slack) in deviations.items():
        gap = np.abs(np.mean(values, axis=1, keepdims=True) - expected)
        error = np.std(values, axis=1, keepdims=True) / np.sqrt(draws.shape[1])
        # large both in standard errors and in size: with heavy tails the first
        # criterion alone is unreliable
        if np.any(~((gap <= 5.0 * error + 1e-12 * std) | (gap <= slack))):
            worst = int(np.argmax(gap / (error + 1e-300)))
            yield (
                f"{name} contradicts sample: at f = {few[worst, 0, 0]:g} it is"
                f" {expected[worst, 0]:g}, samples give"
                f" {np.mean(values[worst]):g} +- {error[worst, 0]:g}."
            )


def _distribution(likelihood: Likelihood, few: Array, draws: Array) -> Problems:
    """Distribution function: range, monotonicity, samples, integral of the density."""
    # closer where there are more samples: densities may have poles
    grid = np.quantile(draws, np.linspace(0.02, 0.98, 401), axis=1).T
    if likelihood.discrete:
        # not beyond the largest sample: a class number has no density there
        low, high = np.floor(grid[:, :1]), np.floor(grid[:, -1:])
        grid = np.minimum(low + np.arange(400.0), high)
    share = np.mean(draws[:, np.newaxis] <= grid[:, :, np.newaxis], axis=2)
    try:
        cdf = np.stack([likelihood.row_cdf(y, few)[:, 0] for y in grid.T], axis=1)
    except NotImplementedError:
        # of the samples instead, which is known to a few hundredths
        cdf, tolerance = share, 0.03
    else:
        tolerance = 0.01
        if not np.all((cdf >= -1e-12) & (cdf <= 1.0 + 1e-12)):
            yield "cdf leaves [0, 1]."
        if np.any(np.diff(cdf, axis=1) < -1e-12):
            yield "cdf decreases in y."
        error = np.sqrt(np.clip(cdf * (1.0 - cdf), 1e-3, None) / draws.shape[1])
        if np.any(np.abs(share - cdf) > 5.0 * error):
            yield "cdf contradicts sample."
    density = np.stack([np.exp(-likelihood.row_nll(y, few)[:, 0]) for y in grid.T], 1)
    steps = np.diff(grid, axis=1)
    mass = density[:, 1:] * (steps > 0.0)
    if not likelihood.discrete:
        mass = 0.5 * (density[:, 1:] + density[:, :-1]) * steps
    total, expected = mass.sum(axis=1), cdf[:, -1] - cdf[:, 0]
    if np.any(~(np.abs(total - expected) <= tolerance)):
        worst = int(np.argmax(np.abs(total - expected)))
        yield (
            "nll lacks its normalising constant: the density integrates to"
            f" {total[worst]:.4g} over an interval of probability"
            f" {expected[worst]:.4g}."
        )
