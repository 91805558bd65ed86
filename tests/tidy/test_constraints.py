"""`constraints.txt` pins everything that the package, its extras and its development need, and nothing else."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from itertools import chain

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from support.repository import ROOT

PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.+!-]*)")


def _lines() -> list[str]:
    text = (ROOT / "constraints.txt").read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _pins() -> dict[str, str]:
    found = (PIN.fullmatch(line) for line in _lines())
    return {canonicalize_name(match[1]): match[2] for match in found if match is not None}


def _declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = [project["build-system"]["requires"], project["project"]["dependencies"]]
    lists += project["project"]["optional-dependencies"].values()
    return [Requirement(text) for text in chain.from_iterable(lists)]


def test_every_line_is_one_exact_version() -> None:
    assert [line for line in _lines() if PIN.fullmatch(line) is None] == []
    assert len(_pins()) == len(_lines())


def test_every_declared_dependency_is_pinned_within_its_bounds() -> None:
    pins = _pins()
    own = [item for item in _declared() if canonicalize_name(item.name) != "headrace"]
    assert [item.name for item in own if canonicalize_name(item.name) not in pins] == []
    assert [str(item) for item in own if not item.specifier.contains(pins[canonicalize_name(item.name)])] == []


def test_what_dependencies_depend_on_is_pinned_too() -> None:
    """Follows what installed distributions say of themselves, on this Python and platform."""
    pins = _pins()
    wanted = [item for item in _declared() if canonicalize_name(item.name) != "headrace"]
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        item = wanted.pop()
        name, extras = canonicalize_name(item.name), frozenset(item.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for text in metadata.requires(name) or ():
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                wanted.append(inner)
    assert sorted({name for name, _ in seen} - pins.keys()) == []


def test_every_pin_runs_on_the_lowest_python_that_the_package_allows() -> None:
    """Debian 12 has Python 3.11.2, and some libraries ask for a later 3.11."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    floor = re.fullmatch(r">=(\d+\.\d+)", project["requires-python"])
    assert floor is not None
    lowest = f"{floor[1]}.0"
    known = {name: metadata.metadata(name) for name in _pins()}
    needs = {name: said["Requires-Python"] for name, said in known.items() if "Requires-Python" in said}
    assert {name: need for name, need in needs.items() if lowest not in SpecifierSet(need)} == {}
