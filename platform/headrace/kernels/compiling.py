"""Compiles the kernels in `c` into one shared library beside this file: `python compiling.py`.

Runs when the package is built and in tests, never in a process that processes rows. Imports only the standard library:
the build loads this file before the package can be imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).parent / "c"
LIBRARY = Path(__file__).parent / "headrace_kernels.so"
ZIG = "ziglang==0.15.2"
"""The package that contains a C compiler, for machines without one."""
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = (
    *("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-ffp-contract=off"),
    *("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wvla", "-Werror"),
)
SANITIZED = (
    *("-O1", "-g", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)
"""Flags of a build that aborts at the first access outside a buffer and at undefined behaviour."""


class CompilerError(Exception):
    """There is no C compiler, or it rejected the sources; the text is its output."""


def compiler() -> list[str] | None:
    """The command of a C compiler: `$CC`, else the system's, else the ziglang package's; None if there is none."""
    if chosen := os.environ.get("CC"):
        return shlex.split(chosen)
    for name in _COMPILERS:
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        # without a CPU, zig compiles for the one that it runs on; the wheel is for every machine of its platform
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    return None


def source_digest() -> str:
    """The digest of the sources, in hexadecimal. A library returns the digest of the sources it was compiled from."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.[ch]")):
        digest.update(str(path.relative_to(SOURCES)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def compile_library(output: Path, extra_flags: Sequence[str] = ()) -> None:
    """Writes the library to `output`. Raises CompilerError.

    The new file replaces the old one by a rename, so a process that has mapped the old file keeps it.
    """
    command = compiler()
    if command is None:
        raise CompilerError("no C compiler: install one (Debian, Ubuntu: apt install gcc), or name it in $CC")
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".compiling-") as folder:
        built = Path(folder) / output.name
        sources = [str(path) for path in sorted(SOURCES.rglob("*.c"))]
        digest = f'-DHEADRACE_SOURCE_DIGEST="{source_digest()}"'
        run = subprocess.run(
            [*command, *_FLAGS, *extra_flags, digest, f"-I{SOURCES}", "-o", str(built), *sources],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise CompilerError(f"{shlex.join(command)} failed:\n{run.stderr or run.stdout}")
        built.replace(output)


def main() -> int:
    """Compiles the library that the package loads; returns the exit code."""
    try:
        compile_library(LIBRARY)
    except CompilerError as error:
        print(f"kernels: {error}", file=sys.stderr)  # noqa: T201 - a command of the build
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
