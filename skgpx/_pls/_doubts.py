"""What is said where particles may not represent the posterior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from skgpx._numerics.modes import Survey
from skgpx._pls._chains import Sample
from skgpx._pls._tempering import Tempered
from skgpx._validation import warn
from skgpx.exceptions import ConvergenceWarning

Array = NDArray[np.float64]

# R-hat between runs of the tempering above which they disagree.
_LARGEST_R_HAT = 1.1
# Nats of evidence below the best within which a mode that no chain visits is told.
_TOLD = 5.0
# Probability that the mean potential of a normal law lies above what is expected.
_TAIL = 1e-3


def refuse_divergence(sample: Sample, method: str, step_size: float | None) -> None:
    """Raise a ValueError if the unadjusted scheme has diverged."""
    if not np.all(np.isfinite(sample.z)):
        raise ValueError(
            f'method="{method}" diverged with step_size={step_size!r}. Use a '
            "smaller one, or None to take it from the largest eigenvalue of the "
            "Hessian."
        )


def warn_of_chains(sample: Sample, method: str, tol: float, modes: Survey) -> None:
    """Warn once of chains that do not agree, or of modes that none of them visits."""
    worst, said = float(np.max(sample.r_hat)), []
    if worst > max(tol, 1.0 + 1e-9) and not sample.stopped:
        said.append(
            f"The chains have not converged: split R-hat is {worst:.3g} after "
            f"{sample.n_iter} steps (tol={tol:g}) with an acceptance of "
            f"{sample.acceptance:.2g}. Increase max_iter"
            + ("." if modes.log_concave else ', or use method="smc": the likelihood is')
            + ("" if modes.log_concave else " not log-concave.")
        )
    if modes.gap < _TOLD:
        said.append(
            "The posterior has several modes: a second one has a Laplace evidence "
            f"only {modes.gap:.2g} nats below that of the first, and all chains of "
            f'method="{method}" start in the first. Use method="smc", which weighs '
            "them against each other."
        )
    _warn(said)


def warn_of_tempering(
    tempered: Tempered, excess: float, n_weights: int, n_particles: int
) -> None:
    """Warn once if runs disagree or particles are not where the posterior is.

    Parameters
    ----------
    tempered : Tempered
    excess : float
        Mean potential of the particles above that of the best mode, in nats.
    n_weights, n_particles : int
    """
    said = []
    worst, evidences = float(np.max(tempered.sample.r_hat)), tempered.run_evidences
    if worst > _LARGEST_R_HAT:
        said.append(
            f"The {len(evidences)} independent runs of the tempering disagree: R-hat "
            f"between them is {worst:.3g}, their log evidences go from "
            f"{evidences.min():.5g} to {evidences.max():.5g}. The weights of the modes "
            "are uncertain."
        )
    largest = largest_excess(n_weights)
    if excess > largest:
        said.append(
            f"The particles lie {excess:.3g} nats above the best mode in the mean, "
            f"where about {0.5 * n_weights:.3g}, and not over {largest:.3g}, are "
            "expected: they have not reached the posterior."
        )
    if said:
        said.append(
            f"Increase n_particles above {max(400, n_particles)}, use fewer inducing "
            "inputs, or a likelihood that is log-concave."
        )
    _warn(said)


def largest_excess(n_weights: int) -> float:
    """Potential above the mode, in nats, that few states of a normal law exceed.

    Twice the potential above the mode follows chi-square with p degrees of freedom.
    """
    return 0.5 * float(chi2.isf(_TAIL, n_weights))


def _warn(said: list[str]) -> None:
    if said:
        warn(" ".join(said), ConvergenceWarning)
