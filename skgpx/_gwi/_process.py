"""The process around a mean: prior, inducing points, posterior, leave-one-out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator

from skgpx._draws import InputMap
from skgpx._hyperparameters import (
    State,
    final_noise,
    inducing_of_targets,
    learn,
    regress_targets,
    search_record,
)
from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.regression import (
    noise_share,
    posterior_mean_from,
    precision_root,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_budgets import ABUNDANT_ROWS
from skgpx._shell.row_statistics import row_statistics
from skgpx._shell.validation import Rows, kernel_of, row_blocks
from skgpx._types import AnyArray, Array, Attributes, Generator, Index
from skgpx.bases import Nystroem, WarpedInputs, select_inducing
from skgpx.likelihoods import Likelihood


class FittedMean(NamedTuple):
    """A mean, and its predictions of rows that it was not fitted to.

    Attributes
    ----------
    name : str or estimator
        As `mean_model_`.
    functions : sequence of callable
        Each maps rows to values (n, c): one for all states of the hyperparameters, or
        one for each; none for the regression of the process.
    held_out : ndarray of int of shape (p,)
        Positions of these rows.
    predictions : ndarray
        (p,) or (p, c) of targets, (p, c, 1) or (p, c, k) of scores of classes.
    curves : dict or None
        Fitted attributes of the training of networks.
    map : InputMap or None
        From rows to the input of the kernel; None for the identity.
    """

    name: BaseEstimator | str
    functions: Sequence[Callable[[AnyArray], Array]]
    held_out: Index
    predictions: Array
    curves: Attributes | None = None
    map: InputMap | None = None

    def at(self, chosen: slice) -> FittedMean:
        """The mean with some of the held-out rows."""
        return self._replace(
            held_out=self.held_out[chosen],
            predictions=self.predictions[chosen],
        )

    def of_states(self, n_states: int) -> Sequence[Callable[[AnyArray], Array]]:
        """Function of each state."""
        if len(self.functions) == 1:
            return list(self.functions) * n_states
        return self.functions


class FittedProcess(NamedTuple):
    """The process around a mean.

    Attributes
    ----------
    model : LatentModel or MixtureModel
        Mean: the regression of y, in closed form. Covariance of the weights: ``(I +
        ΦᵀΦ / σ²)⁻¹``, from which the paper starts, whatever the mean of the variational
        process is. A mixture has a model for each state of the hyperparameters.
    noises : float or ndarray
        σ²; (t,) for t targets, or (k,) for the k models of a mixture.
    priors : tuple of State
        The hyperparameters of each model.
    """

    model: LatentModel | MixtureModel
    noises: float | Array
    priors: tuple[State, ...]

    @property
    def prior(self) -> State:
        """Hyperparameters of the largest weight."""
        return self.priors[0]

    @property
    def averaged(self) -> tuple[State, ...]:
        """States that predictions average; none if a single one was chosen."""
        return self.priors if len(self.priors) > 1 else ()

    @property
    def noise_variance(self) -> float | Array:
        """σ², its mean over the models of a mixture."""
        if isinstance(self.model, MixtureModel):
            return float(self.model.weights @ self.noises)
        return self.noises

    @property
    def models(self) -> tuple[LatentModel, ...]:
        """The models of a mixture, the largest weight first; or the only one."""
        if isinstance(self.model, MixtureModel):
            return self.model.models
        return (self.model,)

    @property
    def bases(self) -> tuple[Nystroem, ...]:
        """Kernel sections of each model, at inducing points."""
        return tuple(
            model.basis for model in self.models if isinstance(model.basis, Nystroem)
        )

    @property
    def states(self) -> tuple[FittedProcess, ...]:
        """The process of each model of a mixture; or the only one."""
        if not isinstance(self.model, MixtureModel):
            return (self,)
        noises = np.ravel(self.noises).tolist()
        return tuple(
            FittedProcess(model, noise, (prior,))
            for model, noise, prior in zip(
                self.model.models,
                noises,
                self.priors,
                strict=True,
            )
        )

    @property
    def weights(self) -> Array:
        """Probabilities of the states, (k,)."""
        if isinstance(self.model, MixtureModel):
            return self.model.weights
        return np.ones(1)

    def attributes(
        self,
        mean: FittedMean,
        rows: Rows,
        n_calibration_rows: int,
    ) -> Attributes:
        """Fitted attributes of the process and of its mean."""
        calibration = {"calibration_rows": n_calibration_rows}
        return {
            "kernel_": self.prior.kernel,
            "inducing_points_": self.bases[0].inducing_points,
            "_record": search_record(self.priors, rows) | calibration,
            "mean_model_": mean.name,
            "n_iter_": 1,
            **(mean.curves or {}),
        }


def fit_process(
    settings: BaseEstimator,
    rows: Rows,
    likelihood: Likelihood,
    rng: Generator,
    *,
    n_inducing: int | None,
    noise_variance: float | None,
    hyperparameters: str = "maximise",
) -> FittedProcess:
    """Prior by the evidence, inducing points, and regression in their basis.

    A prior that is averaged has points and a regression for each of its states.

    Parameters
    ----------
    settings : GWIRegressor or GWIClassifier
        With its parameters `kernel`, `optimizer`, `inducing` and `n_jobs`.
    rows : Rows
    likelihood : Likelihood
        Prepared, and smooth.
    rng : numpy.random.Generator
    n_inducing : int or None
        None: as many as the kernel needs.
    noise_variance : float or None
        Noise of the regression; None takes the noise of the likelihood.
    hyperparameters : {"maximise", "average", "auto"}, default="maximise"
        As in :func:`~skgpx._hyperparameters.learn`.
    """
    search_rng, select_rng = rng.spawn(2)
    if n_inducing is not None:
        n_inducing = min(n_inducing, len(rows.y))

    # 1  Kernel and noise by the evidence.
    states = learn(
        rows,
        likelihood,
        search_rng,
        kernel=kernel_of(settings),
        fixed=settings.optimizer is None,
        n_inducing=n_inducing,
        n_jobs=settings.n_jobs,
        hyperparameters=hyperparameters,
        # few points leave out what is rough
        rough=n_inducing is None and len(rows.y) < ABUNDANT_ROWS,
    )

    # 2  Inducing points of each state, and regression in their basis.
    processes = []
    for state in states:
        process = _regress(
            settings,
            rows,
            state,
            select_rng,
            n_inducing,
            noise_variance,
        )
        processes.append(process)
    if len(processes) == 1:
        return processes[0]
    models = tuple(process.models[0] for process in processes)
    weights = np.array([state.weight for state in states])
    return FittedProcess(
        model=MixtureModel(models, np.log(weights)),
        noises=np.array([process.noise_variance for process in processes]),
        priors=tuple(states),
    )


def _regress(
    settings: BaseEstimator,
    rows: Rows,
    prior: State,
    rng: Generator,
    n_inducing: int | None,
    noise_variance: float | None,
) -> FittedProcess:
    """Inducing points for a prior, and the regression in their basis."""
    kernel = prior.kernel
    inducing = settings.inducing
    noise_is_free = noise_variance is None and prior.noise_is_free
    if noise_variance is None:
        noise_variance = prior.noise_variance

    # 1  Inducing points Z.
    if n_inducing is not None:
        inducing_points = select_inducing(
            inducing,
            rows.X,
            kernel,
            n_inducing,
            rng,
            rows.weights,
        )
    else:
        inducing_points = inducing_of_targets(
            rows,
            kernel,
            prior.likelihood,
            inducing,
            rng,
        )

    # 2  Regression in the basis φ(x) = L⁻¹ k(Z, x).
    basis = Nystroem.from_kernel(kernel, inducing_points, noise_variance)
    if rows.y.ndim > 1:
        regressions, noise_variances = regress_targets(
            basis,
            rows,
            prior.likelihood,
            settings.n_jobs,
            at_points=True,
        )
        weights = regressions.posterior(noise_variances)
        return FittedProcess(LatentModel(basis, weights), noise_variances, (prior,))
    statistics = row_statistics(basis, rows, settings.n_jobs)
    if noise_is_free:
        # leave-one-out errors judge it at all rows
        likelihood = final_noise(
            basis,
            rows,
            statistics,
            prior.likelihood,
            at_points=True,
        )
        noise_variance = float(likelihood.variance(0.0))
    # I + ΦᵀΦ / σ² = L Lᵀ
    L = precision_root(statistics.gram, noise_variance)
    mean = posterior_mean_from(statistics, noise_variance, L)[:, np.newaxis]
    root = solve_lower_transpose(L, np.eye(len(L)))[np.newaxis]
    model = LatentModel(basis, GaussianWeights(mean, root))
    return FittedProcess(model, noise_variance, (prior,))


def around_zero(
    process: LatentModel,
    map: InputMap | None,
    n_outputs: int,
) -> LatentModel:
    """The process around zero, of rows from which the map makes its inputs."""
    basis = process.basis
    if map is not None:
        basis = WarpedInputs(basis, map)
    # of a closed form
    assert isinstance(process.weights, GaussianWeights)
    mean = np.zeros((basis.n_basis, n_outputs))
    return LatentModel(basis, process.weights._replace(mean=mean))


def leave_one_out(process: FittedProcess, rows: Rows) -> tuple[Array, Array]:
    """Predict each row from the others.

    Returns
    -------
    errors : ndarray of the shape of y, (n,) or (n, t)
    variance : ndarray of the same shape
        Variance of f at the row.

    Notes
    -----
    The moments of a mixture are ``e = Σ π_k e_k`` and ``Σ π_k (v_k + (e_k - e)²)``,
    where the other rows give model k the weight ``π_k ∝ w_k / p_k(y | others)``.
    """
    if not isinstance(process.model, MixtureModel):
        return _leave_one_out(process.model, process.noises, rows)
    moments = []
    log_weights = []
    for state, weight in zip(process.states, process.weights, strict=True):
        error, variance = leave_one_out(state, rows)
        moments.append((error, variance))
        total = variance + state.noise_variance / rows.weights
        log_density = -0.5 * (error**2 / total + np.log(total))
        log_weights.append(np.log(weight) - log_density)
    errors, variances = np.stack(moments, axis=1)
    weights = softmax(log_weights, axis=0)
    mean_error = np.sum(weights * errors, axis=0)
    spread = (errors - mean_error) ** 2
    return mean_error, np.sum(weights * (variances + spread), axis=0)


def _leave_one_out(
    process: LatentModel,
    noise_variance: float | Array,
    rows: Rows,
) -> tuple[Array, Array]:
    """Errors, and variances of f, of one model.

    With the leverage h of :func:`skgpx._numerics.regression.noise_share` the error is
    ``(y - φᵀw) / (1 - h)`` and the variance ``φᵀSφ / (1 - h) + var g``.
    """
    basis = process.basis
    errors = np.empty(rows.y.shape)
    variance = np.empty(rows.y.shape)
    for block in row_blocks(len(rows.y), 4 * basis.n_basis):
        y = rows.y[block]
        features = basis(rows.X[block])
        mean, explained = process.weights.latent(features)
        mean = mean[:, :, 0].reshape(y.shape)
        explained = explained[:, :, 0].reshape(y.shape)
        share = noise_share(explained, noise_variance, rows.weights[block], least=1e-9)
        errors[block] = (y - mean) / share
        residual = basis.residual_variance(rows.X[block], features)
        variance[block] = ((explained / share).T + residual).T
    return errors, variance
