"""Hyperparameters of an estimator by Bayesian optimisation of its cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import RandomizedSearchCV

from skgpx._decisions._sampler import ThompsonSampler
from skgpx._decisions._space import Inactive
from skgpx._shell.validation import COUNT, StrOptions
from skgpx._types import RandomState

# What scikit-learn says where every fit of a batch of candidates failed.
_ALL_FAILED = "fits failed"


class ThompsonSearchCV(RandomizedSearchCV):
    """Search for hyperparameters of an estimator by Bayesian optimisation.

    As RandomizedSearchCV, except that candidates after the first ones are those of the
    largest expected improvement of the mean test score, under a Gaussian process of the
    scores so far (:class:`ThompsonSampler`). It pays where a fit takes a second or
    more.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fit.
    space : dict
        A range for each parameter: ``(lower, upper)``, one of ``scipy.stats``
        ``uniform``, ``loguniform`` and ``randint``, or a list of choices. Three and
        more numbers in ascending order are levels, other choices have no order.
    n_iter : int, default=30
        Candidates; fewer if the space has fewer.
    batch_size : int, default=1
        Candidates that are evaluated together, with one set of jobs.
    n_initial : int or "auto", default="auto"
        Candidates of a scrambled Sobol design, which are evaluated together before
        the first proposal. "auto" is ``2 (n_parameters + 1)``.
    inactive : callable or None, default=None
        From a candidate, a dictionary, to the names of the parameters that have no
        effect there: they are not set.
    sampler : DecoupledSampler, regressor or None, default=None
        Model of the score, as in :class:`ThompsonSampler`.
    scoring : str, callable, list, tuple or dict, default=None
        As in GridSearchCV.
    n_jobs : int or None, default=None
        Jobs over candidates and splits; the result is the same for every number.
    refit : bool, str or callable, default=True
        As in GridSearchCV; with several scores the name of the one that is optimised.
    cv : int, cross-validation generator or iterable, default=None
        As in GridSearchCV. All candidates see the same splits.
    verbose : int, default=0
        As in GridSearchCV.
    pre_dispatch : int or str, default="2*n_jobs"
        As in GridSearchCV.
    random_state : int, RandomState or None, default=None
        Seed of design and proposals.
    error_score : "raise" or float, optional
        As in GridSearchCV, where it is ``np.nan``. A candidate without a finite score
        counts as a run that failed: later proposals avoid such values.
    return_train_score : bool, default=False
        As in GridSearchCV.

    Attributes
    ----------
    cv_results_ : dict of ndarrays
        As in GridSearchCV, in the order of the proposals. A later candidate all of
        whose fits failed is left out.
    best_estimator_ : estimator
        Refitted on all rows, if `refit` is set.
    best_score_ : float
        Mean test score of the best candidate.
    best_params_ : dict
        Its parameters.
    best_index_ : int
        Its place in `cv_results_`.
    optimizer_ : ThompsonSampler
        With all scores; ``optimizer_.ask()`` goes on.
    scorer_ : function or dict
        Scores on held-out rows.
    n_splits_ : int
        Number of splits.
    refit_time_ : float
        Seconds of the fit of the best estimator, if `refit` is set.
    multimetric_ : bool
        Whether there are several scores.
    feature_names_in_ : ndarray of shape (n_features,)
        Of an estimator that was refitted on a frame. Like `classes_` and the number of
        features it is that of `best_estimator_`.

    See Also
    --------
    sklearn.model_selection.RandomizedSearchCV : Independent candidates.
    skgpx.integrations.optuna.Sampler : Pruning, storage and define-by-run spaces.

    Notes
    -----
    A proposal takes some .2 s up to a hundred candidates, besides the fits.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from skgpx.thompson import ThompsonSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> space = {"C": loguniform(1e-2, 1e3), "gamma": loguniform(1e-4, 1e1)}
    >>> search = ThompsonSearchCV(SVC(), space, n_iter=10, cv=3, random_state=0)
    >>> bool(search.fit(X, y).best_score_ > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: constraint
        for name, constraint in RandomizedSearchCV._parameter_constraints.items()
        if name != "param_distributions"
    } | {
        "space": [Mapping],
        "batch_size": [COUNT],
        "n_initial": [COUNT, StrOptions({"auto"})],
        "inactive": [callable, None],
        "sampler": [BaseEstimator, None],
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        space: Mapping[str, Any],
        *,
        n_iter: int = 30,
        batch_size: int = 1,
        n_initial: int | str = "auto",
        inactive: Inactive | None = None,
        sampler: BaseEstimator | None = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: RandomState = None,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
    ):
        # the parameters of every search of scikit-learn
        super(RandomizedSearchCV, self).__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.space = space
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.n_initial = n_initial
        self.inactive = inactive
        self.sampler = sampler
        self.random_state = random_state

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        """Evaluate the design, and then one batch of proposals after the other."""
        is_several = isinstance(self.scoring, list | tuple | set | dict)
        if is_several and not isinstance(self.refit, str):
            raise ValueError(
                "Of several scores one is optimised: set refit to its name; got "
                f"refit={self.refit!r}."
            )
        optimizer = ThompsonSampler(
            self.space,
            self.sampler,
            maximize=True,
            n_initial=self.n_initial,
            inactive=self.inactive,
            random_state=self.random_state,
        )
        splitter = _SameSplits(self._checked_cv_orig)
        n_done = 0
        n_next = optimizer.n_initial
        while n_done < self.n_iter:
            candidates = optimizer.ask(min(n_next, self.n_iter - n_done))
            is_new = optimizer.are_new(candidates)
            candidates = [c for c, new in zip(candidates, is_new, strict=True) if new]
            if not candidates:
                # a space of levels, all of which were tried
                break
            scores = self._scores(evaluate_candidates, candidates, splitter)
            optimizer.tell(candidates, scores)
            n_done += len(candidates)
            n_next = self.batch_size
        self.optimizer_ = optimizer

    def _scores(
        self,
        evaluate_candidates: Callable[..., Any],
        candidates: list[dict[str, Any]],
        splitter: _SameSplits,
    ) -> Any:
        """Mean test scores of candidates, NaN where all fits failed."""
        try:
            results = evaluate_candidates(candidates, cv=splitter)
        except ValueError as error:
            if _ALL_FAILED not in str(error) or not splitter.has_scores:
                raise
            return np.full(len(candidates), np.nan)
        splitter.has_scores = True
        name = f"mean_test_{self.refit}"
        if name not in results:
            name = "mean_test_score"
        scores = results[name][-len(candidates) :]
        return np.where(np.isfinite(scores), scores, np.nan)


class _SameSplits:
    """A splitter that makes its splits once, even if they are random."""

    def __init__(self, splitter: Any):
        self.splitter = splitter
        self.splits: list[Any] | None = None
        self.has_scores = False

    def split(self, X: Any, y: Any = None, **options: Any) -> list[Any]:
        """The same splits in every call."""
        if self.splits is None:
            self.splits = list(self.splitter.split(X, y, **options))
        return self.splits
