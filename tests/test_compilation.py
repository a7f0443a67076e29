"""What is compiled, when, and what is said about it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

ANNOUNCED = """
import numpy as np
import skgpx
from skgpx._numerics import elementary, trigonometry

for _ in range(2):
    elementary.exp(0.1)
    trigonometry.cosines_and_sines(*np.ones((2, 1, 1)), np.ones(1), np.ones((2, 1)))
"""

COMPLETE = """
import importlib, pkgutil, warnings
import numpy as np
from numba.core import event
from numba.core.dispatcher import Dispatcher

import skgpx
import skgpx._numerics as floor
from skgpx._numerics._jit import Formula
from sklearn.gaussian_process.kernels import ExpSineSquared, Matern
from skgpx.kernels import Linear
from skgpx.likelihoods import Poisson, RobustMax, StudentT

warnings.simplefilter("ignore")
names = [module.name for module in pkgutil.iter_modules(floor.__path__)]
modules = [importlib.import_module(f"skgpx._numerics.{name}") for name in names]
members = [value for module in modules for value in vars(module).values()]
kernels = {value for value in members if isinstance(value, Dispatcher)}
formulas = {value for value in members if isinstance(value, Formula)}


def called(function):
    # kernels that a function calls are compiled with it
    code, names = function.__code__, function.__globals__
    found = [names.get(name) for name in code.co_names]
    return {value for value in found if isinstance(value, Dispatcher)}


inner = set().union(*(called(kernel.py_func) for kernel in kernels))
inner |= set().union(*(called(formula._function) for formula in formulas))
inner |= {k for k in kernels if k.targetoptions.get("inline") == "always"}
state = np.random.get_state()[1].copy()
skgpx.compile_kernels()
assert np.array_equal(state, np.random.get_state()[1]), "the global seed was used"
left = [k.__name__ for k in kernels - inner if not k.signatures]
left += [f._function.__name__ for f in formulas if "address" not in vars(f)]
# under normal noise the posterior is in closed form, and no chain calls the formula
assert left in ([], ["_gaussian"]), left


class Listener(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        assert not function.__module__.startswith("skgpx"), function.__name__

    def on_end(self, event):
        pass


event.register("numba:compile", Listener())
X = np.random.default_rng(1).random((30, 3))
skgpx.SteinFourierFeatures(n_steps=7).fit_transform(X)
y = np.sin(5.0 * X[:, 0]) + X[:, 1]
brief = {"optimizer": None, "random_state": 0, "n_particles": 10, "max_iter": 40}
models = [
    skgpx.PLSRegressor(**brief).fit(X, y),
    skgpx.PLSRegressor(likelihood=StudentT(), **brief).fit(X, y),
    skgpx.PLSRegressor(likelihood=Poisson(), method="smc", **brief).fit(X, y > 1.0),
    skgpx.PLSClassifier(**brief).fit(X, y > 1.0),
    skgpx.SpectralVGPRegressor().fit(X[:, :1], y),
    skgpx.SteinRFFRegressor(n_frequencies=8, max_iter=5, random_state=0).fit(X, y),
    skgpx.ExactGPRegressor(n_draws=3).fit(X, y),
    skgpx.DecoupledSampler().fit(X, y),
    skgpx.GWIRegressor(max_iter=2).fit(X, y),
    skgpx.GWIClassifier(max_iter=2, likelihood=RobustMax()).fit(X, y > 1.0),
    skgpx.GWIClassifier(max_iter=2).fit(X, np.digitize(y, (0.8, 1.2))),
]
times = np.random.default_rng(1).random((400, 1))
waves = np.sin(9.0 * times[:, 0])
sums = Matern(nu=0.5) * ExpSineSquared() + ExpSineSquared() + Linear()
models += [
    skgpx.PLSRegressor(Matern(nu=2.5), random_state=0).fit(times, waves),
    skgpx.PLSRegressor(sums, optimizer=None).fit(times, waves),
]
models[-1].partial_fit([[2.0]], [0.0])
for model in models:
    rows = X[:, : model.n_features_in_]
    model.predict(rows)
    draws = model.sample_functions(2, random_state=0)
    draws(rows), draws.at(rows[:2]), draws.value_and_grad(rows)
"""


def run(program, cache=None):
    environment = os.environ | ({"SKGPX_NUMBA_CACHE": str(cache)} if cache else {})
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    return done.stderr.splitlines()


def test_compilation_is_announced_once_and_only_where_there_is_some(tmp_path):
    [line] = run(ANNOUNCED, tmp_path)
    assert line.startswith("Compiling once, some seconds")
    assert str(tmp_path) in line
    assert "skgpx.compile_kernels()" in line
    # not in a process that has kept kernels, and compiles another one
    assert run(ANNOUNCED.replace("elementary.exp", "elementary.erfcx"), tmp_path) == []


def test_nothing_is_left_to_compile_after_the_call_that_compiles():
    assert run(COMPLETE) == []


def compiled_functions():
    """Names and bodies of the functions that are given to numba."""
    for path in sorted((ROOT / "skgpx" / "_numerics").glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            names = {ast.unparse(d) for d in getattr(node, "decorator_list", [])}
            if names & {"kernel", "reduction", "inlined", "Formula"}:
                yield f"{path.stem}.{node.name}", node


def test_no_kernel_assigns_an_array_to_a_slice():
    # numba compiles the message of its error too, for some seconds: see `elementwise`
    found = []
    for name, function in compiled_functions():
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign) or isinstance(node.value, ast.Constant):
                continue
            tuples = isinstance(node.value, ast.Tuple)
            values = node.value.elts if tuples else [node.value]
            for target in node.targets:
                targets = target.elts if isinstance(target, ast.Tuple) else [target]
                sliced = any("[:" in t or ":]" in t for t in map(ast.unparse, targets))
                if sliced and not all(isinstance(v, ast.Constant) for v in values):
                    found.append(f"{name}: {ast.unparse(node)}")
    assert not found
