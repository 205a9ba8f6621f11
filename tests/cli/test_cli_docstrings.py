"""The docstrings of the public names have the sections of numpydoc, and their parameters are those of the code."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

import tacit

NAMES = [name for name in tacit.__all__ if name != "__version__"]
CANNOT_FAIL = ("list_environments", "list_learners")


def sections(text: str) -> dict[str, str]:
    """Title -> body of the numpydoc sections of a docstring."""
    parts = re.split(r"^([A-Z][a-z]+)\n-+\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listed(body: str) -> set[str]:
    """The names that a section describes: `a, b : type` describes two."""
    heads = re.findall(r"^(\S.*)$", body, flags=re.MULTILINE)
    return {name.strip().strip("*`") for head in heads for name in head.partition(" : ")[0].split(",")}


def names_of(found: object) -> set[str]:
    """Parameters of a function or class, fields of a dataclass."""
    if dataclasses.is_dataclass(found):
        return {item.name for item in dataclasses.fields(found)}
    asked = set(inspect.signature(found).parameters)
    return asked - {"self"}


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_the_sections_of_numpydoc(name):
    found = getattr(tacit, name)
    there = sections(inspect.getdoc(found) or "")
    assert ">>> " in there.get("Examples", "")
    if isinstance(found, type) and issubclass(found, Exception):
        return
    described = set().union(*(listed(there[title]) for title in ("Parameters", "Attributes") if title in there))
    assert names_of(found) - described - {"keywords"} == set()
    if not isinstance(found, type):
        assert {"Returns"} | (set() if name in CANNOT_FAIL else {"Raises"}) <= set(there)


def test_a_parameter_without_a_description_is_found():
    text = "Do.\n\nParameters\n----------\na, b : int\n    Two.\n\nReturns\n-------\nint\n    One."
    assert (set(sections(text)), listed(sections(text)["Parameters"])) == ({"Parameters", "Returns"}, {"a", "b"})
