"""Everything that is compiled, compiled ahead of the first fit."""

from __future__ import annotations

import logging
import time
import warnings
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    RationalQuadratic,
)

from skgpx._decoupled import DecoupledSampler
from skgpx._draws import FunctionDraws
from skgpx._gwi import GWIClassifier, GWIRegressor
from skgpx._iterative import ExactGPRegressor
from skgpx._numerics._jit import ANNOUNCEMENT
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.scale_evidence import scale_sums
from skgpx._numerics.softmax_evidence import precision
from skgpx._pls import PLSClassifier, PLSRegressor
from skgpx._spectral_vgp import SpectralVGPRegressor
from skgpx._stein import SteinFourierFeatures, SteinRFFRegressor, svgd
from skgpx._types import Array
from skgpx.kernels import Additive
from skgpx.likelihoods import (
    Bernoulli,
    Gaussian,
    Poisson,
    RobustMax,
    ShiftedMixture,
    StudentT,
)

_LOGGER = logging.getLogger("skgpx")


def compile_kernels() -> None:
    """Compile all loops of the library ahead of time, and keep them on disk.

    Parts of the library are compiled by numba when they are first used, once for a
    machine and version; a first fit that needs chains waits some seconds for it. Call
    this function beforehand: when a container is built, before workers are started
    (they would all compile), before a program is timed. Call it from one thread, while
    no other thread fits: it ignores warnings in all threads, and threads that call it
    at once would all compile. A second call returns at once; in another process it
    takes a second or two to load the compiled code.

    Compiled code is kept in the folder that the environment variable
    ``SKGPX_NUMBA_CACHE`` or ``NUMBA_CACHE_DIR`` names, otherwise in the folder of the
    package, or in ``~/.cache/skgpx`` where that is not writable. Processes that cannot
    write there read it. It prints nothing; a message of level INFO goes to the logger
    ``"skgpx"``.

    Examples
    --------
    >>> import skgpx
    >>> skgpx.compile_kernels()  # doctest: +SKIP
    """
    _compile()


@cache
def _compile() -> None:
    start = time.perf_counter()
    # `_LOGGER.info` replaces the announcement
    ANNOUNCEMENT.made = True
    # fits of so few rows would warn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).random((40, 2))
        y = np.sin(5.0 * X[:, 0])
        _particles(X, y)
        _series()
        _features(X, y)
        _networks(X, y)
    _LOGGER.info("compile_kernels took %.1f s.", time.perf_counter() - start)


def _particles(X: Array, y: Array) -> None:
    """Chains under every compiled formula, and predictions of particles."""
    settings: dict[str, Any] = {
        "n_inducing": 5,
        "n_particles": 4,
        "max_iter": 20,
        "optimizer": None,
        "random_state": 0,
    }
    counts = np.round(1.0 + y)
    classes = np.digitize(y, (-0.5, 0.5))
    likelihoods = (
        StudentT(scale=0.1),
        ShiftedMixture(1.0),
        Poisson("softplus"),
        Poisson("exp"),
        Poisson("square"),
    )
    for likelihood in likelihoods:
        model = PLSRegressor(likelihood=likelihood, **settings)
        model.fit(X, counts)
        model.predict(X, return_std=True)
        model.predict_interval(X)
        model.log_predictive_density(X, counts)
        model.predict_dist(X).cdf(counts)
    PLSRegressor(method="mala", likelihood=Gaussian(0.1), **settings).fit(X, y)
    for link in ("logit", "probit"):
        PLSClassifier(likelihood=Bernoulli(link), **settings).fit(X, y > 0.0)
    # a search of few rows
    kernel = ConstantKernel() * RBF(0.3) + RationalQuadratic() + Additive(RBF(0.3))
    PLSRegressor(kernel, random_state=0).fit(X, y)
    # the evidence of several classes
    identity = np.eye(2)
    precision(identity, np.ones(2), identity.copy())
    # noise that varies
    unit = np.ones(1)
    scale_sums(unit, unit, np.ones((1, 1)), masses=unit, noise=unit, weights=unit)
    # probabilities close to the data, and far from them
    classifier = PLSClassifier(**settings).fit(X, classes)
    classifier.predict_proba(np.concatenate([X, 100.0 + X]))
    # probabilities of a wide latent distribution
    mean = np.zeros((1, 1, 1))
    variance = np.full((1, 1, 1), 25.0)
    Bernoulli().predict_proba(LatentMixture(mean, variance, np.ones(1)))
    # functions drawn from the posterior, and nearest rows
    model = PLSRegressor(RBF(0.3), likelihood=Gaussian(0.1), **settings)
    model.fit(X, y)
    _evaluate(model.sample_functions(2, random_state=0), X)
    neighbor_model = clone(model).set_params(n_neighbors=4, n_inducing=3)
    neighbor_model.fit(X, y)
    neighbor_model.predict(X, return_std=True)


def _series() -> None:
    """Filter, smoother and paths of a Markov process of one column."""
    X = np.linspace(0.0, 10.0, 320)[:, np.newaxis]
    y = np.sin(X[:, 0])
    settings: dict[str, Any] = {"optimizer": None, "random_state": 0}
    model = PLSRegressor(Matern(nu=1.5), likelihood=Gaussian(0.1), **settings)
    model.fit(X, y)
    model.predict(X, return_std=True)
    model.predict(X[:9], return_cov=True)
    _evaluate(model.sample_functions(2, random_state=0), X[:9])


def _features(X: Array, y: Array) -> None:
    """Sums of Fourier functions, learned frequencies, and draws of their functions."""
    for rows in (X[:, :1], X):
        series = SpectralVGPRegressor(n_basis=9, random_state=0)
        series.fit(rows, y)
        series.predict(rows, return_std=True)
    sparse = SpectralVGPRegressor(
        RBF(0.3),
        n_basis=5,
        basis="inducing",
        random_state=0,
    )
    sparse.fit(X, y)
    sparse.partial_fit(X, y)
    sparse.predict(X)
    settings: dict[str, Any] = {"n_frequencies": 4, "random_state": 0}
    for kernel in (RBF(), Matern(), RationalQuadratic()):
        SteinFourierFeatures(kernel, n_steps=2, **settings).fit(X)
    svgd(np.negative, X, n_steps=2)
    settings |= {"n_components": 2, "max_iter": 2, "optimizer": None}
    SteinRFFRegressor(RBF(0.3), **settings).fit(X, y)
    SteinRFFRegressor(RBF(0.3), repulsion=None, **settings).fit(X, y)
    ExactGPRegressor(RBF(0.3), optimizer=None, n_draws=2, random_state=0).fit(X, y)
    sampler = DecoupledSampler(n_basis=16, random_state=0).fit(X, y)
    for n_draws in (1, 3):
        _evaluate(sampler.sample_functions(n_draws, random_state=0), X)


def _networks(X: Array, y: Array) -> None:
    """Training of networks by squared errors and for classes, and their values."""
    settings: dict[str, Any] = {
        "kernel": RBF(0.3),
        "optimizer": None,
        "mean": "net",
        "n_estimators": 1,
        "max_iter": 1,
        "random_state": 0,
    }
    regressor = GWIRegressor(**settings).fit(X, y)
    regressor.predict(X)
    classifier = GWIClassifier(likelihood=RobustMax(), **settings)
    classifier.fit(X, y > 0.0)
    classifier.predict_proba(X)


def _evaluate(draws: FunctionDraws, X: Array) -> None:
    """Values, pairs and gradients of draws."""
    draws(X)
    draws.at(X[: len(draws)])
    draws.value_and_grad(X)
