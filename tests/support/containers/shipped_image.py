"""The image of deploy/k8s without its build: a base of this machine's Python, the packages of this environment, and the
second stage of the Dockerfile, which is executed here. No engine. Needs root.

It differs from the image that `headrace_image` builds in how the package came to `/opt/headrace`: copied, not built and
installed from a wheel. User, variables, entry point and what `RUN` does are those of the Dockerfile.
"""

from __future__ import annotations

import io
import json
import os
import py_compile
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from support.containers.headrace_image import EXTRAS
from support.containers.machine_files import python_program
from support.containers.python_image import python_root
from support.distributions.required import required_names
from support.kubernetes.nodes.image_archive import write_image
from support.patience import WAIT_SECONDS
from support.repository import ROOT

NAME = "headrace/shipped:1"
RECIPE = ROOT / "deploy/k8s/Dockerfile"
_PREFIX = Path("/opt/headrace")
_OWN = (ROOT / "platform/headrace", ROOT / "connectors/headrace_connectors")
_LEFT_OUT = re.compile(r"/(tests?|include)/|\.pyi$|\.(c|h|hpp|pxd)$")
"""Files of packages that nothing imports, a fifth of all."""
_PROGRAM = "import sys\nfrom headrace.__main__ import main\nsys.exit(main())\n"
_PATHS = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_INSTRUCTION = re.compile(r"(FROM|COPY|RUN|ENV|WORKDIR|USER|ENTRYPOINT) (.*)")


@dataclass
class _Stage:
    """What the last stage asks for."""

    commands: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)


@contextmanager
def shipped_image() -> Iterator[Path]:
    """Inside, there is an archive of the image `NAME`, which nodes import."""
    stage = _last_stage(RECIPE.read_text(), python_program().parent)
    variables = [f"{name}={value}" for name, value in stage.variables.items()]
    base = python_root(has_compiler=False)
    with TemporaryDirectory() as folder, TemporaryFile() as packages:
        _write_packages(packages, Path(folder) / "compiled")
        changed = _changes(base, stage.commands, Path(folder) / "root")
        archive = Path(folder) / "image.tar"
        write_image(archive, NAME, [io.BytesIO(base), packages, changed], {**stage.settings, "Env": variables})
        yield archive


def _last_stage(recipe: str, programs: Path) -> _Stage:
    """Reads the instructions after the last FROM. programs: of the base, on its path. Fails for one that is unknown."""
    text = re.sub(r"\\\n\s*", "", recipe.rpartition("\nFROM ")[2].partition("\n")[2])
    stage = _Stage(variables={"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"})
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = _INSTRUCTION.fullmatch(line)
        assert found, f"an instruction that the tests do not know: {line}"
        match found[1], found[2]:
            case "COPY", rest:
                assert rest == f"--from=build {_PREFIX} {_PREFIX}", line
            case "RUN", command:
                stage.commands.append(command)
            case "ENV", rest:
                for name, value in (each.split("=", 1) for each in rest.split()):
                    stage.variables[name] = value.replace("${PATH}", stage.variables["PATH"])
            case "ENTRYPOINT", rest:
                stage.settings["Entrypoint"] = json.loads(rest)
            case "WORKDIR", rest:
                stage.settings["WorkingDir"] = rest
            case "USER", rest:
                stage.settings["User"] = rest
    return stage


def _write_packages(file: IO[bytes], folder: Path) -> None:
    """Writes `/opt/headrace` as a layer: an environment with what the package needs, and the package. folder: empty."""
    program, version = python_program(), python_program().name
    library = _PREFIX / "lib" / version / "site-packages"
    texts = {
        _PREFIX / "pyvenv.cfg": f"home = {program.parent}\ninclude-system-site-packages = false\n",
        _PREFIX / "bin/headrace": f"#!{_PREFIX}/bin/python\n{_PROGRAM}",
    }
    with tarfile.open(fileobj=file, mode="w") as tar:
        for path, text in texts.items():
            entry = tarfile.TarInfo(str(path.relative_to("/")))
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
        link = tarfile.TarInfo(str((_PREFIX / "bin/python").relative_to("/")))
        link.type, link.linkname = tarfile.SYMTYPE, str(program)
        tar.addfile(link)
        for inside, path in _packaged(folder).items():
            tar.add(path, str((library / inside).relative_to("/")), recursive=False, filter=_readable)


def _packaged(folder: Path) -> Mapping[str, Path]:
    """Path below site-packages -> file here, or in the folder: modules that nobody has compiled yet."""
    files: dict[str, Path] = {}
    for name in required_names([f"headrace[{EXTRAS}]"]):
        for each in metadata.distribution(name).files or ():
            if ".." not in each.parts and each.suffix != ".pth" and "__editable__" not in str(each):
                files[str(each)] = Path(str(each.locate()))
    for package in _OWN:
        files |= {str(path.relative_to(package.parent)): path for path in package.rglob("*")}
    files = {inside: path for inside, path in files.items() if path.is_file() and not _LEFT_OUT.search(f"/{inside}")}
    for inside, path in list(files.items()):
        if path.suffix == ".py":
            cached = Path(cache_from_source(str(path)))
            files[cache_from_source(inside)] = cached if cached.exists() else _compiled(path, folder / inside)
    return files


def _compiled(source: Path, cached: Path) -> Path:
    # as the recipe does, so that Python does not look at times
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), str(cached), doraise=True, invalidation_mode=mode)
    return cached


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode |= 0o444 | (0o111 if entry.mode & 0o100 else 0)
    return entry


def _changes(base: bytes, commands: list[str], root: Path) -> IO[bytes]:
    """Runs commands below a root, as RUN does; returns what they have changed, as a layer."""
    root.mkdir()
    # what a shell needs, and what it may change: not Python
    extract = ["tar", "--extract", "--directory", str(root), "--exclude", "*python*"]
    subprocess.run(extract, input=base, check=True, timeout=WAIT_SECONDS)
    before = _states(root)
    for command in commands:
        subprocess.run(["chroot", str(root), "/bin/sh", "-ec", command], check=True, timeout=WAIT_SECONDS, env=_PATHS)
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as made:
        for path, state in sorted(_states(root).items()):
            if before.get(path) != state:
                made.add(root / path, path, recursive=False)
    return layer


def _states(root: Path) -> Mapping[str, tuple[int, bytes]]:
    """Path -> mode, and content of a file."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            found[str(path.relative_to(root))] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found
