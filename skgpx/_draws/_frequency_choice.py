"""How many Fourier features to use, and how much of them for high frequencies."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._misfit import (
    Conditioning,
    LeaveOneOut,
    Misfit,
    leave_one_out,
    misfit,
)
from skgpx._draws._prior_parts import Part, Setting, shares
from skgpx._draws._remembered import NoiseFree
from skgpx._draws._terms import FeatureMap

Array = NDArray[np.float64]

# κ of u = v^κ; 1 is the plain net, so the choice is never worse on the points left out.
TAIL_POWERS: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0)
# Number of frequencies used to compare powers: the best one depends little on it.
_COMPARED = 512
# The smallest power within this factor of the best error is taken: the rest is noise.
_AS_GOOD = 1.03
_FEWEST_FEATURES, _MOST_FEATURES = 256, 8192


def choose_setting(
    kernel: Any,
    parts: list[Part],
    n_basis: int | str,
    frequencies: str,
    given: Conditioning | None,
    accuracy: float,
    rng: np.random.Generator,
) -> Setting:
    """Turn the options of :func:`draw_prior` into numbers.

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
        Source of the trial frequencies.
    """
    automatic = n_basis == "auto"
    n = 1024 if isinstance(n_basis, str) else max(n_basis // 2, 1)
    plain = Setting(n, "mc" if frequencies == "mc" else "qmc")
    if given is None or all(part.is_exact for part in parts):
        if frequencies != "tail":
            return plain
        # the best on average in the study of docs/draws.md, for dense data
        return Setting(n, "qmc", 1.0 + 6.0 / parts[0].d)
    if frequencies in ("qmc", "mc") and not automatic:
        return plain
    exact = [(p.variance, p.feature_map(plain, rng)) for p in parts if p.is_exact]
    left_out = [
        fold.with_exact(exact) for fold in leave_one_out(NoiseFree(kernel), given, rng)
    ]
    powers = TAIL_POWERS if frequencies == "auto" else TAIL_POWERS[1:]
    if frequencies in ("qmc", "mc"):
        powers = (1.0,)
    trial = min(n, _COMPARED)
    power = _best_power(parts, Setting(trial, plain.method), powers, left_out, rng)
    chosen = Setting(n, plain.method, power)
    return _enough(parts, chosen, left_out, accuracy, rng) if automatic else chosen


def _best_power(
    parts: list[Part],
    setting: Setting,
    powers: tuple[float, ...],
    left_out: list[LeaveOneOut],
    rng: np.random.Generator,
) -> float:
    """Smallest power with nearly the least error of the covariance, on one net."""
    if len(powers) == 1:
        return powers[0]
    errors = []
    seed = int(rng.integers(2**63))
    for power in powers:
        trial = Setting(setting.n_frequencies, setting.method, power)
        net = np.random.default_rng(seed)
        errors.append(predicted_misfit(parts, trial, left_out, net).covariance)
    return powers[int(np.argmax(np.array(errors) <= _AS_GOOD * min(errors)))]


def _enough(
    parts: list[Part],
    setting: Setting,
    left_out: list[LeaveOneOut],
    accuracy: float,
    rng: np.random.Generator,
) -> Setting:
    """Double the features until the predicted error of log std is small enough."""
    size = _FEWEST_FEATURES
    while True:
        trial = Setting(size // 2, setting.method, setting.tail_power)
        error = predicted_misfit(parts, trial, left_out, rng).std
        if error <= accuracy:
            return trial
        if size == _MOST_FEATURES:
            break
        size *= 2
    warnings.warn(
        f"With {size} Fourier features the standard deviations of conditioned draws "
        f"are expected to be off by {100 * error:.2g} % (root mean square), not "
        f"{100 * accuracy:.2g} %. Pass a larger n_basis, or accept a larger error.",
        UserWarning,
        stacklevel=4,
    )
    return trial


def predicted_misfit(
    parts: list[Part],
    setting: Setting,
    left_out: list[LeaveOneOut],
    rng: np.random.Generator,
) -> Misfit:
    """Errors of conditioned draws with features of this setting.

    Parts with exact features are already included in ``left_out``.
    """
    counts = shares(parts, setting.n_frequencies, left_out[0].points)
    random: list[tuple[float, FeatureMap]] = []
    for part, count in zip(parts, counts, strict=True):
        if not part.is_exact:
            own = Setting(count, setting.method, setting.tail_power)
            random.append((part.variance, part.feature_map(own, rng)))
    return misfit(left_out, random)
