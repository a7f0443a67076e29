"""A panel of speed: works that users wait for, as ratios to a reference.

    python -m benchmarks.speed [--only PATTERN ...] [--output FILE]
                               [--against benchmarks/speed.json]

A row is a work of the README, the pages or `RESULTS.md`: a Metropolis step of each
likelihood's chains, fits, draws, intervals, predictions, the import, the first fit with
an empty cache of compiled kernels. It is measured in CPU seconds of one thread of BLAS,
alternating in one process with its *reference*: what the user would call instead where
there is such a thing, else `ARITHMETIC`, a fixed amount of products, logarithms and
normal numbers. The machine and its load cancel in the ratio *work / reference*, so
that smaller is faster.

``--against`` compares with a stored file and prints whatever takes at least
`TOLERANCE` more of its reference than stored. Such a row is mended or explained, like a
row of the panel of quality (`benchmarks.panel`). A run takes about three minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

import skgpx
from benchmarks.bench_product import rbf, rows_product
from benchmarks.bench_series import numpy_statistics
from benchmarks.bench_state_space import series
from benchmarks.report import RESULTS, machine, progress, table
from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx._hyperparameters import rough_start, row_target
from skgpx._iterative._product import KernelProduct
from skgpx._numerics import langevin, laplace
from skgpx._shell.validation import Rows
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gamma,
    Gaussian,
    Likelihood,
    NegativeBinomial,
    Poisson,
    StudentT,
)

Array = NDArray[np.float64]
Step = Callable[[], object]

# More of its reference than stored by this share is a regression.
TOLERANCE = 0.15
# Seconds that the rounds of one row may take, and rounds at most.
ROW_SECONDS, MOST_ROUNDS = 6.0, 9
# Rows, functions and chains of a Metropolis step, and steps of one call.
STEP_ROWS, STEP_BASIS, STEP_CHAINS, STEPS = 400, 100, 64, 50


class Contest(NamedTuple):
    """A work, and what it is compared with; ``clock`` gives CPU seconds."""

    work: Step
    reference: Step
    clock: Callable[[], float] = time.process_time


def children_seconds() -> float:
    """CPU seconds of all processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def arithmetic() -> None:
    """Products, logarithms and normal numbers, about a tenth of a CPU second."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((600, 600))
    for _ in range(4):
        A = A @ A
        A /= np.abs(A).max()
    np.log1p(np.exp(rng.standard_normal(1_000_000)))


# ---- Chains: one Metropolis step, against its products and normal numbers ------------


def step_problem(
    likelihood: Likelihood, n_rows: int = STEP_ROWS, n_chains: int = STEP_CHAINS
) -> tuple[langevin.Target, Array]:
    """Target over 100 functions in Laplace's coordinates, and chains to start from."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 4))
    centres = X[:STEP_BASIS]
    f = np.sin(X[:, 0]) + 0.5 * np.cos(2.0 * X[:, 1])
    y = example_targets(likelihood, f, rng)
    K = Matern(2.0, nu=1.5)(centres)
    lower = np.linalg.cholesky(K + 1e-8 * np.eye(len(K)))
    features = np.linalg.solve(lower, Matern(2.0, nu=1.5)(centres, X)).T.copy()
    prepared = likelihood.prepare(y)
    rows = Rows(X, y, np.ones(len(y)))
    if isinstance(prepared, Gaussian):
        precision = features.T @ features / 0.04
        target = langevin.quadratic_target(precision, features.T @ y / 0.04)
        covariance = np.linalg.inv(precision + np.eye(STEP_BASIS))
        centre = (covariance @ features.T @ y / 0.04)[np.newaxis]
        root = np.linalg.cholesky(covariance)[np.newaxis]
    else:
        target = row_target(features, rows, prepared)
        mode = laplace.find_mode(target, rough_start(target))
        root = mode.root
        centre = mode.weights.T.reshape(root.shape[:2])
    moved = langevin.in_coordinates(target, centre, root)
    return moved, rng.standard_normal((*centre.shape, n_chains))


def chain_steps(target: langevin.Target, z: Array) -> Step:
    """Metropolis steps of a block of chains."""
    state = langevin.start(target, z)
    scheme = langevin.ornstein_uhlenbeck(0.6)

    def steps() -> None:
        langevin.advance(target, state, scheme, STEPS, np.random.default_rng(1))

    return steps


def products_and_normals(target: langevin.Target, z: Array, features: Array) -> Step:
    """The products of as many steps over the features (n, m), and their noise."""
    root = target.root
    n_functions = features.shape[1]

    def floor() -> None:
        noise = np.random.default_rng(1)
        for _ in range(STEPS):
            w = root @ noise.standard_normal(z.shape)
            w = w.reshape(-1, n_functions, z.shape[2])
            slope = features.T @ (features @ w)
            root.transpose(0, 2, 1) @ slope.reshape(z.shape)

    return floor


def metropolis_step(likelihood: Likelihood) -> Contest:
    """Steps of 64 chains over 400 rows and 100 functions, in Laplace's coordinates."""
    target, z = step_problem(likelihood)
    features = target.features
    if target.code == langevin.QUADRATIC:
        # its steps do not depend on the rows; the floor is that of 400 rows
        features = np.random.default_rng(0).standard_normal((STEP_ROWS, STEP_BASIS))
    return Contest(chain_steps(target, z), products_and_normals(target, z, features))


def example_targets(likelihood: Likelihood, f: Array, rng: Any) -> Array:
    """Targets that the likelihood may have around a function."""
    noisy = f + 0.2 * rng.standard_normal(len(f))
    match likelihood:
        case Bernoulli():
            return (noisy > 0.0).astype(float)
        case Categorical():
            return np.digitize(noisy, [-0.5, 0.5]).astype(float)
        case Poisson() | NegativeBinomial():
            return rng.poisson(np.exp(f)).astype(float)
        case Gamma():
            return np.exp(noisy)
        case _:
            return noisy


# ---- A million rows ------------------------------------------------------------------


def million_rows(**parameters: Any) -> Contest:
    """A spectral process of one input against NumPy's sums of 101 functions."""
    rng = np.random.default_rng(0)
    X = rng.random((1_000_000, 1))
    y = np.sin(9.0 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    model = SpectralVGPRegressor(**parameters)
    return Contest(lambda: model.fit(X, y), lambda: numpy_statistics(X[:, 0], y, 101))


def predict_million() -> Contest:
    """Mean and standard deviation at a million rows of two inputs."""
    X, y = waves(n=500, d=2)
    model = PLSRegressor(random_state=0).fit(X, y)
    fresh = np.random.default_rng(1).uniform(-3.0, 3.0, (1_000_000, 2))
    return Contest(lambda: model.predict(fresh, return_std=True), arithmetic)


def predict_one() -> Contest:
    """Mean and standard deviation at one row, against scikit-learn's process."""
    X, y = waves(n=500, d=2)
    model = PLSRegressor(random_state=0).fit(X, y)
    peer = exact_peer(d=2).set_params(optimizer=None).fit(X, y)

    def hundred(fitted: Any) -> None:
        for row in X[:100]:
            fitted.predict(row[np.newaxis], return_std=True)

    return Contest(lambda: hundred(model), lambda: hundred(peer))


# ---- Fits ----------------------------------------------------------------------------


def waves(n: int, d: int) -> tuple[Array, Array]:
    """Rows of a smooth function with normal noise of standard deviation .1."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n, d))
    f = np.sin(2.0 * X[:, 0]) + 0.1 * X[:, -1] ** 2
    return X, f + 0.1 * rng.standard_normal(n)


def exact_peer(d: int) -> GaussianProcessRegressor:
    """scikit-learn's process with one lengthscale a column and learned noise."""
    kernel = 1.0 * RBF(np.ones(d), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 10.0))
    return GaussianProcessRegressor(kernel, normalize_y=True)


def fit(model: Any, n: int, d: int) -> Contest:
    """A fit against scikit-learn's process on the same, or the first 500, rows."""
    X, y = waves(n, d)
    peer = exact_peer(d)
    return Contest(lambda: model.fit(X, y), lambda: peer.fit(X[:500], y[:500]))


def long_series() -> Contest:
    """A default fit of a rough series of abundant rows, against arithmetic."""
    t, _, y = series(100_000, "normal")
    model = PLSRegressor(random_state=0)
    return Contest(lambda: model.fit(t[:, np.newaxis], y), arithmetic)


def classes(load: Callable[..., tuple[Array, Array]], peer: bool) -> Contest:
    """Default classes, against scikit-learn's or against arithmetic."""
    X, y = load(return_X_y=True)
    X = scale(X)
    model = PLSClassifier(random_state=0)
    other = GaussianProcessClassifier(1.0 * RBF(np.sqrt(X.shape[1])))
    reference = (lambda: other.fit(X, y)) if peer else arithmetic
    return Contest(lambda: model.fit(X, y), reference)


# ---- Draws, intervals, products ------------------------------------------------------


def draws() -> Contest:
    """64 draws at 1500 rows, drawing included, against `sample_y`."""
    rng = np.random.default_rng(0)
    X, fresh = rng.uniform(-3.0, 3.0, (100, 2)), rng.uniform(-3.0, 3.0, (1500, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    process = GaussianProcessRegressor(Matern(1.0, nu=2.5), alpha=0.01, optimizer=None)
    process.fit(X, y)
    sampler = DecoupledSampler(process).fit(X, y)
    return Contest(
        lambda: sampler.sample_functions(64, random_state=0)(fresh),
        lambda: process.sample_y(fresh, 64, random_state=0),
    )


def intervals() -> Contest:
    """90 % intervals under Student-t noise, against mean and standard deviation."""
    X, y = waves(n=400, d=1)
    model = PLSRegressor(likelihood=StudentT(), random_state=0).fit(X, y)
    fresh = np.linspace(-3.0, 3.0, 2000)[:, np.newaxis]
    return Contest(
        lambda: model.predict_interval(fresh),
        lambda: model.predict(fresh, return_std=True),
    )


def product() -> Contest:
    """A kernel matrix of 8000 rows times 33 columns, against NumPy by rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8000, 8))
    V = rng.standard_normal((8000, 33))
    multiply = KernelProduct(RBF(2.0), X, n_jobs=1)
    scaled = (X / 2.0).astype(np.float32)
    columns = V.astype(np.float32)
    return Contest(lambda: multiply(V), lambda: rows_product(rbf, scaled, columns))


# ---- Fresh processes -----------------------------------------------------------------

STUDENT_FIT = """
import warnings
import numpy as np
from skgpx import PLSRegressor
from skgpx.likelihoods import StudentT
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (200, 2))
y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
PLSRegressor(likelihood=StudentT(), random_state=0).fit(X, y)
"""


def program(source: str, cache: str = "") -> None:
    """Run a program in a fresh process, with an empty cache of kernels if named."""
    environment = os.environ | ({"SKGPX_NUMBA_CACHE": cache} if cache else {})
    subprocess.run([sys.executable, "-c", source], env=environment, check=True)


def import_library() -> Contest:
    """`import skgpx`, against `import sklearn.gaussian_process`."""
    return Contest(
        lambda: program("import skgpx"),
        lambda: program("import sklearn.gaussian_process"),
        children_seconds,
    )


def first_fit() -> Contest:
    """A Student-t fit that compiles its kernels, against the import of the peer."""

    def compile_and_fit() -> None:
        with tempfile.TemporaryDirectory() as cache:
            program(STUDENT_FIT, cache)

    return Contest(
        compile_and_fit,
        lambda: program("import sklearn.gaussian_process"),
        children_seconds,
    )


WORKS: dict[str, Callable[[], Contest]] = {
    "step, normal noise": lambda: metropolis_step(Gaussian(0.04)),
    "step, Student-t": lambda: metropolis_step(StudentT(df=4.0, scale=0.2)),
    "step, Bernoulli": lambda: metropolis_step(Bernoulli()),
    "step, three classes": lambda: metropolis_step(Categorical()),
    "step, Poisson": lambda: metropolis_step(Poisson()),
    "step, negative binomial": lambda: metropolis_step(NegativeBinomial()),
    "step, gamma": lambda: metropolis_step(Gamma()),
    "a million rows, 101 functions": lambda: million_rows(n_basis=101),
    "a million rows, default": lambda: million_rows(),
    "predict, a million rows": predict_million,
    "predict, one row": predict_one,
    "64 draws at 1500 rows": draws,
    "Student-t intervals": intervals,
    "a product, 8000 rows": product,
    "fit PLS, 400 rows": lambda: fit(PLSRegressor(random_state=0), 400, 2),
    "fit PLS Student-t, 400 rows": lambda: fit(
        PLSRegressor(likelihood=StudentT(), random_state=0), 400, 2
    ),
    "fit GWI, 400 rows": lambda: fit(GWIRegressor(random_state=0), 400, 2),
    "fit Stein, 400 rows": lambda: fit(SteinRFFRegressor(random_state=0), 400, 2),
    "fit Exact, 2000 rows": lambda: fit(ExactGPRegressor(random_state=0), 2000, 4),
    "fit PLS, 10 000 rows": lambda: fit(PLSRegressor(random_state=0), 10_000, 4),
    "fit PLS, a series of 100 000 rows": long_series,
    "classes, breast cancer": lambda: classes(load_breast_cancer, peer=True),
    "classes, digits": lambda: classes(load_digits, peer=False),
    "import": import_library,
    "first fit, empty cache": first_fit,
}


def measure(contest: Contest) -> tuple[list[float], list[float]]:
    """CPU seconds of both, alternating, until the time of a row is spent."""
    seconds: tuple[list[float], list[float]] = ([], [])
    # what is compiled, loaded or cached at the first call is left out, but for fresh
    # processes, which leave nothing behind
    if contest.clock is time.process_time:
        contest.reference()
        start = time.process_time()
        contest.work()
        if time.process_time() - start > ROW_SECONDS:
            seconds[0].append(time.process_time() - start)
            seconds[1].append(timed(contest.reference, contest.clock))
            return seconds
    begin = time.perf_counter()
    for _ in range(MOST_ROUNDS):
        seconds[0].append(timed(contest.work, contest.clock))
        seconds[1].append(timed(contest.reference, contest.clock))
        if time.perf_counter() - begin > ROW_SECONDS:
            break
    return seconds


def timed(step: Step, clock: Callable[[], float]) -> float:
    """CPU seconds of one call; short ones are repeated for 20 milliseconds."""
    start, n_calls = clock(), 0
    while True:
        step()
        n_calls += 1
        spent = clock() - start
        if spent > 0.02:
            return spent / n_calls


def rows_of(patterns: list[str]) -> Iterator[dict[str, Any]]:
    """Measure the works whose name holds a pattern."""
    for name, make in WORKS.items():
        if not any(pattern.lower() in name.lower() for pattern in patterns):
            continue
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            work, reference = (np.array(s) for s in measure(make()))
        row = {"work": name, "CPU ms": 1e3 * float(np.median(work))}
        row["reference ms"] = 1e3 * float(np.median(reference))
        row["work / reference"] = float(np.median(work / reference))
        row["reference / work"] = 1.0 / row["work / reference"]
        yield row | {"rounds": len(work)}


def slower(rows: list[dict[str, Any]], stored: list[dict[str, Any]]) -> list[Any]:
    """Rows that take more of their reference than stored."""
    before = {row["work"]: row["work / reference"] for row in stored}
    compared = [
        {
            "work": row["work"],
            "stored": before[row["work"]],
            "now": row["work / reference"],
            "times": row["work / reference"] / before[row["work"]],
        }
        for row in rows
        if row["work"] in before
    ]
    return [row for row in compared if row["times"] > 1.0 + TOLERANCE]


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, print; compare where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], metavar="PATTERN")
    parser.add_argument("--output", type=Path, default=RESULTS / "speed.json")
    parser.add_argument("--against", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    skgpx.compile_kernels()
    rows = []
    for row in rows_of(options.only):
        progress(row)
        rows.append(row)
    options.output.parent.mkdir(exist_ok=True)
    content = {"machine": machine(), "rows": rows}
    options.output.write_text(json.dumps(content, indent=1) + "\n")
    sys.stdout.write(f"{table(rows)}\n")
    if options.against is None:
        return 0
    regressions = slower(rows, json.loads(options.against.read_text())["rows"])
    sys.stdout.write(f"\nSlower by {TOLERANCE:.0%} or more: {len(regressions)}\n")
    sys.stdout.write(f"{table(regressions)}\n" if regressions else "")
    return int(bool(regressions))


if __name__ == "__main__":
    sys.exit(main())
