"""Test functions of computer experiments, on the unit cube and without noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import qmc

Array = NDArray[np.float64]


class Emulator(NamedTuple):
    """A function of rows of the unit cube.

    Attributes
    ----------
    function : callable
        From rows (n, d) to values (n,).
    d : int
        Number of inputs.
    """

    function: Callable[[Array], Array]
    d: int

    def design(self, n: int, seed: int) -> tuple[Array, Array]:
        """A Latin hypercube of n rows, and the values there."""
        X = qmc.LatinHypercube(self.d, rng=np.random.default_rng(seed)).random(n)
        return X, self.function(X)


def _within(X: Array, *limits: ArrayLike) -> Array:
    """Columns of X, (d, n), in the units of their limits."""
    low, high = np.transpose(limits)
    scaled: Array = (low + X * (high - low)).T
    return scaled


# ---- Models of physics and engineering -----------------------------------------------


def borehole(X: Array) -> Array:
    """Flow of water through a borehole, of eight inputs."""
    radius, influence, Tu, Hu, Tl, Hl, length, K = _within(
        X,
        (0.05, 0.15),
        (100.0, 50_000.0),
        (63_070.0, 115_600.0),
        (990.0, 1110.0),
        (63.1, 116.0),
        (700.0, 820.0),
        (1120.0, 1680.0),
        (9855.0, 12_045.0),
    )
    log_ratio = np.log(influence / radius)
    resistance = 2.0 * length * Tu / (log_ratio * radius**2 * K)
    return 2.0 * np.pi * Tu * (Hu - Hl) / (log_ratio * (1.0 + resistance + Tu / Tl))


def otl_circuit(X: Array) -> Array:
    """Midpoint voltage of a push-pull circuit, of six inputs."""
    Rb1, Rb2, Rf, Rc1, Rc2, beta = _within(
        X,
        (50.0, 150.0),
        (25.0, 70.0),
        (0.5, 3.0),
        (1.2, 2.5),
        (0.25, 1.2),
        (50.0, 300.0),
    )
    Vb1 = 12.0 * Rb2 / (Rb1 + Rb2)
    gain = beta * (Rc2 + 9.0)
    total = gain + Rf
    voltage = (Vb1 + 0.74) * gain / total + 11.35 * Rf / total
    return voltage + 0.74 * Rf * gain / (total * Rc1)


def piston(X: Array) -> Array:
    """Time of one cycle of a piston, of seven inputs."""
    M, S, V0, k, P0, Ta, T0 = _within(
        X,
        (30.0, 60.0),
        (0.005, 0.020),
        (0.002, 0.010),
        (1000.0, 5000.0),
        (90_000.0, 110_000.0),
        (290.0, 296.0),
        (340.0, 360.0),
    )
    A = P0 * S + 19.62 * M - k * V0 / S
    V = S / (2.0 * k) * (np.sqrt(A**2 + 4.0 * k * P0 * V0 / T0 * Ta) - A)
    stiffness = k + S**2 * P0 * V0 / T0 * Ta / V**2
    return 2.0 * np.pi * np.sqrt(M / stiffness)


def wing_weight(X: Array) -> Array:
    """Weight of the wing of a light aircraft, of ten inputs."""
    Sw, Wfw, A, degrees, q, taper, tc, Nz, Wdg, Wp = _within(
        X,
        (150.0, 200.0),
        (220.0, 300.0),
        (6.0, 10.0),
        (-10.0, 10.0),
        (16.0, 45.0),
        (0.5, 1.0),
        (0.08, 0.18),
        (2.5, 6.0),
        (1700.0, 2500.0),
        (0.025, 0.08),
    )
    cosine = np.cos(np.radians(degrees))
    weight = 0.036 * Sw**0.758 * Wfw**0.0035 * (A / cosine**2) ** 0.6 * q**0.006
    weight = weight * taper**0.04 * (100.0 * tc / cosine) ** -0.3
    return weight * (Nz * Wdg) ** 0.49 + Sw * Wp


def robot_arm(X: Array) -> Array:
    """Distance of the end of an arm of four segments, of eight inputs."""
    angles = 2.0 * np.pi * X[:, :4]
    lengths = X[:, 4:]
    directions = np.cumsum(angles, axis=1)
    across = np.sum(lengths * np.cos(directions), axis=1)
    along = np.sum(lengths * np.sin(directions), axis=1)
    return np.hypot(across, along)


# ---- Formulas ------------------------------------------------------------------------


def franke(X: Array) -> Array:
    """Franke's function of two inputs: two peaks and a dip."""
    x, y = 9.0 * X.T
    values = 0.75 * np.exp(-((x - 2.0) ** 2 + (y - 2.0) ** 2) / 4.0)
    values += 0.75 * np.exp(-((x + 1.0) ** 2) / 49.0 - (y + 1.0) / 10.0)
    values += 0.5 * np.exp(-((x - 7.0) ** 2 + (y - 3.0) ** 2) / 4.0)
    values -= 0.2 * np.exp(-((x - 4.0) ** 2) - (y - 7.0) ** 2)
    return values


def branin(X: Array) -> Array:
    """Branin's function of two inputs."""
    x, y = _within(X, (-5.0, 10.0), (0.0, 15.0))
    ring = y - 5.1 / (4.0 * np.pi**2) * x**2 + 5.0 / np.pi * x - 6.0
    return ring**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x) + 10.0


def currin(X: Array) -> Array:
    """Currin's exponential function of two inputs."""
    x, y = X.T
    numerator = 2300.0 * x**3 + 1900.0 * x**2 + 2092.0 * x + 60.0
    denominator = 100.0 * x**3 + 500.0 * x**2 + 4.0 * x + 20.0
    return (1.0 - np.exp(-0.5 / np.maximum(y, 1e-12))) * numerator / denominator


def ishigami(X: Array) -> Array:
    """Ishigami's function of three inputs."""
    x, y, z = _within(X, *[(-np.pi, np.pi)] * 3)
    return np.sin(x) + 7.0 * np.sin(y) ** 2 + 0.1 * z**4 * np.sin(x)


def friedman(X: Array) -> Array:
    """Friedman's function of five inputs."""
    wave = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1])
    return wave + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3] + 5.0 * X[:, 4]


def g_function(X: Array) -> Array:
    """Sobol's function of five inputs, with a kink in each."""
    a = np.array([0.0, 1.0, 4.5, 9.0, 99.0])
    return np.prod((np.abs(4.0 * X - 2.0) + a) / (1.0 + a), axis=1)


def hartmann(X: Array) -> Array:
    """Hartmann's function of six inputs."""
    heights = np.array([1.0, 1.2, 3.0, 3.2])
    A = np.array(
        [
            [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
            [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
            [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
            [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
        ]
    )
    P = 1e-4 * np.array(
        [
            [1312.0, 1696.0, 5569.0, 124.0, 8283.0, 5886.0],
            [2329.0, 4135.0, 8307.0, 3736.0, 1004.0, 9991.0],
            [2348.0, 1451.0, 3522.0, 2883.0, 3047.0, 6650.0],
            [4047.0, 8828.0, 8732.0, 5743.0, 1091.0, 381.0],
        ]
    )
    squares = np.einsum("kj,nkj->nk", A, (X[:, np.newaxis] - P) ** 2)
    return -np.exp(-squares) @ heights


EMULATORS = {
    "borehole": Emulator(borehole, 8),
    "OTL circuit": Emulator(otl_circuit, 6),
    "piston": Emulator(piston, 7),
    "wing weight": Emulator(wing_weight, 10),
    "Franke": Emulator(franke, 2),
    "Branin": Emulator(branin, 2),
    "Ishigami": Emulator(ishigami, 3),
    "Friedman": Emulator(friedman, 5),
    "robot arm": Emulator(robot_arm, 8),
    "g-function": Emulator(g_function, 5),
    "Hartmann 6": Emulator(hartmann, 6),
    "Currin": Emulator(currin, 2),
}
