"""Draws from the prior of a Gaussian process, given its kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.gaussian_process.kernels import ExpSineSquared, WhiteKernel

from skgpx._draws._features import (
    FeatureMap,
    FourierFeatures,
    KernelFeatures,
    LinearTerm,
    Term,
    check_sections,
    factor_features,
    merged,
    ones,
)
from skgpx._draws._frequencies import (
    Conditioning,
    HeldOutErrors,
    Part,
    choose_frequencies,
)
from skgpx._draws._functionals import FunctionalTerm
from skgpx._draws._functions import FunctionDraws, side_by_side
from skgpx._draws._processes import KernelProcess
from skgpx._numerics import lattice
from skgpx._numerics.rows import row_slices
from skgpx._types import Array, ArrayLike, Generator, Index, Kernel
from skgpx.exceptions import PredictionWarning, warn
from skgpx.kernels import (
    Additive,
    Functionals,
    GREKernel,
    MappedSpectrum,
    Monomial,
    PeriodicSpectrum,
    Spectrum,
    category_columns,
    decay_lengths,
    expand,
    latent_kernel,
    no_sampler,
    sample_spectra,
    spectra_of,
    stationary_variance,
    summands,
)

# ---- The independent parts of a process, each with its features ----------------------


@dataclass(frozen=True)
class TensorFeatures:
    """All products of one feature of each factor: the features of a product kernel."""

    factors: tuple[FeatureMap, ...]

    @property
    def n_features(self) -> int | None:
        """Number of input columns."""
        return getattr(self.factors[0], "n_features", None)

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, the last factor varying fastest."""
        features = self.factors[0](X)
        for factor in self.factors[1:]:
            right = factor(X)
            products = features[:, :, np.newaxis] * right[:, np.newaxis, :]
            features = products.reshape(len(X), -1)
        return features

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        first = self.factors[0]
        second: Any = TensorFeatures(self.factors[1:])
        if len(self.factors) == 2:
            second = self.factors[1]
        f = first(X)
        g = second(X)
        # fᵀ W g: coefficients W g of f and Wᵀ f of g; the rows of each function share
        # W, which is large
        first_weights = np.empty(f.shape)
        second_weights = np.empty(g.shape)
        for i in np.unique(index):
            rows = index == i
            W = weights[i].reshape(f.shape[1], g.shape[1])
            first_weights[rows] = g[rows] @ W.T
            second_weights[rows] = f[rows] @ W
        row_index = np.arange(len(X))
        # ∇(fᵀ W g) = ∇f (W g) + ∇g (Wᵀ f)
        values, first_slopes = first.pairs(  # type: ignore[attr-defined]
            X,
            first_weights,
            row_index,
        )
        _, second_slopes = second.pairs(X, second_weights, row_index)
        return values, first_slopes + second_slopes


def decompose(kernel: Kernel, d: int, method: str = "sobol") -> list[Part]:
    """Independent parts of the process with this kernel, observation noise left out.

    Raises
    ------
    ValueError
        If a part has no features; the message names it.
    """
    parts: list[Part] = []
    for term in expand(kernel):
        parts += _parts(term, kernel, d, method)
    return parts


def _parts(
    term: Monomial,
    kernel: Kernel,
    d: int,
    method: str = "sobol",
) -> list[Part]:
    """Parts of one term of the expanded kernel: none for noise."""
    types = [type(factor) for factor in term.factors]
    if types == [WhiteKernel]:
        return []
    if types != [GREKernel]:
        return [_part(term, kernel, d, method)]
    # k(·, S) √p has the finite-rank covariance
    (gre,) = term.factors
    support = np.asarray(gre.support, dtype=np.float64)
    finite_rank = KernelFeatures(gre.kernel, support, np.sqrt(gre.masses))

    def features(*_: object) -> FeatureMap:
        return finite_rank

    parts = [Part(term.coefficient, True, features)]
    if gre.background > 0.0:
        factor = term.coefficient * gre.background
        for part in decompose(gre.background_kernel(), d, method):
            variance = factor * part.variance
            parts.append(part._replace(variance=variance))
    return parts


def _part(term: Monomial, kernel: Kernel, d: int, method: str = "sobol") -> Part:
    """Part of one term: products of the features of its factors."""
    exact_maps: list[FeatureMap] = []
    stationary: list[Kernel] = []
    for factor in term.factors:
        maps = factor_features(factor, d)
        exact_maps += maps
        if not maps:
            stationary.append(factor)
        if type(factor) in (WhiteKernel, GREKernel):
            raise no_sampler(factor, kernel, " inside a product")
    origin = np.zeros((1, d))
    widths = [feature_map(origin).shape[1] for feature_map in exact_maps]
    if np.prod(widths) > 512:
        place = f" in a product of {len(exact_maps)} in {d} input columns"
        raise no_sampler(term.factors[0], kernel, place)
    spectra = spectra_of(stationary, kernel, d)
    variance = term.coefficient
    for factor in stationary:
        variance *= stationary_variance(factor, d)

    def features(n: int, tail_power: float, rng: Generator) -> FeatureMap:
        maps = list(exact_maps)
        if spectra:
            frequencies, amplitudes = sample_spectra(
                spectra,
                n,
                d,
                rng,
                method,
                tail_power,
            )
            maps.append(FourierFeatures(frequencies, amplitudes))
        if not maps:
            return ones
        if len(maps) == 1:
            return maps[0]
        return TensorFeatures(tuple(maps))

    return Part(variance, _has_exact_waves(spectra), features)


def _has_exact_waves(spectra: Sequence[Spectrum]) -> bool:
    """Whether a product with these spectra has finitely many frequencies."""
    if not spectra:
        return True
    spectrum = spectra[0]
    if isinstance(spectrum, MappedSpectrum):
        spectrum = spectrum.inner
    return len(spectra) == 1 and isinstance(spectrum, PeriodicSpectrum)


# ---- Exact draws of any kernel, with a cache of their values -------------------------


class CachedPriorValues:
    """Exact draws of a Gaussian process that keep all values drawn so far.

    The value at a new point is drawn given all values drawn so far, so all values are
    consistent. A nugget of 1e-10 of the prior variance handles points that nearly
    coincide. The values depend on the order in which points are evaluated; a pickled
    copy continues with the same random numbers.

    Parameters
    ----------
    process : KernelProcess
        The prior.
    size : int
        Number of draws.
    rng : numpy.random.Generator
        Source of the draws; kept, and advanced by every new point.

    Notes
    -----
    O(N^3 + N^2 c s) time in total and O(N^2 + N c s) memory for N distinct points.
    """

    def __init__(self, process: KernelProcess, size: int, rng: Generator):
        c = len(process.scale)
        self.process = process
        self.cache = np.empty((0, c, size))
        self.noise = np.empty((0, c * size))
        self.position: dict[bytes, int] = {}
        self._rng = rng
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = self.__dict__.copy()
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def values(self, X: Array) -> Array:
        """Values at the rows of X, shape (n, c, s)."""
        X = X + 0.0  # -0.0 and 0.0 are the same point
        keys = [row.tobytes() for row in X]
        with self._lock:
            # one row for each new key
            new = {key: i for i, key in enumerate(keys) if key not in self.position}
            if new:
                rows = list(new.values())
                self._extend(X[rows], list(new))
            positions = [self.position[key] for key in keys]
            return self.cache[positions]

    def _extend(self, new: Array, keys: list[bytes]) -> None:
        """Draw the values at new distinct points and keep them."""
        n_old, c, size = self.cache.shape
        n_new = len(new)
        self.process = self.process.extended(new)
        noise = self._rng.standard_normal((n_new, c * size))
        self.noise = np.concatenate((self.noise, noise))
        # new rows of L ε
        new_rows = self.process.root[n_old:]
        values = new_rows @ self.noise
        values = values.reshape(n_new, c, size)
        self.cache = np.concatenate((self.cache, values))
        for position, key in enumerate(keys, start=n_old):
            self.position[key] = position


@dataclass(frozen=True)
class CachedTerm:
    """Selected and scaled draws of a shared cache.

    Parameters
    ----------
    cache : CachedPriorValues
    draws : ndarray of shape (s,)
        Positions of the draws in the cache.
    factor : float or ndarray of shape (c,), default=1.0
        Factor of each output.
    """

    cache: CachedPriorValues
    draws: Index
    factor: float | Array = 1.0

    is_stateful = True

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.cache.process.points.shape[1]

    def _values(self, X: Array) -> Array:
        values = self.cache.values(X)[:, :, self.draws]
        factor = np.reshape(self.factor, (-1, 1))
        return values * factor

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        out += self._values(X)

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""
        rows = np.arange(len(X))
        return self._values(X)[rows, :, rows]

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """Refuse: values that are drawn point by point have no derivatives."""
        del X, draws
        raise ValueError(
            f"Exact draws of {self.cache.process.kernel!r} are sampled point by point "
            "and have no derivative, which searches for optima need. Draw from Fourier "
            "features instead; if a kernel of your own is stationary, they need "
            "skgpx.kernels.register_kernel(YourKernel, spectral_sampler=...): see "
            '"The spectral density of a kernel" on the documentation\'s page '
            '"Extending".'
        )

    def scaled(self, factor: Array | float) -> CachedTerm:
        """Multiply the outputs of the functions by one factor, or by factors (c,)."""
        return replace(self, factor=np.asarray(factor) * self.factor)

    def select(self, draws: Index) -> CachedTerm:
        """Keep the draws at these positions."""
        return replace(self, draws=self.draws[draws])


# ---- Draws of the whole process ------------------------------------------------------


def with_features(prior: dict[str, Any], kernel: Kernel) -> dict[str, Any]:
    """Options of draws, with as many features as a kernel needs if they do not say."""
    if isinstance(kernel, Functionals):
        return with_features(prior, kernel.kernel)
    is_additive = any(type(part) is Additive for part in summands(kernel))
    if not is_additive:
        return prior
    # additive kernels have no net of frequencies, but independent ones
    return {"n_basis": 8192} | prior


def draw_prior(  # noqa: C901
    kernel: Kernel,
    n_inputs: int,
    n_outputs: int,
    size: int,
    rng: Generator,
    *,
    prior: str = "auto",
    n_basis: int | str | Sequence[int] = 2048,
    n_groups: int = 1,
    given: Conditioning | None = None,
    domain: ArrayLike | None = None,
    method: str = "sobol",
) -> FunctionDraws:
    """Functions from the Gaussian process with mean zero and this kernel.

    Sums and products of kernels are multiplied out. Constants, DotProducts, the
    finite-rank part of a GREKernel and a periodic kernel are exact. Stationary kernels
    have random Fourier features, with a covariance that is right on average over the
    frequencies; all draws of one group share these. A WhiteKernel that is added is
    observation noise, and not part of the function.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The prior covariance.
    n_inputs : int
        Number of input columns ``d``.
    n_outputs : int
        Number of independent latent outputs ``c``.
    size : int
        Number of independent draws ``s``.
    rng : numpy.random.Generator
        Source of the draws.
    prior : {"auto", "spectral", "exact", "grid"}, default="auto"
        "spectral": Fourier features. "exact": exact draws that keep the values at all
        points of earlier evaluations, at a cost cubic in the number of distinct points.
        "grid": draws of a stationary kernel of one to three inputs, exact at the nodes
        of a regular grid and cubic splines between them; a ValueError outside of the
        grid. "auto": exact draws only if a part of the kernel has no features.
    n_basis : int, "auto", or tuple or list of int, default=2048
        Number of Fourier features, two for each frequency, best a power of two; the
        terms of a sum share them equally. "auto" doubles their number until the
        standard deviations of draws conditioned on ``given`` have an error of 2 %, up
        to 8192 (2048 without ``given``). For a grid the number of its nodes: in total,
        or (a tuple or list) along each axis, as in ``np.linspace(lower, upper,
        number)``; "auto" takes up to 65536.
    n_groups : int, default=1
        Number of independent sets of frequencies, each of ``n_basis`` features and
        serving its share of the draws. Errors of different groups average out.
    given : Conditioning, default=None
        Points at which the draws will be conditioned, and their noise. Frequencies are
        a scrambled Sobol net of the spectral density; with data that determine the low
        ones, a net with importance weights that has more of the high ones.
    domain : array-like of shape (d, 2), default=None
        Box that a grid covers, in addition to the points of ``given``. None stands for
        the range of these points and a fifth of it on either side.
    method : {"sobol", "halton", "orthogonal", "mc"}, default="sobol"
        How frequencies are chosen, by the names of
        :func:`skgpx.kernels.sample_frequencies`. Only a Sobol net takes account of
        ``given``. "mc" is for comparison: independent frequencies, as published for
        decoupled sampling ([1]_, Section 2.2). ``n_basis="auto"`` is 2048 for all
        methods but the net.

    Returns
    -------
    draws : FunctionDraws
        ``size`` draws of ``n_outputs`` outputs.

    Raises
    ------
    ValueError
        With ``prior="spectral"``, if a part of the kernel has no features; the
        message names it. With ``prior="grid"``, if a part is neither stationary nor has
        exact features, if there are more than three inputs or columns of categories, or
        if there is neither a domain nor a point. If an option is not one of the above.
        If the kernel is not finite between equal points of ``given``.

    Warns
    -----
    PredictionWarning
        If 8192 features or 65536 nodes do not suffice; if ``n_basis`` is a number with
        which an error of more than 10 % of the standard deviations is expected.

    Notes
    -----
    A grid is drawn by circulant embedding [2]_, O(N log N) for each draw and a torus of
    N nodes, at least twice as many as the grid has along each axis. The torus grows
    until negative eigenvalues of the embedding are less than a millionth of the
    variance, or to 2^20 nodes; they are set to zero, and count as an error.

    References
    ----------
    .. [1] Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently
       sampling functions from Gaussian process posteriors", ICML 2020.
    .. [2] Dietrich and Newsam, "Fast and exact simulation of stationary Gaussian
       processes through circulant embedding of the covariance matrix", SIAM Journal on
       Scientific Computing, 1997.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import DotProduct, Matern, WhiteKernel
    >>> from skgpx.bases import draw_prior
    >>> kernel = Matern(0.5, nu=1.5) + 0.1 * DotProduct() ** 2 + WhiteKernel(0.01)
    >>> draws = draw_prior(kernel, 2, 1, 3, np.random.default_rng(0))
    >>> draws(np.zeros((4, 2))).shape
    (4, 3)
    """
    _check_options(prior, n_groups, method)
    if isinstance(kernel, Functionals):
        if given is not None:
            # features are chosen as for values there
            given = replace(given, points=kernel.rows(given.points).X, root=None)
        inner = draw_prior(
            kernel.kernel,
            kernel.n_features,
            n_outputs,
            size,
            rng,
            prior=prior,
            n_basis=n_basis,
            n_groups=n_groups,
            domain=domain,
            method=method,
            given=given,
        )
        process = KernelProcess.prior(kernel, n_inputs, n_outputs)
        functionals = FunctionalTerm(inner.with_process(None), kernel)
        return FunctionDraws((functionals,), n_outputs, size, process)
    size_of_basis = checked_n_basis(n_basis, prior, n_inputs)
    if given is not None:
        check_sections(kernel, given.points)
    latent = latent_kernel(kernel)
    own_rng = rng.spawn(1)[0]
    process = KernelProcess.prior(latent, n_inputs, n_outputs)
    if prior == "grid":
        draws = _draw_on_grid(
            kernel,
            n_inputs,
            n_outputs,
            size,
            checked_domain(domain, n_inputs),
            size_of_basis,
            given,
            own_rng,
        )
        return draws.with_process(process)
    parts = None
    if prior != "exact":
        try:
            parts = decompose(kernel, n_inputs, method)
        except ValueError:
            if prior == "spectral":
                raise
    if parts is None:
        values = CachedPriorValues(process, size, own_rng)
        term = CachedTerm(values, np.arange(size))
        return FunctionDraws((term,), n_outputs, size, process)
    if not parts:
        raise _only_noise(kernel)
    # only a Sobol net has more of the high frequencies if data determine the low ones
    observed = given if method == "sobol" else None
    n_frequencies, tail_power, seed = choose_frequencies(
        latent,
        parts,
        size_of_basis,
        observed,
        own_rng,
    )
    # the first group has the frequencies that were compared
    net = np.random.default_rng(seed)
    groups = []
    for group in np.array_split(np.arange(size), n_groups):
        if size and not len(group):
            continue
        maps = [
            (part.variance, part.features(n_frequencies, tail_power, net))
            for part in parts
        ]
        group_size = len(group)
        terms = _random_terms(maps, n_inputs, (n_outputs, group_size), rng)
        groups.append(FunctionDraws(merged(terms), n_outputs, group_size))
    return side_by_side(groups).with_process(process)


def _random_terms(
    maps: list[tuple[float, FeatureMap]],
    n_inputs: int,
    shape: tuple[int, int],
    rng: Generator,
) -> list[Term]:
    """Independent terms ``√v φ(·)ᵀ w``, with w ~ N(0, I) for (outputs, draws).

    `maps` are pairs of a variance v and a feature map φ.
    """
    terms: list[Term] = []
    for variance, features in maps:
        _, width = features(np.zeros((1, n_inputs))).shape
        weights = rng.standard_normal((width, *shape))
        scaled_weights = np.sqrt(variance) * weights
        terms.append(LinearTerm(features, scaled_weights))
    return terms


def _only_noise(kernel: Kernel) -> ValueError:
    return ValueError(f"{kernel!r} is observation noise only: no function to draw.")


def _draw_on_grid(
    kernel: Kernel,
    n_inputs: int,
    n_outputs: int,
    size: int,
    domain: Array | None,
    n_basis: int | str | tuple[int, ...],
    given: Conditioning | None,
    rng: Generator,
) -> FunctionDraws:
    """Draws with a stationary part on a grid, and other parts that are exact."""
    points = np.empty((0, n_inputs))
    if given is not None:
        points = given.points
    box = box_of_grid(domain, points)
    stationary, other_terms = split_stationary(kernel, n_inputs)
    parts: list[Part] = []
    for term in other_terms:
        parts_of_term = _parts(term, kernel, n_inputs)
        if not all(part.exact for part in parts_of_term):
            raise ValueError(
                'prior="grid" needs stationary kernels, and linear ones beside them; '
                f"got a product of {list(term.factors)}, a part of {kernel!r}. Draw "
                'with prior="spectral".'
            )
        parts += parts_of_term
    if stationary is None and not parts:
        raise _only_noise(kernel)
    grid_rng, seed_rng = rng.spawn(2)
    exact_maps = [(part.variance, part.features(1, 1.0, seed_rng)) for part in parts]
    terms: list[Term] = []
    if stationary is not None:
        grid = prior_on_grid(
            stationary,
            latent_kernel(kernel),
            exact_maps,
            box,
            n_basis,
            given,
            seed_rng,
        )
        terms.append(grid.draw(n_outputs, size, grid_rng))
    terms += _random_terms(exact_maps, n_inputs, (n_outputs, size), rng)
    return FunctionDraws(merged(terms), n_outputs, size)


def checked_n_basis(n_basis: object, prior: str, n_inputs: int) -> Any:
    """Number of features or nodes: "auto", an integer or a tuple of integers.

    Raises
    ------
    ValueError
        For any other value, or for a tuple or list without at least two nodes along
        each input of a grid.
    """
    if isinstance(n_basis, tuple | list):
        allowed = all(isinstance(n, Integral) and int(n) >= 2 for n in n_basis)
        if prior != "grid" or len(n_basis) != n_inputs or not allowed:
            raise ValueError(
                'A tuple or list n_basis is for prior="grid": an integer of at least 2 '
                f"for the nodes along each of {n_inputs} inputs; got {n_basis!r} with "
                f"prior={prior!r}."
            )
        return tuple(int(n) for n in n_basis)
    if isinstance(n_basis, Integral) and int(n_basis) >= 2:
        return n_basis
    if not (isinstance(n_basis, str) and n_basis == "auto"):
        raise ValueError(
            'n_basis must be "auto", an integer of at least 2 or, with prior="grid", a '
            f"tuple or list of them; got {n_basis!r}."
        )
    return n_basis


def _check_options(prior: str, n_groups: int, method: str) -> None:
    if prior not in ("auto", "spectral", "exact", "grid"):
        raise ValueError(
            f'prior must be "auto", "spectral", "exact" or "grid"; got {prior!r}.'
        )
    if n_groups < 1:
        raise ValueError(f"n_groups must be at least 1; got {n_groups!r}.")
    if method not in ("sobol", "halton", "orthogonal", "mc"):
        raise ValueError(
            f'method must be "sobol", "halton", "orthogonal" or "mc"; got {method!r}.'
        )


# ---- Draws of a stationary process on a grid, exact at its nodes and splines between -


# ---- The process on a grid -----------------------------------------------------------


@dataclass(frozen=True)
class StationarySum:
    """Covariance of a sum of products of stationary kernels.

    Parameters
    ----------
    terms : tuple of Monomial
    n_features : int
    """

    terms: tuple[Monomial, ...]
    n_features: int

    def __call__(self, lags: Array) -> Array:
        """Covariances at lags (n, d), shape (n,)."""
        origin = np.zeros((1, self.n_features))
        total = np.zeros(len(lags))
        for term in self.terms:
            product = np.full(len(lags), term.coefficient)
            for factor in term.factors:
                product *= factor(lags, origin)[:, 0]
            total += product
        return total


@dataclass(frozen=True)
class Grid:
    """A stationary process at the nodes of a grid, and its spline between them.

    Parameters
    ----------
    box : ndarray of shape (d, 2)
        Where the process is defined; the first node is the lower corner.
    spacing : ndarray of shape (d,)
        Distance of neighbouring nodes.
    shape : tuple of int
        Coefficients of the spline along each axis: one for each node, and one beyond
        either end.
    roots : ndarray of the shape of the torus
        Roots of the eigenvalues of the covariance of the coefficients.
    clipped : float
        Variance in negative eigenvalues of the embedding, as a fraction.
    """

    box: Array
    spacing: Array
    shape: tuple[int, ...]
    roots: Array
    clipped: float

    @classmethod
    def of(
        cls,
        covariance: StationarySum,
        box: Array,
        n_nodes: Iterable[float],
        spacing: Array,
    ) -> Grid:
        """Grid with this number of nodes along each axis."""
        shape = tuple(int(n) + 2 for n in n_nodes)
        eigenvalues, clipped = lattice.embed(covariance, shape, spacing)
        # of the coefficients, from the eigenvalues of the values at the nodes
        transfer = lattice.spline_transfer(eigenvalues.shape)
        return cls(
            box=box,
            spacing=spacing,
            shape=shape,
            roots=np.sqrt(eigenvalues) / transfer,
            clipped=clipped,
        )

    def weights(self, X: Array) -> tuple[Index, Array, Array]:
        """Interpolation by the spline at the rows of X.

        Returns
        -------
        coefficients : ndarray of shape (n, 4^d)
            Positions of the coefficients of a row.
        weights : ndarray of shape (n, 4^d)
            Weights of these coefficients.
        slopes : ndarray of shape (n, 4^d, d)
            Derivatives of the weights in the inputs.

        Raises
        ------
        ValueError
            If a row is outside of the box.
        """
        low, high = self.box.T
        width = high - low
        middle = (low + high) / 2
        farthest = width / 2 + 1e-9 * width
        distance = np.abs(X - middle)
        outside = np.any(distance > farthest, axis=1)
        if outside.any():
            raise ValueError(
                f"These functions are defined on {self.box.tolist()}, the domain of "
                f"their grid; got {X[outside][0].tolist()}. State a larger domain, or "
                'draw with prior="spectral", which has none.'
            )
        # in units of the spacing
        positions = (np.clip(X, low, high) - low) / self.spacing
        coefficients, weights, slopes = lattice.spline_weights(positions, self.shape)
        return coefficients, weights, slopes / self.spacing

    def interpolation(self, X: Array) -> csr_array:
        """Matrix that maps coefficients to values at the rows of X."""
        coefficients, weights, _ = self.weights(X)
        n, width = weights.shape
        n_coefficients = int(np.prod(self.shape))
        row_starts = np.arange(0, n * width + 1, width)
        return csr_array(
            (weights.ravel(), coefficients.ravel(), row_starts),
            shape=(n, n_coefficients),
        )

    def covariance(self, functionals: Array, X: Array) -> Array:
        """Covariance of linear functionals (k, n) of the values at the rows of X."""
        # A = F W of functionals F and interpolation W
        n_coefficients = int(np.prod(self.shape))
        A = np.zeros((len(functionals), n_coefficients))
        # rows of interpolation weights at a time
        for rows in row_slices(len(X), 4096):
            F = functionals[:, rows]
            W = self.interpolation(X[rows])
            A += (W.T @ F.T).T
        # A C Aᵀ
        A_C = lattice.multiply(self.roots, self.shape, A)
        return A @ A_C.T

    def draw(self, n_outputs: int, size: int, rng: Generator) -> LinearTerm:
        """Independent draws of each output, as splines."""
        values = lattice.draw(self.roots, self.shape, n_outputs * size, rng)
        splines: Any = self
        return LinearTerm(splines, values.reshape(-1, n_outputs, size))

    # ---- The splines of the grid as features -----------------------------------------

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return len(self.box)

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add the splines with coefficients (n_coefficients, k) to out (n, k)."""
        out += self.interpolation(X) @ weights

    def at(self, X: Array, weights: Array) -> Array:
        """Draw i of coefficients (n_coefficients, c, s) at row i of X, (s, c)."""
        positions, row_weights, _ = self.weights(X)
        draws = np.arange(len(X))[:, np.newaxis]
        return np.einsum("pk,pkc->pc", row_weights, weights[positions, :, draws])

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        positions, row_weights, slopes = self.weights(X)
        coefficients = weights[index[:, np.newaxis], positions]
        values = np.einsum("pk,pk->p", row_weights, coefficients)
        return values, np.einsum("pkd,pk->pd", slopes, coefficients)


# ---- The choice of a grid ------------------------------------------------------------


def box_of_grid(domain: Array | None, points: Array) -> Array:
    """Box that a grid covers: a domain and all points, (d, 2).

    Without a domain the range of the points and a fifth of it on either side, or a
    width of one where the range is zero.

    Raises
    ------
    ValueError
        If there is neither a domain nor a point.
    """
    if domain is not None:
        points = np.concatenate((domain.T, points))
    elif not len(points):
        raise ValueError(
            'prior="grid" needs a domain: a lower and an upper bound of each of '
            f"{points.shape[1]} inputs, between which functions are drawn; got None."
        )
    low = points.min(axis=0)
    high = points.max(axis=0)
    if domain is None:
        margin = np.where(high > low, 0.2 * (high - low), 0.5)
        low = low - margin
        high = high + margin
    return np.column_stack((low, high))


def checked_domain(domain: ArrayLike | None, d: int) -> Array | None:
    """A domain as an array (d, 2).

    Raises
    ------
    ValueError
        If it has another shape, is not finite or has no width.
    """
    if domain is None:
        return None
    box = np.array(domain, dtype=np.float64)
    if box.shape == (2,) and d == 1:
        box = box[np.newaxis]
    is_box = box.shape == (d, 2) and np.isfinite(box).all()
    if not is_box or np.any(box[:, 1] <= box[:, 0]):
        raise ValueError(
            f"domain must hold a pair (lower, upper) of finite bounds for each input, "
            f"shape ({d}, 2), with lower < upper; got {np.asarray(domain).tolist()}."
        )
    return box


def split_stationary(
    kernel: Kernel,
    n_features: int,
) -> tuple[StationarySum | None, list[Monomial]]:
    """Split a kernel into a stationary part for a grid and other terms.

    Returns
    -------
    covariance : StationarySum or None
        The stationary part; None if there is none.
    other_terms : list of Monomial
        Terms with exact features, products that are not stationary, and noise.

    Raises
    ------
    ValueError
        If there are more than three inputs, or columns of categories.
    """
    if n_features > 3 or category_columns(kernel, n_features):
        raise ValueError(
            f'prior="grid" draws functions of one to three numbers; got {n_features} '
            f'inputs, and the kernel {kernel!r}. Draw with prior="spectral".'
        )
    stationary: list[Monomial] = []
    other_terms: list[Monomial] = []
    for term in expand(kernel):
        types = [type(factor) for factor in term.factors]
        # constants and periodic kernels have exact features, noise has no function
        excluded = not types or types == [ExpSineSquared] or WhiteKernel in types
        if not excluded and all(factor.is_stationary() for factor in term.factors):
            stationary.append(term)
        else:
            other_terms.append(term)
    if not stationary:
        return None, other_terms
    return StationarySum(tuple(stationary), n_features), other_terms


def choose_grid(
    covariance: StationarySum,
    box: Array,
    n_basis: int | str | tuple[int, ...],
    error_of: Callable[[Grid], float],
) -> Grid:
    """Grid with a spacing for nearly right standard deviations of draws.

    Parameters
    ----------
    covariance : StationarySum
    box : ndarray of shape (d, 2)
        Box that the grid covers.
    n_basis : "auto", int or tuple of int
        Number of nodes. "auto": as many as an error of 2 % needs, at most 2^16. An int:
        in total. A tuple: along each axis, for an evaluation at the nodes only.
    error_of : callable
        Predicts the error of the standard deviations of draws on a grid.

    Returns
    -------
    grid : Grid

    Warns
    -----
    PredictionWarning
        If an error of more than 2 % is predicted ("auto") or of more than 10 % (an
        int), or if more than 2 % of the variance is clipped (a tuple).
    """
    width = box[:, 1] - box[:, 0]
    # lags at which the correlation is a half, at most twice the width of the domain,
    # where a kernel hardly varies
    fractions = np.geomspace(1e-6, 2.0, 300)
    lengths = decay_lengths(covariance, np.outer(fractions, width), 0.5)

    def nodes(fineness: float) -> Array:
        return np.ceil(width / lengths * fineness) + 1

    def grid_of(fineness: float) -> Grid:
        spacing = lengths / fineness
        return Grid.of(covariance, box, nodes(fineness), spacing)

    def finest(max_nodes: int) -> float:
        """Largest fineness with at most so many nodes, or two along each axis."""
        candidates = np.geomspace(1e-7, 1e6, 3000)
        totals = np.prod([nodes(fineness) for fineness in candidates], axis=1)
        allowed = candidates[totals <= max(max_nodes, totals[0])]
        return float(allowed[-1])

    if isinstance(n_basis, str):
        limit = 0.02
        most_nodes = 2**16
        fineness = min(4.0, finest(most_nodes))
        grid = grid_of(fineness)
        error = error_of(grid)
        while error > limit and np.prod(nodes(1.4 * fineness)) <= most_nodes:
            fineness *= 1.4
            grid = grid_of(fineness)
            error = error_of(grid)
    elif isinstance(n_basis, tuple):
        # numbers for each axis: draws are looked at in the nodes, where they are exact
        limit = 0.02
        n_nodes = np.array(n_basis)
        spacing = width / (n_nodes - 1)
        grid = Grid.of(covariance, box, n_nodes, spacing)
        error = grid.clipped
    else:
        limit = 0.1
        grid = grid_of(finest(n_basis))
        error = error_of(grid)
    if error > limit:
        n_total = int(np.prod(np.array(grid.shape) - 2))
        warn(
            f"With a grid of {n_total} nodes the "
            f"standard deviations of draws are expected to be off by "
            f"{100 * error:.2g} % between them (root mean square). Pass a larger "
            'n_basis or a smaller domain, or use prior="spectral".',
            PredictionWarning,
        )
    return grid


def prior_on_grid(
    covariance: StationarySum,
    kernel: Kernel,
    others: list[tuple[float, FeatureMap]],
    box: Array,
    n_basis: int | str | tuple[int, ...],
    given: Conditioning | None,
    rng: Generator,
) -> Grid:
    """Grid for the stationary part of a process.

    Parameters
    ----------
    covariance : StationarySum
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    others : list of (variance, feature map)
        The other parts of the process.
    box : ndarray of shape (d, 2)
    n_basis : "auto", int or tuple of int
    given : Conditioning or None
        Points on which the draws will be conditioned.
    rng : numpy.random.Generator
        Picks the inputs at which errors are predicted.
    """
    if given is not None:
        errors = HeldOutErrors(kernel, given, rng, box)
        other_covariance = errors.covariance(others)

        def error_given_data(grid: Grid) -> float:
            on_grid = grid.covariance(errors.functionals, errors.points)
            std_error, _ = errors.misfit(other_covariance + on_grid)
            return max(std_error, grid.clipped)

        return choose_grid(covariance, box, n_basis, error_given_data)
    # without data: the variance at points of the box, between the nodes
    d = len(box)
    low, high = box.T
    points = low + rng.random((32, d)) * (high - low)
    exact_variance = kernel.diag(points)
    variance_of_grid = covariance(np.zeros((1, d)))
    other_variance = exact_variance - variance_of_grid

    values = np.eye(len(points))

    def error_of_prior(grid: Grid) -> float:
        on_grid = grid.covariance(values, points)
        variance = np.diagonal(on_grid) + other_variance
        log_ratios = 0.5 * np.log(variance / exact_variance)
        std_error = np.sqrt(np.mean(log_ratios**2))
        return max(float(std_error), grid.clipped)

    return choose_grid(covariance, box, n_basis, error_of_prior)
