"""How many Fourier features to use, and how much of them for high frequencies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._misfit import (
    Conditioning,
    Predicted,
    leave_one_out,
    misfit,
)
from skgpx._draws._prior_parts import Part, Setting
from skgpx._draws._probes import probe
from skgpx._draws._remembered import NoiseFree
from skgpx._draws._shares import divided, prior_shares, remaining_shares
from skgpx._draws._terms import FeatureMap
from skgpx.exceptions import PredictionWarning, warn

Array = NDArray[np.float64]

# κ of u = v^κ; 1 is the plain net, so the choice is never worse on the points left out.
TAIL_POWERS: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0, 10.0)
# Number of frequencies used to compare powers: the best one depends little on it.
_COMPARED = 512
# The smallest power within this factor of the best error is taken: the rest is noise.
_AS_GOOD = 1.03
_FEWEST_FEATURES, _MOST_FEATURES = 256, 8192
# Error at the fresh inputs, relative to the accuracy asked for: half of them lie
# outside the data, where errors are largest.
_AT_PROBES = 2.0
# Error from which a number of features that was given is warned of.
_ALARM = 0.1


@dataclass(frozen=True)
class Plan:
    """How the frequencies of all parts are chosen, whatever their number."""

    shares: Array
    method: str
    tail_power: float = 1.0

    def settings(self, n_frequencies: int) -> list[Setting]:
        """Setting of each part."""
        counts = divided(self.shares, n_frequencies)
        return [Setting(count, self.method, self.tail_power) for count in counts]


class Choice(NamedTuple):
    """Settings of the parts, and the seed of the first set of frequencies.

    With it, the features of the first group are those that were judged.
    """

    settings: list[Setting]
    seed: int


def choose_settings(
    kernel: Any,
    parts: list[Part],
    n_basis: int | str,
    frequencies: str,
    given: Conditioning | None,
    accuracy: float,
    rng: np.random.Generator,
) -> Choice:
    """Turn the options of :func:`draw_prior` into numbers, for each part.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance.
    parts : list of Part
        Its independent parts.
    n_basis : int or "auto"
        Number of Fourier features, twice the number of frequencies.
    frequencies : {"auto", "qmc", "mc", "tail"}
        See :func:`draw_prior`.
    given : Conditioning or None
        What the draws will be conditioned on.
    accuracy : float
        Largest error of ``log std`` for ``n_basis="auto"``.
    rng : numpy.random.Generator
        Source of the trial frequencies, and of the seed.
    """
    automatic, plain = n_basis == "auto", frequencies in ("qmc", "mc")
    n = 1024 if isinstance(n_basis, str) else max(n_basis // 2, 1)
    method, d = "mc" if frequencies == "mc" else "qmc", parts[0].d
    random = [part for part in parts if not part.is_exact]
    seed = int(rng.integers(2**63))
    if given is None or not random or (plain and not automatic and len(random) == 1):
        # the best on average in the study of docs/draws.md, for dense data
        power = 1.0 + 6.0 / d if frequencies == "tail" else 1.0
        points = np.ones((1, d)) if given is None else given.points
        plan = Plan(prior_shares(parts, points), method, power)
        return Choice(plan.settings(n), seed)
    left_out, fresh = _judges(kernel, parts, given, rng)
    plan = Plan(remaining_shares(parts, left_out, rng), method)
    if not plain:
        powers = TAIL_POWERS if frequencies == "auto" else TAIL_POWERS[1:]
        trial = min(n, _COMPARED)
        plan = _best_plan(parts, plan, trial, powers, left_out, rng)
    if automatic:
        return _enough(parts, plan, left_out, fresh, accuracy, seed)
    choice = Choice(plan.settings(n), seed)
    if not plain:
        _warn_if_far_off(parts, choice, left_out + fresh, 2 * n)
    return choice


def _judges(
    kernel: Any, parts: list[Part], given: Conditioning, rng: np.random.Generator
) -> tuple[list[Predicted], list[Predicted]]:
    """Points left out and, if the root is known, fresh inputs; exact parts included."""
    latent = NoiseFree(kernel)
    one = Setting(1)
    exact = [(p.variance, p.feature_map(one, rng)) for p in parts if p.is_exact]
    fresh = [] if given.root is None else [probe(latent, given, rng)]
    left_out = leave_one_out(latent, given, rng)
    return (
        [fold.with_exact(exact) for fold in left_out],
        [fold.with_exact(exact) for fold in fresh],
    )


def _best_plan(
    parts: list[Part],
    plan: Plan,
    n_frequencies: int,
    powers: tuple[float, ...],
    left_out: list[Predicted],
    rng: np.random.Generator,
) -> Plan:
    """Smallest power with nearly the least error of the covariance, on one net."""
    errors, seed = [], int(rng.integers(2**63))
    for power in powers:
        settings = replace(plan, tail_power=power).settings(n_frequencies)
        features = random_features(parts, Choice(settings, seed))
        errors.append(misfit(left_out, features).covariance)
    best = powers[int(np.argmax(np.array(errors) <= _AS_GOOD * min(errors)))]
    return replace(plan, tail_power=best)


def _enough(
    parts: list[Part],
    plan: Plan,
    left_out: list[Predicted],
    fresh: list[Predicted],
    accuracy: float,
    seed: int,
) -> Choice:
    """Double the features until the predicted error of log std is small enough."""
    size = _FEWEST_FEATURES
    while True:
        choice = Choice(plan.settings(size // 2), seed)
        features = random_features(parts, choice)
        error = misfit(left_out, features).std
        if error <= accuracy and fresh:
            error = max(error, misfit(fresh, features).std / _AT_PROBES)
        if error <= accuracy:
            return choice
        if size == _MOST_FEATURES:
            break
        size *= 2
    warn(
        f"With {size} Fourier features the standard deviations of conditioned draws "
        f"are expected to be off by {100 * error:.2g} % (root mean square), not "
        f"{100 * accuracy:.2g} %; their mean is right. Pass a larger n_basis, give the "
        'data more noise, or use prior="exact" where few inputs are of interest.',
        PredictionWarning,
    )
    return choice


def _warn_if_far_off(
    parts: list[Part], choice: Choice, predicted: list[Predicted], size: int
) -> None:
    """Say so if the number of features that was asked for is much too small."""
    error = misfit(predicted, random_features(parts, choice)).std
    if error > _ALARM:
        warn(
            f"{size} Fourier features are too few for these data: the standard "
            "deviations of conditioned draws are expected to be off by "
            f"{100 * error:.2g} % (root mean square); their mean is right. Pass a "
            'larger n_basis, or n_basis="auto".',
            PredictionWarning,
        )


def random_features(
    parts: list[Part], choice: Choice
) -> list[tuple[float, FeatureMap]]:
    """Variances and feature maps of the parts whose features are random."""
    net = np.random.default_rng(choice.seed)
    return [
        (part.variance, part.feature_map(setting, net))
        for part, setting in zip(parts, choice.settings, strict=True)
        if not part.is_exact
    ]
