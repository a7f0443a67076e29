"""
Register the spectral density of a kernel
=========================================

A kernel of your own works wherever scikit-learn's kernels do, with its matrix alone.
One call registers further functions for its class: a sampler of its frequencies (for
draws and features), their density (for Fourier functions), and the gradient of the log
density (for Stein features). Every entry is optional.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import (
    Hyperparameter,
    Kernel,
    NormalizedKernelMixin,
    StationaryKernelMixin,
)

from skgpx import SpectralVGPRegressor, SteinFourierFeatures
from skgpx.bases import draw_prior
from skgpx.kernels import check_spectral_score, register_kernel


# %%
# The kernel
# ----------
# ``k(x, y) = 1 / cosh(|x - y| / ℓ)`` of one input is as smooth as an RBF and has the
# exponential tails of a Matérn kernel. This part is scikit-learn's interface.
class Sech(StationaryKernelMixin, NormalizedKernelMixin, Kernel):
    """``1 / cosh(|x - y| / length_scale)`` of one input."""

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-3, 1e3)):
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self):
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        distance = np.abs(X[:, :1] - (X if Y is None else Y)[:, 0]) / self.length_scale
        K = 1.0 / np.cosh(np.minimum(distance, 700.0))
        if not eval_gradient:
            return K
        if self.hyperparameter_length_scale.fixed:
            return K, np.empty((*K.shape, 0))
        return K, (K * distance * np.tanh(distance))[:, :, np.newaxis]


# %%
# Its spectral density
# --------------------
# The hyperbolic secant is its own Fourier transform, up to scale:
# ``S(ω) = π ℓ / cosh(π ℓ ω / 2)``.
def sampler(kernel, n_frequencies, d, rng):
    """Frequencies of shape (n_frequencies, d), in radians per unit of the input."""
    u = rng.uniform(size=(n_frequencies, d))
    return 2.0 * np.log(np.tan(0.5 * np.pi * u)) / (np.pi * kernel.length_scale)


def density(kernel, omega):
    """``S(ω)``, and its derivatives in ``kernel.theta``, here log ℓ."""
    t = 0.5 * np.pi * kernel.length_scale * omega
    S = np.pi * kernel.length_scale / np.cosh(np.minimum(np.abs(t[:, 0]), 700.0))
    slopes = S[:, np.newaxis] * (1.0 - t * np.tanh(t))
    return S, slopes[:, : len(kernel.theta)]  # none if the lengthscale is fixed


def score(kernel, omega):
    """``∇ log S(ω)``."""
    half = 0.5 * np.pi * kernel.length_scale
    return -half * np.tanh(half * omega)


register_kernel(
    Sech, spectral_sampler=sampler, spectral_density=density, spectral_score=score
)

# %%
# The three are compared with one another when they are first used, or on request. The
# density integrates to ``2 π k(0)``.
omega = sampler(Sech(0.5), 1000, 1, np.random.default_rng(0))
check_spectral_score(Sech(0.5), omega)
t = np.linspace(-60.0, 60.0, 2001)[:, np.newaxis]
integral = np.sum(density(Sech(0.5), t)[0]) * (t[1, 0] - t[0, 0])
print(f"integral of the density: {integral / (2.0 * np.pi):.6f} · 2π")

# %%
# Uses
# ----
# The kernel now has draws of the prior and of posteriors, regression on Fourier
# functions that learns the lengthscale, and features for linear models.
rng = np.random.default_rng(1)
X = rng.uniform(0.0, 10.0, (400, 1))
y = np.sin(X[:, 0]) + np.abs(X[:, 0] - 5.0) + 0.2 * rng.standard_normal(400)
model = SpectralVGPRegressor(1.0 * Sech(1.0)).fit(X, y)
print(model.kernel_)
features = SteinFourierFeatures(Sech(1.0), n_frequencies=50, random_state=0)
Z = features.fit_transform(X)
error = np.abs(Z @ Z.T - Sech(1.0)(X)).max()
print(f"largest error of the kernel by a hundred features: {error:.4f}")

grid = np.linspace(-1.0, 11.0, 300)[:, np.newaxis]
mean, std = model.predict(grid, return_std=True, include_noise=False)
prior = draw_prior(Sech(1.0), 1, 1, 5, rng)(grid)
figure, (first, left, right) = plt.subplots(
    1, 3, figsize=(11.0, 3.4), layout="constrained"
)
first.plot(grid, prior[:, 0] if prior.ndim == 3 else prior, lw=1.0)
first.set(xlabel="x", title="draws of the prior")
left.plot(X, y, ".", color="0.7", ms=3.0)
left.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, alpha=0.3, lw=0.0)
left.plot(grid, mean, "C0")
left.set(xlabel="x", title="data and 95 % band")
right.hist(omega[:, 0], 60, density=True, alpha=0.4, label="sampled frequencies")
near = t[np.abs(t[:, 0]) < 15.0]
distribution = density(Sech(0.5), near)[0] / (2.0 * np.pi)
right.plot(near, distribution, "k", label="density")
right.set(xlabel="ω", xlim=(-15.0, 15.0), ylim=(0.0, 0.33), title="spectral density")
right.legend()
plt.show()
