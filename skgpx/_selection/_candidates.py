"""Candidate kernels: their coordinates, their hyperpriors and where searches start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Kernel,
    Matern,
)

from skgpx._validation import Rows
from skgpx.kernels import (
    Columns,
    Linear,
    category_columns,
    columns_of_entry,
    default_kernel,
    length_scale_entries,
    stated_log_density,
    theta_entries,
)
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Normal distributions of logarithms, (mean, std). A lengthscale in standard deviations
# of its column, whose mean grows by log(d) / 2 with the number d of columns; an
# amplitude in variances of the latent function; a noise in variances of y.
_LENGTHSCALE = np.sqrt(2.0), np.sqrt(3.0)
_AMPLITUDE = 1.0, 1.5
NOISE_PRIOR = -2.0, 2.0
_SLOPE = -1.0, 1.5
# Parameters above which the matrix of ties, nearly an identity then, is kept sparse.
_MOST_DENSE = 256


@dataclass(frozen=True)
class Candidate:
    """A kernel whose log-parameters are ``offset + ties @ u``, and a prior of u.

    Parameters
    ----------
    name : str
    kernel : sklearn.gaussian_process.kernels.Kernel
        With p free parameters.
    offset : ndarray of shape (p,)
    ties : ndarray or sparse array of shape (p, q)
        Not negative.
    mean, std : ndarray of shape (q,)
        Of the normal prior of u; the std is infinite where there is none.
    lengths : ndarray of shape (q,)
        Coordinates that are lengthscales in standard deviations of their columns.
    long : float
        Logarithm of 2√d standard deviations, where they start.
    unit : float
        Variance of y.
    given : bool
        Whether the kernel is the user's, whose values are a start as well.
    stated : sequence
        Prior distributions that the user's kernel states, see `stated_priors`.
    """

    name: str
    kernel: Any
    offset: Array
    ties: Any
    mean: Array
    std: Array
    lengths: NDArray[np.bool_]
    long: float
    unit: float
    given: bool = False
    stated: Sequence[Any] = ()

    @property
    def n_free(self) -> int:
        """Number of coordinates q."""
        return int(self.ties.shape[1])

    @cached_property
    def bounds(self) -> Array:
        """Bounds of u, (q, 2): those that all tied parameters keep."""
        inner = self.kernel.bounds.reshape(-1, 2) - self.offset[:, np.newaxis]
        ties = sparse.coo_array(self.ties)
        parameters, coordinates = ties.nonzero()
        low, high = inner[parameters].T / ties.data
        lowest = np.full(self.n_free, -np.inf)
        highest = np.full(self.n_free, np.inf)
        np.maximum.at(lowest, coordinates, low)
        np.minimum.at(highest, coordinates, high)
        return np.column_stack((lowest, np.maximum(lowest, highest)))

    def kernel_at(self, u: Array) -> Any:
        """Kernel at the coordinates u, within its bounds."""
        if not len(self.offset):
            return self.kernel
        theta = self.offset + self.ties @ u
        return self.kernel.clone_with_theta(np.clip(theta, *self.kernel.bounds.T))

    def coordinates_of(self, kernel: Any) -> Array:
        """Coordinates of a kernel of this form, the mean of what they share."""
        shares = self.ties / (self.ties**2).sum(axis=0)
        u: Array = shares.T @ (kernel.theta - self.offset)
        return u

    def log_prior(
        self,
        point: Array,
        likelihood: Likelihood | None = None,
    ) -> tuple[float, Array]:
        """Log density of the hyperprior of u, and its gradient.

        Log-parameters of a likelihood may follow u: Gaussian noise has a prior too.
        """
        u, scales = np.split(point, [self.n_free])
        kernel, slope = _log_normal(u, self.mean, self.std)
        default = likelihood.has_closed_form and not any(self.stated[-1:])
        mean, std = NOISE_PRIOR if default else (0.0, np.inf)
        own = np.full_like(scales, mean + np.log(self.unit)), np.full_like(scales, std)
        noise, of_noise = _log_normal(scales, *own)
        theta = np.concatenate((self.offset + self.ties @ u, scales))
        stated, pull = stated_log_density(self.stated, theta)
        slope += self.ties.T @ pull[: len(self.offset)]
        of_noise += pull[len(self.offset) :]
        return kernel + noise + stated, np.concatenate((slope, of_noise))

    def starts(self) -> list[Array]:
        """Coordinates with lengthscales of 2√d standard deviations, and less.

        A user's kernel has two starts, its values, and such lengthscales with the
        medians of the priors that it states.
        """
        u = self.coordinates_of(self.kernel)
        if not np.any(self.lengths) and not any(self.stated):
            return [u]
        factors = (1.0, 0.25, 1.0 / 16.0, 1.0 / 64.0)
        long = [np.where(self.lengths, self.long + np.log(f), u) for f in factors]
        for i, distribution in enumerate(self.stated[: len(u)]):
            if distribution is not None:
                long[0][i] = np.log(distribution.median()) - self.offset[i]
        return [u, long[0]] if self.given else long

    def short_starts(self, columns: NDArray[np.intp]) -> list[Array]:
        """Long lengthscales but in one of these columns at a time, where it is short.

        `columns` are coordinates.
        """
        u = self.starts()[0]
        if np.sum(self.lengths) < 2:
            return []
        return [
            u + np.log(factor) * (np.arange(len(u)) == column)
            for factor in (1.0 / 8.0, 1.0 / 32.0)
            for column in columns
        ]

    def tied(self, name: str) -> Candidate:
        """One lengthscale for all columns, in the units of the offset."""
        first = int(np.argmax(self.lengths))
        kept = np.flatnonzero(~self.lengths | (np.arange(self.n_free) == first))
        ties = np.zeros((self.n_free, len(kept)))
        ties[kept, np.arange(len(kept))] = 1.0
        ties[self.lengths, kept.tolist().index(first)] = 1.0
        fields = {field: getattr(self, field)[kept] for field in _OF_COORDINATES}
        return replace(self, name=name, ties=ties, **fields)

    def with_trend(self, rows: Rows) -> Candidate:
        """The same and a linear function, whose slopes share one standard deviation.

        In standard deviations of the latent function for one of each column.
        """
        every = np.arange(rows.X.shape[1])
        numeric = np.setdiff1d(every, category_columns(self.kernel, len(every)))
        X, d = np.ascontiguousarray(rows.X[:, numeric]), len(numeric)
        columns = default_kernel(X, rows.weights).k2.length_scale / (2.0 * np.sqrt(d))
        unit = np.full(d, np.sqrt(self.unit)) / columns
        centre = np.average(X, axis=0, weights=rows.weights)
        mean = _SLOPE[0] - 0.5 * np.log(d)
        slope = np.exp(mean) * unit
        bounds = np.outer(unit, (1e-3, 1e2))
        return self.beside(
            _of_columns(Linear(slope, bounds, centre), numeric, rows.X.shape[1]),
            "a linear trend",
            np.log(unit),
            np.ones((d, 1)),
            ([mean], [_SLOPE[1]]),
        )

    def with_walk(self, rows: Rows, step: float) -> Candidate:
        """The same and an autoregression of the first order, whose memory is a step.

        Its amplitude has the prior of the noise, as that of a season: a part of y.
        """
        scale = 0.5 * float(default_kernel(rows.X, rows.weights).k2.length_scale)
        bounds = 1e-2 * step, 1e2 * float(np.ptp(rows.X))
        part = self._share(-4.0) * Matern(step, bounds, nu=0.5)
        prior = np.transpose((NOISE_PRIOR, _LENGTHSCALE))
        offset = np.log((self.unit, scale))
        return self.beside(part, "an autoregression", offset, np.eye(2), prior)

    def with_season(self, rows: Rows, period: float) -> Candidate:
        """The same and a function of about this period, which changes slowly."""
        scale = 0.5 * float(default_kernel(rows.X, rows.weights).k2.length_scale)
        span = float(np.ptp(rows.X))
        fading = RBF(max(0.1 * span, period), (period, 1e2 * span))
        near = 0.8 * period, 1.25 * period
        season = ExpSineSquared(1.0, period, (0.1, 10.0), near)
        offset = np.log((self.unit, scale, 1.0, period))
        # a period in cycles over the rows: the evidence has a peak of that width
        ties = np.diag((1.0, 1.0, 1.0, period / span))
        prior = np.transpose((NOISE_PRIOR, _LENGTHSCALE, (0.0, 1.0), (0.0, 1.0)))
        part = self._share(-2.0) * fading * season
        return self.beside(part, "a season", offset, ties, prior)

    def _share(self, log_share: float) -> ConstantKernel:
        """Amplitude of a part of y."""
        bounds = 1e-5 * self.unit, 1e3 * self.unit
        return ConstantKernel(np.exp(log_share) * self.unit, bounds)

    def beside(
        self,
        part: Any,
        name: str,
        offset: Array,
        ties: Array,
        prior: Any,
    ) -> Candidate:
        """The same and another part, of log-parameters ``offset + ties @ u``.

        `prior` holds mean and std of the normal prior of its u.
        """
        mean, std = prior
        return replace(
            self,
            name=f"{self.name}, and {name}",
            kernel=self.kernel + part,
            offset=np.append(self.offset, offset),
            ties=_block_diagonal(self.ties, ties),
            mean=np.append(self.mean, mean),
            std=np.append(self.std, std),
            lengths=np.append(self.lengths, np.zeros(len(mean), dtype=bool)),
        )


def _block_diagonal(first: Any, second: Array) -> Any:
    if sparse.issparse(first):
        return sparse.block_diag((first, second), format="csr")
    return block_diag(first, second)


_OF_COORDINATES = ("mean", "std", "lengths")


def _log_normal(u: Array, mean: Array, std: Array) -> tuple[float, Array]:
    """Log density of independent normals (those of finite std), and its gradient."""
    finite = np.isfinite(std)
    off = np.where(finite, u - mean, 0.0) / std
    constant = np.sum(np.log(std[finite] * np.sqrt(2.0 * np.pi)))
    return float(-0.5 * off @ off - constant), -off / std


def of_kernel(
    kernel: Any,
    rows: Rows,
    unit: float,
    name: str = "as given",
    given: bool = True,
) -> Candidate:
    """A kernel with all its parameters free, under the hyperprior.

    Lengthscales have a log-normal prior of location ``√2 + ½ log d`` and scale √3 in
    standard deviations of the columns, which lets them grow with the dimension [1]_;
    amplitudes one around the variance `unit` of the latent function. Other parameters
    have none, nor have those of a kernel that is `given`, whose bounds and stated
    priors are all that it has.

    References
    ----------
    .. [1] Hvarfner, Hellsten and Nardi, "Vanilla Bayesian optimization performs great
       in high dimensions", ICML 2024.
    """
    p, d = len(kernel.theta), rows.X.shape[1]
    offset, mean, std = np.zeros(p), np.zeros(p), np.full(p, np.inf)
    lengths = np.zeros(p, dtype=bool)
    scales = default_kernel(rows.X, rows.weights).k2.length_scale
    columns = np.broadcast_to(scales, (d,)) / (2.0 * np.sqrt(d))
    for entry, part in theta_entries(kernel):
        if entry.endswith("constant_value"):
            offset[part] = np.log(unit)
            mean[part] = _AMPLITUDE[0]
            std[part] = np.inf if given else _AMPLITUDE[1]
        elif entry.endswith("length_scale"):
            several = part.stop - part.start > 1
            own = columns[columns_of_entry(kernel, entry, d)]
            offset[part] = np.log(own if several else np.mean(own))
            mean[part] = _LENGTHSCALE[0] + 0.5 * np.log(d)
            std[part], lengths[part] = np.inf if given else _LENGTHSCALE[1], True
    long = float(np.log(2.0 * np.sqrt(d)))
    ties = np.eye(p) if p <= _MOST_DENSE else sparse.eye_array(p, format="csr")
    coordinates = offset, ties, mean, std, lengths
    return Candidate(name, kernel, *coordinates, long, unit, given)


def _of_columns(kernel: Any, columns: NDArray[np.intp], d: int) -> Any:
    return kernel if len(columns) == d else Columns(kernel, columns.tolist())


def default_candidates(
    rows: Rows,
    likelihood: Likelihood,
    unit: float,
    categories: Any = None,
) -> list[list[Candidate]]:
    """Kernels that stand for None: families, each with one lengthscale or several.

    For normal noise the RBF and Matern kernels of order 5/2 and 3/2 compete, also where
    rows are censored; for others there is the RBF. "One" is in standard deviations of
    the columns; for several classes also in the unit of the columns, such as pixels.
    With `categories` they are kernels of the other columns, times that kernel of
    categories.
    """
    codes = [] if categories is None else categories.columns
    numeric = np.setdiff1d(np.arange(rows.X.shape[1]), codes)
    seen = numeric if len(numeric) else codes
    plain = default_kernel(np.ascontiguousarray(rows.X[:, seen]), rows.weights)
    high = 1e3 * unit
    if likelihood.log_scale and not likelihood.location_scale:
        # a standard deviation of 6: on separable classes evidence grows without end
        high = 36.0
    plain.set_params(
        k1__constant_value=unit,
        k1__constant_value_bounds=(1e-3 * unit, high),
    )
    shapes: dict[str, Kernel] = {"RBF": plain.k2}
    if likelihood.close_to_gaussian:
        how = plain.k2.length_scale, plain.k2.length_scale_bounds
        shapes |= {f"Matern {nu}": Matern(*how, nu=nu) for nu in (2.5, 1.5)}
    groups = []
    for name, shape in shapes.items():
        kernel = plain.k1
        if len(numeric):
            kernel = kernel * _of_columns(shape, numeric, rows.X.shape[1])
        if categories is not None:
            kernel = kernel * Columns(categories.kernel, categories.columns)
        many = of_kernel(
            kernel,
            rows,
            unit,
            f"{name}, one lengthscale per column",
            False,
        )
        if len(numeric) < 2:
            groups.append([many])
            continue
        group = [many.tied(f"{name}, one lengthscale"), many]
        if likelihood.n_outputs_ > 1 and categories is None:
            group.insert(1, _in_one_unit(many).tied(f"{name}, one in the unit of X"))
        groups.append(group)
    return groups


def _in_one_unit(candidate: Candidate) -> Candidate:
    """The same with lengthscales in one unit for all columns."""
    rbf: RBF = candidate.kernel.k2
    scales, bounds = np.asarray(rbf.length_scale), np.asarray(rbf.length_scale_bounds)
    one = float(np.sqrt(np.mean(scales**2)))
    kernel = candidate.kernel.k1 * RBF(
        np.full_like(scales, one),
        one * bounds / scales[:, np.newaxis],
    )
    offset = candidate.offset.copy()
    offset[candidate.lengths] += np.log(one / scales)
    return replace(candidate, kernel=kernel, offset=offset)


def stretched(kernel: Any, log_factor: float) -> Any:
    """The same kernel with its free lengthscales multiplied, within their bounds."""
    theta = kernel.theta.copy()
    if not len(theta):
        return kernel
    for entries in length_scale_entries(kernel):
        theta[entries] += log_factor
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))
