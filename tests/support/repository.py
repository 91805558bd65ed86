"""The repository as files: what tidy tests look at. Asks git, so that only tracked files count."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("platform", "connectors")


@cache
def tracked_files() -> tuple[Path, ...]:
    """Tracked files that are there, relative to the root."""
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    return tuple(path for name in listing.split("\0") if name and (ROOT / (path := Path(name))).is_file())


def source_modules() -> list[Path]:
    """The tracked Python files of the two import packages, relative to the root."""
    return [path for path in tracked_files() if path.parts[0] in SOURCE_ROOTS and path.suffix == ".py"]


def pages() -> list[Path]:
    """The tracked Markdown files, relative to the root."""
    return [path for path in tracked_files() if path.suffix == ".md"]


def module_name(path: Path) -> str:
    """`platform/headrace/core/__init__.py` -> `headrace.core`."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
