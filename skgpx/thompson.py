"""Bayesian optimisation: by expected improvement, or by the optima of draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import qmc
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor

from skgpx._decoupled import DecoupledSampler, check_drawable
from skgpx._draws import FunctionDraws, InputMap, linear_draws, mapped_draws
from skgpx._front.acquisition import LogExpectedImprovement, Posterior
from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._row_budgets import AVERAGED_ROWS
from skgpx._shell.validation import (
    all_or_nothing,
    check_count,
    check_points,
    check_same_names,
    generator,
)
from skgpx._types import Array, Mask, RandomState
from skgpx.exceptions import FitWarning, PredictionWarning

__all__ = ["ThompsonSampler"]


ACQUISITIONS = ("auto", "thompson", "expected_improvement")


class ThompsonSampler(OneBlasThread):
    """Propose where to evaluate an expensive function next: Bayesian optimisation.

    A model of the function is fitted to the evaluations so far. A proposal is the input
    of the largest expected improvement under it, or the optimum of a function drawn
    from it (Thompson sampling). Batches of any size can be evaluated in parallel; their
    results may be reported late, in any order or never.

    Parameters
    ----------
    bounds : array-like of shape (n_features, 2)
        Lower and upper bound of each input, equal where it is fixed. The index of a
        frame of pandas names the inputs. Internally inputs are scaled to [0, 1]; fixed
        ones become 0, and other values keep their distance.
    sampler : DecoupledSampler, regressor or None, default=None
        Model of the function on the unit box; clones of it are fitted. A regressor or a
        search (GridSearchCV) stands for a DecoupledSampler around it. With
        ``prior="grid"`` its draws are defined on the unit box. None stands for
        ``DecoupledSampler(hyperparameters="maximise")``, which learns kernel and noise,
        for proposals, and for the best input under noise, of up to 300 evaluations, for
        ``DecoupledSampler()``, which averages over hyperparameters; warnings of their
        fits to few rows are not shown. Proposals of the latter take some twenty times
        as long.
    maximize : bool, default=False
        Look for the largest value instead of the smallest.
    steps : array-like of shape (n_features,) or None, default=None
        Distance between the levels of each input, counted from its lower bound: 1 for
        integers, 0 for a continuous input. Proposals lie on the levels, and the model
        is evaluated there. Unless values are noisy, no level is proposed again before
        all levels have been: a repetition carries no information. None stands for
        zeros.
    n_initial : int or "auto", default="auto"
        Number of proposals from a scrambled Sobol design before the first fit;
        evaluations made earlier count towards it. "auto" is ``2 (n_features + 1)``.
    refit_every : int or None, default=1
        Hyperparameters of a GaussianProcessRegressor are fitted again after this many
        calls of :meth:`tell`, and kept in between; None never fits them.
    acquisition : {"auto", "expected_improvement", "thompson"}, default="auto"
        What is optimised. "expected_improvement" needs a model with a posterior that
        can be conditioned on proposals. "thompson" draws a function for each proposal.
        "auto" is the former where the model allows it, and otherwise the latter.
    noisy : bool or "auto", default="auto"
        Whether values are noisy. Then the best input is chosen by its posterior mean,
        and levels are repeated. "auto": whether equal inputs had different values.
    n_mesh : int, default=10000
        Number of points at which the acquisition is evaluated first; a quarter as many
        are added around the best evaluations.
    n_starts : int, default=32
        Number of the best of these points from which it is optimised further.
    random_state : int, RandomState or None, default=None
        Seed.

    Attributes
    ----------
    X_ : ndarray of shape (n_evaluations, n_features)
        Inputs of the evaluations so far.
    y_ : ndarray of shape (n_evaluations,)
        Values of the evaluations.
    best_x_ : ndarray of shape (n_features,)
        Input of the best evaluation; under noise the evaluated input of the best
        posterior mean.
    best_y_ : float
        Value of the best evaluation; under noise its posterior mean.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the inputs, where bounds or evaluations were given as a data frame.
    sampler_ : DecoupledSampler or None
        Model that made the last proposals, on the unit box; None before the first.

    See Also
    --------
    DecoupledSampler : The model.

    Notes
    -----
    *Expected improvement* is ``E[max(b - f(x), 0)]``, with the noise-free f and, as
    incumbent b, the smallest posterior mean at the evaluated inputs, which noise does
    not make too optimistic [1]_. It is maximised by the gradient of its logarithm,
    which does not vanish where an improvement is improbable [2]_, equation (9). Under a
    mixture of models it is the mean of the improvements of the components, each with
    an incumbent of its own. Proposals without a result count as evaluations that had
    their posterior means as values: so a batch is spread, and two calls of :meth:`ask`
    differ. A batch of n costs n searches, and conditioning on p proposals O((m + p)^3)
    for a model of m rows.

    *Thompson sampling* proposes a point with the probability that it is the optimum
    [3]_. A draw with Fourier features is optimised by its gradient and not on a grid,
    which matters from about four inputs on [4]_.

    Pickle the object to resume in another process: its state is the data so far, the
    last model and a few counters.

    References
    ----------
    .. [1] Vazquez, Villemonteix, Sidorkiewicz and Walter, "Global optimization based on
       noisy evaluations: an empirical study of two statistical approaches", Journal of
       Physics 2008.
    .. [2] Ament, Daulton, Eriksson, Balandat and Bakshy, "Unexpected improvements to
       expected improvement for Bayesian optimization", NeurIPS 2023.
    .. [3] Thompson, "On the likelihood that one unknown probability exceeds another",
       Biometrika 1933.
    .. [4] Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently
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
        acquisition: str = "auto",
        noisy: bool | str = "auto",
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
        # the index of a frame of pandas
        check_same_names(self, getattr(bounds, "T", None))
        self.bounds = box
        self.sampler = sampler
        self.maximize = bool(maximize)
        self.steps = _checked_steps(steps, d)
        if n_initial == "auto":
            n_initial = 2 * (d + 1)
        elif n_initial:
            n_initial = check_count(n_initial, "n_initial")
        self.n_initial = int(n_initial or 0)
        if refit_every is not None:
            refit_every = check_count(refit_every, "refit_every")
        self.refit_every = refit_every
        _check_choice("acquisition", acquisition, ACQUISITIONS)
        self.acquisition = acquisition
        _check_choice("noisy", noisy, (True, False, "auto"))
        self.noisy = noisy
        self.n_mesh = check_count(n_mesh, "n_mesh")
        self.n_starts = check_count(n_starts, "n_starts")
        self.X_ = np.empty((0, d))
        self.y_ = np.empty(0)
        self._proposed = np.empty((0, d))
        self.sampler_: DecoupledSampler | None = None
        # a number, not a generator: the n-th proposal has a stream of its own
        self._seed = int(generator(random_state).integers(2**62))
        self._n_asked = 0
        self._n_tells = 0
        # posterior means at the evaluations, under noise
        self._means = np.empty(0)
        self._n_tells_at_means = 0
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
        rng = np.random.default_rng([self._seed, 1, first])
        # the initial design; evaluations made earlier count towards it
        n_done = max(first, len(self.y_))
        design = self._design()[n_done : n_done + n]
        n_free = n - len(design)
        if n_free and not len(self.y_):
            # no evaluations yet
            uniform = rng.random((n_free, len(self.bounds)))
            design = np.concatenate((design, uniform))
            n_free = 0
        X = self._untried(self._from_unit(design), None, rng)
        if n_free:
            sampler = self._fitted_sampler()
            self.sampler_ = sampler
            posterior = self._improvable_posterior(sampler)
            if posterior is None:
                # an error of some percent of a standard deviation moves no proposal
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PredictionWarning)
                    draws = sampler.sample_functions(n_free, rng)
                free = self._minima(self._sign * draws, X, rng)
            else:
                free = self._improvements(posterior, n_free, X, rng)
            X = np.concatenate((X, free))
        self._proposed = np.concatenate((self._proposed, X))
        return X

    @all_or_nothing
    def tell(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add evaluations, of proposals or of any other inputs.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            The columns of a data frame are those of the first one, in its order.
        y : array-like of shape (n,)
            Values of the function, which may be noisy; inputs may be repeated.

        Returns
        -------
        self : ThompsonSampler

        Raises
        ------
        ValueError
            If shapes do not agree, or a value is not finite: leave out evaluations
            that failed. If a data frame has other columns than the first one.
        """
        check_same_names(self, X)
        X = check_points("X", X, (None, len(self.bounds)))
        y = check_points("y", y, (len(X),))
        self.X_ = np.concatenate((self.X_, X))
        self.y_ = np.concatenate((self.y_, y))
        self._n_tells += 1
        return self

    @property
    def best_x_(self) -> Array:
        """Input of the best evaluation, shape (n_features,); see Attributes."""
        return self.X_[self._best_row()]

    @property
    def best_y_(self) -> float:
        """Value of the best evaluation; under noise its posterior mean."""
        return float(self._values()[self._best_row()])

    def __repr__(self) -> str:
        goal = "maximize" if self.maximize else "minimize"
        return f"ThompsonSampler({goal}, n_told={len(self.y_)})"

    def _best_row(self) -> int:
        return int(np.argmin(self._sign * self._values()))

    def _values(self) -> Array:
        """Values of the function at the evaluations: y, or under noise its mean."""
        if not len(self.y_):
            raise NotFittedError("No evaluations yet: call tell(X, y) first.")
        if not self._is_noisy():
            return self.y_
        if self._n_tells_at_means < self._n_tells:
            if self.sampler is None and len(self.y_) <= AVERAGED_ROWS:
                # one lengthscale that is chosen wrongly explains wells as noise
                sampler = self._fitted(DecoupledSampler())
            else:
                sampler = self._fitted_sampler()
                self.sampler_ = sampler
            self._means = sampler.predict(self._to_unit(self.X_))
            self._n_tells_at_means = self._n_tells
        return self._means

    def _design(self) -> Array:
        """The initial design in the unit box, (n_initial, n_features)."""
        rng = np.random.default_rng(self._seed)
        sequence = qmc.Sobol(len(self.bounds), seed=rng)
        # the sequence is balanced over its first 2^k points: draw such a number
        n_bits = max(self.n_initial - 1, 0).bit_length()
        return sequence.random_base2(n_bits)[: self.n_initial]

    def _improvable_posterior(self, sampler: DecoupledSampler) -> Any:
        """Posterior of which improvements are expected; None if functions are drawn."""
        if self.acquisition == "thompson":
            return None
        posterior: Any = sampler.posterior_
        if posterior is None:
            posterior = getattr(sampler.estimator_, "posterior_", None)
        if isinstance(posterior, LatentModel):
            # particles can be conditioned one by one
            posterior = MixtureModel.of_particles(posterior)
        if hasattr(posterior, "condition"):
            return posterior
        if self.acquisition == "expected_improvement":
            raise ValueError(
                "Expected improvement needs a model that can be conditioned on "
                f"proposals; {sampler.estimator_!r} cannot. Use "
                'acquisition="thompson".'
            )
        return None

    def _improvements(
        self,
        posterior: Posterior,
        n: int,
        earlier: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Inputs of the n largest expected improvements, one after the other.

        Proposals without a result, those of this batch included, are taken to have
        their means as values: it leaves means as they are and reduces variances.

        Parameters
        ----------
        posterior : Posterior
            Given the evaluations.
        n : int
        earlier : ndarray of shape (k, d)
            Proposals of the same batch, of the design.
        rng : numpy.random.Generator
        """
        unit = self.y_.std() or 1.0
        is_told = _is_among(self._proposed, self.X_)
        pending = np.concatenate((self._proposed[~is_told], earlier))
        rows = self._to_unit(self.X_)
        X = np.empty((0, len(self.bounds)))
        for _ in range(n):
            new = self._to_unit(pending)
            posterior = _with_means(posterior, new, 1e-8 * unit**2)
            rows = np.concatenate((rows, new))
            improvement = LogExpectedImprovement.below_means(
                posterior,
                rows,
                sign=self._sign,
                unit=unit,
            )
            batch = np.concatenate((earlier, X))
            function = linear_draws(improvement, np.ones((1, 1, 1)))
            pending = self._minima(function, batch, rng)
            X = np.concatenate((X, pending))
        return X

    @property
    def _sign(self) -> float:
        """-1 for functions that are maximised."""
        if self.maximize:
            return -1.0
        return 1.0

    def _minima(
        self,
        functions: FunctionDraws,
        X: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Inputs at which functions of the unit box are smallest, one for each.

        Tried levels, and those of the rows X, are replaced by the best untried ones.
        """
        # (0, 1), and (0, 0) for a fixed input
        box = np.sign(self.bounds - self.bounds[:, :1])
        n_starts = min(self.n_starts, self.n_mesh)
        if np.any(self.steps):
            functions = mapped_draws(functions, InputMap(_Levels(self)))
        candidates = self._near_best(rng)
        x = functions.minimize(box, n_starts, self.n_mesh, rng, candidates).x
        return self._untried(self._from_unit(x), functions, rng, X)

    def _near_best(self, rng: np.random.Generator) -> Array:
        """Points of the unit box around the best rows."""
        n_points = max(1, self.n_mesh // 4)
        n_best = max(1, len(self.y_) // 10)
        order = np.argsort(self._sign * self.y_)
        best = self._to_unit(self.X_[order[:n_best]])
        centres = best[rng.integers(n_best, size=n_points)]
        # distances from 1e-4 to 0.2, in a half of the inputs
        scales = 10.0 ** rng.uniform(-4.0, -0.7, (n_points, 1))
        steps = scales * rng.standard_normal(centres.shape)
        is_moved = rng.random(centres.shape) < 0.5
        return np.clip(centres + is_moved * steps, 0.0, 1.0)

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

    def _untried(
        self,
        X: Array,
        functions: FunctionDraws | None,
        rng: np.random.Generator,
        earlier: Array | None = None,
    ) -> Array:
        """Inputs on levels; tried ones are replaced by the best of all untried ones.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        functions : FunctionDraws or None
            That are smallest at these inputs; None for those of the design.
        rng : numpy.random.Generator
        earlier : ndarray of shape (k, d), default=None
            Proposals of the same batch.
        """
        if not np.any(self.steps) or self._is_noisy():
            return X
        if earlier is None:
            earlier = X[:0]
        X = X.copy()
        mesh = self._from_unit(rng.random((self.n_mesh, len(self.bounds))))
        mesh = rng.permutation(np.unique(mesh, axis=0))
        for i, proposal in enumerate(X):
            tried = np.vstack((self.X_, self._proposed, earlier, X[:i]))
            if not np.any(_is_among(proposal[np.newaxis], tried)):
                continue
            untried = mesh[~_is_among(mesh, tried)]
            if not len(untried):  # all levels have been tried
                continue
            best = 0
            if functions is not None:
                values = functions[i](self._to_unit(untried))[:, 0]
                best = int(np.argmin(values))
            X[i] = untried[best]
        return X

    def _is_noisy(self) -> bool:
        """Whether values are noisy; "auto": equal inputs had different values."""
        if self.noisy != "auto":
            return bool(self.noisy)
        trials = np.column_stack((self.X_, self.y_))
        return len(np.unique(trials, axis=0)) > len(np.unique(self.X_, axis=0))

    def _fitted_sampler(self) -> DecoupledSampler:
        """Model of all evaluations, with hyperparameters fitted again if due."""
        previous = self.sampler_
        if previous is not None and self._n_tells_at_fit == self._n_tells:
            return previous
        default = DecoupledSampler(hyperparameters="maximise")
        sampler: DecoupledSampler = clone(self.sampler or default)
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
        sampler = self._fitted(sampler)
        self._n_tells_at_fit = self._n_tells
        return sampler

    def _fitted(self, sampler: DecoupledSampler) -> DecoupledSampler:
        """The model, fitted to all evaluations on the unit box."""
        if sampler.random_state is None:
            # a search draws random numbers
            sampler.set_params(random_state=self._seed % 2**31)
        with warnings.catch_warnings():
            # with few rows a hyperparameter often ends at a bound
            warnings.simplefilter("ignore", ConvergenceWarning)
            if self.sampler is None:
                warnings.simplefilter("ignore", FitWarning)
            return sampler.fit(self._to_unit(self.X_), self.y_)


class _Levels:
    """Points of the unit box, moved to the levels of the inputs.

    Derivatives in inputs with levels are zero: a search does not move them.
    """

    def __init__(self, sampler: ThompsonSampler):
        self.sampler = sampler

    def __call__(self, points: Array) -> Array:
        return self.sampler._to_unit(self.sampler._from_unit(points))

    def with_pullback(self, points: Array) -> tuple[Array, Callable[[Array], Array]]:
        is_continuous = self.sampler.steps == 0.0
        return self(points), lambda gradient: gradient * is_continuous


def _checked_steps(steps: ArrayLike | None, d: int) -> Array:
    """Distances between levels, (d,)."""
    if steps is None:
        return np.zeros(d)
    steps = check_points("steps", steps, (d,))
    if np.any(steps < 0.0):
        raise ValueError(
            "steps must hold the distance between the levels of each input, 0 for "
            f"one that is continuous; got {steps.tolist()}."
        )
    return steps


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}; got {value!r}.")


def _with_means(posterior: Posterior, X: Array, noise_variance: float) -> Posterior:
    """Posterior given its means at the rows of X, as if they had been observed."""
    if not len(X):
        return posterior
    mean, _ = posterior.marginals(X).moments()
    return posterior.condition(X, mean, np.full(len(X), noise_variance))


def _is_among(X: Array, tried: Array) -> Mask:
    """Whether each row of X (n, d) is among the rows tried (k, d)."""
    keys = {row.tobytes() for row in tried + 0.0}
    return np.array([row.tobytes() in keys for row in X + 0.0], dtype=bool)


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
