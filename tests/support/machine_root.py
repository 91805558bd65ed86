"""The root of containers that run programs of this machine: an image with nothing but its shape, and what is mounted.

So it is made in a moment, without a registry and without copying, and what is tested is what is installed here. Same
paths inside as outside: of programs, the interpreter and its environment, the repository.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from support.repository import ROOT

_SYSTEM = ("usr", "bin", "lib", "lib32", "lib64", "libx32")
_EMPTY = ("dev", "etc", "proc", "run", "sbin", "sys", "tmp", "var")  # the engine puts its init into sbin
_SETTINGS = (
    *("alternatives", "ca-certificates*", "group", "java*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("mime.types", "nsswitch.conf", "passwd", "protocols", "services", "ssl"),
)
"""What programs read in /etc; the rest, such as the names of hosts, is the engine's."""


@cache
def machine_folders() -> tuple[Path, ...]:
    """What every container sees of this machine, none inside of another."""
    system = [Path("/", name) for name in _SYSTEM if Path("/", name).is_dir() and not Path("/", name).is_symlink()]
    settings = [path for pattern in _SETTINGS for path in sorted(Path("/etc").glob(pattern))]
    python = [Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix), Path(sys.base_prefix).resolve()]
    wanted = dict.fromkeys((*system, *settings, *python, ROOT))
    return tuple(path for path in wanted if not any(other in path.parents for other in wanted))


def machine_environment() -> Mapping[str, str]:
    """By which programs find each other there."""
    path = os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"))
    return {"PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


def machine_root() -> bytes:
    """A tar of empty folders, and of the links that lead into /usr where this machine has such."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name in _EMPTY:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name in _SYSTEM:
            if Path("/", name).is_symlink():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, str(Path("/", name).readlink())
                tar.addfile(entry)
    return content.getvalue()
