"""Where learning starts: the kernel's spectral density, and waves that stand out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgpx._hyperparameters import MIN_GAIN, false_alarm_level
from skgpx._numerics.regression import noise_share, posterior, weight_statistics
from skgpx._numerics.rows import row_slices
from skgpx._numerics.wave_evidence import Waves
from skgpx._row_budgets import COMPARED_ROWS, SEARCHED_ROWS
from skgpx._shell.validation import Rows
from skgpx._stein._features import kernel_waves
from skgpx._stein._wave_mixture import WIDE, Centring, WaveMixture, std_of_columns
from skgpx._types import Array, Generator, Mask
from skgpx.kernels import (
    Additive,
    kernel_of_values,
    n_subsets,
    stationary_variance,
)


def starting_waves(
    rows: Rows,
    prior: Kernel,
    noise_variance: float | Array,
    n_components: int,
    n_frequencies: int,
    n_columns: int,
    rng: Generator,
) -> WaveMixture:
    """Quasi-random frequencies (M, R, d) from the spectral distribution of the kernel.

    From 256 columns on they are random: a Sobol net takes longer and gains nothing.
    Those of sums of functions of few columns are zero in the others.

    Raises
    ------
    ValueError
        If a part of the kernel has no spectral distribution.
    """
    sampled = kernel = kernel_of_values(prior)
    is_seen = np.full(n_columns, True)
    longest: Array | float = np.inf
    # more than 2000 functions take seconds, and have waves of random columns
    if type(prior) is Additive and n_subsets(kernel.order, n_columns).sum() <= 2000:
        is_seen = columns_of_waves(kernel, noise_variance, rows, n_frequencies)
        sampled = stationary_variance(kernel, n_columns) * kernel.kernel
        # smooth functions are large parts of long waves, which move too little to
        # become short ones
        std = std_of_columns(rows.X, rows.weights)
        longest = np.where(std > 0.0, 4.0 * std, np.inf)
    samples = [
        kernel_waves(
            sampled,
            n_frequencies,
            method="sobol" if n_columns < WIDE else "mc",
            input_variances=np.ones(n_columns),
            n_steps=0,
            rng=component_rng,
        )
        for component_rng in rng.spawn(n_components)
    ]
    omega = np.stack([sample.frequencies * is_seen for sample in samples])
    # The length scale of an RBF with frequencies of this size, by the median of |ω ℓ|.
    # Terms of other columns have frequencies zero in a column.
    length_scale = np.ones(n_columns)
    for column, waves in enumerate(omega.T):
        sizes = np.abs(waves[waves != 0.0])
        if len(sizes):
            length_scale[column] = 0.6744897501960817 / np.median(sizes)
    return WaveMixture(
        kernel=kernel,
        frequencies=omega * length_scale,
        amplitudes=samples[0].amplitudes,
        length_scale=np.minimum(length_scale, longest),
        noise_variance=noise_variance,
    )


def columns_of_waves(
    kernel: Additive,
    noise_variance: float | Array,
    rows: Rows,
    n_frequencies: int,
) -> Mask:
    """Which columns each wave of a sum of functions sees, (R, d).

    The functions share the waves in proportion to the standard deviation of their
    posterior means ``v_r / C(d, r) k_S α``, ``α = (K + N)⁻¹ y``. Of many pairs few
    matter, of which the prior knows nothing. A function of more waves has less to gain
    from another one; waves go from the least to the most valuable.
    """
    rows = rows.thinned(SEARCHED_ROWS)
    X = rows.X
    Z = rows.thinned(COMPARED_ROWS).X
    noise = np.maximum(np.mean(noise_variance), 1e-8) / rows.precisions
    alpha = np.linalg.solve(kernel(X) + np.diag(noise), rows.y)
    all_columns = np.arange(X.shape[1])
    correlations = {
        column: factor.of(position)(Z[:, [column]], X[:, [column]])
        for factor in kernel._factors_of(all_columns)
        for position, column in enumerate(factor.columns)
    }
    amplitudes = kernel._by_order / n_subsets(kernel.order, len(correlations))
    is_seen = []
    sizes = []
    for order, amplitude in enumerate(amplitudes, start=1):
        for subset in combinations(correlations, order):
            correlation = np.prod([correlations[column] for column in subset], axis=0)
            mean = amplitude * correlation @ alpha
            sizes.append(np.linalg.norm(mean - mean.mean(axis=0)))
            is_seen.append(np.isin(all_columns, subset))
    # the next wave to the largest quotient (Webster)
    quotients = np.divide.outer(sizes, np.arange(n_frequencies) + 0.5)
    best = np.argsort(quotients, axis=None, kind="stable")[-n_frequencies:]
    return np.array(is_seen)[best // n_frequencies]


def as_pairs(start: WaveMixture, rows: Rows, rng: Generator) -> WaveMixture:
    """Pairs ``(ω + δ, ω - δ)`` about the frequencies, of the centred rows.

    The evidence is even in δ: at zero its slope vanishes, and the pairs would stay
    together. Entries of δ are normal, 0.3 in units of one over the length
    scale, or over the standard deviation of an input that is wider; a frequency that is
    zero, of a term of other columns, stays.
    """
    centre = np.average(rows.X, axis=0, weights=rows.weights)
    std = std_of_columns(rows.X, rows.weights)
    omega = start.frequencies
    delta = 0.3 * rng.standard_normal(omega.shape) * (omega != 0.0)
    delta /= np.maximum(std / start.length_scale, 1.0)
    pairs = np.stack((omega + delta, omega - delta), axis=2)
    # a network centres its inputs itself
    return start._replace(frequencies=pairs, warp=start.warp or Centring(centre))


# ---- Waves that stand out of the periodogram -----------------------------------------


def strong_waves(rows: Rows, start: WaveMixture) -> Waves | None:
    """Waves along one column that stand out of what a component leaves of y, up to ten.

    With several targets, waves of any of them.

    Frequencies far out in the spectral density of the kernel are near no quasi-random
    point, and no descent gets there: the evidence has a peak as narrow as ``1 / range``
    at each. A component that begins at such a peak by chance leaves nothing of the
    wave, and the next one is tested.
    """
    components = start.waves()
    n_start = len(start.amplitudes)
    for _ in range(min(10, n_start // 4)):
        for waves in components:
            errors, _ = leave_one_out(rows, waves)
            wave = _strongest_wave(rows, errors)
            if wave is not None:
                break
        if wave is None:
            break
        omega, amplitude = wave
        components = [
            waves._replace(
                frequencies=np.vstack((omega, waves.frequencies)),
                amplitudes=np.append(amplitude, waves.amplitudes),
            )
            for waves in components
        ]
    n_strong = len(components[0].amplitudes) - n_start
    if n_strong == 0:
        return None
    return components[0]._replace(
        frequencies=components[0].frequencies[:n_strong],
        amplitudes=components[0].amplitudes[:n_strong],
    )


def with_waves(
    start: WaveMixture,
    waves: Waves,
    amplitude_is_free: bool,
) -> WaveMixture:
    """Put the strong waves in place of the first waves of each component.

    The amplitudes there become at least those of the strong waves, if the variance of
    the kernel is not given.
    """
    n_strong = len(waves.amplitudes)
    frequencies = start.frequencies.copy()
    frequencies[:, :n_strong] = waves.frequencies * start.length_scale
    amplitudes = start.amplitudes.copy()
    if amplitude_is_free:
        amplitudes[:n_strong] = np.maximum(amplitudes[:n_strong], waves.amplitudes)
    return start._replace(frequencies=frequencies, amplitudes=amplitudes)


def without_waves(rows: Rows, waves: Waves) -> Rows:
    """Rows with what weighted least squares of the waves leaves of y."""
    root = np.sqrt(rows.weights)
    features = waves.features(rows.X)
    weighted_y = (rows.y.T * root).T
    weighted_features = (features * root).T
    coefficients = np.linalg.lstsq(weighted_features, weighted_y, rcond=None)[0]
    return rows._replace(y=rows.y - features.T @ coefficients)


def leave_one_out(rows: Rows, waves: Waves) -> tuple[Array, Array]:
    """Predict each row from the others.

    A start that overfits would hide in its residuals what it follows.

    Returns
    -------
    errors : ndarray of shape (n,) or (n, t)
    variances : ndarray of shape (n,) or (n, t)
        Variances of the errors.
    """
    features = waves.features(rows.X).T
    noise_variance = waves.noise_variance
    sums = weight_statistics(features, rows.y, rows.weights, np.zeros(len(rows.y)))
    mean, variance = posterior(sums, noise_variance).latent(features)
    mean = mean[:, :, 0].reshape(rows.y.shape)
    variance = variance[:, :, 0].reshape(rows.y.shape)
    share = noise_share(variance, noise_variance, rows.weights, least=1e-3)
    # (y - φᵀw) / (1 - h), of variance σ² / (1 - h)
    return (rows.y - mean) / share, noise_variance / share


def _strongest_wave(rows: Rows, errors: Array) -> tuple[Array, float] | None:
    """Frequency (d,) and amplitude of the strongest wave, if it stands out.

    It gains 0.01 nats an observation, and more than the strongest of the waves that
    were tried would by chance.
    """
    n, d = rows.X.shape
    weighted = (rows.weights * errors.T).T.reshape(n, -1)
    sizes = np.sum(weighted**2, axis=0)
    n_tried = 0
    power = 0.0
    omega = np.zeros(d)
    amplitude = 0.0
    for column, x in enumerate(rows.X.T):
        n_values = len(np.unique(x))
        if n_values < 3 or not np.any(sizes):
            continue
        # The periodogram, at frequencies twice as dense as its peaks are wide.
        step = np.pi / np.ptp(x)
        grid = step * np.arange(1.0, min(n_values, 1000) + 1.0)
        powers = _periodogram(x, weighted, sizes, grid)
        n_tried += powers.size
        if powers.max() > power:
            centre = grid[np.argmax(powers.max(axis=1))]
            fine_grid = centre + step * np.linspace(-0.5, 0.5, 9)
            powers = _periodogram(x, weighted, sizes, fine_grid)
            frequency, target = np.unravel_index(np.argmax(powers), powers.shape)
            power = float(powers.max())
            omega = np.zeros(d)
            omega[column] = fine_grid[frequency]
            amplitude = np.sqrt(2.0 * power * sizes[target]) / rows.weights.sum()
    # Twice the power of independent residuals is chi-squared of two degrees.
    gain = -0.5 * np.log1p(-min(2.0 * power / n, 0.999))
    # a false alarm is seldom, as the errors of a start are correlated, and every wave
    # that is found is followed by another test
    if gain < MIN_GAIN or power < false_alarm_level(n_tried, np.exp(-7.0)):
        return None
    return omega, float(amplitude)


def _periodogram(x: Array, weighted: Array, sizes: Array, omega: Array) -> Array:
    """``|Σ r exp(iωx)|² / Σ r²`` of frequencies along one column, for targets, (F, t).

    A hundred frequencies at a time; zero for a target without residuals.
    """
    blocks = []
    for part in row_slices(len(omega), 100):
        frequencies = omega[part, np.newaxis]
        waves = Waves(frequencies, np.ones(len(frequencies)), 1.0)
        features = waves.features(x[:, np.newaxis])
        sums = (features @ weighted).reshape(2, len(frequencies), -1)
        blocks.append(np.sum(sums**2, axis=0) / np.where(sizes > 0.0, sizes, 1.0))
    return np.concatenate(blocks)
