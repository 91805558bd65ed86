"""The image of deploy/k8s, built by its Dockerfile in the way of the page, on an image of this machine's files.

pip of the build has the packages of this environment, and no index.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from support.containers.engine import SESSION_LABEL, engine_client
from support.containers.python_image import python_image
from support.distributions.required import required_names
from support.distributions.wheel_server import served_wheels
from support.patience import IMAGE_SECONDS, WAIT_SECONDS
from support.repository import ROOT

NAME = "headrace/built:1"
EXTRAS = "kubernetes,s3"
_BUILD = ("docker", "build", "--file", "deploy/k8s/Dockerfile", "--tag", NAME)
_FOR_THE_WHEEL = "hatchling"


@contextmanager
def headrace_image() -> Iterator[str]:
    """Inside, the engine has the image under the name that is returned."""
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


def save_image(image: str, archive: Path) -> None:
    """Writes an image of the engine as an archive that a node imports."""
    subprocess.run(["docker", "save", "--output", str(archive), image], check=True, timeout=IMAGE_SECONDS)


def run_image(image: str, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs a container to its end, without a network and with a read-only root. options: of `docker run`."""
    command = ("docker", "run", "--rm", "--label", SESSION_LABEL, "--network", "none", "--read-only", *options)
    return subprocess.run(
        [*command, image, *arguments], capture_output=True, text=True, check=False, timeout=WAIT_SECONDS
    )
