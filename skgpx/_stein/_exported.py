"""Learned features as a transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)

from skgpx._draws import FourierFeatures
from skgpx._validation import (
    check_columns,
    check_is_fitted,
    row_blocks,
    validate_data,
)
from skgpx.bases import InputMap

Array = NDArray[np.float64]


class LearnedFourierFeatures(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Cosines and sines of frequencies that a `SteinRFFRegressor` has learned.

    Made by :meth:`skgpx.SteinRFFRegressor.export_features`. Nothing is learned by
    `fit`, and clones keep the frequencies: in cross-validation they are those of the
    regressor, which should not have been fitted to the test rows.

    Parameters
    ----------
    frequencies : ndarray of shape (M, R, n_features)
        In radians per unit of the (mapped) inputs.
    amplitudes : ndarray of shape (R,)
        The sum of their squares is one: so is the norm of each row of features.
    input_map : InputMap or None, default=None
        What the inputs go through before, the network of the regressor.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if X has some.
    """

    def __init__(
        self, frequencies: Array, amplitudes: Array, input_map: InputMap | None = None
    ):
        self.frequencies = frequencies
        self.amplitudes = amplitudes
        self.input_map = input_map

    def fit(self, X: ArrayLike, y: Any = None) -> LearnedFourierFeatures:
        """Check the columns of X; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : object, default=None
            Ignored.

        Returns
        -------
        self : LearnedFourierFeatures

        Raises
        ------
        ValueError
            If X has another number of columns than the regressor was fitted with.
        """
        del y
        checked = self._checked(X, reset=True)
        if checked.shape[1] != self.frequencies.shape[-1]:
            raise ValueError(
                f"These features were learned from {self.frequencies.shape[-1]} "
                f"columns; got {checked.shape[1]}."
            )
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Features of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        features : ndarray of shape (n_samples, 2 M R)
            Cosines, then sines, of one component after the other.

        Raises
        ------
        ValueError
            For input that is not finite, or has other columns than in `fit`.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        M = len(self.frequencies)
        sizes = self.amplitudes / np.sqrt(M)
        waves = [FourierFeatures(omega, sizes) for omega in self.frequencies]
        width = 2 * len(sizes)
        features = np.empty((len(X), M * width))
        for rows in row_blocks(len(X), M * width):
            mapped = X[rows] if self.input_map is None else self.input_map(X[rows])
            for k, wave in enumerate(waves):
                features[rows, k * width : (k + 1) * width] = wave(mapped)
        return features

    def _checked(self, X: ArrayLike, reset: bool) -> Array:
        check_columns(X)
        checked: Array = validate_data(
            self, X, dtype=np.float64, order="C", reset=reset
        )
        return checked

    @property
    def _n_features_out(self) -> int:
        return 2 * len(self.frequencies) * len(self.amplitudes)
