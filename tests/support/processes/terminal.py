"""A user's terminal: a folder with a new HOME, where the commands of a page are run as they are written.

They run in a network namespace of their own, where port 9092 is free, and where nothing can be fetched.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from headrace.core.settings import cache_folder
from support.clusters.network_hosts import Namespace
from support.processes.running import RUN_TIMES, WAIT_SECONDS, wait_until


def user_environment(home: Path) -> dict[str, str]:
    """This process's environment with another HOME, and without settings of headrace and Kafka."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("HEADRACE_", "KAFKA_"))}
    return inherited | {
        **RUN_TIMES,
        "HOME": str(home),
        # the broker's jars only: there is no network to fetch them from
        "XDG_CACHE_HOME": str(cache_folder().parent),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


class Terminal:
    """A folder that is HOME and where commands run, as they are written."""

    def __init__(self, folder: Path, network: Namespace) -> None:
        self.folder = folder
        self._prefix = network.prefix
        self._begun = 0
        self._environment = user_environment(folder)

    def begin(self, command: str) -> subprocess.Popen[bytes]:
        """Starts a command; it writes to `out.txt` and `err.txt`."""
        # from a file of its own, which the shell reads when it gets to: in the shell's command line `pkill -f` would
        # find its own words, and kill the shell
        self._begun += 1
        script = self.folder / f"command-{self._begun}.sh"
        script.write_text(f"exec {command}\n")
        with (self.folder / "out.txt").open("wb") as out, (self.folder / "err.txt").open("wb") as err:
            return subprocess.Popen(
                [*self._prefix, "sh", str(script)], cwd=self.folder, env=self._environment, stdout=out, stderr=err
            )

    def run(self, command: str) -> str:
        """Runs a command to its end; returns what it printed."""
        code = self.begin(command).wait(WAIT_SECONDS)
        assert code == 0, f"{command}: {self.printed()}"
        return (self.folder / "out.txt").read_text()

    def run_until(self, command: str, is_so: Callable[[], bool], what: str) -> str:
        """Runs a command, presses Ctrl-C once it is so, and returns what was on its screen."""
        process = self.begin(command)
        screen = self.folder / "err.txt", self.folder / "out.txt"
        kept = [path.rename(path.with_name(f"run-{path.name}")) for path in screen]
        try:
            wait_until(lambda: process.poll() is not None or is_so(), what)
            process.send_signal(signal.SIGINT)
            process.wait(WAIT_SECONDS)
        finally:
            process.kill()
            process.wait()
        text = "".join(path.read_text() for path in kept)
        assert process.returncode == 0, f"{command}: {text}"
        return text

    def printed(self) -> str:
        """What the last command printed."""
        return (self.folder / "out.txt").read_text() + (self.folder / "err.txt").read_text()
