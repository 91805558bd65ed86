"""A standalone Spark cluster on loopback: a master, and two workers of one core on hosts of different names, as Spark
sees them (127.0.0.1 and 127.0.0.2). Processes of their own, ended by pid."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.running import wait_until
from support.spark_home import own_spark_home

MASTER_HOST = "127.0.0.1"
WORKER_HOSTS = ("127.0.0.1", "127.0.0.2")
MEMORY = "1g"


@dataclass(frozen=True, slots=True)
class StandaloneSpark:
    """A running cluster. home: its SPARK_HOME."""

    master: str
    home: Path


@contextmanager
def standalone_spark(folder: Path) -> Iterator[StandaloneSpark]:
    """Starts it, with this process's environment; what it writes is in `folder`."""
    home = own_spark_home(folder / "spark")
    port, page = _free_port(), _free_port()
    master = f"spark://{MASTER_HOST}:{port}"
    with ExitStack() as stack:
        stack.enter_context(
            _running(home, folder, "master", "--host", MASTER_HOST, "--port", str(port), "--webui-port", str(page))
        )
        wait_until(lambda: _workers(page) == 0, "Spark's master is up", 120)
        for number, host in enumerate(WORKER_HOSTS):
            arguments = ["--host", host, "--cores", "1", "--memory", MEMORY, "--webui-port", "0"]
            work = folder / f"work-{number}"
            stack.enter_context(_running(home, folder, "worker", *arguments, "--work-dir", str(work), master))
        wait_until(lambda: _workers(page) == len(WORKER_HOSTS), "Spark's workers are up", 120)
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
        process.wait(60)


def _workers(page: int) -> int | None:
    """Workers that the master knows; None: it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{MASTER_HOST}:{page}/json/", timeout=10) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return None


def _free_port() -> int:
    with socket.create_server((MASTER_HOST, 0)) as server:
        return int(server.getsockname()[1])
