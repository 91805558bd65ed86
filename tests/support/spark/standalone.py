"""A standalone Spark cluster on loopback: a master, and two workers of one core on hosts of different names, as Spark
sees them (127.0.0.1 and 127.0.0.2). Processes of their own, ended by pid."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from support.processes.running import WAIT_SECONDS, wait_until
from support.spark.home import own_spark_home
from support.spark.settings import SPARK_SECONDS

MASTER_HOST = "127.0.0.1"
WORKER_HOSTS = ("127.0.0.1", "127.0.0.2")
MEMORY = "1g"
_MASTER = re.compile(rf"Starting Spark master at (spark://{re.escape(MASTER_HOST)}:\d+)\n")
_PAGE = re.compile(r"Bound MasterWebUI to .* started at http://[^:]+:(\d+)\n")
"""Of the master's log."""


@dataclass(frozen=True, slots=True)
class StandaloneSpark:
    """A running cluster. home: its SPARK_HOME."""

    master: str
    home: Path


@contextmanager
def standalone_spark(folder: Path) -> Iterator[StandaloneSpark]:
    """Starts it, with this process's environment; what it writes is in `folder`."""
    home = own_spark_home(folder / "spark")
    with ExitStack() as stack:
        stack.enter_context(_running(home, folder, "master", "--host", MASTER_HOST, "--port", "0", "--webui-port", "0"))
        log = folder / "master.log"
        wait_until(
            lambda: all(place.search(log.read_text()) for place in (_MASTER, _PAGE)),
            "Spark's master is up",
            SPARK_SECONDS,
        )
        master, page = (place.findall(log.read_text())[0] for place in (_MASTER, _PAGE))
        for number, host in enumerate(WORKER_HOSTS):
            arguments = ["--host", host, "--cores", "1", "--memory", MEMORY, "--webui-port", "0"]
            work = folder / f"work-{number}"
            stack.enter_context(_running(home, folder, "worker", *arguments, "--work-dir", str(work), master))
        wait_until(lambda: _workers(page) == len(WORKER_HOSTS), "Spark's workers are up", SPARK_SECONDS)
        yield StandaloneSpark(master, home)


@contextmanager
def _running(home: Path, folder: Path, part: str, *arguments: str) -> Iterator[None]:
    name = f"org.apache.spark.deploy.{part}.{part.capitalize()}"
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    environment |= {"SPARK_LOCAL_DIRS": str(folder / "local")}
    with (folder / f"{part}.log").open("ab") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), name, *arguments], env=environment, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def _workers(page: str) -> int | None:
    """Workers that the master knows; None: it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{MASTER_HOST}:{page}/json/", timeout=10) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, HTTPException):
        return None
