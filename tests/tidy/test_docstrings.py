"""Facts in docstrings: an error that a docstring names is one that exists."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

from support.repository import ROOT, SOURCE_ROOTS, tracked_files

RAISES = re.compile(r"Raises ((?:[A-Z][\w.]*(?:,\s+(?:and\s+|or\s+)?|\s+and\s+|\s+or\s+)?)+)")


def sources() -> dict[Path, str]:
    files = (path for path in tracked_files() if path.parts[0] in SOURCE_ROOTS and path.suffix == ".py")
    return {path: (ROOT / path).read_text() for path in files}


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def names_of(tree: ast.Module) -> set[str]:
    """Classes, imported names and attributes of a module: what its docstrings may name."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.alias(name=name) | ast.Attribute(attr=name) | ast.Name(id=name):
                names.add(name)
            case _:
                pass
    return names


def test_errors_that_docstrings_name_exist() -> None:
    trees = {path: ast.parse(text) for path, text in sources().items()}
    classes = {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    unknown = [
        f"{path}: {name}"
        for path, tree in trees.items()
        for text in docstrings(tree)
        for named in RAISES.findall(text)
        for name in (found.rpartition(".")[2] for found in re.findall(r"[A-Z][\w.]*\w", named))
        if name not in classes and not hasattr(builtins, name) and name not in names_of(tree)
    ]
    assert unknown == []
