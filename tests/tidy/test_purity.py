"""What calls itself pure reads no clock, draws no random number, and does no I/O.

import-linter holds the packages that are pure as a whole (`pyproject.toml`). A pure module beside impure ones says
so in its docstring, and is held here. Functions that act without an import are looked for in both.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from support.repository import ROOT, module_name, source_modules

SAYS_SO = re.compile(r"\bPure\b(?![,\s]+but\b)")
ACTS = frozenset(["open", "input", "print", "exec", "eval"])
"""Builtins that do I/O or run code."""
READS_THE_CLOCK = frozenset(["now", "today", "utcnow"])
"""Class methods of `date` and `datetime`."""
TEXT_ONLY = frozenset(["urllib.parse.quote", "urllib.parse.urlsplit", "pathlib.PurePosixPath"])
"""Parts of forbidden packages that compute on text."""


@cache
def _contracts() -> list[dict[str, list[str]]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = config["tool"]["importlinter"]["contracts"]
    return [contract for contract in contracts if contract["name"].startswith("purity: ")]


def _forbidden() -> frozenset[str]:
    return frozenset(_contracts()[0]["forbidden_modules"])


def _shells() -> set[str]:
    """Modules that the contracts allow to act."""
    return {ignored.partition(" -> ")[0] for contract in _contracts() for ignored in contract["ignore_imports"]}


@cache
def _pure() -> list[Path]:
    # each run of pytest collects this: only what has the word anywhere is parsed
    told = [path for path in source_modules() if SAYS_SO.search((ROOT / path).read_text())]
    return [path for path in told if SAYS_SO.search(_docstring(path))]


def _in_contracts() -> list[Path]:
    packages = tuple(f"{name}." for contract in _contracts() for name in contract["source_modules"])
    return [path for path in source_modules() if f"{module_name(path)}.".startswith(packages)]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def _docstring(path: Path) -> str:
    return ast.get_docstring(_tree(path)) or ""


def _imported(path: Path) -> set[str]:
    """Top-level packages, from imports anywhere in the module."""
    names = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[0] for name in names - TEXT_ONLY}


def _acting_calls(tree: ast.Module) -> list[str]:
    """Calls of builtins that act, and of the clock of `datetime`."""
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [
        call
        for call in calls
        if call in ACTS or (call.rpartition(".")[2] in READS_THE_CLOCK and "date" in call.rpartition(".")[0])
    ]


@pytest.mark.parametrize("path", _pure(), ids=str)
def test_what_calls_itself_pure_imports_nothing_that_acts(path: Path) -> None:
    assert _imported(path) & _forbidden() == set()


def test_what_is_pure_calls_nothing_that_acts() -> None:
    held = {*_pure(), *_in_contracts()}
    found = {str(path): calls for path in sorted(held) if (calls := _acting_calls(_tree(path)))}
    assert found == {}


def test_calls_that_act_are_seen() -> None:
    tree = ast.parse("open('f')\nnow()\ndatetime.now(UTC)\ndatetime.date.today()\nclock.now()\nself.open(1)")
    assert _acting_calls(tree) == ["open", "datetime.now", "datetime.date.today"]


def test_contracts_name_packages_and_forbid_the_same() -> None:
    contracts = _contracts()
    assert {frozenset(contract["forbidden_modules"]) for contract in contracts} == {_forbidden()}
    folders = {module_name(path) for path in source_modules() if path.name == "__init__.py"}
    assert [name for contract in contracts for name in contract["source_modules"] if name not in folders] == []


def test_no_shell_calls_itself_pure() -> None:
    shells = {name for name in _shells() if not name.endswith("*")}
    assert [path for path in _pure() if module_name(path) in shells] == []


def test_many_modules_are_pure() -> None:
    assert len(_pure()) > 70
