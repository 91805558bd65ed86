"""The starts of a session, of a job there, of a cluster of one job and of one of an application, by the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from yarn_starts.polling import wait_until

PIPELINE = """\
name: NAME
sources:
  numbers:
    generator: {rate: 100, columns: {n: {sequence: {}}}}
    schema: {n: int64}
sinks:
  out: {from: numbers, print: {}, format: json}
"""
PROGRAM = """\
import headrace as hr

hr.wait(hr.submit("program.yaml"))
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where commands run. folder: with what they read; environment: of them."""

    folder: Path
    environment: dict[str, str]

    def run(self, *arguments: str) -> str:
        """Runs `headrace ..` to its end; returns its standard output."""
        command = [sys.executable, "-m", "headrace", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"headrace {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def wait_running(self, coordinator: str) -> None:
        """Returns when the only job of a cluster is RUNNING. The client is this process, whose JVM runs already."""
        from headrace.client.discovery import connect

        os.environ.update(self.environment)
        with connect(coordinator) as client:
            wait_until(lambda: any(job.state == "RUNNING" for job in client.jobs()), f"no job of {coordinator} runs")


def described(place: Place, ledger: str) -> None:
    """Writes the description, the pipelines and the program."""
    workers = {"slots": 1, "max": 2, "memory": "1Gi"}
    document = {"ledger": ledger, "python": sys.executable, "workers": workers, "afterEnd": "0s"}
    (place.folder / "cluster.yaml").write_text(json.dumps(document))  # JSON is YAML
    for name in ("session", "alone", "program"):
        (place.folder / f"{name}.yaml").write_text(PIPELINE.replace("NAME", name))
    (place.folder / "program.py").write_text(PROGRAM)


def measured(place: Place) -> dict[str, float]:
    """One round: seconds of each part. What it starts is stopped."""
    on = ("--target", "yarn", "--config", "cluster.yaml")
    seconds: dict[str, float] = {}

    def timed(name: str, action: Callable[[], None]) -> None:
        began_s = time.monotonic()
        action()
        seconds[name] = time.monotonic() - began_s

    def submit(name: str, *arguments: str) -> Callable[[], None]:
        def action() -> None:
            place.run("submit", *arguments)
            place.wait_running(f"yarn://{name}")

        return action

    def stop(name: str) -> None:
        place.run("cluster", "stop", "--target", "yarn", "--name", name, "--with-secret")

    def start() -> None:
        place.run("cluster", "start", *on, "--name", "bench-session")

    timed("session", start)
    timed("submit", submit("bench-session", "session.yaml", "--coordinator", "yarn://bench-session"))
    stop("bench-session")
    timed("per-job", submit("bench-job", "alone.yaml", *on, "--mode", "per-job", "--name", "bench-job"))
    stop("bench-job")
    files = {**json.loads((place.folder / "cluster.yaml").read_text()), "files": ["program.yaml"]}
    (place.folder / "program-cluster.yaml").write_text(json.dumps(files))
    own = ("--target", "yarn", "--config", "program-cluster.yaml", "--mode", "application", "--name", "bench-program")
    timed("application", submit("bench-program", "program.py", *own))
    stop("bench-program")
    return seconds
