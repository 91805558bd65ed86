"""The Docker engine of this machine: whether one answers, what a test says if none does, and that nothing is left.

Whatever tests make carries testcontainers' session label; at the session's end all that has it is removed.
"""

from __future__ import annotations

import io
import socket
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache

import docker
import docker.errors
import pytest
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.docker_client import DockerClient, get_docker_host
from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID

from support.missing_tool import skip_or_fail
from support.processes.running import WAIT_SECONDS

SESSION_LABEL = f"{LABEL_SESSION_ID}={SESSION_ID}"
_UNIX, _DEFAULT = "unix://", "unix:///var/run/docker.sock"
ENGINE_SETTINGS = {"timeout": int(WAIT_SECONDS)}
"""Of clients: how long the engine may take for an answer."""
_REMEDY = "install and start Docker (Debian: apt install docker.io), or run the tests by .ci/run, which does both"


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """There is an engine; all that the session has made with it is gone afterwards, whatever became of its tests."""
    require_engine()
    yield
    remove_all()


def require_engine() -> None:
    """Skips the test where no engine answers; fails it in continuous integration, which has to have one.

    Also tells testcontainers to pull no container that cleans up (there is no registry), and that published ports are
    this machine's, even if it looks like a container itself.
    """
    testcontainers_config.ryuk_disabled = True
    testcontainers_config.connection_mode_override = ConnectionMode.docker_host
    trouble = _trouble()
    if trouble:
        skip_or_fail(f"{trouble}; {_REMEDY}")


def patient_client() -> DockerClient:
    """Testcontainers' client. To be closed by its `client.close`."""
    return DockerClient(**ENGINE_SETTINGS)


@contextmanager
def engine_client() -> Iterator[docker.DockerClient]:
    """For what testcontainers has no word for."""
    client = patient_client().client
    try:
        yield client
    finally:
        client.close()


def built_image(recipe: str, programs: Mapping[str, str | bytes]) -> str:
    """Builds an image of this session, and returns its id. programs: files of the context."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for name, content in {"Dockerfile": recipe, **programs}.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    context.seek(0)
    labels = {LABEL_SESSION_ID: SESSION_ID}
    with engine_client() as client:
        image, _ = client.images.build(fileobj=context, custom_context=True, labels=labels, rm=True)
    return str(image.id)


def remove_all() -> None:
    """Removes containers, networks and images of this session."""
    mine = {"label": SESSION_LABEL}
    with engine_client() as client:
        for container in client.containers.list(all=True, filters=mine, ignore_removed=True):
            with suppress(docker.errors.NotFound):
                container.remove(force=True, v=True)
        for network in client.networks.list(filters=mine):
            with suppress(docker.errors.NotFound):
                network.remove()
        for image in client.images.list(filters=mine):
            with suppress(docker.errors.NotFound):
                client.images.remove(image.id, force=True)


def leftovers() -> list[str]:
    """Containers and networks of this session that are there now."""
    mine = {"label": SESSION_LABEL}
    with engine_client() as client:
        containers = client.containers.list(all=True, filters=mine, ignore_removed=True)
        networks = client.networks.list(filters=mine)
        return [*(f"container {each.name}" for each in containers), *(f"network {each.name}" for each in networks)]


@cache
def _trouble() -> str:
    """Why there is no engine that would do; empty: there is one."""
    address = get_docker_host() or _DEFAULT
    if not address.startswith(_UNIX):
        return f"the Docker engine at {address} is not of this machine: its containers would not see the programs here"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(address.removeprefix(_UNIX))
        except OSError as error:
            return f"no Docker engine answers at {address} ({error.strerror})"
    with engine_client() as client:
        client.ping()
    return ""
