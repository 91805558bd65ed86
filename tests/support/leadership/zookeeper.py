"""A real ZooKeeper on loopback, from the jars that pyspark carries: one server, or an ensemble of three."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from headrace_dev.broker.java import find_java
from support.processes.running import wait_until
from support.reserved_port import reserved_port

LOOPBACK = "127.0.0.1"
_JARS = ("zookeeper-3", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
TICK_MS = 200
CONFIG = """\
tickTime={tick}
initLimit=50
syncLimit=25
dataDir={data}
clientPort={port}
clientPortAddress={host}
admin.enableServer=false
minSessionTimeout=1000
4lw.commands.whitelist=srvr
{servers}"""


class ZooKeeper:
    """Servers of one ensemble, by number from 1. Ended by `ended` of the fixture that starts it."""

    def __init__(self, folder: Path, ports: list[int], peers: list[tuple[int, int]], host: str = LOOPBACK) -> None:
        self._folder = folder
        self._host = host
        self.ports = ports
        self._peers = peers
        self.servers: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def hosts(self) -> str:
        """All of them, as clients name them."""
        return ",".join(f"{self._host}:{port}" for port in self.ports)

    def start(self, number: int) -> None:
        """Starts one server; does not wait for it."""
        folder = self._folder / f"zookeeper-{number}"
        folder.mkdir(exist_ok=True)
        (folder / "myid").write_text(f"{number}\n")
        servers = "".join(
            f"server.{each}={self._host}:{first}:{second}\n" for each, (first, second) in enumerate(self._peers, 1)
        )
        config = folder / "zoo.cfg"
        config.write_text(
            CONFIG.format(tick=TICK_MS, data=folder, port=self.ports[number - 1], host=self._host, servers=servers)
        )
        with (folder / "log").open("ab") as log:
            self.servers[number] = subprocess.Popen(
                [find_java().program, "-Xmx128m", "-cp", _classpath(), _MAIN, str(config)], stdout=log, stderr=log
            )

    def wait_serving(self, servers: int) -> None:
        """Waits until so many servers serve clients."""
        wait_until(
            lambda: sum(_serves(self._host, port) for port in self.ports) >= servers, f"{servers} servers of ZooKeeper"
        )

    def leader(self) -> int:
        """The number of the server that leads the ensemble."""
        (found,) = (number for number in self.servers if b"Mode: leader" in _said(self._host, self.ports[number - 1]))
        return found

    def end(self) -> None:
        """Ends all servers."""
        for process in self.servers.values():
            process.kill()
            process.wait()


@contextmanager
def zookeeper(folder: Path, servers: int = 1, host: str = LOOPBACK) -> Iterator[ZooKeeper]:
    """A ZooKeeper that serves."""
    with ExitStack() as ports:
        taken = [ports.enter_context(reserved_port()) for _ in range(servers * 3)]
        peers = [(taken[servers + 2 * each], taken[servers + 2 * each + 1]) for each in range(servers)]
        ensemble = ZooKeeper(folder, taken[:servers], peers if servers > 1 else [], host)
        try:
            for number in range(1, servers + 1):
                ensemble.start(number)
            ensemble.wait_serving(servers)
            yield ensemble
        finally:
            ensemble.end()


def _classpath() -> str:
    jars = Path(pyspark.__file__).parent / "jars"
    return ":".join(str(path) for name in _JARS for path in sorted(jars.glob(f"{name}*.jar")))


def _serves(host: str, port: int) -> bool:
    return b"Mode: " in _said(host, port)


def _said(host: str, port: int) -> bytes:
    """The answer to `srvr`; empty if the server does not answer."""
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while part := connection.recv(4096):
                answer += part
            return answer
    except OSError:
        return b""
