"""Names of code on pages: files and modules in backticks, and the folders in the table of packages.

    `worker/task/ingest.py`     a tracked file whose path ends in this
    `headrace.core.types`       a module, or a name that a module offers
    `exchange.mailbox`          the same, relative to `headrace`
    | `worker` | `task/`: ..    a folder of that package

On pages for users only the long forms are names of code (`headrace.spark.replay`, `headrace.Pipeline`): a short one may
be a setting (`checkpoint.interval`) or a file (`headrace.env`).
"""

from __future__ import annotations

import importlib
import re
import tomllib
from functools import cache
from pathlib import Path, PurePosixPath

from support.repository import ROOT, module_name, source_modules, tracked_files

PACKAGES = ("headrace", "headrace_connectors", "headrace_dev")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[\w./-]+\.py")
_DOTTED = re.compile(r"\w+(\.\w+)+")
_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (.*) \|$", re.MULTILINE)
_FOLDER = re.compile(r"`([\w/]+)/`")


def is_for_developers(page: Path) -> bool:
    """Whether a page is about the code; others are about its use."""
    return page.name in {"ARCHITECTURE.md", "CONTRIBUTING.md"} or page.parent == Path("docs/decisions")


def dead_names(text: str, *, developers: bool) -> list[str]:
    """Returns the names in a page's text that lead to no file, module or definition."""
    quoted = _QUOTED.findall(_FENCED.sub("", text))
    return [name for name in quoted if not _is_alive(name, developers=developers)]


def dead_folders(text: str) -> list[str]:
    """Returns the folders that a table of packages names and that are not in their package."""
    return [
        f"{packages}: {folder}/"
        for packages, owned in _ROW.findall(text)
        for folder in _FOLDER.findall(owned)
        if not any(_has_folder(package, folder) for package in _QUOTED.findall(packages))
    ]


def _has_folder(package: str, folder: str) -> bool:
    """A folder that holds tracked files: one with leftovers of the interpreter alone is in no other checkout."""
    path = Path("platform/headrace", package, folder)
    return any(path in tracked.parents for tracked in tracked_files())


def _is_alive(name: str, *, developers: bool) -> bool:
    if _FILE.fullmatch(name):
        return any(PurePosixPath(path).match(name) for path in tracked_files())
    if not _DOTTED.fullmatch(name):
        return True
    root = name.partition(".")[0]
    if root in PACKAGES and (developers or _is_long(name)):
        return _is_code(name) or name in _entry_point_groups()
    if developers and f"headrace.{root}" in _modules():
        return _is_code(f"headrace.{name}")
    return True


def _is_long(name: str) -> bool:
    *owners, last = name.split(".")
    return len(owners) > 1 or last[0].isupper()


def _is_code(name: str) -> bool:
    """Whether this is a module, or a name that a module offers."""
    owner, _, last = name.rpartition(".")
    return name in _modules() or (owner in _modules() and hasattr(importlib.import_module(owner), last))


@cache
def _modules() -> frozenset[str]:
    return frozenset(module_name(path) for path in source_modules())


@cache
def _entry_point_groups() -> frozenset[str]:
    return frozenset(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"])
