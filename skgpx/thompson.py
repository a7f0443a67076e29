"""Thompson sampling: optimisation of an expensive function by the optima of draws."""

from __future__ import annotations

import warnings
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import qmc
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from skgpx._decoupled import DecoupledSampler, check_drawable
from skgpx._draws import FunctionDraws
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._types import RandomState
from skgpx._validation import all_or_nothing, check_count, check_points, generator

__all__ = ["ThompsonSampler"]

Array = NDArray[np.float64]


class ThompsonSampler(OneBlasThread):
    """Propose where to evaluate a function next: the optima of posterior draws.

    Each proposal is the optimum of its own draw from the posterior, so a batch of any
    size can be evaluated in parallel; its results may be reported late, in any order
    or never.

    Parameters
    ----------
    bounds : array-like of shape (n_features, 2)
        Lower and upper bound of each input, equal where it is fixed. Internally inputs
        are scaled to [0, 1]; fixed ones become 0, and other values keep their distance.
    sampler : DecoupledSampler, regressor or None, default=None
        Model of the function on the unit box; clones of it are fitted. A regressor or a
        search (GridSearchCV) stands for a DecoupledSampler around it. With
        ``prior="grid"`` its draws are defined on the unit box. None stands for a
        GaussianProcessRegressor with a Matérn-5/2 kernel, one lengthscale per input,
        and white noise, with ``normalize_y=True``.
    maximize : bool, default=False
        Look for the largest value instead of the smallest.
    steps : array-like of shape (n_features,) or None, default=None
        Distance between the levels of each input, counted from its lower bound: 1 for
        integers, 0 for a continuous input. Proposals lie on the levels. No level is
        proposed again before all levels have been, unless equal inputs had different
        values: without noise a repetition carries no information. None stands for
        zeros.
    n_initial : int or "auto", default="auto"
        Number of proposals from a scrambled Sobol design before the first draw;
        evaluations made earlier count towards it. "auto" is ``2 (n_features + 1)``.
    refit_every : int or None, default=1
        Hyperparameters of a GaussianProcessRegressor are fitted again after this many
        calls of :meth:`tell`, and kept in between; None never fits them.
    n_mesh : int, default=10000
        Number of points at which each draw is evaluated first.
    n_starts : int, default=32
        Number of the best mesh points from which each draw is optimised further.
    random_state : int, RandomState or None, default=None
        Seed.

    Attributes
    ----------
    X_ : ndarray of shape (n_evaluations, n_features)
        Inputs of the evaluations so far.
    y_ : ndarray of shape (n_evaluations,)
        Values of the evaluations.
    best_x_ : ndarray of shape (n_features,)
        Input of the best value so far.
    best_y_ : float
        The best value so far.
    sampler_ : DecoupledSampler or None
        Model that made the last proposals, on the unit box; None before the first.

    See Also
    --------
    DecoupledSampler : The model that is drawn from.

    Notes
    -----
    Thompson sampling proposes a point with the probability that it is the optimum
    [1]_. A draw with Fourier features is optimised by its gradient and not on a grid,
    which matters from about four inputs on [2]_. Pickle the object to resume in
    another process: its state is the data so far, the last model and a few counters.

    References
    ----------
    .. [1] Thompson, "On the likelihood that one unknown probability exceeds another",
       Biometrika 1933.
    .. [2] Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently
       sampling functions from Gaussian process posteriors", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.thompson import ThompsonSampler
    >>> optimizer = ThompsonSampler([[-2.0, 2.0]], n_mesh=200, random_state=0)
    >>> for _ in range(6):
    ...     X = optimizer.ask(2)
    ...     optimizer = optimizer.tell(X, (X[:, 0] - 0.7) ** 2)
    >>> bool(abs(optimizer.best_x_[0] - 0.7) < 0.05)
    True
    """

    def __init__(
        self,
        bounds: ArrayLike,
        sampler: BaseEstimator | None = None,
        *,
        maximize: bool = False,
        steps: ArrayLike | None = None,
        n_initial: int | str = "auto",
        refit_every: int | None = 1,
        n_mesh: int = 10_000,
        n_starts: int = 32,
        random_state: RandomState = None,
    ):
        box = check_points("bounds", bounds, (None, 2))
        d = len(box)
        if not np.all(box[:, 0] <= box[:, 1]):
            raise ValueError(
                "Each row of bounds must hold a lower bound and an upper one that is "
                f"not below it; got {box.tolist()}."
            )
        if sampler is not None and not isinstance(sampler, DecoupledSampler):
            check_drawable(sampler)
            sampler = DecoupledSampler(sampler)
        if sampler is not None and isinstance(sampler.estimator, FrozenEstimator):
            raise ValueError(
                "ThompsonSampler fits its model to the data it receives, and a frozen "
                f"estimator does not learn; got {sampler!r}. Pass the regressor "
                "itself, with optimizer=None to keep its hyperparameters."
            )
        self.bounds = box
        self.sampler = sampler
        self.maximize = bool(maximize)
        if steps is None:
            steps = np.zeros(d)
        self.steps = check_points("steps", steps, (d,))
        if np.any(self.steps < 0.0):
            raise ValueError(
                "steps must hold the distance between the levels of each input, 0 for "
                f"one that is continuous; got {self.steps.tolist()}."
            )
        if n_initial == "auto":
            n_initial = 2 * (d + 1)
        elif n_initial:
            n_initial = check_count(n_initial, "n_initial")
        self.n_initial = int(n_initial or 0)
        if refit_every is not None:
            refit_every = check_count(refit_every, "refit_every")
        self.refit_every = refit_every
        self.n_mesh = check_count(n_mesh, "n_mesh")
        self.n_starts = check_count(n_starts, "n_starts")
        self.X_ = np.empty((0, d))
        self.y_ = np.empty(0)
        # proposals of inputs with levels
        self._proposed = np.empty((0, d))
        self.sampler_: DecoupledSampler | None = None
        # a number, not a generator: the n-th proposal has a stream of its own
        self._seed = int(generator(random_state).integers(2**62))
        self._n_asked = 0
        self._n_tells = 0
        self._n_tells_at_fit = 0
        self._n_tells_at_refit = 0

    @all_or_nothing
    def ask(self, n: int = 1) -> Array:
        """Propose inputs to evaluate.

        Parameters
        ----------
        n : int, default=1
            Number of proposals; may differ from call to call.

        Returns
        -------
        X : ndarray of shape (n, n_features)
            Within the bounds.
        """
        n = check_count(n, "n")
        first = self._n_asked
        self._n_asked += n
        # the initial design; evaluations made earlier count towards it
        n_done = max(first, len(self.y_))
        design = self._design()[n_done : n_done + n]
        n_free = n - len(design)
        rng = np.random.default_rng([self._seed, 1, first])
        draws = None
        free = np.empty((0, len(self.bounds)))
        if n_free and len(self.y_):
            # optima of posterior draws
            self.sampler_ = self._fitted_sampler()
            draws = self.sampler_.sample_functions(n_free, rng)
            free = self._optima(draws, rng)
        elif n_free:
            # no evaluations yet
            free = rng.random((n_free, len(self.bounds)))
        proposals = np.concatenate((design, free))
        if np.any(self.steps):
            return self._on_levels(proposals, draws, rng)
        return self._from_unit(proposals)

    @all_or_nothing
    def tell(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add evaluations, of proposals or of any other inputs.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)
            Values of the function, which may be noisy; inputs may be repeated.

        Returns
        -------
        self : ThompsonSampler

        Raises
        ------
        ValueError
            If shapes do not agree, or a value is not finite: leave out evaluations
            that failed.
        """
        X = check_points("X", X, (None, len(self.bounds)))
        y = check_points("y", y, (len(X),))
        self.X_ = np.concatenate((self.X_, X))
        self.y_ = np.concatenate((self.y_, y))
        self._n_tells += 1
        return self

    @property
    def best_x_(self) -> Array:
        """Input of the best value so far, shape (n_features,)."""
        return self.X_[self._best()]

    @property
    def best_y_(self) -> float:
        """The best value so far."""
        return float(self.y_[self._best()])

    def __repr__(self) -> str:
        goal = "maximize" if self.maximize else "minimize"
        return f"ThompsonSampler({goal}, n_told={len(self.y_)})"

    def _best(self) -> int:
        if not len(self.y_):
            raise NotFittedError("No evaluations yet: call tell(X, y) first.")
        return self._argbest(self.y_)

    def _argbest(self, values: Array) -> int:
        if self.maximize:
            return int(np.argmax(values))
        return int(np.argmin(values))

    def _design(self) -> Array:
        """The initial design in the unit box, (n_initial, n_features)."""
        rng = np.random.default_rng(self._seed)
        sequence = qmc.Sobol(len(self.bounds), seed=rng)
        # the sequence is balanced over its first 2^k points: draw such a number
        n_bits = max(self.n_initial - 1, 0).bit_length()
        return sequence.random_base2(n_bits)[: self.n_initial]

    def _optima(self, draws: FunctionDraws, rng: np.random.Generator) -> Array:
        """Optima of the draws in the unit box."""
        search = draws.minimize
        if self.maximize:
            search = draws.maximize
        # (0, 1), and (0, 0) for a fixed input
        box = np.sign(self.bounds - self.bounds[:, :1])
        n_starts = min(self.n_starts, self.n_mesh)
        optima: Array = search(box, n_starts, self.n_mesh, rng).x
        return optima

    def _from_unit(self, points: Array) -> Array:
        """Inputs within the bounds, on their levels, from points of the unit box."""
        low, high = self.bounds.T
        X = low + points * (high - low)
        has_levels = self.steps > 0.0
        step = np.where(has_levels, self.steps, 1.0)
        n_levels = np.floor((high - low) / step * (1.0 + 1e-12))
        level = low + np.minimum(np.round((X - low) / step), n_levels) * step
        return np.clip(np.where(has_levels, level, X), low, high)

    def _to_unit(self, X: Array) -> Array:
        low, high = self.bounds.T
        return (X - low) / np.where(low < high, high - low, 1.0)

    def _on_levels(
        self,
        points: Array,
        draws: FunctionDraws | None,
        rng: np.random.Generator,
    ) -> Array:
        """Inputs on levels; tried ones are replaced by the best of all untried ones.

        Parameters
        ----------
        points : ndarray of shape (n, d)
            In the unit box: of the design, then the optima of the draws.
        draws : FunctionDraws or None
        rng : numpy.random.Generator
        """
        X = self._from_unit(points)
        if self._is_noisy():
            self._proposed = np.vstack((self._proposed, X))
            return X
        n_designed = len(points)
        if draws is not None:
            n_designed -= len(draws)
        mesh = self._from_unit(rng.random((self.n_mesh, len(self.bounds))))
        mesh = rng.permutation(np.unique(mesh, axis=0))
        for i, proposal in enumerate(X):
            tried = np.vstack((self.X_, self._proposed, X[:i]))
            if not np.any(_is_among(proposal[np.newaxis], tried)):
                continue
            untried = mesh[~_is_among(mesh, tried)]
            if not len(untried):  # all levels have been tried
                continue
            best = 0
            if draws is not None and i >= n_designed:
                values = draws[i - n_designed](self._to_unit(untried))[:, 0]
                best = self._argbest(values)
            X[i] = untried[best]
        self._proposed = np.vstack((self._proposed, X))
        return X

    def _is_noisy(self) -> bool:
        """Whether equal inputs have been told with different values."""
        trials = np.column_stack((self.X_, self.y_))
        return len(np.unique(trials, axis=0)) > len(np.unique(self.X_, axis=0))

    def _fitted_sampler(self) -> DecoupledSampler:
        """Model of all evaluations, with hyperparameters fitted again if due."""
        previous = self.sampler_
        if previous is not None and self._n_tells_at_fit == self._n_tells:
            return previous
        sampler: DecoupledSampler = clone(self.sampler or DecoupledSampler())
        if sampler.estimator is None:
            sampler.set_params(estimator=_default_regressor(len(self.bounds)))
        if sampler.prior == "grid" and sampler.domain is None:
            sampler.set_params(domain=np.tile([0.0, 1.0], (len(self.bounds), 1)))
        n_tells_since = self._n_tells - self._n_tells_at_refit
        is_due = self.refit_every is not None and (
            previous is None or n_tells_since >= self.refit_every
        )
        if is_due:
            self._n_tells_at_refit = self._n_tells
        else:
            _keep_hyperparameters(sampler, previous)
        with warnings.catch_warnings():
            # with few rows a hyperparameter often ends at a bound
            warnings.simplefilter("ignore", ConvergenceWarning)
            sampler.fit(self._to_unit(self.X_), self.y_)
        self._n_tells_at_fit = self._n_tells
        return sampler


def _is_among(X: Array, tried: Array) -> NDArray[np.bool_]:
    """Whether each row of X (n, d) is among the rows tried (k, d)."""
    keys = {row.tobytes() for row in tried + 0.0}
    return np.array([row.tobytes() in keys for row in X + 0.0], dtype=bool)


def _default_regressor(d: int) -> GaussianProcessRegressor:
    smooth = Matern(np.full(d, 0.5), (0.02, 20.0), nu=2.5)
    noise = WhiteKernel(1e-3, (1e-6, 1.0))
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * smooth + noise
    return GaussianProcessRegressor(kernel, normalize_y=True)


def _keep_hyperparameters(
    sampler: DecoupledSampler,
    previous: DecoupledSampler | None,
) -> None:
    """Fix hyperparameters at the values of the previous fit, or of the given kernel."""
    regressor = sampler.estimator
    if previous is not None:
        regressor = previous.estimator_
    # within a search, or within the replacement for many rows
    regressor = getattr(regressor, "estimator", regressor)
    if not isinstance(regressor, GaussianProcessRegressor):
        return
    kernel = regressor.kernel
    if previous is not None:
        kernel = previous.kernel_
    fixed = clone(regressor).set_params(kernel=kernel, optimizer=None)
    sampler.set_params(estimator=fixed)
