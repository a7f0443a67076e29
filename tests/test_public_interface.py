"""The public interface, name by name: a change of it must be meant.

    python tests/test_public_interface.py

writes the list again; what it changes belongs into the changelog.
"""

import importlib
import inspect
from pathlib import Path

import skgpx

LISTED = Path(__file__).with_name("public_interface.txt")


def signature(function):
    """Names and defaults of the parameters, without types."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(bare))


def members(cls):
    """Public methods and properties that the library defines, with signatures."""
    for name in sorted(dir(cls)):
        owner = next((c for c in cls.__mro__ if name in vars(c)), None)
        if name.startswith("_") or owner is None:
            continue
        if not owner.__module__.startswith("skgpx"):
            continue
        member = inspect.getattr_static(cls, name)
        if isinstance(member, (classmethod, staticmethod)):
            member = member.__func__
        # available_if
        member = getattr(member, "fn", member)
        if inspect.isfunction(member):
            yield f"{name}{signature(member)}"
        elif isinstance(member, property):
            yield name


def interface():
    """One line for each public name of each public module."""
    for module in ("", *sorted(skgpx._MODULES)):
        path = f"skgpx.{module}".rstrip(".")
        for name in sorted(importlib.import_module(path).__all__):
            item = getattr(importlib.import_module(path), name)
            if not inspect.isclass(item):
                yield f"{path}.{name}{signature(item) if callable(item) else ''}"
                continue
            yield f"{path}.{name}{signature(item)}"
            yield from (f"    {member}" for member in members(item))


def test_the_interface_is_the_one_that_is_listed():
    listed = LISTED.read_text().splitlines()
    found = list(interface())
    gone, new = set(listed) - set(found), set(found) - set(listed)
    assert found == listed, f"not found: {sorted(gone)}; not listed: {sorted(new)}"


if __name__ == "__main__":
    LISTED.write_text("\n".join(interface()) + "\n")
