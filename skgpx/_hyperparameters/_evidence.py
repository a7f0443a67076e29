"""Evidence of kernel and likelihood: of an exact process, and of a sparse model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import numpy as np

from skgpx._hyperparameters._radial_form import FormDensity, RadialForm
from skgpx._numerics import langevin, laplace
from skgpx._numerics.laplace import laplace_evidence_gradient
from skgpx._numerics.linalg import (
    cholesky,
    invert_factorised,
    log_determinant,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.modes import survey
from skgpx._numerics.regression import EvidenceGradient, log_evidence_gradient
from skgpx._numerics.smoothing import SmoothedLikelihood, smoothed
from skgpx._shell.validation import Rows
from skgpx._types import Array, ArrayLike, Generator, Index, Kernel
from skgpx.bases import Nystroem, select_inducing
from skgpx.bases._selectors import Selector
from skgpx.kernels import (
    diagonal_and_pullback,
    matrix_and_pullback,
    triangle_and_pullback,
    with_theta,
)
from skgpx.likelihoods import Likelihood

AnyLikelihood = TypeVar("AnyLikelihood", bound=Likelihood)
# A strategy, the points themselves, or a function that returns them.
Inducing: TypeAlias = str | ArrayLike | Selector
# Up to so many rows compiled loops are faster than LAPACK and its callers; the
# triangle of more does not fit into the cache of a processor.
_COMPILED_ROWS = 250

# ---- Gaussian regression without an approximation ------------------------------------


class Evidence:
    """Evidence of rows under a kernel and a likelihood, at their log-parameters.

    A class has ``values_and_gradients`` of points, of which one point is a case, or a
    ``value_and_gradient`` of its own.
    """

    values_and_gradients: Any

    def __init__(self, rows: Rows, kernel: Kernel, likelihood: Likelihood):
        self.rows = rows
        self.kernel = kernel
        self.likelihood = likelihood
        self._n_kernel_parameters = len(kernel.theta)

    def at(self, theta: Array) -> tuple[Kernel, Likelihood]:
        """Kernel and likelihood of a point."""
        p = self._n_kernel_parameters
        kernel = with_theta(self.kernel, theta[:p])
        return kernel, self.likelihood.with_theta(theta[p:])

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Evidence in nats, and its gradient in the log-parameters.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a covariance is not positive definite.
        """
        values, gradients = self._of_climb(theta[np.newaxis])
        value = float(values[0])
        if np.isnan(value):
            raise np.linalg.LinAlgError("The covariance is not positive definite.")
        return value, gradients[0]

    def _of_climb(self, thetas: Array) -> tuple[Array, Array]:
        """:meth:`values_and_gradients` of the next point of a climb."""
        return self.values_and_gradients(thetas)


class ExactEvidence(Evidence):
    """Log marginal likelihood of Gaussian regression in its log-parameters.

    With ``C = k(X, X) + diag(noise_variance / ω)`` and ω the precisions of the rows,
    which are their weights unless the noise of each row is known::

        log N(y | 0, C) - ½ Σ [(ω_i - 1) log(2π noise_variance) + log ω_i]

    The second term turns a row of noise ``noise_variance / ω`` into ω repetitions of
    it: an integer weight equals that many copies of the row. Targets of shape (n, c)
    are c independent functions of the same kernel.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel
        Without white noise.
    likelihood : Gaussian
        Prepared.
    members : ndarray of int of shape (v, n) or None
        Positions of the rows of v sets, whose densities add; None for one set of all.
    n_given : int
        Number of the first rows of each set that the others are given:
        ``log p(y_q | y_p) = log p(y_p, y_q) - log p(y_p)``.
    """

    def __init__(
        self,
        rows: Rows,
        kernel: Kernel,
        likelihood: Likelihood,
        members: Index | None = None,
        n_given: int = 0,
    ):
        self._all_rows = rows
        self._members = np.arange(len(rows.y))[np.newaxis]
        self._n_given = n_given
        if members is not None:
            self._members = members
            rows = rows.take(members[:, n_given:].ravel())
        super().__init__(rows, kernel, likelihood)
        # None where the compiled density does not know the kernel
        self._form = self._form_of(kernel, float(likelihood.variance(0.0)))
        if self._form is not None:
            self._density = self._density_of(self._form)

    def _form_of(self, kernel: Kernel, noise_variance: float) -> RadialForm | None:
        """The form of few rows; None if there are many, or if it is another kernel."""
        if self._members.shape[1] > _COMPILED_ROWS:
            return None
        return RadialForm.of(kernel, noise_variance, self.rows.X.shape[1])

    def _density_of(self, form: RadialForm) -> FormDensity:
        return FormDensity(form, self._all_rows, self._members, self._n_given)

    def _sets(self) -> Iterator[Rows]:
        """Rows of each set."""
        for members in self._members:
            yield self._all_rows.take(members)

    def values_and_gradients(self, thetas: Array) -> tuple[Array, Array]:
        """Evidence (s,) at points (s, p), and gradients (s, p).

        NaN where the covariance of the rows is not positive definite. Memory O(n^2),
        and for each point O(n^3): a factorisation, an inverse and a pullback.
        """
        if self._form is not None:
            log_scales = self._form.log_scales_at(thetas)
            values, slopes = self._density.values_and_slopes(log_scales)
            return values, self._form.gradients(slopes, thetas.shape[1])
        values = np.full(len(thetas), np.nan)
        gradients = np.full(thetas.shape, np.nan)
        for i, theta in enumerate(thetas):
            with suppress(np.linalg.LinAlgError):
                values[i], gradients[i] = self._by_factorisation(theta)
        return values, gradients

    def values(self, thetas: Array) -> Array:
        """Evidence (s,) at points (s, p), minus infinity where it fails."""
        if self._form is not None:
            return self._density.values(self._form.log_scales_at(thetas))
        values = np.empty(len(thetas))
        for i, theta in enumerate(thetas):
            kernel, likelihood = self.at(theta)
            values[i] = self.value(kernel, float(likelihood.variance(0.0)))
        return values

    def value(self, kernel: Kernel, noise_variance: float) -> float:
        """Evidence of another kernel and noise, without a gradient; O(n^3 / 3)."""
        form = self._form_of(kernel, noise_variance)
        if form is not None:
            density = self._density_of(form)
            return float(density.values(form.log_scales[np.newaxis])[0])
        value = 0.0
        for rows in self._sets():
            K, _ = triangle_and_pullback(kernel, rows.X)
            try:
                density_of_set = whiten(K, rows, noise_variance, self._n_given)[2]
            except np.linalg.LinAlgError:
                return -np.inf
            value += density_of_set
        return value

    def regressions(
        self,
        thetas: Array,
        z: Array,
        noise: Array,
    ) -> tuple[Array, Array, Array, Array]:
        """Densities of values z (s, n) with this noise (s, n), at points (s, p).

        The noise of the likelihood is not read.

        Returns
        -------
        values : ndarray of shape (s,)
            ``-½ (log det C + zᵀC⁻¹z)``; NaN where it fails.
        gradients : ndarray of shape (s, p)
            In the log-parameters of the kernel.
        duals, precisions : ndarray of shape (s, n)
            ``C⁻¹z``, and the diagonal of ``C⁻¹``.
        """
        if self._form is not None:
            log_scales = self._form.log_scales_at(thetas)
            log_scales[:, -1] = 0.0
            values, slopes, duals, precisions = self._density.regressions(
                log_scales, z, noise
            )
            gradients = self._form.gradients(slopes, thetas.shape[1])
            return values, gradients, duals, precisions
        values = np.full(len(thetas), np.nan)
        gradients = np.full(thetas.shape, np.nan)
        duals = np.full(z.shape, np.nan)
        precisions = np.full(z.shape, np.nan)
        for i, theta in enumerate(thetas):
            K, pullback = triangle_and_pullback(
                with_theta(self.kernel, theta), self.rows.X
            )
            with suppress(np.linalg.LinAlgError):
                L = cholesky(K, jitter=0.0, added=noise[i]).L
                white = solve_lower(L, z[i][:, np.newaxis])
                log_volume = log_determinant(L)
                values[i] = -0.5 * (log_volume + float(np.sum(white**2)))
                duals[i] = solve_lower_transpose(L, white)[:, 0]
                slope = _density_slope(L, white)
                precisions[i] = duals[i] ** 2 - 2.0 * np.diagonal(slope)
                gradients[i] = pullback(slope)
        return values, gradients, duals, precisions

    def _by_factorisation(self, theta: Array) -> tuple[float, Array]:
        """`value_and_gradient` of any kernel, by LAPACK."""
        p = self._n_given
        kernel, likelihood = self.at(theta)
        noise_variance = float(likelihood.variance(0.0))
        value = 0.0
        gradient = np.zeros(self._n_kernel_parameters)
        noise_slope = 0.0
        for rows in self._sets():
            omega = rows.precisions
            K, pullback = triangle_and_pullback(kernel, rows.X)
            L, white, density = whiten(K, rows, noise_variance, p)
            value += density
            slope_of_given = _density_slope(L[:p, :p].copy(), white[:p])
            slope = _density_slope(L, white)
            slope[:p, :p] -= slope_of_given
            gradient += pullback(slope)
            # C_ii = k(x, x) + σ²/ω, and the second term holds -½ Σ (ω - 1) log σ²
            noise_slope += noise_variance * float(np.sum(np.diagonal(slope) / omega))
            n_targets = white.shape[1]
            noise_slope -= 0.5 * n_targets * float(np.sum(omega[p:] - 1.0))
        if len(likelihood.theta):
            gradient = np.append(gradient, noise_slope)
        return value, gradient


def _density_slope(L: Array, white: Array) -> Array:
    """``∂ log N(y|0, C) / ∂C = ½ (C⁻¹y yᵀC⁻¹ - c C⁻¹)``, lower triangle; L is lost."""
    n_targets = white.shape[1]
    alpha = solve_lower_transpose(L, white)
    # C⁻¹ in the place of L
    invert_factorised(L)
    slope: Array = alpha @ alpha.T
    L *= n_targets
    slope -= L
    slope *= 0.5
    return slope


def log_density_and_slopes(K: Array, y: Array, noise: Array) -> tuple[float, Array]:
    """``log N(y | 0, K + diag(noise))``, and its slopes (n,) in the noise; O(n^3)."""
    L = cholesky(K, jitter=0.0, added=noise).L
    white = solve_lower(L, y[:, np.newaxis])
    volume = log_determinant(L) + len(y) * np.log(2.0 * np.pi)
    log_density = -0.5 * (volume + float(np.sum(white**2)))
    return log_density, np.diagonal(_density_slope(L, white)).copy()


def whiten(
    K: Array,
    rows: Rows,
    noise_variance: float,
    n_given: int = 0,
) -> tuple[Array, Array, float]:
    """Factorise the C of :class:`ExactEvidence`.

    Only the lower triangle of K is read.

    Returns
    -------
    L : ndarray of shape (n, n)
        Cholesky root of C.
    white : ndarray of shape (n, c)
        ``L⁻¹ y``.
    log_density : float
        Of the rows, given the first ones.
    """
    # C = k(X, X) + diag(σ² / ω) = L Lᵀ
    omega = rows.precisions
    L = cholesky(K, jitter=0.0, added=noise_variance / omega).L
    targets = rows.y.reshape(len(L), -1)
    white = solve_lower(L, targets)
    # -2 log p = Σ 2 log L_ii + log 2π + |L⁻¹y|², over the rows behind the given ones
    omega = omega[n_given:]
    log_determinant = 2.0 * np.log(np.diagonal(L)[n_given:])
    normalisation = log_determinant + np.log(2.0 * np.pi)
    log_noise = np.log(2.0 * np.pi * noise_variance)
    repetitions = (omega - 1.0) * log_noise + np.log(omega)
    n_targets = white.shape[1]
    total = n_targets * np.sum(normalisation + repetitions)
    total += np.sum(white[n_given:] ** 2)
    return L, white, -0.5 * float(total)


def null_evidence(rows: Rows, likelihood: Likelihood) -> float:
    """Evidence, in nats, of latent functions that are zero, with the best noise."""
    if not likelihood.has_closed_form:
        zero_feature = np.zeros((len(rows.y), 1))
        without_function = row_target(zero_feature, rows, likelihood)
        start = np.zeros((1, likelihood.n_outputs_))
        mode = laplace.find_mode(without_function, start)
        return -float(mode.energy)
    y = rows.y.reshape(len(rows.X), -1)
    omega = rows.precisions
    square = float(np.sum(omega @ y**2))
    n_targets = y.shape[1]
    n = float(omega.sum()) * n_targets
    # noise of the mean square, within its bounds
    noise = with_noise(likelihood, square / n)
    variance = float(noise.variance(0.0))
    normalisation = n * np.log(2.0 * np.pi * variance)
    return -0.5 * float(normalisation + square / variance)


def with_noise(likelihood: AnyLikelihood, noise_variance: float) -> AnyLikelihood:
    """Set the noise variance of a Gaussian likelihood, within bounds, if it is free."""
    if not len(likelihood.theta):
        return likelihood
    low, high = np.exp(likelihood.theta_bounds[0])
    clipped = np.clip(noise_variance, low, high)
    return likelihood.with_theta(np.log([clipped]))


def mean_square(rows: Rows) -> float:
    """Mean square of y, averaged over targets: the noise variance without a signal."""
    mean_squares = np.average(rows.y**2, axis=0, weights=rows.precisions)
    return float(np.mean(mean_squares))


def within_variance(likelihood: AnyLikelihood, rows: Rows) -> AnyLikelihood:
    """Limit a free Gaussian noise variance to the mean square of y.

    Bounds of the evidence count as noise the part of the prior that few inducing points
    leave out. A single row, or a constant y, has no variance to compare with. Other
    likelihoods are returned unchanged.
    """
    if not likelihood.has_closed_form:
        return likelihood
    largest = mean_square(rows)
    if largest == 0.0:
        return likelihood
    noise = float(likelihood.variance(0.0))
    return with_noise(likelihood, min(noise, largest))


def normal_density(y: Array, mean: Array, variance: Array) -> Array:
    """Log density of each y, in nats."""
    square = (y - mean) ** 2 / variance
    return -0.5 * (square + np.log(2.0 * np.pi * variance))


# ---- Any likelihood, on inducing points ----------------------------------------------


class SparseEvidence(Evidence):
    """Evidence of an inducing-point model as a function of its log-parameters.

    The collapsed bound for Gaussian noise, Laplace's approximation otherwise.

    Parameters
    ----------
    rows : Rows
    Z : ndarray of shape (m, d)
        Inducing inputs.
    kernel : sklearn.gaussian_process.kernels.Kernel
    likelihood : Likelihood
        Prepared.
    """

    def __init__(self, rows: Rows, Z: Array, kernel: Kernel, likelihood: Likelihood):
        super().__init__(rows, kernel, likelihood)
        self.Z = Z
        # mode of the weights at the last hyperparameters, where the next search starts
        self._mode: Array | None = None
        self._latent: Array | None = None
        # whether f has the signs of the most evidence; False has them chosen again
        self.signs_are_chosen = False

    @classmethod
    def selected(
        cls,
        rows: Rows,
        kernel: Kernel,
        likelihood: Likelihood,
        inducing: Inducing,
        n_inducing: int,
        rng: Generator,
    ) -> SparseEvidence:
        """With inducing inputs selected under the kernel."""
        m = min(n_inducing, len(rows.y))
        Z = select_inducing(inducing, rows.X, kernel, m, rng, rows.weights)
        return cls(rows, Z, kernel, likelihood)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Evidence in nats, and its gradient in the log-parameters.

        O(n m^2 + m^3) with a few kernel matrices; no array of size n m p.
        """
        kernel, likelihood = self.at(theta)
        Kxz, pullback_cross = matrix_and_pullback(kernel, self.rows.X, self.Z)
        Kzz, pullback_inducing = matrix_and_pullback(kernel, self.Z)
        diagonal, pullback_diagonal = diagonal_and_pullback(kernel, self.rows.X)
        # Φ = K_xz L⁻ᵀ with L Lᵀ = K_zz, and var g = k(x, x) - |φ|²
        L = cholesky(Kzz).L
        half = solve_lower(L, Kxz.T)
        features = np.ascontiguousarray(half.T)
        explained = np.einsum("ij,ij->i", features, features)
        difference = diagonal - explained
        residual = np.maximum(difference, 0.0)
        evidence = self._evidence(features, residual, likelihood)
        # var g also moves with the features
        slope_residual = np.where(difference > 0.0, evidence.residual, 0.0)
        column = slope_residual[:, np.newaxis]
        slope = evidence.features - 2.0 * column * features
        # Φ enters through ΦΦᵀ only: with G the derivative in Φ,
        # K̄_xz = G L⁻¹ and K̄_zz = -½ L⁻ᵀ (ΦᵀG) L⁻¹
        slope_cross = solve_lower_transpose(L, slope.T).T
        inner = solve_lower_transpose(L, features.T @ slope)
        inner = solve_lower_transpose(L, inner.T)
        slope_inducing = 0.25 * (inner + inner.T)
        gradient = pullback_cross(slope_cross)
        gradient = gradient + pullback_diagonal(slope_residual)
        gradient -= pullback_inducing(slope_inducing)
        return evidence.value, np.append(gradient, evidence.parameters)

    def _evidence(
        self,
        features: Array,
        residual: Array,
        likelihood: Likelihood,
    ) -> EvidenceGradient:
        """Evidence and its derivatives in features, residual variance and scales."""
        rows = self.rows
        if likelihood.has_closed_form:
            evidence = log_evidence_gradient(
                features,
                rows.y,
                rows.precisions,
                residual,
                float(likelihood.variance(0.0)),
            )
            n_scales = len(likelihood.theta)
            return evidence._replace(parameters=evidence.parameters[:n_scales])
        target = smoothed(row_target(features, rows, likelihood))
        start = self._start(target, likelihood)
        # factor f of each row has the likelihood
        factor = likelihood.row_form(rows.y, rows.weights, rows.known).factor
        if factor is not None:
            residual = factor**2 * residual
        evidence, mode = laplace_evidence_gradient(target, residual, start)
        if factor is not None:
            # the evidence is a function of factor Φ and factor² var g
            evidence = evidence._replace(
                features=factor[:, np.newaxis] * evidence.features,
                residual=factor**2 * evidence.residual,
            )
        if np.all(np.isfinite(mode)):
            self._mode = mode
            self._latent = langevin.latent_values(target, mode)
        return evidence

    def _start(self, target: langevin.Target, likelihood: Likelihood) -> Array:
        """Weights (m, c) where the search for the mode starts."""
        if not has_both_signs(likelihood):
            return rough_start(target) if self._mode is None else self._mode
        start = rough_start(target)
        if self._latent is not None:
            # the signs are those of f, whatever the weights
            values = self._latent - target.offset
            start = laplace.projection_start(target.features, values, target.weights)
        if not self.signs_are_chosen:
            self.signs_are_chosen = True
            first = laplace.find_mode(target, start)
            rough = rough_latent_values(target)
            modes = survey(target, first, rough, True, np.random.default_rng(0))
            start = modes[0].weights
        return start


def has_both_signs(likelihood: Likelihood) -> bool:
    """Whether either sign of f is as probable as the other, a priori and given y."""
    return likelihood.symmetric and not np.any(likelihood.base_latent_)


def sparse_value(
    rows: Rows,
    Z: Array,
    kernel: Kernel,
    likelihood: Likelihood,
    start: Array | None = None,
) -> float:
    """:class:`SparseEvidence` without its gradient, for noise that is not Gaussian.

    The search for the mode begins at weights (m, c), by default near rough values.
    """
    basis = Nystroem.from_kernel(kernel, Z)
    features = basis(rows.X)
    residual = basis.residual_variance(rows.X, features)
    factor = likelihood.row_form(rows.y, rows.weights, rows.known).factor
    if factor is not None:
        residual = factor**2 * residual
    target = smoothed(row_target(features, rows, likelihood))
    if start is None:
        start = rough_start(target)
    return laplace.laplace_evidence(target, residual, start)[0]


# ---- Targets in the weights of a basis -----------------------------------------------


def row_target(features: Array, rows: Rows, likelihood: Likelihood) -> langevin.Target:
    """Target in the coordinates of the weights themselves (centre 0, root I).

    The latent functions have the mean `base_latent_` of the likelihood. Rows with a
    quantity of their own (exposure, censoring, noise) are rewritten in terms of one
    likelihood, see `RowForm`.
    """
    n, m = features.shape
    c = likelihood.n_outputs_
    form = likelihood.row_form(rows.y, rows.weights, rows.known)
    code = likelihood.kernel_code
    if code is None:
        code = langevin.NUMPY
    parameters = likelihood.kernel_parameters()
    offset = likelihood.base_latent_[np.newaxis]
    if form.factor is not None:
        factor = form.factor[:, np.newaxis]
        features = factor * features
        offset = factor * offset
    return langevin.Target(
        likelihood=form.likelihood,
        code=code,
        parameters=np.asarray(parameters, dtype=np.float64),
        features=np.ascontiguousarray(features),
        y=np.ascontiguousarray(form.y),
        weights=np.ascontiguousarray(form.weights),
        std=np.zeros((n, c)),
        nodes=np.zeros((1, c)),
        node_weights=np.ones(1),
        centre=np.zeros((1, m * c)),
        root=np.eye(m * c)[np.newaxis],
        n_outputs=c,
        offset=offset,
    )


def rough_start(target: langevin.Target) -> Array:
    """Weights (m, c) of functions that approximate the rough latent values."""
    rough = rough_latent_values(target)
    return laplace.projection_start(target.features, rough, target.weights)


def rough_latent_values(target: langevin.Target) -> Array:
    """Rough latent values of the rows, less their offset, (n, c)."""
    likelihood: Any = target.likelihood
    if isinstance(likelihood, SmoothedLikelihood):
        likelihood = likelihood.likelihood
    rough = likelihood.initial_latent(target.y)
    rough = np.asarray(rough, dtype=np.float64)
    rough = rough.reshape(len(target.y), -1)
    return rough - target.offset
