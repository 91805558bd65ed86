"""What a broker in a container is told: the development broker's settings, and how several of them are one cluster."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace_dev.broker.broker import reading_options
from headrace_dev.broker.ivy import ensure_jars, jars_folder
from headrace_dev.broker.java import find_java
from headrace_dev.broker.properties import LOGGING, server_properties

INSIDE_PORT, CONTROLLER_PORT = 9092, 9093
_HEAP_MB = 256
_CLUSTER_ID = "SGVhZHJhY2VDb250YWluZQ"
_SCRIPT = """\
[ -e {identity} ] || {java} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC {classes} -cp {jars} \\
    kafka.tools.StorageTool format --ignore-formatted -t {cluster} -c {settings} >> {log} 2>&1 || exit
exec {java} -Xmx{heap_mb}m -Xms64m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC {classes} -Djava.awt.headless=true \\
    -Dsun.net.inetaddr.ttl=1 -Dlog4j2.configurationFile={logging} -cp {jars} kafka.Kafka {settings} >> {log} 2>&1
"""


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """One of the cluster's brokers, a controller too. `here`, `port`: for clients on this machine, on loopback."""

    number: int
    here: str
    port: int
    folder: Path

    @property
    def name(self) -> str:
        """Of its host."""
        return f"kafka-{self.number}"

    @property
    def bootstrap(self) -> str:
        """Of this one, for clients on this machine."""
        return f"{self.here}:{self.port}"

    @property
    def log(self) -> Path:
        """What it has printed."""
        return self.folder / "broker.log"


@dataclass(frozen=True, slots=True)
class KafkaPrograms:
    """Java by its true path, the broker's jars, and the options that take classes from their archive."""

    java: Path
    jars: tuple[Path, ...]
    classes: tuple[str, ...]

    @property
    def folders(self) -> tuple[Path, Path]:
        """Where they lie."""
        return self.java.parents[1], jars_folder()


def find_programs() -> KafkaPrograms:
    """Those of the development broker; the jars are fetched where they are missing."""
    java = find_java()
    return KafkaPrograms(java.program.resolve(), ensure_jars(java), reading_options(jars_folder(), java))


def prepare(node: KafkaNode, nodes: Sequence[KafkaNode], programs: KafkaPrograms) -> list[str]:
    """Writes the node's settings, and returns the command that formats its data folder if it is new, and runs it."""
    node.folder.mkdir(parents=True, exist_ok=True)
    settings, logging = node.folder / "server.properties", node.folder / "log4j2.properties"
    one = server_properties(port=node.port, controller_port=CONTROLLER_PORT, data=node.folder / "logs")
    # a later line of a name counts
    settings.write_text(one + "".join(f"{key}={value}\n" for key, value in _of_several(node, nodes).items()))
    logging.write_text(LOGGING)
    script = _SCRIPT.format(
        java=shlex.quote(str(programs.java)),
        jars=shlex.quote(":".join(map(str, programs.jars))),
        classes=shlex.join(programs.classes),
        cluster=_CLUSTER_ID,
        identity=shlex.quote(str(node.folder / "logs" / "meta.properties")),
        settings=shlex.quote(str(settings)),
        logging=shlex.quote(logging.as_uri()),
        log=shlex.quote(str(node.log)),
        heap_mb=_HEAP_MB,
    )
    return ["/bin/sh", "-c", script]


def _of_several(node: KafkaNode, nodes: Sequence[KafkaNode]) -> dict[str, str]:
    """Two listeners: brokers and containers come by the names of hosts, this machine by published ports."""
    copies = str(min(3, len(nodes)))
    in_sync = "2" if len(nodes) > 1 else "1"
    inside = f"INSIDE://{node.name}:{INSIDE_PORT}"
    return {
        "node.id": str(node.number),
        "listeners": f"INSIDE://:{INSIDE_PORT},OUTSIDE://:{node.port},CONTROLLER://:{CONTROLLER_PORT}",
        "advertised.listeners": f"{inside},OUTSIDE://{node.bootstrap},CONTROLLER://{node.name}:{CONTROLLER_PORT}",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "controller.quorum.voters": ",".join(f"{each.number}@{each.name}:{CONTROLLER_PORT}" for each in nodes),
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        # who leads is changed by faults only, never by the brokers' own wish
        "auto.leader.rebalance.enable": "false",
        "log.retention.ms": "-1",
    }
