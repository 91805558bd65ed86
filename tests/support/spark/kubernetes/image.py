"""The image of deploy/spark as tests can have it: built of its Dockerfile, on an image that has this machine's programs
mounted. So FROM and RUN, which fetch programs from elsewhere, and the user, are left out; the rest is what users build.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path

from headrace_dev.broker.java import find_java
from support.containers.engine import built_image
from support.containers.machine_image import machine_image
from support.machine_root import machine_folders
from support.repository import ROOT

RECIPE = ROOT / "deploy" / "spark"
_INSTRUCTION = re.compile(r"(?:^#.*\n)*^(\w+) (?:.*\\\n(?:#.*\n)*)*.*\n", re.MULTILINE)
_LEFT_OUT = ("FROM", "ARG", "RUN", "USER")


@cache
def spark_image() -> str:
    """The id of this session's image."""
    return built_image(_recipe(), {"entrypoint.sh": (RECIPE / "entrypoint.sh").read_text()})


@cache
def image_folders() -> tuple[Path, ...]:
    """Those of this machine that containers see: programs, and Java."""
    java = _java_home()
    machine = machine_folders()
    return machine if any(folder in java.parents for folder in machine) else (*machine, java)


def _recipe() -> str:
    kept = [
        match[0] for match in _INSTRUCTION.finditer((RECIPE / "Dockerfile").read_text()) if match[1] not in _LEFT_OUT
    ]
    path = os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"))
    installed = f"FROM {machine_image()}\nENV PATH={path} JAVA_HOME={_java_home()} PYTHONDONTWRITEBYTECODE=1\n"
    return installed + "".join(kept)


def _java_home() -> Path:
    return find_java().program.resolve().parents[1]
