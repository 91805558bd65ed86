"""An environment that differs from the running one in one library only."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from headrace.core.settings import cache_folder

_VERSIONS = re.compile(r"^Available versions: (.*)$", re.MULTILINE)
_QUIETLY = ("--quiet", "--only-binary", ":all:", "--disable-pip-version-check")


class NotInstalledError(Exception):
    """pip found no wheel of that version for this Python, or reached no package index."""


class Environment:
    """A virtual environment in `folder` that sees every package of the running one behind its own.

    Creating it copies nothing: a path file adds the running environment's packages.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.python = folder / "bin" / "python"
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        base = sysconfig.get_paths()["purelib"]
        (own,) = folder.glob("lib/python*/site-packages")
        # addsitedir, not the bare path: the running environment's own path files count too
        (own / "running.pth").write_text(f"import site; site.addsitedir({base!r})\n")

    def install(self, version: str) -> None:
        """Installs `name==version` and what it needs beside it. Asks the index only for wheels that no earlier run has
        kept. Raises NotInstalledError."""
        # wheels are for one Python
        kept = cache_folder() / "wheels" / f"{version}-{sys.implementation.cache_tag}"
        if not kept.is_dir():
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=kept.parent) as fresh:
                complete = Path(fresh, "wheels")
                self._pip("download", "--dest", str(complete), version)
                complete.rename(kept)
        self._pip("install", "--no-index", "--no-deps", *map(str, sorted(kept.glob("*.whl"))))

    def versions(self, requirement: Requirement) -> list[str]:
        """Versions within the range that the index has wheels of for this Python, the oldest first; empty: it has
        none, or does not answer."""
        command = [sys.executable, "-m", "pip", "index", "versions", *_QUIETLY[1:], requirement.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = _VERSIONS.search(done.stdout)
        listed = [] if found is None else [text.strip() for text in found[1].split(",")]
        return sorted(requirement.specifier.filter(listed), key=Version)

    def install_newest(self, requirement: str) -> None:
        """Installs the newest version that the index has within a range. Raises NotInstalledError."""
        self._pip("install", "--upgrade", requirement)

    def _pip(self, *words: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), words[0], *_QUIETLY, *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise NotInstalledError(said[-1] if said else "pip failed")

    def version_of(self, name: str) -> str:
        """The version that an import gets."""
        code = f"from importlib.metadata import version; print(version({name!r}))"
        return subprocess.run([str(self.python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    def remove(self) -> None:
        """Deletes it."""
        shutil.rmtree(self._folder, ignore_errors=True)
