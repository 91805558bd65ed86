"""The image of deploy/k8s, built by its Dockerfile in the way of the page, on an image of this machine's files.

pip of the build has the packages of this environment, and no index.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from testcontainers.core.labels import SESSION_ID

from support.containers.engine import SESSION_LABEL, engine_client
from support.containers.python_image import python_image
from support.distributions.required import required_names
from support.distributions.wheel_server import served_wheels
from support.missing_tool import skip_or_fail
from support.patience import IMAGE_SECONDS, WAIT_SECONDS
from support.repository import ROOT

NAME = f"headrace/built:{SESSION_ID}"
EXTRAS = "operator,s3"
_BUILD = ("docker", "build", "--file", "deploy/k8s/Dockerfile", "--tag", NAME)
_FOR_THE_WHEEL = "hatchling"
_TOOLS = ("docker", "cc", "as", "ld", "ldd")


@contextmanager
def headrace_image() -> Iterator[str]:
    """Inside, the engine has the image under the name that is returned. Skips or fails where something is missing."""
    _require_tools()
    needed = required_names([f"headrace[{EXTRAS}]", _FOR_THE_WHEEL]) - {"headrace"}
    # 630 MB, for as long as it is built
    with TemporaryDirectory() as folder, served_wheels(needed, Path(folder)) as url:
        base = python_image({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": url})
        # the host's network, where the wheels are
        options = ("--build-arg", f"BASE={base}", "--label", SESSION_LABEL, "--network", "host", ".")
        done = subprocess.run(
            [*_BUILD, *options], cwd=ROOT, capture_output=True, text=True, check=False, timeout=IMAGE_SECONDS
        )
    assert done.returncode == 0, f"docker build failed:\n{done.stdout}\n{done.stderr}"
    try:
        yield NAME
    finally:
        with engine_client() as client:
            client.images.remove(NAME, force=True)


def _require_tools() -> None:
    missing = [name for name in _TOOLS if shutil.which(name) is None]
    if importlib.util.find_spec("ensurepip") is None:
        missing.append("ensurepip")
    if missing:
        remedy = "install them (Debian: apt install docker.io gcc libc6-dev python3-venv)"
        skip_or_fail(f"an image cannot be built here: no {', '.join(missing)}; {remedy}")


def save_image(image: str, archive: Path) -> None:
    """Writes an image of the engine as an archive that a node imports."""
    subprocess.run(["docker", "save", "--output", str(archive), image], check=True, timeout=IMAGE_SECONDS)


def run_image(image: str, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs a container to its end, without a network and with a read-only root. options: of `docker run`."""
    command = ("docker", "run", "--rm", "--label", SESSION_LABEL, "--network", "none", "--read-only", *options)
    return subprocess.run(
        [*command, image, *arguments], capture_output=True, text=True, check=False, timeout=WAIT_SECONDS
    )
