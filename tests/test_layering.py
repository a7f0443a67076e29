"""The rules of docs/architecture.md: imports point downward, code has a ceiling."""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import skgpx

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "skgpx"

# Each module of the package (a folder counts as one) and what it may import of it.
FLOOR = {"_numerics", "exceptions"}
EVERYWHERE = {"_row_budgets", "_types"}
CONCEPTS = {"likelihoods", "bases", "_draws", "kernels"}
BELOW_SHELL = FLOOR | CONCEPTS | {"_latent"}
SHARED = BELOW_SHELL | {"_hyperparameters", "_prediction", "_reports", "_shell"}
SHARED |= {"diagnostics"}
METHODS = {"_pls", "_spectral_vgp", "_stein", "_gwi", "_iterative"}
LAYERS = {
    # what every layer may say
    "exceptions": set(),
    "_version": set(),
    "_row_budgets": set(),
    "_types": set(),
    # L0: arrays in, arrays out
    "_numerics": {"exceptions"},
    # L1: the nouns; likelihoods and bases do not know each other
    "likelihoods": FLOOR,
    "kernels": FLOOR,
    "_draws": FLOOR | {"kernels"},
    "bases": FLOOR | {"_draws", "kernels"},
    # L2: mean, basis and distribution of the weights, and mixtures of these
    "_latent": FLOOR | CONCEPTS,
    # L3: the shell around every estimator, and what several estimators share
    "_shell": BELOW_SHELL | {"_version"},
    "diagnostics": BELOW_SHELL | {"_shell"},
    "_reports": BELOW_SHELL | {"_shell", "_version"},
    "_prediction": BELOW_SHELL | {"_reports", "_shell", "diagnostics"},
    "_hyperparameters": BELOW_SHELL | {"_shell", "diagnostics"},
    # L4: one room an estimator; they do not import one another
    "_posterior": SHARED,
    "_cells": SHARED | {"_posterior"},
    "_pls": SHARED | {"_cells", "_posterior"},
    "_spectral_vgp": SHARED,
    "_stein": SHARED,
    "_gwi": SHARED,
    "_iterative": SHARED,
    # the front
    # a meta-estimator, which has other estimators for many rows
    "_decoupled": SHARED | {"_iterative", "_pls"},
    "simulation": {"_draws", "_shell"},
    "_front": SHARED | {"_decoupled"},
    "_decisions": BELOW_SHELL
    | {"_decoupled", "_hyperparameters", "_pls", "_reports", "_shell"},
    "thompson": {"_decisions"},
    "integrations": {"_decisions"},
    "metrics": {"_front", "_numerics", "_prediction", "_shell"},
    "inspection": {"_front", "_reports", "_shell", "kernels", "metrics"},
    # a program, which nothing imports
    "demo": {"_front", "_pls", "inspection", "likelihoods", "metrics"},
    "__init__": METHODS | {"_decoupled", "_draws", "_front", "_prediction", "_version"},
}
# Files that may import less than their folder, or more.
FILES = {
    "_decisions/_acquisition.py": {"_draws", "_numerics"},
    "_front/compilation.py": SHARED | METHODS | {"_decoupled"},
}

# Who may import what from outside, beyond the standard library.
ARRAYS = {"numpy", "scipy"}
THIRD_PARTY = {
    "_numerics": ARRAYS | {"numba", "threadpoolctl"},
    "_shell/parallel.py": ARRAYS | {"joblib", "sklearn"},
    # types only: it is loaded when the first picture is drawn
    "inspection": ARRAYS | {"sklearn", "matplotlib"},
    "integrations/optuna.py": ARRAYS | {"sklearn", "optuna"},
}
OTHERS_MAY = ARRAYS | {"sklearn"}
# The only doors to scikit-learn's private modules and to its young callback API.
PRIVATE_SKLEARN = {"_shell/validation.py", "_shell/callbacks.py"}

# Ceiling on the size of the package, in tokens of code. Docstrings, comments and lines
# are free: a keyword argument costs the same wherever the line breaks. It is set by
# hand, and falls but for a feature, as by 11 000 for optimisation and by 1500 for
# scales of several targets and of optimisation and trends of classes. There is room for
# a likelihood, a kernel or a warning of a contributor; no room of the package has one
# of its own.
CEILING = 404_400
LARGEST_FILE = 7000

SOURCES = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}


@cache
def trees():
    """Syntax of every file, which workers that only collect tests do not ask for."""
    return {name: ast.parse(source) for name, source in SOURCES.items()}


def module_of(name):
    """The first name under the package: the row of the layer table."""
    return name.split("/")[0].removesuffix(".py")


@cache
def walk(tree):
    """All nodes of a file or of a function, which several tests go through."""
    return tuple(ast.walk(tree))


def nodes(tree, *kinds):
    return [node for node in walk(tree) if isinstance(node, kinds)]


def imported_names(node):
    """Dotted names that one import statement may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.module is None or node.level:
        return ["."]
    return [f"{node.module}.{alias.name}" for alias in node.names]


@cache
def imports():
    return {
        name: [
            imported
            for statement in nodes(tree, ast.Import, ast.ImportFrom)
            for imported in imported_names(statement)
        ]
        for name, tree in trees().items()
    }


def test_the_table_knows_every_module_and_points_only_downward():
    assert {module_of(name) for name in SOURCES} <= set(LAYERS)
    rows = list(LAYERS)
    for row, below in LAYERS.items():
        later = set(rows[rows.index(row) :])
        assert not below & later, f"{row} may import {below & later}, which is above it"


def test_the_layers_of_the_documentation_name_every_module():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split("## The layers")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", section))
    assert set(LAYERS) - {"__init__"} <= named


def test_imports_inside_the_package_point_downward():
    wrong = []
    for name, imported in imports().items():
        module = module_of(name)
        for target in imported:
            parts = target.split(".")
            if parts[0] == "skgpx" and parts[1:2] != [module]:
                layers = FILES.get(name, LAYERS[module]) | EVERYWHERE
                allowed = len(parts) > 1 and parts[1] in layers
                wrong += [] if allowed else [f"{name} imports {target}"]
    assert not wrong


def test_modules_do_not_import_one_another():
    """Not for their types either: a module can be read after those that it imports."""
    files = {
        "skgpx." + name.removesuffix(".py").replace("/", "."): name for name in trees()
    }
    files = {dotted.removesuffix(".__init__"): name for dotted, name in files.items()}
    # names that a folder has from its files
    origins = {}
    for folder, name in files.items():
        if name.endswith("__init__.py"):
            for node in nodes(trees()[name], ast.ImportFrom):
                for alias in node.names:
                    origins[f"{folder}.{alias.name}"] = f"{node.module}.{alias.name}"
    graph = {}
    for dotted, name in files.items():
        graph[dotted] = set()
        for target in () if name.endswith("__init__.py") else imports()[name]:
            while target in origins:
                target = origins[target]
            module = target if target in files else target.rpartition(".")[0]
            graph[dotted] |= {module} & set(files) - {dotted}
    TopologicalSorter(graph).prepare()


def test_imports_from_outside():
    wrong = []
    for name, imported in imports().items():
        module = module_of(name)
        known = THIRD_PARTY.get(name) or THIRD_PARTY.get(module, OTHERS_MAY)
        known = known | sys.stdlib_module_names
        for target in imported:
            private = re.match(r"sklearn\.(callback|.*\._|_)", target)
            if target.split(".")[0] not in known | {"skgpx"} or (
                private and name not in PRIVATE_SKLEARN
            ):
                wrong.append(f"{name} imports {target}")
    assert not wrong


def test_no_import_inside_a_function():
    wrong = [
        f"{name}:{statement.lineno}"
        for name, tree in trees().items()
        for function in nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef)
        for statement in nodes(function, ast.Import, ast.ImportFrom)
    ]
    assert not wrong


def documentation(tree):
    """Line numbers of the docstrings of a module."""
    documented = nodes(tree, ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [node.body[0] for node in documented if ast.get_docstring(node) is not None]
    return {n for text in texts for n in range(text.lineno, text.end_lineno + 1)}


SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT}
SILENT |= {tokenize.DEDENT, tokenize.ENDMARKER}


def tokens_of_code(name):
    """Number of tokens outside of docstrings and comments."""
    tokens = tokenize.generate_tokens(io.StringIO(SOURCES[name]).readline)
    documented = documentation(trees()[name])
    return sum(t.type not in SILENT and t.start[0] not in documented for t in tokens)


def test_the_package_stays_below_its_ceiling():
    tokens = {name: tokens_of_code(name) for name in SOURCES}
    size = sum(tokens.values())
    assert size <= CEILING, f"{size} tokens: see CONTRIBUTING.md, on the ceiling"
    assert not {name: n for name, n in tokens.items() if n > LARGEST_FILE}


@cache
def calls(tree):
    return {ast.unparse(node.func) for node in nodes(tree, ast.Call)}


def test_warnings_have_one_door():
    warning = {name for name, tree in trees().items() if "warnings.warn" in calls(tree)}
    assert warning == {"exceptions.py"}


FACTORISATIONS = {"np.linalg.cholesky", "linalg.cholesky", "cho_factor"}
FACTORISATIONS |= {"linalg.lapack.dpotrf", "linalg.cho_factor"}


def test_cholesky_and_its_jitter_have_one_place():
    found = {name for name, tree in trees().items() if calls(tree) & FACTORISATIONS}
    assert found <= {"_numerics/linalg.py"}


IMPORT_AND_LOOK = """
import sys
import sklearn.gaussian_process  # loads pandas where it is installed

before = set(sys.modules)
import skgpx

assert not {"skgpx.thompson", "skgpx.simulation", "skgpx.inspection"} & set(sys.modules)
assert skgpx.thompson.ThompsonSampler and skgpx.simulation and skgpx.inspection
assert {"thompson", "likelihoods", "PLSRegressor"} <= set(dir(skgpx))
assert not hasattr(skgpx, "nothing")

heavy = {"matplotlib", "torch", "pandas", "dask", "distributed", "rich"}
loaded = heavy & (set(sys.modules) - before)
assert not loaded, f"import skgpx loads {loaded}"

ours = [m for name, m in sys.modules.items() if name.split(".")[0] == "skgpx"]
members = [(m.__name__, k, v) for m in ours for k, v in vars(m).items()]
kernels = [v for v in members if type(v[2]).__module__.startswith("numba.")]
compiled = [f"{m}.{name}" for m, name, v in kernels if getattr(v, "signatures", None)]
assert not compiled, f"import skgpx compiles {compiled}"
"""


def test_import_loads_nothing_heavy_and_compiles_nothing():
    command = [sys.executable, "-W", "error", "-c", IMPORT_AND_LOOK]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_version_is_the_one_in_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert skgpx.__version__ == project["version"]
