"""Check of a likelihood that a user wrote: its declarations against its functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.pointwise import formula_of, value_and_gradient
from skgpx._types import Array, ArrayLike, Generator
from skgpx.likelihoods._base import Likelihood

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

    Looks for: functions that do not broadcast, a gradient that is not the derivative of
    `nll` (or has the wrong sign), a compiled formula of another class, a negative or
    undefined curvature, overflow at latent values of +-1000, a missing support check, a
    `prepare` that changes its object, a constructor that stores more than its
    parameters, a `sample` that does not use its generator, moments or a distribution
    function that contradict the samples, integers without `discrete = True`, a
    distribution function that decreases, an `nll` without its constants, predictive
    functions that contradict `nll`, `mean`, `variance` and `cdf`, `symmetric` or
    `location_scale` that do not hold, and starts that ignore weights. Functions of a
    scale parameter are checked at half and at twice its value, too.

    Parameters
    ----------
    likelihood : Likelihood
        An instance of a subclass of :class:`Likelihood`.
    y : array-like of shape (n,), default=None
        Targets that the likelihood accepts; None takes its `example_targets`.
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
    rng = np.random.default_rng(random_state)
    problems = list(_constructor(likelihood)) or _problems(likelihood, y, rng)
    if problems:
        name = type(likelihood).__name__
        lines = "\n".join(f"- {problem}" for problem in problems)
        raise ValueError(f"{name} breaks the contract of a likelihood:\n{lines}")


def _problems(
    likelihood: Likelihood,
    y: ArrayLike | None,
    rng: Generator,
) -> list[str]:
    """Problems of a likelihood with a constructor as it should be."""
    problems = []
    parameters = repr(likelihood.get_params())
    prepared, targets = _prepare(likelihood, y, rng)
    if repr(likelihood.get_params()) != parameters:
        problems.append("prepare changed the parameters of its object.")
    problems += _support(prepared, targets)

    f = rng.standard_normal((targets.size, prepared.n_outputs_, 3))
    wrong_shapes = _attempt(_shapes, prepared, targets, f)
    problems += wrong_shapes
    if not wrong_shapes:
        for check in (_gradient, _compiled, _curvature, _overflow, _declared, _starts):
            problems += _attempt(check, prepared, targets, f)
        problems += _attempt(_samples, prepared, f)
    if problems:
        return problems
    problems += _attempt(_predictions, prepared, targets, f)

    # where a parameter is 1, a constant or an overflow may hide
    for name in prepared.scale_names:
        for factor in (2.0, 0.5):
            value = factor * float(getattr(prepared, name))
            changed = prepared._replace(**{name: value})
            problems_there = []
            for check in (_gradient, _compiled, _curvature, _overflow, _predictions):
                problems_there += _attempt(check, changed, targets, f)
            # half a shape may give densities poles that a grid does not resolve
            if factor > 1.0:
                problems_there += _attempt(_samples, changed, f)
            problems += [
                f"with {name} = {value:g}: {problem}" for problem in problems_there
            ]
    return problems


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
    rng: Generator,
) -> tuple[Likelihood, Array]:
    """Fitted copy and targets: y, or the first candidate that it accepts."""
    if y is not None:
        candidates = [np.asarray(y, dtype=np.float64)]
    else:
        # where `sample` is wrong: real numbers, shares, two classes
        real = rng.standard_normal(60)
        shares = 1.0 / (1.0 + np.exp(-real))
        candidates = [real, shares, np.arange(60.0) % 2.0]
        with contextlib.suppress(*_FAILURES):
            candidates.insert(0, likelihood.example_targets(rng, 60))
    complaint = ""
    for targets in candidates:
        try:
            return likelihood.prepare(targets), targets
        except _FAILURES as error:
            complaint = str(error)
    name = type(likelihood).__name__
    raise ValueError(f"{name} accepts no targets: {complaint}. Pass y.")


def _constructor(likelihood: Likelihood) -> Problems:
    """The constructor only stores its parameters, unchanged."""
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
        shape = np.shape(result)
        if shape != expected:
            yield (
                f"{name} is not vectorised: expected shape {expected} from y (n, 1) and"
                f" f (n, s) as rows; got {shape}."
            )


def _compiled(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """The formula that chains take in place of the gradient, if there is one."""
    if likelihood.kernel_code is None:
        return
    expected = likelihood.row_gradient(y, f)
    compiled = np.empty((len(f), f[0].size))
    value_and_gradient(
        formula_of(likelihood.kernel_code),
        np.asarray(likelihood.kernel_parameters(), dtype=np.float64),
        np.asarray(y, dtype=np.float64),
        f.reshape(compiled.shape),
        False,
        np.empty(f[:, 0].shape),
        compiled,
    )
    size = 1.0 + np.max(np.abs(expected))
    if not np.allclose(
        compiled.reshape(f.shape), expected, rtol=1e-8, atol=1e-8 * size
    ):
        yield (
            "kernel_code names a compiled formula whose gradient is another one, and "
            "which chains would take. Remove kernel_code and kernel_parameters from a "
            "copy of another class, or add a formula of its own."
        )


def _gradient(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """Gradient against central differences of the nll, output by output."""
    h = 1e-5
    gradient = likelihood.row_gradient(y, f)
    numeric = np.empty_like(f)
    for k, unit in enumerate(np.eye(f.shape[1])):
        step = h * unit[:, np.newaxis]
        above = likelihood.row_nll(y, f + step)
        below = likelihood.row_nll(y, f - step)
        numeric[:, k] = (above - below) / (2.0 * h)
    size = np.abs(numeric)
    tolerance = 1e-5 * (1.0 + size + np.max(size))
    wrong = ~(np.abs(gradient - numeric) <= tolerance)
    if not wrong.any():
        return
    if np.all(np.abs(gradient + numeric) <= tolerance):
        yield "gradient has the wrong sign: it must be d nll / d f, not d log p / d f."
        return
    first = tuple(np.argwhere(wrong)[0])
    row = first[0]
    yield (
        f"gradient is not the derivative of nll: at y = {y[row]:g}, f = "
        f"{f[first]:g} it is {gradient[first]:g}, finite differences give "
        f"{numeric[first]:g}."
    )


def _curvature(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """Finite and positive semi-definite."""
    curvature = likelihood.row_curvature(y, f)
    if not np.all(np.isfinite(curvature)):
        yield "curvature is NaN or infinite: return a finite value >= 0."
        return
    matrices = np.moveaxis(curvature, 3, 1)
    lowest = float(np.min(np.linalg.eigvalsh(matrices)))
    rounding = 1e-10 * (1.0 + float(np.max(np.abs(curvature))))
    if lowest < -rounding:
        yield (
            f"curvature is negative ({lowest:g}): return a majorant, the Fisher"
            " information, or the positive part."
        )


def _overflow(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """Finite values far from the data."""
    for far in (1e3, -1e3):
        extreme = np.zeros_like(f)
        extreme[:, 0] = far
        results = {
            "nll": likelihood.row_nll(y, extreme),
            "gradient": likelihood.row_gradient(y, extreme),
            "curvature": likelihood.row_curvature(y, extreme),
        }
        for name, result in results.items():
            if not np.all(np.isfinite(result)):
                yield (
                    f"{name} overflows or is NaN at f = {far:g}: use logaddexp, expit,"
                    " log1p, or clip."
                )


def _declared(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """What `symmetric` and `location_scale` declare of the nll."""
    nll = likelihood.row_nll(y, f)
    if likelihood.symmetric:
        gap = np.abs(nll - likelihood.row_nll(y, -f))
        if np.any(gap > 1e-8 * (1.0 + np.abs(nll))):
            row, _ = np.unravel_index(np.argmax(gap), gap.shape)
            yield (
                f"symmetric is declared, but at y = {y[row]:g} nll(y, f) and nll(y, -f)"
                f" differ by {np.max(gap):g}: remove symmetric = True."
            )
    if likelihood.location_scale:
        yield from _location_and_scale(likelihood, y, f, nll)


def _location_and_scale(
    likelihood: Likelihood,
    y: Array,
    f: Array,
    nll: Array,
) -> Problems:
    """``nll(y + c, f + c) = nll(y, f)``, and ``nll(y, f) + log k`` at ``k y, k f``."""
    c = 0.75
    k = 3.0
    shifted = likelihood.row_nll(y + c, f + c)
    rise = likelihood.row_mean(f + c) - likelihood.row_mean(f)
    same_density = np.allclose(shifted, nll, rtol=1e-8)
    if not (same_density and np.allclose(rise, c)):
        yield (
            "location_scale is declared, but adding a number to y and f changes nll, "
            "or does not add it to mean(f): remove location_scale = True."
        )
        return
    scaled = likelihood.scaled(k).row_nll(k * y, k * f)
    if not np.allclose(scaled, nll + np.log(k), rtol=1e-8):
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
        by_weight = getattr(weighted, name)
        by_repetition = getattr(repeated, name)
        if not np.allclose(by_weight, by_repetition, rtol=1e-6):
            yield (
                f"{method} gives {by_weight} for rows of weights 1, 2 and 3 but "
                f"{by_repetition} for as many repetitions of them: use the weights."
            )


def _predictions(likelihood: Likelihood, y: Array, f: Array) -> Problems:
    """Predictive functions that are overridden, against those of the base class.

    A class that is derived from another likelihood inherits its closed forms.
    """
    _, n_outputs, s = f.shape
    if n_outputs > 1:
        # quadrature over several outputs is no reference
        return
    y = y[:5]
    variance = np.full((len(y), 1, s), 0.2)
    mixture = LatentMixture(0.5 * f[: len(y)], variance, np.full(s, 1.0 / s))
    moments = Likelihood.predictive_moments(likelihood, mixture)
    _, variance_of_mean = Likelihood._moments_of_mean(likelihood, mixture)
    density = Likelihood.predictive_log_density(likelihood, y, mixture)
    for name, given, by_quadrature in (
        ("predictive_mean", likelihood.predictive_mean(mixture), moments[0]),
        ("predictive_moments", likelihood.predictive_moments(mixture), moments),
        (
            "predictive_mean_variance",
            likelihood.predictive_mean_variance(mixture),
            variance_of_mean,
        ),
        (
            "predictive_log_density",
            likelihood.predictive_log_density(y, mixture),
            density,
        ),
    ):
        values = np.asarray(given)
        expected = np.asarray(by_quadrature)
        gap = np.abs(values - expected)
        is_close = (gap <= 0.01 * (np.abs(expected) + 1e-3)) | (values == expected)
        if not np.all(is_close):
            worst = np.unravel_index(np.argmin(is_close), is_close.shape)
            yield (
                f"{name} contradicts nll, mean and variance: it gives "
                f"{values[worst]:.4g}, quadrature over f {expected[worst]:.4g}. Was it "
                "inherited from another likelihood? Derive from Likelihood."
            )


# ---- Samples: moments, distribution function, constants ------------------------------


def _samples(likelihood: Likelihood, f: Array) -> Problems:
    """Draws for five rows, against the moments and the densities."""
    size = 4000
    f = f[:5, :, :1]
    repeated = np.repeat(f, size, axis=2)
    if repeated.shape[1] == 1:
        repeated = repeated[:, 0]
    draws = likelihood.sample(repeated, np.random.default_rng(0))
    of_same_seed = likelihood.sample(repeated, np.random.default_rng(0))
    of_other_seed = likelihood.sample(repeated, np.random.default_rng(1))
    if np.shape(draws) != (len(f), size):
        yield f"sample returns shape {np.shape(draws)}: return one y per element of f."
    elif not np.array_equal(draws, of_same_seed):
        yield "sample gives different draws for equal states of rng."
    elif np.array_equal(draws, of_other_seed):
        yield "sample ignores rng: it gives the same draws for different seeds."
    else:
        yield from _moments(likelihood, f, draws)
        integers = np.array_equal(draws, np.floor(draws))
        if integers and not likelihood.discrete:
            yield "sample draws integers only: set discrete = True in the class."
        elif likelihood.discrete and not integers:
            yield "discrete is declared, but sample draws fractions."
        else:
            yield from _distribution(likelihood, f, draws)


def _moments(likelihood: Likelihood, f: Array, draws: Array) -> Problems:
    """Mean and variance against samples, in standard errors computed from them."""
    mean = likelihood.row_mean(f)
    variance = likelihood.row_variance(f)
    std = np.std(draws, axis=1, keepdims=True) + 1e-300
    comparisons = {"mean": (draws, mean, 0.05 * std)}
    if np.all(np.isfinite(variance)):
        squares = (draws - mean) ** 2
        comparisons["variance"] = (squares, variance, 0.15 * std**2)
    for name, (values, expected, tolerance) in comparisons.items():
        average = np.mean(values, axis=1, keepdims=True)
        gap = np.abs(average - expected)
        spread = np.std(values, axis=1, keepdims=True)
        error = spread / np.sqrt(draws.shape[1])
        # large both in standard errors and in size: with heavy tails the first
        # criterion alone is unreliable
        is_within_errors = gap <= 5.0 * error + 1e-12 * std
        is_small = gap <= tolerance
        if not np.all(is_within_errors | is_small):
            worst = int(np.argmax(gap / (error + 1e-300)))
            yield (
                f"{name} contradicts sample: at f = {f[worst, 0, 0]:g} it is"
                f" {expected[worst, 0]:g}, samples give"
                f" {average[worst, 0]:g} +- {error[worst, 0]:g}."
            )


def _distribution(likelihood: Likelihood, f: Array, draws: Array) -> Problems:
    """Distribution function: range, monotonicity, samples, integral of the density."""
    # closer where there are more samples: densities may have poles
    levels = np.linspace(0.02, 0.98, 401)
    grid = np.quantile(draws, levels, axis=1).T
    if likelihood.discrete:
        # not beyond the largest sample: a class number has no density there
        lowest = np.floor(grid[:, :1])
        highest = np.floor(grid[:, -1:])
        grid = np.minimum(lowest + np.arange(400.0), highest)
    is_below = draws[:, np.newaxis] <= grid[:, :, np.newaxis]
    frequency = np.mean(is_below, axis=2)
    try:
        columns = [likelihood.row_cdf(y, f)[:, 0] for y in grid.T]
        cdf = np.stack(columns, axis=1)
    except NotImplementedError:
        # frequencies in the sample instead, which err by a few hundredths
        cdf = frequency
        tolerance = 0.03
    else:
        tolerance = 0.01
        if not np.all((cdf >= -1e-12) & (cdf <= 1.0 + 1e-12)):
            yield "cdf leaves [0, 1]."
        if np.any(np.diff(cdf, axis=1) < -1e-12):
            yield "cdf decreases in y."
        variance = np.clip(cdf * (1.0 - cdf), 1e-3, None)
        error = np.sqrt(variance / draws.shape[1])
        gap = np.abs(frequency - cdf)
        if np.any(gap > 5.0 * error):
            yield "cdf contradicts sample."

    # sums of probabilities, or the trapezoidal rule
    nll = [likelihood.row_nll(y, f)[:, 0] for y in grid.T]
    density = np.exp(-np.stack(nll, axis=1))
    steps = np.diff(grid, axis=1)
    if likelihood.discrete:
        mass = density[:, 1:] * (steps > 0.0)
    else:
        edge_sums = density[:, 1:] + density[:, :-1]
        mass = 0.5 * edge_sums * steps
    total = mass.sum(axis=1)
    expected = cdf[:, -1] - cdf[:, 0]
    gap = np.abs(total - expected)
    if np.any(~(gap <= tolerance)):
        worst = int(np.argmax(gap))
        yield (
            "nll lacks its normalising constant: the density integrates to"
            f" {total[worst]:.4g} over an interval of probability"
            f" {expected[worst]:.4g}."
        )
