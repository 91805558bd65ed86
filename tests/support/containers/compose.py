"""Docker Compose: a file of deploy/standalone, run as it is written, beside one that adds what is a test's own.

The tool is the plugin `docker compose`, or Debian's package `docker-compose`. The test's own
file adds labels, by which the engine is left as it was found, times, and the mounts that an image without programs
needs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import docker.models.containers
from ruamel.yaml import YAML
from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID

from support.containers.engine import engine_client
from support.missing_tool import skip_or_fail
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until

_PLUGIN, _PROGRAM = ("docker", "compose"), ("docker-compose",)
_LABELS = {LABEL_SESSION_ID: SESSION_ID}
_PROJECT, _SERVICE = "com.docker.compose.project", "com.docker.compose.service"


@cache
def compose_command() -> tuple[str, ...]:
    """Docker Compose on this machine. Skips the test where there is none; fails it in continuous integration."""
    if subprocess.run([*_PLUGIN, "version"], capture_output=True, check=False, timeout=WAIT_SECONDS).returncode == 0:
        return _PLUGIN
    if shutil.which(*_PROGRAM) is None:
        skip_or_fail("no Docker Compose on this machine; install it (Debian: apt install docker-compose)")
    return _PROGRAM


class Project:
    """The services of one file.

    folder     where the file is, and what it names; of the test's own
    variables  that the file reads
    added      service -> what the test adds to it
    """

    def __init__(
        self, folder: Path, file: str, variables: Mapping[str, str], added: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._environment = {**os.environ, **variables}
        written = YAML(typ="safe").load((folder / file).read_text())
        self.services = list(written["services"])
        own = folder / f"own-{file}"
        services = {name: {"labels": _LABELS, **added.get(name, {})} for name in self.services}
        networks = {name: {"labels": _LABELS} for name in written["networks"]}
        own.write_text(json.dumps({**_versioned(written), "services": services, "networks": networks}))
        # names of containers and networks are of the whole engine
        self.name = f"headrace-{os.urandom(6).hex()}"
        self._command = [
            *compose_command(),
            "--project-name",
            self.name,
            "--file",
            str(folder / file),
            "--file",
            str(own),
        ]

    def run(self, *arguments: str) -> str:
        """A command of Docker Compose; returns what it prints."""
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def inside(self, service: str, *command: str) -> list[str]:
        """The command line of a program in a service's container."""
        return [*self._command, "exec", "-T", service, *command]

    @property
    def environment(self) -> Mapping[str, str]:
        """With which such a command line runs."""
        return self._environment

    def kill(self, service: str) -> None:
        """`docker kill`: it stays away until it is started by hand."""
        with engine_client() as client:
            container = self._container(client, service)
            container.kill()
            container.wait(timeout=WAIT_SECONDS)

    def crash(self, service: str) -> None:
        """Ends its processes from the outside. The engine starts it again where the file says so."""
        with engine_client() as client:
            container = self._container(client, service)
            os.kill(container.attrs["State"]["Pid"], 9)
            wait_until(lambda: self._restarts(service) > container.attrs["RestartCount"], f"{service} is started again")

    def exit_codes(self) -> dict[str, int]:
        """Service -> exit code of its container, which has ended."""
        with engine_client() as client:
            return {name: int(self._container(client, name).wait()["StatusCode"]) for name in self.services}

    def health(self, service: str) -> str:
        """What the service's own check says."""
        with engine_client() as client:
            return str(self._container(client, service).attrs["State"]["Health"]["Status"])

    def address(self, service: str) -> str:
        """Of the service's container, for this machine."""
        with engine_client() as client:
            (network,) = self._container(client, service).attrs["NetworkSettings"]["Networks"].values()
            return str(network["IPAddress"])

    def put(self, service: str, archive: bytes) -> None:
        """Unpacks a tar file in the root of a service's container, as `docker cp` does."""
        with engine_client() as client:
            assert self._container(client, service).put_archive("/", archive)

    def logs(self) -> str:
        """The last lines of each container."""
        with engine_client() as client:
            return "\n".join(
                f"{each.name}: {each.logs(tail=30).decode(errors='replace')}" for each in self._containers(client)
            )

    def close(self) -> None:
        """Removes containers, networks and volumes."""
        self.run("down", "--volumes", "--timeout", "0")

    def _restarts(self, service: str) -> int:
        with engine_client() as client:
            return int(self._container(client, service).attrs["RestartCount"])

    def _container(self, client: docker.DockerClient, service: str) -> docker.models.containers.Container:
        (found,) = self._containers(client, f"{_SERVICE}={service}")
        return found

    def _containers(self, client: docker.DockerClient, *labels: str) -> Sequence[docker.models.containers.Container]:
        wanted = {"label": [f"{_PROJECT}={self.name}", *labels]}
        return list(client.containers.list(all=True, filters=wanted))


def _versioned(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """The version of the format, which all files name or none."""
    return {"version": written["version"]} if "version" in written else {}
