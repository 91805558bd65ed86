"""Where things lie, and what they may not be called."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from pathlib import Path

import pytest

from support.repository import ROOT, SOURCE_ROOTS, module_name, source_modules, tracked_files
from tidy.house import folder_pairs

WORDS_FOR_NOTHING = {"utils", "util", "common", "helpers", "helper", "manager", "misc", "base_impl"}
PROJECT = Path("platform/headrace/cli/pipelines/project")
"""What `headrace init` copies: data to the package, a folder of its own to the user."""


@pytest.mark.parametrize(
    ("root", "packages"), [("platform", {"headrace", "headrace_dev"}), ("connectors", {"headrace_connectors"})]
)
def test_a_source_root_holds_its_import_packages_and_nothing_else(root: str, packages: set[str]) -> None:
    # platform/__init__.py would hide the standard library's `platform`, connectors/kafka a library called `kafka`
    inside = {path.parts[1] for path in tracked_files() if path.parts[0] == root}
    assert inside == packages
    assert not (ROOT / root / "__init__.py").exists()


def test_no_module_has_a_name_that_says_nothing() -> None:
    found = [path for path in tracked_files() if path.suffix == ".py" and WORDS_FOR_NOTHING & set(_names(path))]
    assert found == []


def _names(path: Path) -> list[str]:
    return [*path.parts[:-1], path.stem]


def test_a_module_that_is_run_ends_with_its_call() -> None:
    """What comes after the call does not exist yet where the module runs, although it does where it is imported."""
    early = [
        path
        for path in source_modules()
        for statement in ast.parse((ROOT / path).read_text()).body[:-1]
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
    ]
    assert early == []


def test_every_package_has_content() -> None:
    modules = Counter(path.parent for path in source_modules())
    inner = {path.parent.parent for path in source_modules()}
    empty = [
        path
        for path in source_modules()
        if path.name == "__init__.py"
        and modules[path.parent] == 1
        and path.parent not in inner
        and len(ast.parse((ROOT / path).read_text()).body) <= 1
    ]
    assert empty == []


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in source_modules()} - {PROJECT}
    assert [folder for folder in folders if not (ROOT / folder / "__init__.py").is_file()] == []


def test_every_module_says_what_it_owns() -> None:
    roots = (*SOURCE_ROOTS, "benchmarks", "examples")
    modules = [path for path in tracked_files() if path.suffix == ".py" and path.parts[0] in roots]
    silent = [path for path in modules if not ast.get_docstring(ast.parse((ROOT / path).read_text()))]
    assert silent == []


def test_what_a_package_offers_is_there() -> None:
    offering = [path for path in source_modules() if path.name == "__init__.py" and "__all__" in _assigned(path)]
    missing = []
    for path in offering:
        module = importlib.import_module(module_name(path))
        missing += [f"{module.__name__}.{name}" for name in module.__all__ if not hasattr(module, name)]
    assert offering, "some package offers something"
    assert missing == []


def _assigned(path: Path) -> set[str]:
    statements = ast.parse((ROOT / path).read_text()).body
    targets = [target for node in statements if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_headrace_offers_its_api_lazily() -> None:
    import headrace
    import headrace.api

    assert all(getattr(headrace, name) is getattr(headrace.api, name) for name in headrace.api.__all__)


def test_folders_of_a_package_import_each_other_one_way_only() -> None:
    """But for parent and child. A pair has a thing that lies in the wrong room."""
    assert folder_pairs() == {}
