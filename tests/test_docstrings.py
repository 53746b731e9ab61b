"""What users call says in its docstring what it takes and what it returns, in numpydoc's sections."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum

import pytest

import fcxplain
from fcxplain import plots

SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$", re.MULTILINE)


def members(owner: type) -> Iterator[tuple[str, Callable[..., object]]]:
    """The methods that a class itself defines for others to call."""
    for name, found in vars(owner).items():
        found = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        if not name.startswith("_") and inspect.isfunction(found):
            yield f"{owner.__name__}.{name}", found


def public() -> dict[str, object]:
    """Everything in `fcxplain` and `fcxplain.plots` that users call, and the methods of its classes."""
    found: dict[str, object] = {f"plots.{name}": getattr(plots, name) for name in plots.__all__}
    for name in fcxplain.__all__:
        thing = getattr(fcxplain, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            found[name] = thing
            found |= dict(members(thing)) if inspect.isclass(thing) else {}
    return found


def sections(doc: str) -> dict[str, str]:
    """The text of each section by its title."""
    parts = SECTION.split(doc)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def taken(thing: object) -> list[str]:
    """The parameters of a callable; those of a class are its constructor's, if that is its own."""
    names = list(inspect.signature(thing).parameters)
    # A protocol or an enumeration is not made by its users.
    if inspect.isclass(thing) and (names == ["args", "kwargs"] or issubclass(thing, Enum)):
        return []
    return [name for name in names if name not in ("self", "cls")]


def lacking(thing: object) -> list[str]:
    """What a docstring does not say."""
    doc = inspect.getdoc(thing) or ""
    if not doc:
        return ["a docstring"]
    told, faults = sections(doc), []
    # What is made by us and read by others has attributes rather than parameters.
    listed = told.get("Parameters", "") + told.get("Attributes", "") * inspect.isclass(thing)
    named = {n.lstrip("*") for line in ENTRY.findall(listed) for n in line.split(", ")}
    faults += [f"parameter {name}" for name in taken(thing) if name not in named]
    returned = None if inspect.isclass(thing) else inspect.signature(thing).return_annotation
    if returned not in (None, "None", inspect.Signature.empty) and not {"Returns", "Yields"} & set(told):
        faults.append("Returns")
    return faults


@pytest.mark.parametrize("name", list(public()))
def test_the_docstring_says_what_it_takes_and_returns(name: str):
    assert lacking(public()[name]) == []


def test_every_public_class_and_function_has_an_example():
    own = {name: thing for name, thing in public().items() if "." not in name.removeprefix("plots.")}
    assert [
        name for name, thing in own.items() if ">>>" not in sections(inspect.getdoc(thing)).get("Examples", "")
    ] == []


def test_the_examples_in_docstrings_run_and_print_what_they_say():
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    tried = [
        runner.run(test).attempted for name, thing in public().items() for test in finder.find(thing, name, globs={})
    ]
    assert runner.summarize(verbose=False).failed == 0
    assert sum(tried) > 10
