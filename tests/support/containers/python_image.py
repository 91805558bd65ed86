"""An image as `python:slim` is one, of files of this machine: an interpreter with its venv module, a shell, a compiler.

It is what images are built on where there is no registry. Unlike `machine_image` it needs no mounts, so it runs on any
engine; it has no packages.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from headrace.kernels.compiling import SOURCES
from support.containers.engine import SESSION_LABEL, engine_client
from support.containers.machine_files import (
    compiler_files,
    python_files,
    python_program,
    standard_libraries,
    with_libraries,
)

_PROGRAMS = ("sh", "mkdir", "chmod", "ls", "cat", "env", "id")
_LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "librt.so.1", "libpthread.so.0", "libdl.so.2")
"""Those that wheels of Linux may expect on every machine."""
_LINKS = ("bin", "lib", "lib64", "sbin")
_FOLDERS = {"dev": 0o755, "proc": 0o755, "sys": 0o755, "etc": 0o755, "var": 0o755, "run": 0o755, "tmp": 0o1777}
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


def python_image(
    environment: Mapping[str, str], *, has_compiler: bool = True, files: frozenset[Path] = frozenset()
) -> str:
    """Returns the id of a new image of this session.

    environment: further variables of all that is built on it; files: further files of this machine.
    """
    path = os.pathsep.join((str(python_program().parent), "/usr/local/bin", "/usr/bin", "/bin"))
    variables = {"PATH": path, "LANG": "C.UTF-8", **environment}
    changes = [f"LABEL {SESSION_LABEL}", *(f"ENV {name}={value}" for name, value in variables.items())]
    with engine_client() as client:
        answer = client.api.import_image_from_data(python_root(has_compiler=has_compiler, files=files), changes=changes)
    return str(json.loads(answer.splitlines()[-1])["status"])


@cache
def python_root(*, has_compiler: bool, files: frozenset[Path] = frozenset()) -> bytes:
    """Returns the root of the image, as a tar file. files: further ones of this machine."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", dereference=True) as tar:
        for name, mode in _FOLDERS.items():
            _add_folder(tar, Path(name), mode)
        for name in _LINKS:
            if Path("/", name).is_symlink():
                _add_link(tar, Path(name), Path("/", name).readlink())
        for name, text in _TEXTS.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
        _add_files(tar, _files(has_compiler=has_compiler) | files)
        _add_link(tar, _inside(python_program().with_name("python")), Path(python_program().name))
    return content.getvalue()


def _files(*, has_compiler: bool) -> set[Path]:
    programs = with_libraries(Path("/bin", name) for name in _PROGRAMS)
    libraries = with_libraries(standard_libraries(_LIBRARIES))
    compiler = compiler_files(sorted(SOURCES.rglob("*.c")), SOURCES) if has_compiler else set[Path]()
    return programs | libraries | python_files() | compiler


def _add_files(tar: tarfile.TarFile, files: Iterable[Path]) -> None:
    """Adds files with the folders above them, which everybody may enter."""
    seen: set[Path] = set()
    for path, inside in sorted((path, _inside(path)) for path in files):
        for folder in reversed(inside.parents[:-1]):
            if folder not in seen and str(folder) not in _FOLDERS:
                seen.add(folder)
                _add_folder(tar, folder, 0o755)
        if inside not in seen:
            seen.add(inside)
            tar.add(path, str(inside), filter=_of_root)


def _inside(path: Path) -> Path:
    """Returns where a file is below the root, after the links of folders on its way."""
    return (path.parent.resolve() / path.name).relative_to("/")


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _add_folder(tar: tarfile.TarFile, path: Path, mode: int) -> None:
    entry = tarfile.TarInfo(str(path))
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)


def _add_link(tar: tarfile.TarFile, path: Path, target: Path) -> None:
    entry = tarfile.TarInfo(str(path))
    entry.type, entry.linkname = tarfile.SYMTYPE, str(target)
    tar.addfile(entry)
