"""What both estimators of projected Langevin sampling share."""

from __future__ import annotations

import copy
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx import diagnostics
from skgpx._base import LatentEstimator
from skgpx._callbacks import CallbackSupportMixin, RoundReporter, StageClock
from skgpx._latent import LatentModel
from skgpx._numerics.laplace import LARGEST_COUPLED
from skgpx._pls._chains import Sample
from skgpx._pls._inference import Inference, infer, resolved_method
from skgpx._pls._normal_form import NormalForm
from skgpx._selection import (
    MOST,
    Hyperparameters,
    inducing_by_capacity,
    inducing_of_targets,
    learn_prior,
    most_points,
    with_base_rates,
)
from skgpx._validation import (
    Interval,
    Rows,
    StrOptions,
    check_kernel,
    check_points,
    generator,
    kernel_of,
)
from skgpx.bases import Nystroem, select_inducing
from skgpx.diagnostics import Finding
from skgpx.kernels import decays, with_support
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]


class ProjectedLangevin(CallbackSupportMixin, LatentEstimator):
    """Parameters and fit, common to regression and classification."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [Kernel, None],
        # checked in `fit`, with the public name of the class
        "likelihood": "no_validation",
        "n_inducing": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "inducing": [
            StrOptions({"greedy", "k-means++", "random", "m-dpp"}),
            "array-like",
            callable,
        ],
        "n_neighbors": [
            Interval(Integral, 0, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "optimizer": [StrOptions({"evidence"}), None],
        "method": [StrOptions({"auto", "exact", "ou_mala", "mala", "ula", "smc"})],
        "n_particles": [Interval(Integral, 1, None, closed="left")],
        "potential": [StrOptions({"projected", "optimal"})],
        "init": [StrOptions({"laplace", "prior"}), "array-like"],
        "step_size": [Interval(Real, 0.0, None, closed="neither"), "array-like", None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def _fit_rows(
        self,
        rows: Rows,
        likelihood: Likelihood,
        reporter: RoundReporter,
        units: tuple[Any, Any, float | None] = (0.0, 1.0, None),
        with_mean: bool = True,
        form: NormalForm | None = None,
    ) -> list[Finding | None]:
        """Fit in four steps, and what the diagnostics found; see docs/pls.md.

        Rows and likelihood are those of ``(y - shift) / scale``, and `units` are shift,
        scale and, where the noise of each row is known, its variance at a new row.
        `with_mean` gives the latent function the mean that suits the likelihood, and
        `form` is that in which the likelihood that was given is fitted.
        """
        given = getattr(self.likelihood, "noise_variance", None)
        kernel = self._kernel_for(rows)
        check_kernel(kernel, rows.X, given)
        self._check_method(likelihood)
        closed = resolved_method(self.method, likelihood) == "exact"
        clock = StageClock()
        search, select, stream = generator(self.random_state).spawn(3)
        known = () if rows.known is None else (rows.known,)
        likelihood = likelihood.prepare(rows.y, rows.weights, *known)
        likelihood = likelihood if with_mean else likelihood.with_base(0.0)
        self._check_neighbors(likelihood, rows.y.size // len(rows.y))
        # 1 the prior, kernel and mean, and the likelihood, from the data; beside
        # nearest rows they do not depend on the number of inducing points
        near = self.n_neighbors not in ("auto", 0)
        planned = None if near else self._count_inducing(rows, likelihood, closed)
        requested = copy.deepcopy(kernel)
        same = self._continues(requested)
        learn = self.optimizer is not None
        found = learn_prior(
            rows, likelihood, search,
            kernel=kernel, learn=learn, inducing=self.inducing,
            n_inducing=planned,
            n_jobs=self.n_jobs, previous=self._found if same else None,
        )  # fmt: skip
        kernel, likelihood = found.kernel, found.likelihood
        if with_mean:
            likelihood = with_base_rates(rows, likelihood, kernel)
        clock.end_of("search")
        # 2 inducing inputs under the fitted lengthscales, and the basis they span
        m = self._count_inducing(rows, likelihood, closed, found.n_inducing)
        basis, n_neighbors = self._basis(rows, found, likelihood, m, select)
        Z = basis.inducing_points
        clock.end_of("selection")

        # 3 mode, Hessian, chains; 4 the posterior of the weights
        def report(sample: Sample, model: LatentModel) -> bool:
            particles: Any = model.weights
            now = Inference(model, particles.values, sample, likelihood)
            return reporter.round(
                lambda: self._fitted_attributes(found, now, units, form),
                steps=sample.n_iter,
                rhat=float(np.max(sample.r_hat)),
                acceptance=sample.acceptance,
            )

        shape = (len(Z), likelihood.n_outputs_, self.n_particles)
        init = self.init if isinstance(self.init, str) else self._check_init(shape)
        if same and self.particles_.shape == shape:
            init = self.particles_
        result = infer(
            basis, rows, likelihood, stream, n_neighbors,
            method=self.method, n_particles=self.n_particles,
            step_size=self.step_size, max_iter=self.max_iter, tol=self.tol,
            potential=self.potential, init=init,
            n_jobs=self.n_jobs, noise_is_free=learn, report=report,
        )  # fmt: skip
        clock.end_of("inference")
        fitted = self._fitted_attributes(found, result, units, form)
        evidence = _evidence_of_y(result, rows, units[1])
        if form is not None:
            evidence -= form.constant
        fitted["log_evidence_"] = evidence
        fitted["_requested"] = requested
        vars(self).update(fitted, stage_seconds_=clock.seconds)
        reporter.finish()
        few = self._few_points(m, len(Z), rows, found, result)
        return [*found.findings, *result.findings, few]

    def _few_points(
        self,
        requested: int | None,
        m: int,
        rows: Rows,
        found: Hyperparameters,
        result: Inference,
    ) -> Finding | None:
        """Whether more inducing points would gain evidence."""
        if not isinstance(self.inducing, str):
            return None
        if result.posterior.n_neighbors:
            return None
        # fewer than there may be span the whole prior, up to rounding
        most = most_points(len(rows.y)) if requested is None else requested
        if m < most or m >= found.record.distinct_rows:
            return None
        automatic = self.n_inducing == "auto"
        # what is given, kernel and points, may underfit on purpose
        learned = automatic or self.optimizer is not None
        unexplained = result.unexplained if learned else 0.0
        gaussian = result.likelihood.has_closed_form
        if gaussian and not automatic:
            # few points take for noise what an exact process explains of y: a fifth
            noise, exact = result.likelihood.variance(0.0).mean(), found.exact_noise
            lost = noise - exact > 0.2 * (max(1.0, noise) - exact)
            unexplained = 0.5 * float(np.log(noise / exact)) if lost else 0.0
        return diagnostics.too_few_inducing_points(
            m,
            found.n_inducing,
            unexplained,
            automatic,
        )

    def _kernel_for(self, rows: Rows) -> Any:
        """The kernel that was given, with numbers for columns and these as support."""
        return with_support(kernel_of(self), rows.X, rows.weights)

    def _continues(self, kernel: Any) -> bool:
        """Whether this fit is a warm start from one of the same prior and columns."""
        return (
            self.warm_start
            and hasattr(self, "posterior_")
            and self._requested == kernel
            and self.inducing_points_.shape[1] == self.n_features_in_
        )

    def _check_method(self, likelihood: Likelihood) -> None:
        """Refuse at once a method, or a step, that is not for this likelihood."""
        if not likelihood.smooth:
            raise ValueError(
                f"{type(self).__name__} moves particles along the gradient of the "
                f"likelihood, which for {likelihood!r} is zero almost everywhere. Use "
                "Categorical(), or GWIClassifier, which averages it first."
            )
        method = resolved_method(self.method, likelihood)
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

    def _check_init(self, shape: tuple[int, int, int]) -> Array:
        """Weights at which the chains start, of the shape of `particles_`."""
        try:
            return check_points("init", self.init, shape)
        except ValueError as error:
            raise ValueError(
                f"{error} It holds the weights where the chains start: one for each "
                "inducing input, latent output and particle, as particles_ does."
            ) from error

    def _check_neighbors(self, likelihood: Likelihood, n_targets: int) -> None:
        """Refuse at once nearest rows where the model has none."""
        if self.n_neighbors in ("auto", 0):
            return
        c = max(likelihood.n_outputs_, n_targets)
        if c > 1 or likelihood.symmetric:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is for one target and one latent "
                f"function of one mode; got {likelihood!r} with {c} functions. Use "
                "n_neighbors=0, and more inducing points."
            )
        if self.method not in ("auto", "exact"):
            raise ValueError(
                f"n_neighbors={self.n_neighbors} needs the closed form, or the closest "
                f'normal distribution; got method="{self.method}". Use method="auto".'
            )

    def _count_inducing(
        self,
        rows: Rows,
        likelihood: Likelihood,
        closed: bool,
        needed: int = 0,
    ) -> int | None:
        """Number of inducing inputs; None is as many as the data need.

        ``3 √n``, or those that the kernel found needs, within a budget, at least 100. A
        step of all chains takes ``4 n m n_particles n_outputs`` operations, at most
        8e9: a third of a second of one core. Classes are coupled up to a limit.
        """
        n, c = len(rows.y), likelihood.n_outputs_
        if self.n_inducing != "auto":
            return min(n, int(self.n_inducing))
        if closed and isinstance(self.inducing, str):
            return None
        if not isinstance(self.inducing, str) and not callable(self.inducing):
            return len(self.inducing)
        wanted = max(int(3.0 * np.sqrt(n)), min(needed, MOST))
        most = int(8e9 / (4.0 * n * self.n_particles * c))
        most = most if c == 1 else min(most, LARGEST_COUPLED // c)
        return min(n, max(min(wanted, most), 100))

    def _basis(
        self,
        rows: Rows,
        found: Hyperparameters,
        likelihood: Any,
        m: int | None,
        rng: np.random.Generator,
    ) -> tuple[Nystroem, int]:
        """Inducing inputs, m of them or as many as suffice, and nearest rows.

        The noise is that of the likelihood or, if it is not Gaussian, of its working
        responses; where it is not known nothing says which points suffice.
        """
        kernel, n, noise = found.kernel, len(rows.y), found.exact_noise
        if likelihood.has_closed_form:
            noise = float(likelihood.variance(0.0))
        free = self.n_inducing == "auto" and isinstance(self.inducing, str)
        free = free and bool(np.isfinite(noise)) and rows.y.ndim == 1
        n_neighbors, Z = self._count_neighbors(rows, kernel, likelihood, free), None
        if free and n_neighbors:
            # points that suffice leave nothing; chains can afford some, m
            most = int(np.clip(4e7 / n, 100, 1000))
            how = rows, kernel, noise, self.inducing, rng
            Z, suffice = inducing_by_capacity(*how, most)
            suffice = suffice and (m is None or len(Z) <= m)
            if suffice and self.n_neighbors == "auto":
                n_neighbors, Z = 0, Z if m is None else None
        if m is None and Z is None:
            learn = self.optimizer is not None
            Z = inducing_of_targets(rows, kernel, likelihood, self.inducing, rng, learn)
        elif Z is None:
            Z = select_inducing(self.inducing, rows.X, kernel, m, rng, rows.weights)
        return Nystroem.from_kernel(kernel, Z), n_neighbors

    def _count_neighbors(
        self,
        rows: Rows,
        kernel: Any,
        likelihood: Likelihood,
        free: bool,
    ) -> int:
        """Nearest rows that a prediction is given; the closed form has one function.

        "auto" takes them above 1500 rows, where the noise is known and the points are
        as many as they may be, if correlations fade with the distance.
        """
        if self.n_neighbors != "auto":
            return int(self.n_neighbors)
        one = likelihood.n_outputs_ == 1 and not likelihood.symmetric
        local = free and one and self.method in ("auto", "exact")
        local = local and len(rows.y) > 1500 and decays(kernel, rows.X.shape[1])
        return 40 if local else 0

    def _fitted_attributes(
        self,
        found: Hyperparameters,
        result: Inference,
        units: tuple[Any, Any, float | None],
        form: NormalForm | None,
    ) -> dict[str, Any]:
        shift, scale, noise_variance = units
        model, sample = result.posterior, result.sample
        likelihood: Any = result.likelihood
        if noise_variance is None:
            likelihood = likelihood.scaled(scale)
        else:
            # that of the rows is known in units of their mean
            likelihood = likelihood.with_noise(noise_variance)
        if form is not None:
            likelihood = form.fitted(likelihood)
        return {
            "kernel_": found.kernel,
            "_found": found,
            "_record": found.record,
            "likelihood_": likelihood,
            "unexplained_": result.unexplained,
            "_divergence_bound": result.divergence_bound,
            "inducing_points_": model.basis.inducing_points,
            "posterior_": model.affine(shift, scale),
            "particles_": result.particles,
            "acceptance_": sample.acceptance,
            "rhat_": sample.r_hat,
            "ess_": sample.ess,
            "energy_curve_": sample.energy_curve,
            # an exact draw counts as one step of a chain without autocorrelation
            "n_iter_": max(sample.n_iter, 1),
        }


def _evidence_of_y(result: Inference, rows: Rows, scale: Any) -> float:
    """Evidence of y from that of ``y / scale``: p(y) = p(y / scale) / scale a row."""
    evidence = result.log_evidence
    constant = result.likelihood.row_form(rows.y, rows.weights, rows.known).constant
    t = rows.y.size // len(rows.y)
    if constant is not None:
        evidence -= t * float(rows.weights @ constant)
    volume = np.sum(np.log(np.broadcast_to(scale, (t,))))
    return float(evidence - rows.weights.sum() * volume)
