"""The layers of docs/architecture.md, enforced: imports point only downward."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import skgpx

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "skgpx"

# Each module of the package (a folder counts as one) and what it may import of it.
FLOOR = {"_numerics"}
CONCEPTS = {"likelihoods", "bases", "_draws", "kernels"}
BELOW_SHELL = FLOOR | CONCEPTS | {"_latent"}
DOOR = {"_validation", "_parallel", "_callbacks", "_stage_clock"}
LAYERS = {
    # L0: arrays in, arrays out
    "_numerics": set(),
    # L1: the nouns; likelihoods and bases do not know each other
    "likelihoods": FLOOR,
    "kernels": FLOOR,
    "_draws": FLOOR | {"kernels"},
    "bases": FLOOR | {"_draws", "kernels"},
    # L2: mean, basis and law of the weights, and mixtures of these
    "_latent": FLOOR | CONCEPTS,
    # L3: the shell around every estimator, and what several estimators share
    "_parallel": FLOOR,
    "_stage_clock": set(),
    "_callbacks": set(),
    "_arguments": FLOOR,
    "_validation": BELOW_SHELL | {"_arguments"},
    "_documentation": set(),
    "_searches": {"_validation"},
    "_row_quantities": BELOW_SHELL,
    "_predictive_law": BELOW_SHELL | {"_parallel", "_validation"},
    "_derived_laws": FLOOR | {"_predictive_law", "_validation"},
    "_left_out": BELOW_SHELL | {"_validation"},
    "_report": {"_left_out", "_numerics", "_searches", "_validation"},
    "_arviz": {"_validation"},
    "_base": BELOW_SHELL
    | {"_arviz", "_report"}
    | {"_documentation", "_predictive_law", "_row_quantities", "_validation"},
    "_row_statistics": BELOW_SHELL | DOOR,
    "_additive": {"_stage_clock", "_validation"},
    "_table": {"_validation"},
    "_cross_fitting": FLOOR | {"_parallel", "_searches", "_table", "_validation"},
    "_hyperparameters": BELOW_SHELL | DOOR,
    # L4: one room an estimator; they seldom import one another
    "_pls": BELOW_SHELL
    | DOOR
    | {"_base", "_hyperparameters", "_row_quantities", "_row_statistics"},
    # its default regressor is another estimator
    "_decoupled": BELOW_SHELL
    | DOOR
    | {"_documentation", "_hyperparameters", "_pls", "_predictive_law", "_searches"}
    | {"_derived_laws", "_report"},
    "_spectral_vgp": BELOW_SHELL
    | DOOR
    | {"_additive"}
    | {"_base", "_hyperparameters", "_row_quantities", "_row_statistics"},
    "_stein": BELOW_SHELL
    | DOOR
    | {"_additive"}
    | {"_base", "_documentation", "_hyperparameters", "_report", "_row_statistics"},
    "_gwi": BELOW_SHELL
    | DOOR
    | {
        "_base",
        "_cross_fitting",
        "_documentation",
        "_hyperparameters",
        "_row_statistics",
        "_table",
    },
    # the front: loops around draws
    "simulation": {"_draws", "_validation"},
    "calibration": FLOOR
    | {
        "_cross_fitting",
        "_derived_laws",
        "_documentation",
        "_hyperparameters",
        "_predictive_law",
        "_report",
        "_searches",
        "_stage_clock",
        "_table",
        "_validation",
    },
    "thompson": {"_decoupled", "_draws", "_numerics", "_searches", "_validation"},
    "_wrapped": {"_predictive_law", "_derived_laws", "_searches", "_validation"}
    | {"_decoupled", "_draws"},
    "_cross_validation": {"_derived_laws", "_parallel", "_predictive_law"}
    | {"_validation", "_wrapped"},
    "metrics": {"_derived_laws", "_numerics", "_predictive_law", "_searches"}
    | {"_validation", "_wrapped"},
    "inspection": {"_validation", "_wrapped", "metrics"},
    "_compilation": BELOW_SHELL
    | {"_pls", "_decoupled", "_spectral_vgp", "_stein", "_gwi"},
    # callbacks know the estimators by what they say only
    "callbacks": set(),
    "__init__": {
        "_compilation",
        "_cross_validation",
        "_decoupled",
        "_draws",
        "_gwi",
        "_pls",
        "_predictive_law",
        "_spectral_vgp",
        "_stein",
        "_wrapped",
    },
}

# Who may import what from outside, beyond the standard library.
ARRAYS = {"numpy", "scipy"}
THIRD_PARTY = {
    "_numerics": ARRAYS | {"numba", "threadpoolctl"},
    "_parallel": {"joblib"},
}
OTHERS_MAY = ARRAYS | {"sklearn"}
# The only doors to scikit-learn's private modules and to its young callback API.
PRIVATE_SKLEARN = {"_validation", "_callbacks"}
SAYS_NOTHING = {"utils", "helpers", "common", "core", "misc"}

FILES = sorted(PACKAGE.rglob("*.py"))
files = pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))


@cache
def tree_of(path):
    return ast.parse(path.read_text())


def module_of(path):
    """The first name under the package: the row of the layer table."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_names(node):
    """Dotted names that one import statement may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.module is None or node.level:
        return ["."]
    return [f"{node.module}.{alias.name}" for alias in node.names]


def imports(path):
    tree = tree_of(path)
    statements = [
        n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)
    ]
    return [name for statement in statements for name in imported_names(statement)]


def test_the_table_knows_every_module():
    assert {module_of(path) for path in FILES} <= set(LAYERS)


def test_the_table_points_only_downward():
    rows = list(LAYERS)
    for row, below in LAYERS.items():
        later = set(rows[rows.index(row) :])
        assert not below & later, f"{row} may import {below & later}, which is above it"


def test_the_tree_of_the_documentation_is_that_of_the_package():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folder, named = "", {}
    for line in text.split("```\n")[1].splitlines():
        words = re.findall(r"\b_?[a-z]\w*", line)
        if not line.startswith(" "):
            folder = words.pop(0)
        named.setdefault(folder, set()).update(words)
    listed = [name for name in named if name.startswith("_")]
    assert len(listed) == 8
    for name in listed:
        files = {path.stem for path in (PACKAGE / name).glob("*.py")} - {"__init__"}
        assert not files - named[name], name
        assert not {word for word in named[name] if word.startswith("_")} - files, name


@files
def test_imports_inside_the_package_point_downward(path):
    module = module_of(path)
    inside = [name.split(".") for name in imports(path) if name.startswith("skgpx")]
    assert [] not in [parts[1:] for parts in inside], "import a module, not the package"
    imported = {parts[1] for parts in inside} - {module}
    assert imported <= LAYERS[module], f"{module} may not import {imported}"


@files
def test_third_party_imports(path):
    module = module_of(path)
    roots = {name.split(".")[0] for name in imports(path)}
    foreign = roots - sys.stdlib_module_names - {"skgpx"}
    assert foreign <= THIRD_PARTY.get(module, OTHERS_MAY)


@files
def test_private_scikit_learn_has_one_door(path):
    names = [name for name in imports(path) if name.startswith("sklearn")]
    private = [
        name for name in names if "._" in name or name.startswith("sklearn.callback")
    ]
    assert not private or module_of(path) in PRIVATE_SKLEARN, private


@files
def test_no_import_inside_a_function(path):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nested = [
                n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)
            ]
            assert not nested, f"{path.name}:{nested[0].lineno}"


def lines_of_code(path):
    """Lines outside docstrings: explaining more must not split a file."""
    text = path.read_text()
    documented = [
        node.body[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and ast.get_docstring(node) is not None
    ]
    spent = sum(doc.end_lineno - doc.lineno + 1 for doc in documented)
    return len(text.splitlines()) - spent


def body_lengths(path):
    """Lines of the body of each function, its docstring and constructors left out."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef) and node.name != "__init__":
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body:
                yield node.name, body[-1].end_lineno - body[0].lineno + 1


@files
def test_files_are_short_and_named_after_what_they_hold(path):
    assert lines_of_code(path) <= 300
    assert path.stem not in SAYS_NOTHING


@files
def test_functions_are_short(path):
    assert not {name: n for name, n in body_lengths(path) if n > 30}


# Exact draws of a prior answer questions that are asked later.
KEEPS_A_GENERATOR = {"_draws/_remembered.py", "_draws/_remembered_states.py"}


@files
def test_no_generator_is_kept(path):
    kept = [
        ast.unparse(target)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if ast.unparse(target) in {"self.rng", "self._rng", "self.random_state_"}
    ]
    assert not kept or path.relative_to(PACKAGE).as_posix() in KEEPS_A_GENERATOR


# Loading sklearn.cluster would cost every user a seventh of the import time, and
# matplotlib and ArviZ are optional; the front modules are loaded when they are named.
LOADS_LATER = {"__init__.py", "bases/_selectors.py"}
LOADS_LATER |= {"_arviz.py", "inspection/_axes.py"}


@files
def test_what_is_loaded_later_is_listed(path):
    calls = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Call)]
    later = [c for c in calls if ast.unparse(c.func).endswith("import_module")]
    assert not later or path.relative_to(PACKAGE).as_posix() in LOADS_LATER


FACTORISATIONS = {"np.linalg.cholesky", "linalg.cholesky", "cho_factor"}
FACTORISATIONS |= {"linalg.lapack.dpotrf", "linalg.cho_factor"}


@files
def test_cholesky_and_its_jitter_have_one_place(path):
    calls = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Call)]
    found = {ast.unparse(call.func) for call in calls} & FACTORISATIONS
    assert not found or path.relative_to(PACKAGE).as_posix() == "_numerics/linalg.py"


IMPORT_AND_LOOK = """
import sys
import sklearn.gaussian_process  # loads pandas where it is installed

before = set(sys.modules)
import skgpx

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
