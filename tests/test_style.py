"""Habits that make code hard to read, counted: they may not come back."""

import ast
import re

from tests.test_layering import nodes, trees

# Pronouns, adverbs and quantifiers: they do not say what a name holds.
VAGUE_NAMES = re.findall(
    r"\w+",
    """
    along alike alone apart at away beside both each end ends enough few found held how
    inside kept known least many more most near now one others own rest same several
    some together what where whole
    """,
)


def functions(tree):
    return nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef)


def stored_names(node):
    return [
        name.id for name in nodes(node, ast.Name) if isinstance(name.ctx, ast.Store)
    ]


def tuples_built_in(function):
    """Names of the local variables that a function assigns a tuple display to."""
    return {
        target.id
        for node in nodes(function, ast.Assign)
        if isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def test_no_call_unpacks_a_tuple_that_was_built_for_it():
    """``f(a=a, b=b)`` or a record, not ``how = a, b; f(*how)``."""
    bundles = []
    for name, tree in trees().items():
        for function in functions(tree):
            built = tuples_built_in(function)
            bundles += [
                f"{name}:{call.lineno} {ast.unparse(call.func)}(*{starred.value.id})"
                for call in nodes(function, ast.Call)
                for starred in call.args
                if isinstance(starred, ast.Starred)
                and isinstance(starred.value, ast.Name)
                and starred.value.id in built
            ]
    assert not bundles


def test_local_names_are_nouns():
    vague = [
        f"{name}:{function.lineno} {stored}"
        for name, tree in trees().items()
        for function in functions(tree)
        for stored in stored_names(function)
        if stored in VAGUE_NAMES
    ]
    assert not vague


def test_unlike_things_are_assigned_on_lines_of_their_own():
    """``a, b = x, y`` is for two parts of one thought."""
    pairs = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        for node in nodes(tree, ast.Assign)
        if isinstance(node.value, ast.Tuple)
        and any(isinstance(target, ast.Tuple) for target in node.targets)
    ]
    assert len(pairs) <= 20, pairs
