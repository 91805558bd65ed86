"""The package of connectors outside of headrace as pip would leave it on the path, without installing anything."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from headrace.connect import registry

PACKAGE = Path(__file__).parent / "third_party"


def third_party_path(folder: Path) -> list[Path]:
    """Folders for the import path: the package's modules, and metadata, made in `folder` from its own pyproject."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = folder / f"headrace_tiny-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return [folder, PACKAGE]


@contextmanager
def importable(path: Sequence[Path]) -> Iterator[None]:
    """Folders of `third_party_path` are on this process's import path inside, and their connectors are known."""
    with patch.object(sys, "path", [*map(str, path), *sys.path]):
        _forget_installed()
        yield
    _forget_installed()


def _forget_installed() -> None:
    importlib.invalidate_caches()
    registry._entries.cache_clear()
