"""A later version of headrace, to run beside this one: a copy that reports another version and another format."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from support.repository import ROOT


def other_version(folder: Path, version: str) -> Path:
    """Makes a folder for PYTHONPATH in which headrace has this version, and the next format of the ledger."""
    copy = folder / "headrace"
    shutil.copytree(ROOT / "platform/headrace", copy, ignore=shutil.ignore_patterns("__pycache__"))
    _edit(copy / "__init__.py", r'^__version__ = ".*"$', f'__version__ = "{version}"')
    _edit(copy / "coordinator/ledger/records.py", r"^FORMAT = 1$", "FORMAT = 2")
    return folder


def _edit(file: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text(), flags=re.MULTILINE)
    assert count == 1, file
    file.write_text(text)
