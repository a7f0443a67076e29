"""Exact evidence of series: rows of one column under a Markov kernel, in O(n)."""

from __future__ import annotations

import numpy as np

from skgpx._hyperparameters._evidence import Evidence, ExactEvidence
from skgpx._numerics.state_space import Series
from skgpx._shell.validation import Rows
from skgpx._types import Array, Kernel
from skgpx.kernels import StateSpace
from skgpx.likelihoods import Likelihood

# Rows from which on the filter takes less time than compiled factorisations.
_FEWEST_ROWS = 100


def regression_evidence(
    rows: Rows,
    kernel: Kernel,
    likelihood: Likelihood,
) -> ExactEvidence | SeriesEvidence:
    """The exact evidence of normal noise, by the filter where the kernel is Markov."""
    if len(rows.y) > _FEWEST_ROWS:
        form = series_form(kernel, rows.X.shape[1])
        if form is not None:
            return SeriesEvidence(rows, kernel, likelihood, form)
    return ExactEvidence(rows, kernel, likelihood)


def series_form(kernel: Kernel, n_columns: int) -> StateSpace | None:
    """State space of a kernel that stays Markov within its bounds; None of another."""
    form = StateSpace.of(kernel, n_columns)
    if form is None:
        return None
    # short lengthscales of seasons need many states
    is_markov = form.at(kernel.bounds.reshape(-1, 2)[:, 0]).is_exact
    return form if is_markov else None


class SeriesEvidence(Evidence):
    """:class:`ExactEvidence` by the filter of a state space, O(n S^2) for S states.

    Parameters
    ----------
    rows : Rows
        Of one column.
    kernel : sklearn.gaussian_process.kernels.Kernel
    likelihood : Gaussian
        Prepared.
    form : StateSpace
        Of the kernel.
    """

    def __init__(
        self,
        rows: Rows,
        kernel: Kernel,
        likelihood: Likelihood,
        form: StateSpace,
    ):
        super().__init__(rows, kernel, likelihood)
        self._form = form
        self._order = np.argsort(rows.X[:, 0], kind="stable")
        self._times = np.ascontiguousarray(rows.X[self._order, 0])
        self._targets = rows.y.reshape(len(rows.y), -1)[self._order].T.copy()
        self._omega = rows.precisions[self._order]
        # ½ c Σ [log 2π + (ω - 1) log(2π σ²) + log ω]
        half_targets = 0.5 * len(self._targets)
        log_terms = np.log(2.0 * np.pi) * self._omega + np.log(self._omega)
        self._constant = half_targets * float(np.sum(log_terms))
        self._noise_slope = half_targets * float(np.sum(self._omega - 1.0))

    def values_and_gradients(self, thetas: Array) -> tuple[Array, Array]:
        """Evidence (s,) at points (s, p), and gradients (s, p); NaN where it fails."""
        p = self._n_kernel_parameters
        values = np.empty(len(thetas))
        gradients = np.zeros(thetas.shape)
        for i, theta in enumerate(thetas):
            log_noise = self._log_noise(theta)
            noise = np.exp(log_noise) / self._omega
            value = -self._constant - self._noise_slope * log_noise
            form = self._form.at(theta)
            noise_slope = -self._noise_slope
            for y in self._targets:
                density, gradient, duals, precisions = self._regression(form, y, noise)
                value += density
                gradients[i, :p] += gradient
                # ½ Σ (u² - D) σ²
                noise_slope += 0.5 * float((duals**2 - precisions) @ noise)
            values[i] = value
            gradients[i, p:] = noise_slope
        return values, gradients

    def values(self, thetas: Array) -> Array:
        """Evidence (s,) at points (s, p), minus infinity where it fails."""
        values = np.empty(len(thetas))
        for i, theta in enumerate(thetas):
            values[i] = self._value(self._form.at(theta), self._log_noise(theta))
        return np.where(np.isfinite(values), values, -np.inf)

    def value(self, kernel: Kernel, noise_variance: float) -> float:
        """Evidence of another kernel of this form and noise, without a gradient."""
        form = StateSpace.of(kernel, 1)
        if form is None:
            return -np.inf
        return self._value(form, float(np.log(noise_variance)))

    def regressions(
        self,
        thetas: Array,
        z: Array,
        noise: Array,
    ) -> tuple[Array, Array, Array, Array]:
        """See :meth:`ExactEvidence.regressions`."""
        values = np.empty(len(thetas))
        gradients = np.empty(thetas.shape)
        duals = np.empty(z.shape)
        precisions = np.empty(z.shape)
        order = self._order
        for i, theta in enumerate(thetas):
            values[i], gradients[i], duals[i, order], precisions[i, order] = (
                self._regression(self._form.at(theta), z[i, order], noise[i, order])
            )
        return values, gradients, duals, precisions

    def _log_noise(self, theta: Array) -> float:
        """Logarithm of the noise variance, which may be fixed."""
        free = theta[self._n_kernel_parameters :]
        if len(free):
            return float(free[0])
        return float(np.log(self.likelihood.variance(0.0)))

    def _value(self, form: StateSpace, log_noise: float) -> float:
        noise = np.exp(log_noise) / self._omega
        series = Series(form.cascades(), self._times, form.features(self._times), noise)
        densities = [series.filtered(y).value for y in self._targets]
        return sum(densities) - self._constant - self._noise_slope * log_noise

    def _regression(
        self,
        form: StateSpace,
        y: Array,
        noise: Array,
    ) -> tuple[float, Array, Array, Array]:
        """Density of values in the order of time, its gradient, ``C⁻¹y`` and diag."""
        features = form.features(self._times)
        series = Series(form.cascades(), self._times, features, noise)
        smoothed = series.filtered(y).smoothed(with_slopes=True)
        gradient = form.gradient(
            self._n_kernel_parameters,
            self._times,
            smoothed.slopes,
            features,
            smoothed.feature_slopes,
        )
        value = smoothed.filtered.value
        return value, gradient, smoothed.duals, smoothed.precisions
