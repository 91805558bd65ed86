"""A real ZooKeeper, from the jars that pyspark carries: one server or an ensemble of three, on loopback or on hosts."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from headrace_dev.broker.java import find_java
from support.processes.running import wait_until
from support.reserved_port import reserved_port

LOOPBACK = "127.0.0.1"
_JARS = ("zookeeper-3", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
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
maxSessionTimeout=40000
4lw.commands.whitelist=srvr
{servers}"""


class Place(NamedTuple):
    """Where a server listens. prefix: puts its process on that host."""

    address: str = LOOPBACK
    prefix: Sequence[str] = ()


class ZooKeeper:
    """Servers of one ensemble, by number from 1; one place for each. Ended by `ended` of the fixture that starts it."""

    def __init__(
        self, folder: Path, ports: list[int], peers: list[tuple[int, int]], places: Sequence[Place] = (Place(),)
    ) -> None:
        self._folder = folder
        self._places = places
        self.ports = ports
        self._peers = peers
        self.servers: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def hosts(self) -> str:
        """All of them, as clients name them."""
        return ",".join(f"{place.address}:{port}" for place, port in zip(self._places, self.ports, strict=True))

    def start(self, number: int) -> None:
        """Starts one server; does not wait for it."""
        folder = self._folder / f"zookeeper-{number}"
        folder.mkdir(exist_ok=True)
        (folder / "myid").write_text(f"{number}\n")
        place, port = self._places[number - 1], self.ports[number - 1]
        servers = "".join(
            f"server.{each}={self._places[each - 1].address}:{first}:{second}\n"
            for each, (first, second) in enumerate(self._peers, 1)
        )
        config = folder / "zoo.cfg"
        config.write_text(CONFIG.format(tick=TICK_MS, data=folder, port=port, host=place.address, servers=servers))
        java = [str(find_java().program), "-Xmx128m", "-cp", classpath(), MAIN, str(config)]
        with (folder / "log").open("ab") as log:
            self.servers[number] = subprocess.Popen([*place.prefix, *java], stdout=log, stderr=log)

    def restart(self, number: int) -> None:
        """Kills one server, and waits until it serves again. Another one leads the ensemble then, if it led."""
        self.servers[number].kill()
        self.servers[number].wait()
        self.wait_serving(len(self.ports) - 1)
        self.start(number)
        self.wait_serving(len(self.ports))

    def wait_serving(self, servers: int) -> None:
        """Waits until so many servers serve clients."""
        wait_until(
            lambda: sum(self._mode(number) is not None for number in self.servers) >= servers,
            f"{servers} servers of ZooKeeper",
        )

    def leader(self) -> int:
        """The number of the server that leads the ensemble."""
        found: list[int] = []

        def leads() -> bool:
            found[:] = [number for number in self.servers if self._mode(number) == b"leader"]
            return len(found) == 1

        wait_until(leads, "a server leads the ensemble")
        return found[0]

    def _mode(self, number: int) -> bytes | None:
        """What a server is in its ensemble; None: it serves nobody."""
        said = _said(self._places[number - 1].address, self.ports[number - 1])
        _, named, mode = said.partition(b"Mode: ")
        return mode.split()[0] if named else None

    def end(self) -> None:
        """Ends all servers."""
        for process in self.servers.values():
            process.kill()
            process.wait()


@contextmanager
def zookeeper(folder: Path, servers: int = 1, places: Sequence[Place] = ()) -> Iterator[ZooKeeper]:
    """A ZooKeeper that serves. places: one for each server, if not on loopback."""
    with ExitStack() as ports:
        taken = [ports.enter_context(reserved_port()) for _ in range(servers * 3)]
        peers = [(taken[servers + 2 * each], taken[servers + 2 * each + 1]) for each in range(servers)]
        ensemble = ZooKeeper(folder, taken[:servers], peers if servers > 1 else [], places or [Place()] * servers)
        try:
            for number in range(1, servers + 1):
                ensemble.start(number)
            ensemble.wait_serving(servers)
            yield ensemble
        finally:
            ensemble.end()


def classpath() -> str:
    """The jars of a server and what it loads."""
    jars = Path(pyspark.__file__).parent / "jars"
    return ":".join(str(path) for name in _JARS for path in sorted(jars.glob(f"{name}*.jar")))


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
