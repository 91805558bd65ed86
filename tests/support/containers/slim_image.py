"""An image as `python:slim` is one, for recipes that begin with it: of files of this machine, and without a registry.

It has pip on its path, whose index is the wheels of this environment (`package_index`), and the programs that recipes
run. Debian's packages that they install are in it from the start: its `apt-get` knows these by name, and no other.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace_dev.broker.java import find_java
from support.containers.engine import SESSION_LABEL, built_image, engine_client
from support.containers.machine_files import java_files, program_files
from support.containers.python_image import python_image
from support.distributions.required import required_names
from support.distributions.wheel_server import served_wheels
from support.patience import IMAGE_SECONDS
from support.repository import ROOT

_PROGRAMS = (
    *(
        "basename",
        "bash",
        "cp",
        "cut",
        "date",
        "dirname",
        "getent",
        "grep",
        "gzip",
        "head",
        "hostname",
        "install",
        "ln",
    ),
    *("mktemp", "nice", "readlink", "rm", "sed", "tail", "tar", "touch", "tr", "uname", "useradd", "wc"),
)
"""Of those that every Debian has, what recipes and pyspark's scripts run."""
_SETTINGS = frozenset({Path("/etc/login.defs")})
_PACKAGES: Mapping[str, Sequence[str]] = {
    "default-jre-headless": (),
    "procps": ("ps",),
    "tini": ("tini",),
}
"""Debian's packages, and their programs. That of Java is `find_java`'s."""
_OF_APT_GET = ("install", "--yes", "--no-install-recommends")
_APT_GET = """\
#!/bin/sh
[ "$1" = update ] && exit
for each; do
    case $each in
    {known}) ;;
    *)
        echo "E: Unable to locate package $each" >&2
        exit 100
        ;;
    esac
done
"""
_RECIPE = """\
FROM {base}
COPY apt-get /usr/bin/apt-get
RUN python -m venv /usr/local/python{links}
ENV PATH=/usr/local/python/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
_Index = Mapping[str, str]


def build_wheel(folder: Path) -> Path:
    """Writes the wheel of this working tree into a folder; returns its path."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=IMAGE_SECONDS)
    (built,) = folder.glob("headrace-*.whl")
    return built


@contextmanager
def package_index(requirement: str, folder: Path) -> Iterator[_Index]:
    """Wheels of what a requirement leads to are written into a folder. Inside, these settings of pip lead to them, and
    to the wheels that are in the folder already. A build needs the host's network to reach them.
    """
    with served_wheels(required_names([requirement]) - {"headrace"}, folder) as url:
        yield {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": url}


def slim_image(index: _Index, *, packages: Sequence[str] = ()) -> str:
    """Returns the id of a new image of this session. packages: of Debian, which its apt-get knows."""
    java = find_java().program.resolve() if "default-jre-headless" in packages else None
    files = program_files([*_PROGRAMS, *(program for name in packages for program in _PACKAGES[name])])
    files |= java_files(java.parents[1]) if java else set()
    base = python_image(index, has_compiler=False, files=frozenset(files | _SETTINGS))
    links = f" && ln -s {java} /usr/bin/java" if java else ""
    return built_image(
        _RECIPE.format(base=base, links=links),
        {"apt-get": _APT_GET.format(known=" | ".join((*_OF_APT_GET, *packages)))},
    )


@contextmanager
def built_by_recipe(name: str, folder: Path, base: str, *options: str) -> Iterator[None]:
    """Inside, the engine has the image of a folder's Dockerfile under a name.

    base: the image in place of its python:slim; options: of `docker build`, beside those of the page.
    """
    recipe = folder / "Dockerfile"
    text, replaced = re.subn(r"^FROM python:\S+-slim$", f"FROM {base}", recipe.read_text(), flags=re.MULTILINE)
    assert replaced == 1, f"a recipe that does not begin with python:slim:\n{text}"
    recipe.write_text(text)
    command = ["docker", "build", "--tag", name, "--label", SESSION_LABEL, "--network", "host", *options, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=IMAGE_SECONDS)
    assert done.returncode == 0, f"docker build failed:\n{done.stdout}\n{done.stderr}"
    try:
        yield
    finally:
        with engine_client() as client:
            client.images.remove(name, force=True)
