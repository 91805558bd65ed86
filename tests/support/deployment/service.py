"""A unit of systemd, run as systemd would: its command line with the variables of its file, started again on failure.

Left out is what is not about the process itself: its user, its limits and the order of units.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import threading
from collections.abc import Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

from headrace.core.config import parse_duration_ms
from support.patience import WAIT_SECONDS

_VARIABLE = re.compile(r"\$\{([A-Z_]+)\}")
_ENDS_WITH_TEST = ("setpriv", "--pdeathsig", "KILL")


def unit_of(text: str) -> ConfigParser:
    """A unit file."""
    unit = ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    # systemd's names are case-sensitive
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read_string(text)
    return unit


def variables_of(text: str) -> dict[str, str]:
    """The variables of an environment file."""
    return dict(re.findall(r"^([A-Z_0-9]+)=(.*)$", text, re.MULTILINE | re.IGNORECASE))


@dataclass(frozen=True, slots=True)
class Started:
    """What is run. root: of the host's files, as this process sees them; prefix: puts a command onto the host."""

    root: Path
    prefix: Sequence[str]
    log: Path


class Service:
    """A unit on a host, such as `headrace-worker@h1`."""

    def __init__(self, name: str, place: Started) -> None:
        self._name = name
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: threading.Thread | None = None
        self._stopping = threading.Event()

    @property
    def pid(self) -> int:
        """Of its process, which runs."""
        assert self._process is not None, f"{self._name} was started"
        return self._process.pid

    def start(self) -> None:
        """Reads unit and environment as they are now, and starts the process, if it does not run."""
        if self._watch is not None and self._watch.is_alive():
            return
        self._stopping.clear()
        settings = self._settings()
        self._process = self._begin()
        pause_s = parse_duration_ms(settings["RestartSec"]) / 1_000
        assert settings["Restart"] == "on-failure"
        self._watch = threading.Thread(target=self._keep, args=(pause_s,), name=self._name, daemon=True)
        self._watch.start()

    def stop(self) -> None:
        """SIGTERM; returns when it has ended."""
        self._stopping.set()
        if self._process is None or self._watch is None:
            return
        self._process.terminate()
        self._process.wait(WAIT_SECONDS)
        self._watch.join(WAIT_SECONDS)

    def kill(self) -> None:
        """The host is gone: no process of it runs any more, and none is started."""
        self._stopping.set()
        if self._process is not None and self._watch is not None:
            self._process.kill()
            self._watch.join(WAIT_SECONDS)

    def _keep(self, pause_s: float) -> None:
        process = self._process
        while process is not None and process.wait() != 0 and not self._stopping.wait(pause_s):
            process = self._process = self._begin()
        # between two processes it may have been told to end, before this one was there to be told
        if process is not None and self._stopping.is_set():
            process.terminate()
            process.wait(WAIT_SECONDS)

    def _settings(self) -> Mapping[str, str]:
        template, at, _ = self._name.partition("@")
        file = self._place.root / "etc/systemd/system" / f"{template}{at}.service"
        return dict(unit_of(file.read_text())["Service"])

    def _begin(self) -> subprocess.Popen[bytes]:
        settings = self._settings()
        file = self._place.root / settings["EnvironmentFile"].lstrip("/")
        variables = variables_of(file.read_text())
        instance = self._name.partition("@")[2]
        words = shlex.split(settings["ExecStart"].replace("\\\n", " "))
        command = [_VARIABLE.sub(lambda found: variables[found[1]], word.replace("%i", instance)) for word in words]
        with self._place.log.open("ab") as log:
            return subprocess.Popen(
                [*_ENDS_WITH_TEST, *self._place.prefix, *command],
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
