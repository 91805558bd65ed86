"""Files of this machine that make a root of their own: programs with the libraries that they load, a compiler, Python.

Each keeps its path, so nothing has to be configured: only what is copied differs from the machine's root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path

_LOADED = re.compile(r"(?:=> )?(/\S+) \(0x")
_PROGRAMS_OF_CC = ("cc1", "as", "ld", "collect2")
_LIBRARIES_OF_CC = ("liblto_plugin.so",)
_FLAGS_OF_CC = ("-std=c11", "-O3")
"""Which headers of the C library others include depends on them."""
_LEFT_OUT = {"test", "tests", "site-packages", "dist-packages", "idlelib", "tkinter", "turtledemo", "lib2to3"}
"""Folders of the standard library that nothing here imports, and packages that were installed beside it."""
_NOT_RUN = {"docs", "include", "jmods", "legal", "man"}
"""Folders of a Java that programs do not read."""


def with_libraries(files: Iterable[Path]) -> set[Path]:
    """Returns the files, and every shared library that the loader loads for them."""
    named = sorted(files)
    printed = subprocess.run(["ldd", *map(str, named)], capture_output=True, text=True, check=False).stdout
    return {*named, *(Path(found) for found in _LOADED.findall(printed))}


def standard_libraries(names: Iterable[str]) -> set[Path]:
    """Returns shared libraries by name, as the linker finds them. Raises LookupError for one that it does not."""
    paths = {name: Path(_asked(f"-print-file-name={name}")) for name in names}
    missing = [name for name, path in paths.items() if not path.is_absolute()]
    if missing:
        raise LookupError(f"no shared library {', '.join(missing)}")
    return set(paths.values())


def python_files() -> set[Path]:
    """Returns the interpreter of this environment, and its standard library, without what was installed into it."""
    library = Path(sysconfig.get_path("stdlib"))
    files = {
        path
        for path in library.rglob("*")
        if path.is_file() and not _LEFT_OUT & set(path.relative_to(library).parts) and path.suffix != ".a"
    }
    extensions = [path for path in files if path.suffix == ".so"]
    # where a distribution keeps what its ensurepip installs
    wheels = sysconfig.get_config_var("WHEEL_PKG_DIR")
    bundled = set(Path(wheels).glob("*.whl")) if wheels else set[Path]()
    return files | bundled | with_libraries([python_program(), *extensions])


def python_program() -> Path:
    """Returns the interpreter that this environment was made of."""
    return Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")


def program_files(names: Iterable[str]) -> set[Path]:
    """Returns programs of this machine by name, and the libraries that they load. Raises LookupError."""
    return with_libraries(_found(name) for name in names)


def java_files(home: Path) -> set[Path]:
    """Returns a Java, with the libraries of this machine that it loads. home: its folder, without links."""
    files = {path for path in home.rglob("*") if path.is_file() and path.relative_to(home).parts[0] not in _NOT_RUN}
    return with_libraries({path for path in files if path.suffix == ".so" or path.parent.name == "bin"}) | files


def compiler_files(sources: Iterable[Path], include: Path) -> set[Path]:
    """Returns the C compiler `cc`, and all that it reads to make a shared library of these sources."""
    programs = {_found("cc"), *(_found(_asked(f"-print-prog-name={name}")) for name in _PROGRAMS_OF_CC)}
    plugins = {Path(_asked(f"-print-file-name={name}")) for name in _LIBRARIES_OF_CC}
    rules = subprocess.run(
        ["cc", "-M", *_FLAGS_OF_CC, f"-I{include}", *map(str, sources)], capture_output=True, text=True, check=True
    ).stdout
    headers = {Path(word) for word in rules.replace("\\\n", " ").split() if word.startswith("/")}
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.c"
        empty.touch()
        command = ["cc", "-shared", "-fPIC", "-Wl,--trace", "-o", f"{empty}.so", str(empty)]
        trace = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    linked = {path for line in trace.splitlines() if (path := Path(line)).is_file()}
    own = {path for path in headers if include not in path.parents}
    return with_libraries(programs | plugins) | own | linked


def _asked(question: str) -> str:
    return subprocess.run(["cc", question], capture_output=True, text=True, check=True).stdout.strip()


def _found(program: str) -> Path:
    # some lie where not every user's path leads
    path = shutil.which(program, path=os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin")))
    if path is None:
        raise LookupError(f"no program {program}")
    return Path(path)
