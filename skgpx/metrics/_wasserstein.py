"""The Wasserstein distance between Gaussian vectors, and Gaussian processes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin

from skgpx._numerics.linalg import NUGGET, cholesky, solve_lower_transpose
from skgpx._shell.validation import check_points
from skgpx._shell.wrapped import predict_keywords, unwrapped
from skgpx._types import Array, ArrayLike


class WassersteinGradient(NamedTuple):
    """Derivatives of the squared distance between two Gaussian distributions."""

    first_mean: Array
    first_covariance: Array
    second_mean: Array
    second_covariance: Array


def gaussian_wasserstein_distance(
    first_mean: ArrayLike,
    first_covariance: ArrayLike,
    second_mean: ArrayLike,
    second_covariance: ArrayLike,
    *,
    return_gradient: bool = False,
) -> Any:
    """Wasserstein distance of order two between two normal distributions.

    ``W² = |m - n|² + tr A + tr B - 2 tr (A^½ B A^½)^½`` for N(m, A) and N(n, B): the
    least mean squared distance between two random vectors with these distributions.
    Unlike the Kullback-Leibler divergence it is finite where covariances are singular.

    Parameters
    ----------
    first_mean : array-like of shape (n,)
    first_covariance : array-like of shape (n, n)
        Symmetric and positive semi-definite up to rounding.
    second_mean : array-like of shape (n,)
    second_covariance : array-like of shape (n, n)
    return_gradient : bool, default=False
        Also return derivatives, of the squared distance.

    Returns
    -------
    distance : float
        W, in units of the vectors.
    gradient : namedtuple (first_mean, first_covariance, second_mean, second_covariance)
        Only if `return_gradient`: derivatives in each argument. Those in covariances
        are symmetric: a small symmetric change D of a covariance changes the squared
        distance by ``np.sum(derivative * D)``.

    Raises
    ------
    ValueError
        If shapes do not agree, numbers are not finite, or a covariance is not
        symmetric and positive semi-definite.

    Notes
    -----
    O(n^3). A 1e-10th of the mean variance is added to either diagonal, and more if the
    covariance cannot be factorised otherwise. The derivative in a singular covariance
    includes this addition; a covariance of zero gets the addition of the other one.
    Equation (46) of [1]_.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.metrics import gaussian_wasserstein_distance
    >>> distance = gaussian_wasserstein_distance(
    ...     [0.0, 0.0], np.eye(2), [3.0, 0.0], 25.0 * np.eye(2)
    ... )
    >>> round(distance**2, 6)  # 3² + 2 (5 - 1)²
    41.0
    """
    m, A = _checked("first", first_mean, first_covariance)
    n, B = _checked("second", second_mean, second_covariance)
    if len(m) != len(n):
        raise ValueError(
            "The distributions must be of one length; got first_mean of shape "
            f"{m.shape} and a second_mean of shape {n.shape}."
        )
    try:
        F = _root(A)
        H = _root(B)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"A covariance must be positive semi-definite. {error}"
        ) from error
    # with A = F Fᵀ and B = H Hᵀ the last trace is the nuclear norm of FᵀH: roots of
    # eigenvalues would lose half of the digits
    U, sizes, Vt = np.linalg.svd(F.T @ H)
    gap = m - n
    squared = gap @ gap + np.sum(F**2) + np.sum(H**2) - 2.0 * sizes.sum()
    distance = float(np.sqrt(max(squared, 0.0)))
    if not return_gradient:
        return distance
    if not (np.any(F) and np.any(H)):
        # a zero covariance gets the nugget of the other one
        size = np.trace(A) + np.trace(B) or float(len(m))
        nugget = np.sqrt(NUGGET * size / len(m)) * np.eye(len(m))
        if not np.any(F):
            F = nugget
        if not np.any(H):
            H = nugget
        U, sizes, Vt = np.linalg.svd(F.T @ H)
    # T = F⁻ᵀ U S Uᵀ F⁻¹ maps N(0, A) to N(0, B), and dW²/dA = I - T
    first_half = solve_lower_transpose(F, U * np.sqrt(sizes))
    second_half = solve_lower_transpose(H, Vt.T * np.sqrt(sizes))
    gradient = WassersteinGradient(
        first_mean=2.0 * gap,
        first_covariance=np.eye(len(m)) - first_half @ first_half.T,
        second_mean=-2.0 * gap,
        second_covariance=np.eye(len(m)) - second_half @ second_half.T,
    )
    return distance, gradient


def _root(covariance: Array) -> Array:
    """Lower Cholesky factor; zero for a covariance of zero."""
    if not np.any(covariance):
        return np.zeros_like(covariance)
    return cholesky(covariance).L


def process_wasserstein_distance(
    first: RegressorMixin,
    second: RegressorMixin,
    X: ArrayLike,
    *,
    include_noise: bool = False,
) -> float:
    """Wasserstein distance between two fitted models at the rows of X.

    The distance between their joint Gaussian distributions of the function at these
    rows, divided by the root of the number of rows: the root mean square, over the
    rows, by which two random functions with these distributions differ if coupled as
    well as can be.

    Parameters
    ----------
    first, second : estimator
        Fitted regressors with `return_cov` in `predict`: of this library, a
        GaussianProcessRegressor, or a Pipeline, search or FrozenEstimator around one.
    X : array-like of shape (n_rows, n_features)
        As for the `predict` of both.
    include_noise : bool, default=False
        Whether to compare distributions of observations. A GaussianProcessRegressor
        includes the noise of a WhiteKernel in any case.

    Returns
    -------
    distance : float
        In the units of y.

    Raises
    ------
    ValueError
        If a model gives no covariance, or several targets.

    Notes
    -----
    O(n^3) for n rows. Distributions that are not normal are compared by their mean and
    covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from skgpx import PLSRegressor
    >>> from skgpx.metrics import process_wasserstein_distance
    >>> X = np.linspace(0.0, 6.0, 40)[:, np.newaxis]
    >>> y = np.sin(X[:, 0])
    >>> sparse = PLSRegressor(n_inducing=8, random_state=0).fit(X, y)
    >>> exact = GaussianProcessRegressor(alpha=1e-4).fit(X, y)
    >>> bool(process_wasserstein_distance(sparse, exact, X) < 0.05)
    True
    """
    first_mean, first_covariance = _distribution_of(first, X, include_noise)
    second_mean, second_covariance = _distribution_of(second, X, include_noise)
    if np.array_equal(first_mean, second_mean) and np.array_equal(
        first_covariance,
        second_covariance,
    ):
        # not the root of a rounding error
        return 0.0
    distance: float = gaussian_wasserstein_distance(
        first_mean,
        first_covariance,
        second_mean,
        second_covariance,
    )
    return distance / float(np.sqrt(len(first_mean)))


def _checked(name: str, mean: ArrayLike, covariance: ArrayLike) -> tuple[Array, Array]:
    m = check_points(f"{name}_mean", mean, (None,))
    C = check_points(f"{name}_covariance", covariance, (len(m), len(m)))
    size = np.max(np.abs(C))
    # largest difference between a covariance and its transpose, in units of the
    # covariance
    if np.max(np.abs(C - C.T)) > 1e-8 * size or np.min(np.diagonal(C)) < 0.0:
        raise ValueError(
            f"{name}_covariance must be symmetric, with no negative number on its "
            "diagonal."
        )
    return m, C


def _distribution_of(
    model: RegressorMixin,
    X: ArrayLike,
    include_noise: bool,
) -> tuple[Array, Array]:
    """Mean and covariance of a fitted model at rows, also inside of wrappers."""
    model, X = unwrapped(model, X)
    keywords = predict_keywords(model)
    if "return_cov" not in keywords:
        raise ValueError(
            "process_wasserstein_distance expects regressors whose predict has "
            "return_cov: of skgpx, a GaussianProcessRegressor, or a Pipeline, search "
            f"or FrozenEstimator around one; got {model!r}."
        )
    options = {}
    if "include_noise" in keywords:
        options["include_noise"] = include_noise
    mean, covariance = model.predict(X, return_cov=True, **options)
    if np.ndim(mean) != 1:
        raise ValueError(f"Models must have one target; {model!r} has several.")
    return mean, covariance
