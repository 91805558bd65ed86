"""A host of a network with files and a name of its own, on which commands of a page run as they are written.

Its /etc, /opt, /usr/local and /var/lib are this machine's at first; what is changed there is changed for it alone, and
goes with it. `systemctl` is done by `Service`. Needs root.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.deployment.service import Service, Started
from support.patience import WAIT_SECONDS

_OWN = ("etc", "opt", "usr/local", "var/lib")
_SET_UP = """
set -e
hostname {name}
mount -t tmpfs tmpfs {layers}
for own in {own}; do
    mkdir -p {layers}/$own/new {layers}/$own/work
    mount -t overlay overlay -o lowerdir=/$own,upperdir={layers}/$own/new,workdir={layers}/$own/work /$own
done
echo ready
exec cat
"""


class ServiceHost:
    """prefix: puts a command into its network namespace; folder: for logs; work: where its commands are given."""

    def __init__(self, name: str, prefix: Sequence[str], folder: Path, work: Path) -> None:
        self.name = name
        self._work = work
        self._logs = folder / "logs"
        self._logs.mkdir(parents=True)
        layers = folder / "layers"
        layers.mkdir()
        script = _SET_UP.format(name=name, layers=layers, own=" ".join(_OWN))
        self._keeper = subprocess.Popen(
            [*prefix, "unshare", "--mount", "--uts", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"ready\n", "files of its own need root"
        self._services: dict[str, Service] = {}

    @property
    def root(self) -> Path:
        """Its files, as this process sees them."""
        return Path(f"/proc/{self._keeper.pid}/root")

    @property
    def prefix(self) -> list[str]:
        """Puts a command onto it."""
        return ["nsenter", f"--target={self._keeper.pid}", "--net", "--mount", "--uts"]

    def install(self, version: str, packages: Path | None) -> None:
        """Puts `headrace` into /opt/headrace-<version>, as a virtual environment there has it.

        packages: a folder with another version than the one of this repository.
        """
        folder = self.root / f"opt/headrace-{version}/bin"
        folder.mkdir(parents=True)
        python_path = "" if packages is None else f"PYTHONPATH={packages} "
        (folder / "headrace").write_text(f'#!/bin/sh\n{python_path}exec {sys.executable} -m headrace "$@"\n')
        (folder / "headrace").chmod(0o755)

    def set(self, variables: Mapping[str, str]) -> None:
        """Puts variables into the file that the units read, in place of those that it has."""
        file = self.root / "etc/headrace/headrace.env"
        lines = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in variables]
        file.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in variables.items())]) + "\n")

    def run(self, command: str) -> None:
        """A command of a page, by root's shell."""
        if not command.startswith("systemctl "):
            self._shell(command)
            return
        verb, *words = self._shell(f"printf '%s\\n' {command.removeprefix('systemctl ')}").split()
        units = [word for word in words if not word.startswith("--")]
        match verb:
            case "enable":
                assert "--now" in words
                self._each(units, stops=False, starts=True)
            case "start" | "restart" | "stop":
                self._each(units, stops=verb != "start", starts=verb != "stop")
            case _:
                assert verb == "daemon-reload", f"systemctl {verb}"

    def service(self, unit: str) -> Service:
        """A unit of it."""
        if unit not in self._services:
            place = Started(self.root, self.prefix, self._logs / f"{unit}.log")
            self._services[unit] = Service(unit, place)
        return self._services[unit]

    def log(self, unit: str) -> str:
        """What a unit has logged."""
        return (self._logs / f"{unit}.log").read_text()

    def close(self) -> None:
        """It goes with its last process."""
        for service in self._services.values():
            service.kill()
        self._keeper.communicate()

    def _each(self, units: Sequence[str], *, stops: bool, starts: bool) -> None:
        for unit in units:
            if stops:
                self.service(unit).stop()
            if starts:
                self.service(unit).start()

    def _shell(self, command: str) -> str:
        done = subprocess.run(
            [*self.prefix, "bash", "-c", f"cd {self._work} && {command}"],
            env={"PATH": f"/usr/local/bin:{os.environ['PATH']}", "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{self.name}# {command}\n{done.stdout}{done.stderr}"
        return done.stdout
