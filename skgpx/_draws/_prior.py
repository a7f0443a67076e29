"""Draws from the prior law of a Gaussian process, given its kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skgpx._draws._features import check_sections
from skgpx._draws._frequency_choice import Choice, Conditioning, choose_settings
from skgpx._draws._functions import FunctionDraws, linear_draws
from skgpx._draws._prior_parts import GREFeatures, Part, Setting, decompose
from skgpx._draws._processes import KernelProcess
from skgpx._draws._remembered import NoiseFree, PriorMemory, RememberedTerm
from skgpx._draws._side_by_side import side_by_side
from skgpx.kernels import sum_of, summands

_PRIORS = ("auto", "spectral", "exact")
_FREQUENCIES = ("auto", "qmc", "mc", "tail")
_DTYPES = ("float64", "float32")


def draw_prior(
    kernel: Any,
    n_inputs: int,
    n_outputs: int,
    size: int,
    rng: np.random.Generator,
    *,
    prior: str = "auto",
    n_basis: int | str = 2048,
    frequencies: str = "auto",
    n_groups: int = 1,
    given: Conditioning | None = None,
    accuracy: float = 0.02,
    dtype: str = "float64",
) -> FunctionDraws:
    """Functions from the Gaussian process with mean zero and this kernel.

    Sums and products of kernels are multiplied out. Constants, DotProducts, the
    finite-rank part of a GREKernel and a periodic kernel are exact. Stationary kernels
    have random Fourier features, whose covariance is right on average over the
    frequencies; all draws of one group share these. A WhiteKernel that is added is
    observation noise, and not part of the function.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The prior covariance.
    n_inputs : int
        Number of input columns ``d``.
    n_outputs : int
        Number of independent latent outputs ``c``.
    size : int
        Number of independent draws ``s``.
    rng : numpy.random.Generator
        Source of the draws.
    prior : {"auto", "spectral", "exact"}, default="auto"
        "spectral": Fourier features. "exact": exact draws that remember where they were
        evaluated, at a cost cubic in the number of distinct points. "auto": features
        for the parts of the kernel that have them, exact draws of the others.
    n_basis : int or "auto", default=2048
        Number of Fourier features, two for each frequency, best a power of two; the
        terms of a sum share them in proportion to their variance: that of the prior
        and, if something is ``given``, that which it leaves. "auto" takes as many as
        ``accuracy`` needs, up to 8192 (2048 if nothing is ``given``).
    frequencies : {"auto", "qmc", "mc", "tail"}, default="auto"
        How frequencies are sampled: evenly by a scrambled Sobol net ("qmc"),
        independently ("mc"), or by a net with importance weights that has more of the
        high frequencies ("tail"), how many more depending on what is ``given``. "auto"
        is "qmc" if nothing is given, and otherwise the better of "qmc" and "tail".
    n_groups : int, default=1
        Number of independent sets of frequencies, each of ``n_basis`` features and
        serving its share of the draws. Errors of different groups average out.
    given : Conditioning, default=None
        Points at which the draws will be conditioned, and their noise; with the factor
        of their covariance, features are also judged at fresh inputs.
    accuracy : float, default=0.02
        For ``n_basis="auto"``: root mean square of the logarithm of the ratio
        between the standard deviation of conditioned draws and the exact one, at points
        left out; twice that at fresh inputs, half of which lie outside the data.
    dtype : {"float64", "float32"}, default="float64"
        Precision in which Fourier features are multiplied by their weights. Single
        precision is up to twice as fast for many draws, with errors of about 1e-6 of
        the prior standard deviation; conditioning stays in double precision.

    Returns
    -------
    draws : FunctionDraws
        ``size`` draws of ``n_outputs`` outputs.

    Raises
    ------
    ValueError
        With ``prior="spectral"``, if a part of the kernel has no features; the
        message names it. If an option is not one of those above. If the kernel is
        not finite between equal points that are ``given``.

    Warns
    -----
    PredictionWarning
        If 8192 features do not reach ``accuracy``; if ``n_basis`` is a number with
        which an error above .1 is expected, unless ``frequencies`` are "qmc" or "mc".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import DotProduct, Matern, WhiteKernel
    >>> from skgpx.bases import draw_prior
    >>> kernel = Matern(0.5, nu=1.5) + 0.1 * DotProduct() ** 2 + WhiteKernel(0.01)
    >>> draws = draw_prior(kernel, 2, 1, 3, np.random.default_rng(0))
    >>> draws(np.zeros((4, 2))).shape
    (4, 3)
    """
    _check_options(prior, n_basis, frequencies, n_groups, dtype)
    if given is not None:
        check_sections(kernel, given.points)
    shape = (n_inputs, n_outputs, size)
    if prior == "exact":
        return _draw_exact(kernel, *shape, rng)
    try:
        parts = decompose(kernel, n_inputs)
    except ValueError:
        if prior == "spectral":
            raise
        # the root is that of the whole kernel, and the features are for a part of it
        given = None if given is None else replace(given, root=None)
        return _draw_mixed(
            kernel, shape, rng, n_basis=n_basis, frequencies=frequencies,
            n_groups=n_groups, given=given, accuracy=accuracy, dtype=dtype,
        )  # fmt: skip
    if not parts:
        raise ValueError(f"{kernel!r} is observation noise only: no function to draw.")
    choice = choose_settings(
        kernel, parts, n_basis, frequencies, given, accuracy, rng.spawn(1)[0]
    )
    groups = _draw_groups(parts, choice, n_outputs, size, n_groups, dtype, rng)
    law = KernelProcess.prior(kernel, n_inputs, n_outputs)
    return side_by_side(groups).with_process(law)


def _draw_groups(
    parts: list[Part],
    choice: Choice,
    n_outputs: int,
    size: int,
    n_groups: int,
    dtype: str,
    rng: np.random.Generator,
) -> list[FunctionDraws]:
    """Draws in groups with frequencies of their own; the first has the chosen ones."""
    single = dtype == "float32"
    settings = [replace(one, single_precision=single) for one in choice.settings]
    net = np.random.default_rng(choice.seed)
    sizes = [len(group) for group in np.array_split(np.arange(size), n_groups)]
    return [
        _draw_parts(parts, settings, n_outputs, s, net, rng)
        for s in sizes
        if s or not size
    ]


def _check_options(
    prior: str, n_basis: int | str, frequencies: str, n_groups: int, dtype: str
) -> None:
    for name, value, options in (
        ("prior", prior, _PRIORS),
        ("frequencies", frequencies, _FREQUENCIES),
        ("dtype", dtype, _DTYPES),
    ):
        if value not in options:
            raise ValueError(f"{name} must be one of {options}; got {value!r}.")
    if n_basis != "auto" and (isinstance(n_basis, str) or n_basis < 2):
        raise ValueError(
            f'n_basis must be "auto" or an integer of at least 2; got {n_basis!r}.'
        )
    if n_groups < 1:
        raise ValueError(f"n_groups must be at least 1; got {n_groups!r}.")


def _draw_parts(
    parts: list[Part],
    settings: list[Setting],
    n_outputs: int,
    size: int,
    net: np.random.Generator,
    rng: np.random.Generator,
) -> FunctionDraws:
    """Sum of independent draws of the parts, sharing one set of frequencies.

    Frequencies are drawn from `net`, weights from `rng`.
    """
    total: FunctionDraws | None = None
    for part, setting in zip(parts, settings, strict=True):
        feature_map = part.feature_map(setting, net)
        width = feature_map(np.zeros((1, part.d))).shape[1]
        weights = rng.standard_normal((width, n_outputs, size))
        weights *= np.sqrt(part.variance)
        if isinstance(feature_map, GREFeatures):
            draws = feature_map.draws(weights)
        else:
            draws = linear_draws(feature_map, weights)
        total = draws if total is None else total + draws
    assert total is not None
    return total


def _draw_mixed(
    kernel: Any, shape: tuple[int, int, int], rng: np.random.Generator, **options: Any
) -> FunctionDraws:
    """Features for the summands that have them, together; exact draws of the others."""
    n_inputs, exact, spectral = shape[0], [], []
    for part in summands(kernel):
        try:
            decompose(part, n_inputs)
            spectral.append(part)
        except ValueError:
            exact.append(part)
    draws = _draw_exact(sum_of(exact), *shape, rng)
    if spectral:
        draws = draws + draw_prior(sum_of(spectral), *shape, rng, **options)
    return draws.with_process(KernelProcess.prior(kernel, n_inputs, shape[1]))


def _draw_exact(
    kernel: Any, n_inputs: int, n_outputs: int, size: int, rng: np.random.Generator
) -> FunctionDraws:
    memory = PriorMemory(NoiseFree(kernel), n_inputs, n_outputs, size, rng.spawn(1)[0])
    term = RememberedTerm(memory, np.arange(size))
    law = KernelProcess.prior(kernel, n_inputs, n_outputs)
    return FunctionDraws((term,), n_outputs, size, law)
