"""What calls itself pure reads no clock, draws no random number, and does no I/O.

import-linter holds the packages that are pure as a whole (`pyproject.toml`). A pure module beside impure ones says
so in its docstring, and is held here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.repository import ROOT, source_modules

IMPURE = frozenset(
    [
        "asyncio",
        "concurrent",
        "threading",
        "multiprocessing",
        "subprocess",
        "signal",
        "socket",
        "select",
        "os",
        "shutil",
        "tempfile",
        "time",
        "random",
        "secrets",
        "uuid",
        "grpc",
        "httpx",
        "fastapi",
        "uvicorn",
        "botocore",
        "fsspec",
        "pyspark",
        "sqlalchemy",
    ]
)
SAYS_SO = re.compile(r"\bPure\b(?![,\s]+but\b)")


def _pure() -> list[Path]:
    return [path for path in source_modules() if SAYS_SO.search(_docstring(path))]


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse((ROOT / path).read_text())) or ""


def _imported(path: Path) -> set[str]:
    """Top-level packages, from imports anywhere in the module."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", _pure(), ids=str)
def test_what_calls_itself_pure_imports_nothing_that_acts(path: Path) -> None:
    assert _imported(path) & IMPURE == set()


def test_many_modules_are_pure() -> None:
    assert len(_pure()) > 70
