"""Fourier features of a stationary kernel: their frequencies, and the transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared

from skgpx._draws import FourierFeatures
from skgpx._reports.report import Reporting
from skgpx._shell.validation import (
    COUNT,
    COUNT_OR_ZERO,
    StrOptions,
    check_columns,
    check_is_fitted,
    check_kernel,
    check_range,
    fit_context,
    generator,
    row_blocks,
    validate_data,
)
from skgpx._types import AnyArray, Array, ArrayLike, Generator, Kernel, RandomState
from skgpx.kernels import (
    Monomial,
    noise_variance,
    sample_frequencies,
    sample_spectra,
    spectra_of,
    spectrum_of,
    stationary_terms,
    stein_frequencies,
)

# ---- Waves of a stationary kernel: frequencies by any method, and their amplitudes ---


_SAMPLED = ("halton", "sobol", "orthogonal", "mc")


def kernel_waves(
    kernel: Kernel,
    n_frequencies: int,
    method: str,
    input_variances: Array,
    n_steps: int,
    rng: Generator,
) -> FourierFeatures:
    """Waves whose products sum to about the kernel: ``Σ a² cos(ω·(x - y))``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Stationary; white noise is left out.
    n_frequencies : int
        Shared among the terms of a sum in proportion to their variances, which makes
        the mean squared error of independent frequencies smallest.
    method : {"stein", "halton", "sobol", "orthogonal", "mc"}
    input_variances : ndarray of shape (d,)
    n_steps : int
        Steps of "stein".
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If a part of the kernel has no known frequencies, or there are more terms than
        frequencies.
    """
    d = len(input_variances)
    terms = stationary_terms(kernel, d)
    if len(terms) > n_frequencies:
        raise ValueError(
            f"n_frequencies must be at least {len(terms)}, one for each term of "
            f"{kernel!r}; got {n_frequencies}."
        )
    finite_series = [_all_waves(term, d) for term in terms]
    counts = _frequencies_of_terms(terms, finite_series, n_frequencies)
    frequencies = []
    amplitudes = []
    for term, series, count in zip(terms, finite_series, counts, strict=True):
        if series is None:
            term_frequencies, term_amplitudes = _sample(
                term,
                kernel,
                count,
                method=method,
                input_variances=input_variances,
                n_steps=n_steps,
                rng=rng,
            )
        else:
            # The strongest waves, with the variance of all.
            all_frequencies, all_amplitudes = series
            strongest = np.argsort(-all_amplitudes, kind="stable")[:count]
            term_frequencies = all_frequencies[strongest]
            term_amplitudes = all_amplitudes[strongest]
            term_amplitudes = term_amplitudes / np.linalg.norm(term_amplitudes)
        frequencies.append(term_frequencies)
        amplitudes.append(np.sqrt(term.coefficient) * term_amplitudes)
    return FourierFeatures(np.concatenate(frequencies), np.concatenate(amplitudes))


def _frequencies_of_terms(
    terms: list[Monomial],
    finite_series: list[tuple[Array, Array] | None],
    n_frequencies: int,
) -> list[int]:
    """Share frequencies in proportion to variances; a finite series has a limit."""
    variances = np.array([term.coefficient for term in terms])
    limits = np.full(len(terms), np.inf)
    for position, series in enumerate(finite_series):
        if series is not None:
            limits[position] = len(series[1])
    counts = np.ones(len(terms), dtype=int)
    for _ in range(n_frequencies - len(terms)):
        # the next one to the term with the most variance for each that it has
        gain = np.where(counts < limits, variances / (counts + 0.5), 0.0)
        counts[np.argmax(gain)] += gain.any()
    return counts.tolist()


def _all_waves(term: Monomial, d: int) -> tuple[Array, Array] | None:
    """Waves of a term that has finitely many: a constant, a periodic kernel alone."""
    if not term.factors:
        return np.zeros((1, d)), np.ones(1)
    if [type(factor) for factor in term.factors] != [ExpSineSquared]:
        return None
    return sample_frequencies(term.factors[0], 0, d, np.random.default_rng(0))


def _sample(
    term: Monomial,
    kernel: Kernel,
    n: int,
    method: str,
    input_variances: Array,
    n_steps: int,
    rng: Generator,
) -> tuple[Array, Array]:
    """Frequencies (n, d) of one term of a kernel, and amplitudes of norm one."""
    d = len(input_variances)
    if method == "stein" and len(term.factors) == 1:
        omega = stein_frequencies(term.factors[0], n, rng, input_variances, n_steps)
        return omega, np.full(n, n**-0.5)
    unknown = [factor for factor in term.factors if spectrum_of(factor, d) is None]
    if unknown:
        name = type(unknown[0]).__name__
        raise ValueError(
            f"{unknown[0]!r} has no spectral sampler, which method={method!r} needs "
            f"for it. Call skgpx.kernels.register_kernel({name}, spectral_sampler=...)."
        )
    # the density of a product is a convolution: its frequencies are not moved
    if method == "stein":
        method = "halton"
    spectra = spectra_of(term.factors, kernel, d)
    return sample_spectra(spectra, n, d, rng, method)


# ---- Fourier features of a stationary kernel, as a transformer -----------------------


class SteinFourierFeatures(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Reporting,
    BaseEstimator,
):
    """Map inputs to cosines and sines whose inner products approximate a kernel.

    ``transform(X) @ transform(Y).T ≈ kernel(X, Y)``, amplitude included, with linear
    models after it in a pipeline, as scikit-learn's RBFSampler and Nystroem. The
    frequencies follow the spectral density of the kernel; by default they are moved by
    Stein variational gradient descent until they are evenly spread [1]_. For an RBF of
    up to eight columns that leaves a twentieth to a third of the error of quasi-random
    or orthogonal frequencies; in many columns, and for rough kernels, less is gained.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        RBF, Matern of any order, RationalQuadratic and ExpSineSquared (one column),
        constants, sums, products and powers of these, and kernels registered with
        :func:`skgpx.kernels.register_kernel`. It is used as it is: nothing is learned.
        WhiteKernels are left out, as independent noise has no features, and add up to
        `noise_variance_`. None stands for ``RBF(1.0)``.
    n_frequencies : int, default=100
        Number R of frequencies; each has two features. Terms of a sum share them in
        proportion to their variances; a constant takes one, a periodic kernel as many
        waves as its series has.
    method : str, default="stein"
        "stein": SVGD from a scrambled Halton sequence, best for rows that are spread
        as those of `fit`. "halton", "sobol": scrambled sequences, better for rows
        that are several times as wide. "orthogonal": orthogonal directions [2]_.
        "mc": independent.
    n_steps : int, default=300
        Steps of SVGD. O(n_frequencies² n_features) each.
    random_state : int, RandomState or None, default=None
        Seed of the sequences.

    Attributes
    ----------
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        The approximated kernel, noise included.
    frequencies_ : ndarray of shape (R, n_features)
        Angular frequencies, in radians per unit of the inputs.
    amplitudes_ : ndarray of shape (R,)
        Amplitudes of cosines and sines; the sum of their squares is the variance of the
        kernel.
    noise_variance_ : float
        Variance of the white noise of the kernel; ``Ridge(alpha=noise_variance_)`` on
        the features is the mean of the Gaussian process.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if X has some.

    See Also
    --------
    sklearn.kernel_approximation.RBFSampler : Independent frequencies of an RBF.
    sklearn.kernel_approximation.Nystroem : Features from rows of the data, of any
        kernel; better for the same number of features wherever it was measured.

    Notes
    -----
    `fit` uses the standard deviations of X only: moved frequencies resolve the waves
    over that spread, and give up accuracy beyond it. The features of a row depend on
    nothing else; they are float32 for float32 rows.

    Frequencies of heavy-tailed spectra (Matern, RationalQuadratic) contract under
    SVGD; the radii of the moved frequencies are replaced by quantiles of the
    distribution of the radius, in their order. Products of such kernels have no known
    density; their frequencies stay those of a Halton sequence.

    In many columns (from about 24 on), or with few frequencies, there is little to
    gain. The moved frequencies are kept only where they approximate the kernel at
    random differences better than those they started from and than orthogonal ones.

    The guide, `docs/stein.md`, has figures by the number of inputs, and lists which
    claims of the paper hold.

    References
    ----------
    .. [1] Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024.
    .. [2] Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, "Orthogonal random
       features", NeurIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx import SteinFourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> kernel = 2.0 * RBF([1.0, 3.0])
    >>> errors = {}
    >>> for method in ("mc", "halton", "stein"):
    ...     features = SteinFourierFeatures(kernel, method=method, random_state=0)
    ...     Z = features.fit_transform(X)
    ...     errors[method] = np.abs(Z @ Z.T - kernel(X)).max()
    >>> bool(errors["stein"] < 0.6 * errors["halton"] < 0.3 * errors["mc"])
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [Kernel, None],
        "n_frequencies": [COUNT],
        "method": [StrOptions({"stein", *_SAMPLED})],
        "n_steps": [COUNT_OR_ZERO],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        n_frequencies: int = 100,
        method: str = "stein",
        n_steps: int = 300,
        random_state: RandomState = None,
    ):
        self.kernel = kernel
        self.n_frequencies = n_frequencies
        self.method = method
        self.n_steps = n_steps
        self.random_state = random_state

    @fit_context
    def fit(self, X: ArrayLike, y: object = None) -> SteinFourierFeatures:
        """Choose the frequencies.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only the number of its columns and their variances are used.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : SteinFourierFeatures

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional; if the kernel does not
            fit the columns, or a part of it has no registered frequencies (the message
            names what to register); if a registered score contradicts the registered
            density or sampler.
        """
        del y
        X = self._checked(X, reset=True).astype(np.float64)
        check_range("X", X)
        self.kernel_ = RBF(1.0) if self.kernel is None else clone(self.kernel)
        check_kernel(self.kernel_, X)
        # sorted, so that the order of the rows does not change the last bits
        variances = np.var(np.sort(X, axis=0), axis=0)
        waves = kernel_waves(
            self.kernel_,
            int(self.n_frequencies),
            method=self.method,
            input_variances=variances,
            n_steps=int(self.n_steps),
            rng=generator(self.random_state),
        )
        self.frequencies_ = waves.frequencies
        self.amplitudes_ = waves.amplitudes
        self.noise_variance_ = float(noise_variance(self.kernel_, X[:1])[0])
        return self

    def transform(self, X: ArrayLike) -> AnyArray:
        """Features of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        features : ndarray of shape (n_samples, 2 R)
            Cosines, then sines, times their amplitudes; float32 if X is.

        Raises
        ------
        ValueError
            For input that is not finite, or has other columns than in `fit`.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        waves = FourierFeatures(self.frequencies_, self.amplitudes_)
        features = np.empty((len(X), 2 * len(self.amplitudes_)), X.dtype)
        for rows in row_blocks(len(X), features.shape[1]):
            features[rows] = waves(X[rows].astype(np.float64))
        return features

    def _checked(self, X: ArrayLike, reset: bool) -> AnyArray:
        """Rows in single or double precision."""
        check_columns(X)
        dtypes = (np.float64, np.float32)
        checked: AnyArray
        checked = validate_data(self, X, dtype=dtypes, order="C", reset=reset)
        return checked

    @property
    def _n_features_out(self) -> int:
        return 2 * len(self.amplitudes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
