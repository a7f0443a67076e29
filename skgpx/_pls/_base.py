"""What both estimators of projected Langevin sampling share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from skgpx import diagnostics
from skgpx._cells._distributed import frame_of, is_lazy
from skgpx._cells._lazy_predictions import LazyDistribution
from skgpx._hyperparameters import (
    MAX_INDUCING_NON_GAUSSIAN,
    NoiseOfKinds,
    NormalForm,
    State,
    inducing_by_capacity,
    inducing_of_targets,
    kinds_of_rows,
    learn,
    learn_noise_of_slopes,
    most_points,
    most_points_beside_rows,
    search_findings,
    search_record,
    with_base_rates,
)
from skgpx._latent import FunctionModel, MixtureModel, with_level
from skgpx._numerics.laplace import LARGEST_COUPLED
from skgpx._pls._inference import infer
from skgpx._pls._lazy_fit import LazyRows
from skgpx._pls._monotone import Directions, monotone, states_of_monotone
from skgpx._posterior._nearest_rows import points_are_closer
from skgpx._posterior._sampler import (
    Inference,
    Sampler,
    form_constant,
    resolved_method,
)
from skgpx._prediction.base import LatentEstimator
from skgpx._row_budgets import ABUNDANT_ROWS, FEWEST_OF_SERIES
from skgpx._shell.callbacks import CallbackSupportMixin, RoundReporter, StageClock
from skgpx._shell.functionals import functional_rows, monotone_signs, resolution_of
from skgpx._shell.kernel_requests import EVERYTHING
from skgpx._shell.validation import (
    COUNT,
    COUNT_OR_ZERO,
    HYPERPARAMETERS,
    INTERACTIONS,
    NOT_NEGATIVE,
    POSITIVE,
    SEARCHED,
    Rows,
    StrOptions,
    Units,
    check_is_fitted,
    check_kernel,
    check_new_frame,
    check_points,
    generator,
    kernel_of,
)
from skgpx._types import Array, ArrayLike, Generator, Kernel
from skgpx.bases import Nystroem, SeriesBasis, select_inducing
from skgpx.diagnostics import Finding
from skgpx.kernels import (
    Functionals,
    StateSpace,
    decays,
    kernel_of_values,
    length_scales,
    with_support,
)
from skgpx.likelihoods import Likelihood

_STANDARD_UNITS = Units()
# Operations of a step of all chains, 4 n m n_particles n_outputs: a third of a second
# of one core. Fewest points, whatever their cost.
_STEP_BUDGET = 8e9
_MIN_POINTS = 100
# Nearest rows by default, and rows above which they are considered.
_NEIGHBORS = 40
_MANY_ROWS = 1500
# Chains of a state of averaged hyperparameters: fewer do not show whether they mix.
_FEWEST_CHAINS = 8


class ProjectedLangevin(CallbackSupportMixin, LatentEstimator):
    """Parameters and fit, common to regression and classification."""

    # widths of panels of boxes where rows see functionals of f
    _resolution: Array | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [Kernel, None],
        # checked in `fit`, with the public name of the class
        "likelihood": "no_validation",
        "n_inducing": [COUNT, StrOptions({"auto"})],
        "inducing": [
            StrOptions({"greedy", "k-means++", "random", "m-dpp"}),
            "array-like",
            callable,
        ],
        "n_neighbors": [COUNT_OR_ZERO, StrOptions({"auto"})],
        "hyperparameters": HYPERPARAMETERS,
        "interaction_cst": INTERACTIONS,
        "monotonic_cst": ["array-like", dict, None],
        "method": [StrOptions({"auto", "exact", "ou_mala", "mala", "ula", "smc"})],
        "n_particles": [COUNT],
        "potential": [StrOptions({"projected", "optimal"})],
        "init": [StrOptions({"laplace", "prior"}), "array-like"],
        "step_size": [POSITIVE, "array-like", None],
        "max_iter": [COUNT, None],
        "tol": [NOT_NEGATIVE],
        "warm_start": ["boolean"],
        **SEARCHED,
    }

    def _fit_rows(
        self,
        rows: Rows,
        likelihood: Likelihood,
        reporter: RoundReporter,
        units: Units = _STANDARD_UNITS,
        with_mean: bool = True,
        form: NormalForm | None = None,
        lazy: LazyRows | None = None,
    ) -> list[Finding | None]:
        """Steps 2 to 5 of a fit, of which docs/architecture.md has the map.

        Parameters
        ----------
        rows : Rows
            Standardised.
        likelihood : Likelihood
            Of the standardised rows.
        reporter : RoundReporter
        units : Units
            Of y.
        with_mean : bool, default=True
            Whether the latent function has the mean that suits the likelihood.
        form : NormalForm, optional
            How this likelihood stands for the one of the user.
        lazy : LazyRows, optional
            All rows, of which `rows` are a sample: they give the posterior.

        Returns
        -------
        findings : list of Finding
        """
        infer_posterior = infer
        n_rows = len(rows.y)
        if lazy is not None:
            infer_posterior = lazy.infer
            n_rows = max(n_rows, lazy.n_distinct)
        clock = StageClock()
        kernel = self._kernel_for(rows)
        likelihood = self._prepare(rows, likelihood, kernel)
        if not with_mean:
            likelihood = likelihood.with_base(0.0)
        request = copy.deepcopy(kernel)
        continues = self._continues(request)
        complete = rows.without_gaps()
        streams = generator(self.random_state).spawn(3)
        search_rng, selection_rng, inference_rng = streams
        directions = self._directions(rows, likelihood)
        # values, and slopes by column, if their noise is learned
        learns_noise = likelihood.has_closed_form and rows.known is None
        kinds = kinds_of_rows(complete, kernel) * learns_noise
        # 2 hyperparameters from the data: one state, or some to average
        search = partial(
            learn,
            likelihood=likelihood,
            rng=search_rng,
            kernel=kernel,
            fixed=self.optimizer is None,
            inducing=self.inducing,
            n_inducing=self._points_of_search(rows, likelihood),
            rough=self._follows_nearest_rows(likelihood, lazy),
            smooth=self._is_monotone,
            n_jobs=self.n_jobs,
            previous=self._states[0] if continues else None,
            hyperparameters=self._averaging(likelihood),
            report=reporter.search_round,
            turns=lazy is None and not self._is_monotone,
        )
        if np.any(kinds):
            rows, states = learn_noise_of_slopes(complete, kinds, likelihood, search)
        else:
            states = search(complete)
        if directions is not None:
            infer_posterior = partial(monotone, directions=directions)
            states = states_of_monotone(
                states,
                rows,
                directions,
                inference_rng,
            )
        centred_states = states
        if with_mean:
            centred_states = [
                state._replace(
                    likelihood=with_base_rates(rows, state.likelihood, state.kernel)
                )
                for state in states
            ]
        clock.end_of("search")
        # 3 inducing inputs under the fitted lengthscales, and the basis they span
        likelihood = centred_states[0].likelihood
        n_points = self._count_inducing(rows, likelihood, states)
        bases = [
            self._choose_basis(rows, state, n_points, selection_rng, n_rows)
            for state in centred_states
        ]
        clock.end_of("selection")
        # 4 mode, Hessian, chains: the posterior of the weights
        attributes_of = partial(
            self._fitted_attributes,
            states=states,
            record=search_record(states, complete),
            units=units,
            form=form,
            noise=NoiseOfKinds.of(rows, kernel, units),
        )
        sampler = Sampler(
            method=self.method,
            n_particles=self.n_particles,
            potential=self.potential,
            step_size=self.step_size,
            max_iter=self.max_iter,
            tol=self.tol,
            n_jobs=self.n_jobs,
            noise_is_free=len(states) == 1,
            is_state=len(states) > 1,
            report=partial(
                self._report_round, reporter=reporter, attributes_of=attributes_of
            ),
        )
        inferences = []
        for state, (basis, n_neighbors) in zip(centred_states, bases, strict=True):
            state_sampler = sampler._replace(
                n_neighbors=n_neighbors,
                n_particles=self._count_particles(state),
                init=self._initial_weights(basis, state.likelihood, continues),
            )
            inferences.append(
                infer_posterior(
                    basis, rows, state.likelihood, state_sampler, inference_rng
                )
            )
        weights = np.array([state.weight for state in states])
        inference = Inference.averaged(inferences, weights)
        clock.end_of("inference")
        # 5 its function, in the units of y
        if lazy is None:
            evidence = _evidence_of_y(inference, rows, units.scale, form)
        else:
            evidence = lazy.evidence_of_y(inference)
        self.__dict__.update(
            attributes_of(inference),
            log_evidence_=evidence,
            _request=request,
            stage_seconds_=clock.seconds,
        )
        reporter.finish()
        too_few = self._check_points(rows, n_points, states[0], inference)
        return [*search_findings(states, complete), *inference.findings, too_few]

    def _report_round(
        self,
        inference: Inference,
        *,
        reporter: RoundReporter,
        attributes_of: Callable[[Inference], dict[str, Any]],
    ) -> bool:
        """Tell callbacks of a round of the inference; whether one asks to stop."""
        sample = inference.sample
        figures = {
            "steps": sample.n_iter,
            "rhat": float(np.max(sample.r_hat, initial=1.0)),
            "acceptance": sample.acceptance,
        }
        if sample.n_iter == 0:
            # rounds given nearest rows, without chains
            figures = {"evidence": inference.log_evidence}
        return reporter.round(lambda: attributes_of(inference), **figures)

    def _distribution(self, X: ArrayLike, **quantities: ArrayLike | None) -> Any:
        """Predictive distribution at rows; a lazy one at rows of dask."""
        if not is_lazy(X):
            return super()._distribution(X, **quantities)
        for name in ("derivative", "widths", "against"):
            if quantities.pop(name, None) is not None:
                raise ValueError(
                    f"{name} is for arrays in memory; got rows of dask. Predict them "
                    "in parts."
                )
        check_is_fitted(self)
        check_new_frame(self, frame_of(X))
        return LazyDistribution(self, X, **quantities)

    # ---- 1 The likelihood --------------------------------------------------------

    def _prepare(
        self, rows: Rows, likelihood: Likelihood, kernel: Kernel
    ) -> Likelihood:
        """The likelihood prepared for these rows, if the parameters agree with it."""
        noise = getattr(self.likelihood, "noise_variance", None)
        check_kernel(kernel, rows.X, noise)
        self._check_method(likelihood)
        complete = rows.without_gaps()
        if rows.known is None:
            likelihood = likelihood.prepare(complete.y, complete.weights)
        else:
            likelihood = likelihood.prepare(
                complete.y,
                complete.weights,
                complete.known,
            )
        self._check_neighbors(likelihood)
        return likelihood

    def _kernel_for(self, rows: Rows) -> Kernel:
        """The user's kernel, with numbers for columns and the rows as support."""
        kernel = kernel_of(self)
        if self._resolution is not None:
            resolution = self._resolution
            if kernel is not None:
                scales = length_scales(kernel, len(resolution))
                resolution = np.minimum(resolution, scales)
            return Functionals(kernel or EVERYTHING, resolution)
        return with_support(kernel, rows.X, rows.weights)

    def _rows_seen(
        self,
        X: Array,
        likelihood: Likelihood,
        **functionals: ArrayLike | None,
    ) -> Array:
        """Rows of `fit`: points, or what is seen of f there."""
        self._resolution = None
        seen = functional_rows(self, X, **functionals)
        if seen is None:
            return X
        self._check_functionals(seen, likelihood)
        self._resolution = resolution_of(seen)
        return seen.as_array()

    def _all_see_level(self, rows: Rows) -> bool:
        """Whether all rows see the level of f, so that it may have a prior mean."""
        kernel = self._kernel_for(rows)
        if not isinstance(kernel, Functionals):
            return True
        return bool(np.all(kernel.level(rows.X) == 1.0))

    def _units_of_latent(self, rows: Rows) -> Units:
        """Units of a latent function that is not standardised."""
        kernel = self._kernel_for(rows)
        if not isinstance(kernel, Functionals):
            return _STANDARD_UNITS
        return Units(level=kernel.level)

    def _continues(self, kernel: Kernel) -> bool:
        """Whether this fit is a warm start from one of the same prior and columns."""
        return (
            self.warm_start
            and hasattr(self, "posterior_")
            and self.inducing_points_.shape[1] == self.n_features_in_
            and self._request == kernel
        )

    def _averaging(self, likelihood: Likelihood) -> str:
        """`hyperparameters`; "auto" leaves chains that the user set up alone."""
        given_chains = (
            self.method != "auto"
            or not isinstance(self.init, str)
            or self.init != "laplace"
            or self.warm_start
        )
        is_automatic = self.hyperparameters == "auto"
        has_chains = given_chains and not likelihood.has_closed_form
        if is_automatic and (has_chains or self.warm_start):
            return "maximise"
        return self.hyperparameters

    def _check_method(self, likelihood: Likelihood) -> None:
        """Refuse at once a method, or a step, that is not for this likelihood."""
        if not likelihood.smooth:
            raise ValueError(
                f"{type(self).__name__} moves particles along the gradient of the "
                f"likelihood, which for {likelihood!r} is zero almost everywhere. Use "
                "Categorical(), or GWIClassifier, which averages it first."
            )
        method = resolved_method(self.method, likelihood)
        if self.hyperparameters == "average" and not isinstance(self.init, str):
            raise ValueError(
                'hyperparameters="average" has a basis for each state; got weights of '
                'one as init. Use init="laplace", or hyperparameters="maximise".'
            )
        step: Any = self.step_size
        if step is not None and not isinstance(step, Real):
            step = check_points("step_size", step, (None,))
            if method != "ula" or not np.all(step > 0.0):
                raise ValueError(
                    'step_size expects a positive number or, for method="ula", '
                    "positive numbers, one for each stretch of steps; got "
                    f"{self.step_size!r} for method={method!r}."
                )
        if method == "ou_mala" and step is not None and step > 1.0:
            raise ValueError(
                'step_size of method="ou_mala" is 1 - rho, with rho the correlation of '
                f"a proposal with the state it starts from; expected a number in (0, "
                f"1], got {step!r}. Leave it None to have it adapted."
            )

    @property
    def _is_monotone(self) -> bool:
        """Whether any column has a sign."""
        stated: Any = self.monotonic_cst
        if isinstance(stated, dict):
            stated = list(stated.values())
        return stated is not None and bool(np.any(stated))

    def _directions(self, rows: Rows, likelihood: Likelihood) -> Directions | None:
        """Columns along which f is monotone; None if it need not be.

        Raises
        ------
        ValueError
            If `monotonic_cst` does not fit X, the likelihood or the kernel.
        """
        signs = monotone_signs(self)
        if not np.any(signs):
            return None
        if likelihood.n_outputs_ > 1 or likelihood.symmetric or rows.y.ndim > 1:
            raise ValueError(
                "monotonic_cst is for one latent function of one mode: one target, or "
                f"two classes; got {likelihood!r} and {rows.y.size // len(rows.y)} "
                "targets. Fit each of them by an estimator of its own."
            )
        if self.n_neighbors not in ("auto", 0):
            raise ValueError(
                "Monotone functions have no nearest rows; got monotonic_cst and "
                f"n_neighbors={self.n_neighbors}. Use n_neighbors=0."
            )
        columns = np.flatnonzero(signs)
        return Directions(columns, signs[columns])

    def _check_neighbors(self, likelihood: Likelihood) -> None:
        """Refuse at once nearest rows where the model has none."""
        if self.n_neighbors in ("auto", 0):
            return
        if likelihood.symmetric:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is for latent functions of one mode; "
                f"got {likelihood!r}. Use n_neighbors=0, and more inducing points."
            )
        if self.method not in ("auto", "exact"):
            raise ValueError(
                f"n_neighbors={self.n_neighbors} needs the closed form, or the closest "
                f'normal distribution; got method="{self.method}". Use method="auto".'
            )

    # ---- 3 The basis -------------------------------------------------------------

    def _points_of_search(self, rows: Rows, likelihood: Likelihood) -> int | None:
        """Inducing inputs for which the prior is learned; None if it depends on none.

        Hyperparameters of a model with nearest rows do not depend on the points.
        """
        if self.n_neighbors not in ("auto", 0):
            return None
        return self._count_inducing(rows, likelihood)

    def _count_inducing(
        self,
        rows: Rows,
        likelihood: Likelihood,
        states: Sequence[State] = (),
    ) -> int | None:
        """Number of inducing inputs; None is as many as the data need.

        ``3 √n``, or as many as the search has needed, within the budget of a step, and
        at least 100: states to average are those of exact processes. Classes are
        coupled up to a limit.
        """
        n = len(rows.y)
        needed = n if len(states) > 1 else sum(state.n_inducing for state in states)
        c = likelihood.n_outputs_
        if self.n_inducing != "auto":
            return min(n, int(self.n_inducing))
        closed_form = resolved_method(self.method, likelihood) == "exact"
        if closed_form and isinstance(self.inducing, str):
            return None
        if not isinstance(self.inducing, str) and not callable(self.inducing):
            return len(self.inducing)
        wanted = max(int(3.0 * np.sqrt(n)), min(needed, MAX_INDUCING_NON_GAUSSIAN))
        affordable = int(_STEP_BUDGET / (4.0 * n * self.n_particles * c))
        if c > 1:
            affordable = min(affordable, LARGEST_COUPLED // c)
        return min(n, max(min(wanted, affordable), _MIN_POINTS))

    def _choose_basis(
        self,
        rows: Rows,
        state: State,
        n_points: int | None,
        rng: Generator,
        n_rows: int,
    ) -> tuple[Nystroem, int]:
        """Inducing inputs, and how many nearest rows complete them.

        `n_points` inputs, or for None as many as suffice. The rows may be a sample of
        `n_rows` ones.
        """
        kernel = state.kernel
        likelihood = state.likelihood
        noise = state.exact_noise
        if likelihood.has_closed_form:
            noise = float(likelihood.variance(0.0))
        is_sample = n_rows > len(rows.y)
        if not is_sample and self._is_series(rows, kernel, likelihood):
            return SeriesBasis.of(kernel), 0
        # without the noise, of y or of the working responses that a search of abundant
        # rows knows, no number suffices for sure
        automatic = self._is_automatic() and bool(np.isfinite(noise))
        n_neighbors = self._count_neighbors(rows, kernel, likelihood, automatic)
        Z = None
        if automatic and n_neighbors > 0:
            Z, n_neighbors = self._points_or_neighbors(
                rows, state, noise, n_points, n_neighbors, rng, n_rows
            )
        if Z is None:
            Z = self._select_points(rows, kernel, likelihood, n_points, rng)
        is_regression = likelihood.has_closed_form and rows.y.ndim == 1
        if is_sample and not is_regression:
            # rows that are elsewhere have no chains
            n_neighbors = n_neighbors or _NEIGHBORS
        return Nystroem.from_kernel(kernel, Z, noise), n_neighbors

    def _points_or_neighbors(
        self,
        rows: Rows,
        state: State,
        noise: float,
        n_points: int | None,
        n_neighbors: int,
        rng: Generator,
        n_rows: int,
    ) -> tuple[Array | None, int]:
        """Points that suffice alone, or fewer ones and nearest rows.

        Points that suffice leave no residual for nearest rows. None are `n_points` that
        are not selected yet.
        """
        kernel = state.kernel
        select = partial(inducing_by_capacity, rows, kernel, noise, self.inducing, rng)
        few_points, suffice = select(largest=most_points_beside_rows(n_rows))
        if self.n_neighbors != "auto":
            return few_points, n_neighbors
        # chains can afford n_points, and have one kernel for all functions
        is_affordable = n_points is None or len(few_points) <= n_points
        if suffice and is_affordable and not has_scale_kernel(state.likelihood):
            return (few_points if n_points is None else None), 0
        if n_points is not None or n_rows > len(rows.y):
            # the rows of a sample are not as near as those of all
            return few_points, n_neighbors
        # as many points as the closed form affords may do without, if rows are several
        # times as many: they determine the weights
        many_points, _ = select(largest=max(len(rows.y) // 3, len(few_points)))
        if points_are_closer(
            rows, kernel, noise, many_points, few_points, n_neighbors, rng
        ):
            return many_points, 0
        return few_points, n_neighbors

    def _is_series(self, rows: Rows, kernel: Kernel, likelihood: Likelihood) -> bool:
        """Whether rows of one column are filtered and smoothed: if that is exact.

        Points and chains that the user asks for are left to him.

        Other likelihoods than normal noise have it where they would have nearest rows
        by default.
        """
        fewest = FEWEST_OF_SERIES
        kernels = [kernel]
        if not likelihood.has_closed_form:
            fewest = ABUNDANT_ROWS
            if has_scale_kernel(likelihood):
                kernels.append(likelihood.scale_kernel_)
            elif likelihood.n_outputs_ > 1 or likelihood.symmetric:
                return False
            has_chains = not isinstance(self.init, str) or self.init != "laplace"
            has_chains = has_chains or self.potential != "projected"
            if has_chains or self.step_size is not None or self.max_iter is not None:
                return False
        return (
            len(rows.y) > fewest
            and self._is_automatic()
            and self.inducing == "greedy"
            and self.n_neighbors == "auto"
            and self.method in ("auto", "exact")
            and all(
                StateSpace.of(part, rows.X.shape[1]) is not None for part in kernels
            )
        )

    def _follows_nearest_rows(
        self,
        likelihood: Likelihood,
        lazy: LazyRows | None,
    ) -> bool:
        """Whether the search may take a kernel that needs nearest rows.

        Several functions have it only where chains do not take their place: these have
        one kernel on inducing points. So do a location and its scale in cells of dask.
        """
        has_one_kernel = likelihood.n_outputs_ > 1 and self.method != "auto"
        if lazy is not None and likelihood.has_varying_scale:
            has_one_kernel = True
        return self._is_automatic() and not has_one_kernel

    def _is_automatic(self) -> bool:
        """Whether the model takes as many points, or nearest rows, as it needs."""
        return (
            self.n_inducing == "auto"
            and isinstance(self.inducing, str)
            and self.n_neighbors != 0
            # slopes of a sign are among few inducing variables
            and not self._is_monotone
        )

    def _select_points(
        self,
        rows: Rows,
        kernel: Kernel,
        likelihood: Likelihood,
        n_points: int | None,
        rng: Generator,
    ) -> Array:
        """Inducing inputs, (m, d)."""
        if n_points is None:
            return inducing_of_targets(
                rows,
                kernel,
                likelihood,
                self.inducing,
                rng,
            )
        return select_inducing(
            self.inducing,
            rows.X,
            kernel,
            n_points,
            rng,
            rows.weights,
        )

    def _count_neighbors(
        self,
        rows: Rows,
        kernel: Kernel,
        likelihood: Likelihood,
        automatic: bool,
    ) -> int:
        """Nearest rows that complete the inducing points.

        "auto" takes them above 1500 rows, where the noise is known and the number of
        points is free, if correlations fade with the distance; at any number of rows
        for a scale with a kernel of its own, which chains do not have.
        """
        if self.n_neighbors != "auto":
            return int(self.n_neighbors)
        possible = not likelihood.symmetric and self.method in ("auto", "exact")
        if possible and automatic and self._considers_neighbors(rows, kernel):
            return _NEIGHBORS
        fades = decays(kernel, rows.X.shape[1])
        if possible and self._is_automatic() and fades and has_scale_kernel(likelihood):
            return _NEIGHBORS
        return 0

    def _considers_neighbors(self, rows: Rows, kernel: Kernel) -> bool:
        """Whether nearest rows may complete as many points as the model needs."""
        n, d = rows.X.shape
        return self._is_automatic() and n > _MANY_ROWS and decays(kernel, d)

    # ---- 4 Inference -------------------------------------------------------------

    def _count_particles(self, state: State) -> int:
        """Chains of a state: those of all states are about as many as of one."""
        if state.likelihood.has_closed_form and not self._is_monotone:
            return self.n_particles
        share = int(np.ceil(state.weight * self.n_particles))
        return min(self.n_particles, max(share, _FEWEST_CHAINS))

    def _initial_weights(
        self,
        basis: Nystroem,
        likelihood: Likelihood,
        continues: bool,
    ) -> str | Array:
        """Law of the chains at the start, or weights of the shape of `particles_`."""
        n_points = len(basis.inducing_points)
        shape = (n_points, likelihood.n_outputs_, self.n_particles)
        init = self.init
        if not isinstance(init, str):
            init = self._check_init(shape)
        if continues and self.particles_.shape == shape:
            return self.particles_
        return init

    def _check_init(self, shape: tuple[int, int, int]) -> Array:
        """Weights of the user at which the chains start."""
        try:
            return check_points("init", self.init, shape)
        except ValueError as error:
            raise ValueError(
                f"{error} It holds the weights where the chains start: one for each "
                "inducing input, latent output and particle, as particles_ does."
            ) from error

    # ---- 5 The fitted model ------------------------------------------------------

    def _fitted_attributes(
        self,
        inference: Inference,
        *,
        states: list[State],
        record: dict[str, Any],
        units: Units,
        form: NormalForm | None,
        noise: NoiseOfKinds,
    ) -> dict[str, Any]:
        """Fitted attributes of a posterior of the weights, in the units of y."""
        model = inference.posterior
        sample = inference.sample

        def in_units_of_y(likelihood: Likelihood) -> Likelihood:
            if units.new_row_variance is None:
                factor: Any = units.scale * noise.first**0.5
                likelihood = likelihood.scaled(factor)
            else:
                # the noise of the rows is in units of their mean
                likelihood = likelihood.with_noise(units.new_row_variance * noise.first)
            if form is not None:
                likelihood = form.fitted(likelihood)
            return likelihood

        posterior = model.affine(units.shift, units.scale)
        if units.level is not None:
            posterior = model.affine(0.0, units.scale)
            posterior = with_level(posterior, float(units.shift))
        averaged: tuple[State, ...] = ()
        if len(states) > 1:
            averaged = tuple(
                state._replace(likelihood=in_units_of_y(state.likelihood))
                for state in states
            )
        likelihoods: tuple[Likelihood, ...] = ()
        if states[0].noise_is_free:
            likelihoods = tuple(state.likelihood for state in averaged)
        return {
            "kernel_": kernel_of_values(states[0].kernel),
            "_noise_of_slopes": noise.of_slopes,
            "_states": states,
            "_record": record,
            "likelihood_": in_units_of_y(inference.likelihood),
            "_likelihoods": likelihoods,
            "hyperparameter_states_": averaged,
            "unexplained_": inference.unexplained,
            "_divergence_bound": inference.divergence_bound,
            "inducing_points_": _inducing_points(largest_model(model)),
            "posterior_": posterior,
            "particles_": inference.particles,
            "acceptance_": sample.acceptance,
            "rhat_": sample.r_hat,
            "ess_": sample.ess,
            "energy_curve_": sample.energy_curve,
            # an exact draw counts as one step of a chain without autocorrelation
            "n_iter_": max(sample.n_iter, 1),
        }

    def _check_points(
        self,
        rows: Rows,
        requested: int | None,
        prior: State,
        inference: Inference,
    ) -> Finding | None:
        """Whether more inducing points would gain evidence."""
        model = largest_model(inference.posterior)
        if not isinstance(self.inducing, str) or model.n_neighbors > 0:
            return None
        # nearest rows would not gain either
        closed_form = inference.likelihood.has_closed_form
        if closed_form and self._considers_neighbors(rows, prior.kernel):
            return None
        n_points = len(_inducing_points(model))
        largest = requested or most_points(len(rows.y))
        # fewer than allowed span the whole prior, up to rounding
        if n_points < largest or n_points >= self._record["distinct_rows"]:
            return None
        automatic = self.n_inducing == "auto"
        if closed_form and not automatic:
            noise = inference.likelihood.variance(0.0).mean()
            # predictions have the noise, and what the points leave out
            total = noise * (1.0 + 2.0 * inference.unexplained)
            unexplained = _excess_of_noise(total, prior.exact_noise)
        elif automatic or self.optimizer is not None:
            unexplained = inference.unexplained
        else:
            # a kernel and a number of points of the user may underfit on purpose
            unexplained = 0.0
        return diagnostics.too_few_inducing_points(
            n_points,
            prior.n_inducing,
            unexplained,
            automatic,
        )


def _excess_of_noise(noise: float, exact_noise: float) -> float:
    """Nats per row lost to few points, by the noise beside that of an exact process.

    Few points take for noise what an exact process explains of y: zero if that is less
    than a fifth.
    """
    explained_by_exact = max(1.0, noise) - exact_noise
    if noise - exact_noise > 0.2 * explained_by_exact:
        return 0.5 * float(np.log(noise / exact_noise))
    return 0.0


def has_scale_kernel(likelihood: Likelihood) -> bool:
    """Whether a log scale has another kernel than the location."""
    return likelihood.has_varying_scale and likelihood.scale_kernel_ is not None


def largest_model(posterior: FunctionModel | MixtureModel) -> FunctionModel:
    """Model of `kernel_` and `likelihood_`: the first of a mixture."""
    if isinstance(posterior, MixtureModel):
        return posterior.models[0]
    return posterior


def _inducing_points(model: FunctionModel) -> Array:
    """Inducing points (m, d) of a model whose basis has some."""
    points: Array = model.basis.inducing_points  # type: ignore[attr-defined]
    kernel = getattr(model.basis, "kernel", None)
    if isinstance(kernel, Functionals):
        return points[:, : kernel.n_features]
    return points


def _evidence_of_y(
    inference: Inference,
    rows: Rows,
    scale: float | Array,
    form: NormalForm | None,
) -> float:
    """Evidence of y from that of ``y / scale``: p(y) = p(y / scale) / scale a row."""
    evidence = inference.log_evidence - form_constant(rows, inference.likelihood)
    n_targets = rows.y.size // len(rows.y)
    # weight of the rows with a value of each target
    is_known = rows.is_known.reshape(len(rows.y), n_targets)
    weights = rows.weights @ is_known
    log_scales = np.log(np.broadcast_to(scale, (n_targets,)))
    evidence = float(evidence - weights @ log_scales)
    if form is not None:
        evidence -= form.constant
    return evidence
