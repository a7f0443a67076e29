"""Docstrings against code: parameters, their order and defaults, and attributes."""

import ast
import importlib
import inspect
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import skgpx
from skgpx import (
    DecoupledSampler,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
)
from skgpx.thompson import ThompsonSampler

MODULES = [
    "bases",
    "exceptions",
    "inspection",
    "kernels",
    "likelihoods",
    "metrics",
    "simulation",
    "thompson",
]


def public_objects():
    """Every public class and function, once, by the name users know."""
    found = {f"skgpx.{name}": getattr(skgpx, name) for name in skgpx.__all__}
    for module in MODULES:
        loaded = importlib.import_module(f"skgpx.{module}")
        for name in loaded.__all__:
            found[f"skgpx.{module}.{name}"] = getattr(loaded, name)
    kinds = inspect.isclass, inspect.isroutine
    return {n: one for n, one in found.items() if any(kind(one) for kind in kinds)}


def documented_callables():
    """Public functions, constructors, and public methods of this library's classes."""
    for name, one in public_objects().items():
        yield name, one
        if inspect.isclass(one):
            for method in dir(one):
                function = getattr(one, method)
                ours = getattr(function, "__module__", "") or ""
                if (
                    not method.startswith("_")
                    and (inspect.isfunction(function) or inspect.ismethod(function))
                    and ours.startswith("skgpx.")
                ):
                    yield f"{name}.{method}", function


CALLABLES = dict(documented_callables())


def section(docstring, title):
    """Lines of a numpydoc section."""
    lines = docstring.splitlines()
    rules = [
        i
        for i in range(1, len(lines))
        if lines[i] and set(lines[i]) == {"-"} and len(lines[i]) == len(lines[i - 1])
    ]
    for i, rule in enumerate(rules):
        if lines[rule - 1] == title:
            end = rules[i + 1] - 1 if i + 1 < len(rules) else len(lines)
            return lines[rule + 1 : end]
    return []


def entries(docstring, title):
    """(name, type, description) of each entry of a section, names taken apart."""
    found = []
    for line in section(docstring, title):
        if line and not line.startswith(" "):
            names, _, kind = line.partition(" : ")
            found.append(([name.strip("* ") for name in names.split(",")], kind, []))
        elif found:
            found[-1][2].append(line.strip())
    return [
        (name, kind, " ".join(text)) for names, kind, text in found for name in names
    ]


def signature_of(one):
    """Parameters by name, without self."""
    try:
        given = inspect.signature(one).parameters
    except ValueError:
        return {}
    return {name: p for name, p in given.items() if name not in ("self", "cls")}


def test_parameters_are_those_of_the_signature_in_their_order():
    for name, one in CALLABLES.items():
        documented = [
            entry[0] for entry in entries(inspect.getdoc(one) or "", "Parameters")
        ]
        actual = [given for given in signature_of(one) if not given.startswith("_")]
        assert not documented or documented == actual, name


def test_every_public_object_documents_its_parameters():
    for name, one in public_objects().items():
        text = inspect.getdoc(one)
        attributes = {entry[0] for entry in entries(text, "Attributes")}
        documented = {entry[0] for entry in entries(text, "Parameters")}
        assert text.strip()
        if isinstance(one, type) and "__init__" not in vars(one) and not documented:
            continue  # constructed by others, or a tuple of its attributes
        assert set(signature_of(one)) <= documented | attributes, name


def value_of(text):
    """A default as it is written, or None."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


STATED = re.compile(r"default(?:s to |=|: )\s*(\".*?\"|\([^)]*\)|[^\s,;]+)")


def wrong_defaults(one):
    """Parameters whose documented default is not that of the signature."""
    signature = signature_of(one)
    for name, kind, _ in entries(inspect.getdoc(one) or "", "Parameters"):
        parameter = signature.get(name)
        if parameter is None or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            continue
        actual = parameter.default
        stated = STATED.search(kind)
        if "factory" in repr(actual) or (actual is not parameter.empty and not stated):
            if "optional" not in kind:
                yield f"{name}: its default is not stated"
        elif actual is parameter.empty:
            if stated:
                yield f"{name} has no default"
        else:
            text = stated.group(1).rstrip(".")
            quoted = text.startswith('"')
            if value_of(text) != actual or quoted != isinstance(actual, str):
                yield f"{name}: {text} is stated, {actual!r} is the default"


def test_defaults_are_those_of_the_signature():
    wrong = {name: list(wrong_defaults(one)) for name, one in CALLABLES.items()}
    assert len(wrong) > 500
    assert not {name: found for name, found in wrong.items() if found}


# ---- Attributes ----------------------------------------------------------------------

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30)
REGRESSOR = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None)
BRIEF = {"optimizer": None, "n_inducing": 6, "n_particles": 6, "random_state": 0}


@pytest.fixture(scope="module")
def models():
    thompson = ThompsonSampler([[0.0, 1.0]], n_initial=0, n_mesh=20, random_state=0)
    thompson.tell([[0.1], [0.7]], [0.0, 1.0]).ask(1)
    unfitted = {
        "regressor": PLSRegressor(**BRIEF),
        "classifier": PLSClassifier(**BRIEF),
        "fourier": SpectralVGPRegressor(RBF(), basis="fourier"),
        "inducing": SpectralVGPRegressor(RBF(), basis="inducing"),
        "decoupled": DecoupledSampler(REGRESSOR, random_state=0),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {
            name: model.fit(X, Y > 0.0 if name == "classifier" else Y)
            for name, model in unfitted.items()
        }
    return found | {"thompson": thompson}


NAMES = ["regressor", "classifier", "fourier", "inducing", "decoupled", "thompson"]


@pytest.mark.parametrize("name", NAMES)
def test_attributes_that_are_documented_exist_and_others_do_not(name, models):
    model = models[name]
    documented = {one for one, _, _ in entries(inspect.getdoc(model), "Attributes")}
    documented -= {"feature_names_in_", "categories_"}
    assert documented == {one for one in documented if hasattr(model, one)}
    properties = {
        one
        for one, value in inspect.getmembers(type(model))
        if isinstance(value, property) and one.endswith("_") and one[0] != "_"
    }
    stored = {one for one in vars(model) if one.endswith("_") and one[0] != "_"}
    assert stored | properties <= documented


def test_the_spectrum_sums_to_the_variance_that_the_basis_explains(models):
    model = models["inducing"]
    basis = model.posterior_.basis
    explained = np.mean(np.sum(basis(X) ** 2, axis=1)) * model.posterior_.scale**2
    assert_allclose(np.sum(model.spectrum_), np.ravel(explained)[0], rtol=1e-6)
