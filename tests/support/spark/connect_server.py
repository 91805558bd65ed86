"""A Spark Connect server on loopback with two cores: a process of its own, ended by pid."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.processes.running import WAIT_SECONDS, wait_until
from support.reserved_port import reserved_port
from support.spark.home import own_spark_home
from support.spark.settings import SPARK_SECONDS

LOOPBACK = "127.0.0.1"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Starts it; its URL. What it writes is in `folder`."""
    home = own_spark_home(folder / "spark")
    with reserved_port() as port, _server(home, folder, settings, port):
        yield f"sc://{LOOPBACK}:{port}"


@contextmanager
def _server(home: Path, folder: Path, settings: Mapping[str, str], port: int) -> Iterator[None]:
    options = {
        **settings,
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
    }
    confs = [text for name, value in options.items() for text in ("--conf", f"{name}={value}")]
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(home / "bin" / "spark-submit"), "--class", SERVER, "--master", "local[2]", *confs, "spark-internal"]
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=out, stderr=out)
    try:
        wait_until(lambda: process.poll() is not None or _answers(port), "the server answers", SPARK_SECONDS)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def _answers(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True
