"""Everything that is compiled, compiled ahead of the first fit."""

from __future__ import annotations

import logging
import time
import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

from skgpx._decoupled import DecoupledSampler
from skgpx._draws import FunctionDraws
from skgpx._gwi import GWIClassifier, GWIRegressor
from skgpx._numerics._jit import ANNOUNCEMENT
from skgpx._numerics.mixture import LatentMixture
from skgpx._pls import PLSClassifier, PLSRegressor
from skgpx._spectral_vgp import SpectralVGPRegressor
from skgpx._stein import SteinFourierFeatures, SteinRFFRegressor
from skgpx.likelihoods import (
    Bernoulli,
    Gaussian,
    Poisson,
    RobustMax,
    ShiftedMixture,
    StudentT,
)

Array = NDArray[np.float64]
_LOGGER = logging.getLogger("skgpx")
_BRIEF: dict[str, Any] = {
    "optimizer": None,
    "n_inducing": 5,
    "n_particles": 4,
    "max_iter": 20,
    "random_state": 0,
}


def compile_kernels() -> None:
    """Compile everything that is compiled, and keep it on the disk.

    Parts of the library are compiled by numba when they are first used, once for a
    machine and version; a first fit that needs chains waits some seconds for it. Call
    this beforehand: when a container is built, before workers are started (which would
    compile side by side), before something is timed. Call it from one thread, while no
    other fits: it ignores warnings, which holds for all threads, and threads that call
    it at once would all compile. A second call returns at once;
    in another process it takes a second or two, which reads what is kept.

    Compiled code is kept in the folder that the environment variable
    ``SKGPX_NUMBA_CACHE`` or ``NUMBA_CACHE_DIR`` names, otherwise beside the package, or
    in ``~/.cache/skgpx`` where that is not writable. Nothing is printed; a message
    of level INFO goes to the logger ``"skgpx"``.

    Examples
    --------
    >>> import skgpx
    >>> skgpx.compile_kernels()  # doctest: +SKIP
    """
    _compile()


@cache
def _compile() -> None:
    start, ANNOUNCEMENT.made = time.perf_counter(), True
    # what is fitted is too small to be fitted well
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _likelihoods()
        _series()
        _waves()
        _draws()
        _features()
        _networks()
    _LOGGER.info("compile_kernels took %.1f s.", time.perf_counter() - start)


def _rows(n_features: int) -> tuple[Array, Array]:
    """Forty rows in the unit cube, and a smooth function of them."""
    X = np.random.default_rng(0).random((40, n_features))
    return X, np.sin(5.0 * X[:, 0])


def _likelihoods() -> None:
    """Chains under every compiled formula, and of a quadratic potential."""
    X, y = _rows(2)
    brief = _BRIEF
    counts = [Poisson(link) for link in ("softplus", "exp", "square")]
    for likelihood in (StudentT(scale=0.1), ShiftedMixture(1.0), *counts):
        model = PLSRegressor(likelihood=likelihood, **brief)
        targets = np.round(1.0 + y)
        model.fit(X, targets).predict(X, return_std=True)
        model.predict_interval(X)
        model.log_predictive_density(X, targets)
        model.predict_dist(X).cdf(targets)
    PLSRegressor(likelihood=StudentT(), **brief).fit(X, y)
    PLSClassifier(**brief).fit(X, np.digitize(y, (-0.5, 0.5)))
    PLSRegressor(method="mala", likelihood=Gaussian(0.1), **brief).fit(X, y)
    for link in ("logit", "probit"):
        PLSClassifier(likelihood=Bernoulli(link), **brief).fit(X, y > 0.0)
    classes = PLSClassifier(**brief).fit(X, np.digitize(y, (-0.5, 0.5)))
    # near the data, and where the prior is as wide as it gets
    classes.predict_proba(np.concatenate([X, 100.0 + X]))
    latent = LatentMixture(np.zeros((1, 1, 1)), np.full((1, 1, 1), 25.0), np.ones(1))
    Bernoulli().predict_proba(latent)


def _series() -> None:
    """Sums of waves in one and in several inputs."""
    for n_features in (1, 2):
        X, y = _rows(n_features)
        model = SpectralVGPRegressor(n_basis=9, random_state=0).fit(X, y)
        model.predict(X, return_std=True)
    model = SpectralVGPRegressor(RBF(0.3), n_basis=5, basis="inducing", random_state=0)
    model.fit(X, y).partial_fit(X, y).predict(X, return_std=True)


def _waves() -> None:
    """Evidence of waves, and the forces on them."""
    X, y = _rows(2)
    brief: dict[str, Any] = {"n_components": 2, "n_frequencies": 4, "max_iter": 2}
    brief["random_state"] = 0
    SteinRFFRegressor(RBF(0.3), optimizer=None, **brief).fit(X, y)


def _draws() -> None:
    """Values, pairs and gradients of draws."""
    X, y = _rows(2)
    sampler = DecoupledSampler(n_basis=16, random_state=0).fit(X, y)
    for n_draws in (1, 3):
        _evaluate(sampler.sample_functions(n_draws, random_state=0), X)
    model = PLSRegressor(kernel=RBF(0.3), likelihood=Gaussian(0.1), **_BRIEF).fit(X, y)
    _evaluate(model.sample_functions(2, random_state=0), X)


def _features() -> None:
    """Frequencies that are moved."""
    SteinFourierFeatures(n_frequencies=4, n_steps=2, random_state=0).fit(_rows(2)[0])


def _networks() -> None:
    """Training of networks by squared errors and for classes, and their values."""
    X, y = _rows(2)
    brief: dict[str, Any] = {"kernel": RBF(0.3), "optimizer": None, "random_state": 0}
    brief |= {"max_iter": 1, "n_estimators": 1, "mean": "net"}
    GWIRegressor(**brief).fit(X, y).predict(X)
    classes = GWIClassifier(likelihood=RobustMax(), **brief).fit(X, y > 0.0)
    classes.predict_proba(X)


def _evaluate(draws: FunctionDraws, X: Array) -> None:
    """All that draws are evaluated by."""
    draws(X)
    draws.at(X[: len(draws)])
    draws.value_and_grad(X)
