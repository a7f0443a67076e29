"""The basis of paired cosines and sines of given frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import (
    FiniteProcess,
    FourierFeatures,
    FunctionDraws,
    Term,
    linear_draws,
)
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx.bases._kernel_basis import FeatureMarginals
from skgpx.kernels import sample_frequencies

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Fourier:
    """Paired cosines and sines, ``φ(x) = [a cos(ω̃·x), a sin(ω̃·x)]``, ``ω̃ = ω / ℓ``.

    With ``w ~ N(0, I)`` the function ``φ(x)ᵀw`` is a stationary Gaussian process with
    the covariance ``Σ_r a_r² cos(ω̃_r·(x - y))``: that of a kernel, if the frequencies
    are a sample of its spectral density.

    Parameters
    ----------
    frequencies : ndarray of shape (R, d)
        Angular frequencies ``ω``, in radians per lengthscale.
    amplitudes : ndarray of shape (R,)
        ``a``; the sum of their squares is the variance of the process.
    length_scale : float or ndarray of shape (d,), default=1.0
        ``ℓ``, in the units of the inputs: one for all inputs or one for each.
    tail_variance : float, default=0.0
        Variance of the residual, which is white: the part of the prior variance that
        the frequencies do not carry. Drawn functions leave it out, as they do noise;
        add it to the noise variance when conditioning on observations.

    Notes
    -----
    The features of n rows take O(n R d) time. Random Fourier features are
    those of [1]_.

    References
    ----------
    .. [1] Rahimi and Recht, "Random features for large-scale kernel machines", NIPS
       2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import Fourier
    >>> basis = Fourier.from_kernel(2.0 * RBF(0.5), 512, 1, np.random.default_rng(0))
    >>> X = np.array([[0.1], [0.4]])
    >>> (basis(X) @ basis(X).T).round(2)
    array([[2.  , 1.67],
           [1.67, 2.  ]])
    >>> (2.0 * RBF(0.5))(X).round(2)
    array([[2.  , 1.67],
           [1.67, 2.  ]])
    """

    frequencies: Array
    amplitudes: Array
    length_scale: float | Array = 1.0
    tail_variance: float = 0.0

    @classmethod
    def from_kernel(
        cls,
        kernel: Any,
        n_frequencies: int,
        d: int,
        rng: np.random.Generator,
        method: str = "qmc",
    ) -> Fourier:
        """Frequencies from the spectral density of a stationary kernel.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            See :func:`skgpx.kernels.sample_frequencies`, which lists those that serve.
        n_frequencies : int
            Number of frequencies ``R``, best a power of two. A periodic kernel alone
            has its exact cosine series instead.
        d : int
            Number of input columns.
        rng : numpy.random.Generator
        method : {"qmc", "mc"}, default="qmc"
            A scrambled Sobol net, or independent points.

        Returns
        -------
        basis : Fourier
            With a lengthscale of one: those of the kernel are in the frequencies.

        Raises
        ------
        ValueError
            If a part of the kernel has no spectral sampler, or the kernel is a sum.
        """
        omega, amplitudes = sample_frequencies(kernel, n_frequencies, d, rng, method)
        variance = float(kernel.diag(np.zeros((1, d)))[0])
        return cls(omega, np.sqrt(variance) * amplitudes)

    @property
    def n_basis(self) -> int:
        """Number of basis functions, ``2 R``."""
        return 2 * len(self.amplitudes)

    @cached_property
    def waves(self) -> FourierFeatures:
        """The feature map, which draws share."""
        return FourierFeatures(self.frequencies / self.length_scale, self.amplitudes)

    def __call__(self, X: Array) -> Array:
        """Features ``[a cos, a sin]`` (n, 2 R); their prior weights are N(0, I)."""
        return self.waves(X)

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance of the residual, that of the tail, shape (n,)."""
        del features
        return np.full(len(X), float(self.tail_variance))

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint prior covariance of the residual at the rows of X: white, (n, n)."""
        return np.diag(self.residual_variance(X, features))

    def marginals(self, weights: WeightDistribution) -> FeatureMarginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        return FeatureMarginals(self, weights)

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row."""
        return 4 * self.n_basis

    @property
    def white_variance(self) -> float:
        """Part of the residual that is independent between all rows: all of it."""
        return float(self.tail_variance)

    def draw(
        self, weights: Array, rng: np.random.Generator, **prior: Any
    ) -> FunctionDraws:
        """Functions ``φᵀw`` with these weights (2 R, c, s); nothing else is drawn."""
        del rng, prior
        return linear_draws(self.waves, weights)

    def process(self, weights: GaussianWeights) -> FiniteProcess:
        """Distribution of ``φᵀw`` as a process that can be conditioned."""
        return FiniteProcess.of_weights(self, weights)

    def process_at(self, weights: GaussianWeights, X: Array) -> FiniteProcess:
        """Process in which rows X (p, d) are observed."""
        del X
        return self.process(weights)

    def grown(self, process: FiniteProcess) -> Fourier:
        """Return the basis of a process after conditioning, which is the same."""
        del process
        return self

    def all_features(self, X: Array) -> Array:
        """Functions that draws are combinations of: those of the basis."""
        return self.waves(X)

    def all_terms(self, weights: Array) -> tuple[Term, ...]:
        """Terms of the functions with these weights (2 R, c, s)."""
        return linear_draws(self.waves, weights).terms
