"""Apache Kafka in containers, one broker or several: to lose a broker, to cut it off, to let it stand still.

with KafkaContainers(tmp_path, brokers=3) as kafka:
    kafka.create_topic("events", partitions=2)
    kafka.kill(kafka.leader_of("events", 0))
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]  # re-exported without saying so

from headrace.core.errors import HeadraceError
from headrace.local.topics import topics as broker_topics
from headrace.local.topics.topics import client_settings
from support.containers.container_network import container_network
from support.containers.engine import require_engine
from support.containers.kafka_settings import INSIDE_PORT, KafkaNode, KafkaPrograms, find_programs, prepare
from support.containers.machine_container import ContainerConfig, MachineContainer
from support.processes.running import wait_until

_TRANSACTIONS = "__transaction_state"
_ANSWER_SECONDS = 5.0


class KafkaContainers:
    """Brokers are numbered from 1, as Kafka names them. Each one is a controller too, so most of them have to live.

    Topics have as many copies as there are brokers, 3 at most, and with several brokers take a row (`acks=all`) as
    long as 2 copies are in sync: a cluster of 3 loses any one broker without losing anything. Addresses, ports and
    files of a broker stay when it is killed or cut off.
    """

    def __init__(self, folder: Path, *, brokers: int = 1) -> None:
        require_engine()
        self._folder = folder
        self._count = brokers
        self._nodes: dict[int, KafkaNode] = {}
        self._containers: dict[int, MachineContainer] = {}
        self._undo = ExitStack()

    def __enter__(self) -> KafkaContainers:
        with ExitStack() as undo:
            self.network = undo.enter_context(container_network())
            """The brokers', which others may join."""
            ports: set[int] = set()
            while len(ports) < self._count:
                ports.add(self.network.free_port())
            for number, port in enumerate(sorted(ports), 1):
                self._nodes[number] = KafkaNode(number, self.network.here, port, self._folder / f"kafka-{number}")
            programs = find_programs()
            for number in self._nodes:
                self._containers[number] = self._described(number, programs)
                undo.callback(self._containers[number].remove)
            for container in self._containers.values():
                container.start()
            self._wait_ready()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    # ---- for clients ---------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """All brokers, for clients on this machine."""
        return ",".join(node.bootstrap for node in self._nodes.values())

    @property
    def bootstrap_inside(self) -> str:
        """All brokers, for containers on `network`."""
        return ",".join(f"{node.name}:{INSIDE_PORT}" for node in self._nodes.values())

    @property
    def brokers(self) -> list[int]:
        """Their numbers."""
        return list(self._nodes)

    def create_topic(self, name: str, partitions: int = 1, replication: int | None = None) -> str:
        """Makes it and returns its name, when its partitions take rows. With one copy on each broker, 3 at most."""
        copies = min(3, self._count) if replication is None else replication

        def made() -> bool:
            try:
                broker_topics.create_topic(self.bootstrap, name, partitions=partitions, replication=copies)
            except HeadraceError:
                # where brokers have come and gone, a controller may have to be found first, or a broker for each copy;
                # and who got no answer may have made it
                return self._takes_rows(name)
            return True

        wait_until(made, f"topic {name} is made")
        return name

    def log(self, broker: int) -> Path:
        """What a broker has printed so far."""
        return self._nodes[broker].log

    # ---- who does what -------------------------------------------------------------------------------------------

    def leader_of(self, topic: str, partition: int) -> int:
        """The broker that rows of the partition go to and come from now. Waits where there is none for a moment."""
        found: list[int] = []

        def led() -> bool:
            metadata = self._metadata()
            known = metadata.topics[topic].partitions if metadata and topic in metadata.topics else {}
            found[:] = (
                [known[partition].leader] if partition in known and known[partition].leader in self._nodes else []
            )
            return bool(found)

        wait_until(led, f"{topic}-{partition} has a leader")
        return found[0]

    def coordinator_of(self, transactional_id: str) -> int:
        """The broker that decides on this producer's transactions now; some producer must have asked for one before."""
        count = 0

        def counted() -> bool:
            nonlocal count
            count = self._transaction_partitions()
            return count > 0

        wait_until(counted, "the transaction log is there")
        return self.leader_of(_TRANSACTIONS, (_java_hash(transactional_id) & 0x7FFFFFFF) % count)

    def wait_in_sync(self, *topics: str) -> None:
        """Until each copy of their partitions has all rows: then any broker can be lost next. None given: of all.

        All brokers must say so: one that was away does not know at once what has become of its copies.
        """

        def in_sync() -> bool:
            return all(_is_in_sync(_asked(node.bootstrap), topics) for node in self._nodes.values())

        wait_until(in_sync, f"all copies of {topics or 'all topics'} are in sync")

    # ---- faults --------------------------------------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """SIGKILL; returns when it is gone, which the others notice up to 3 s later."""
        self._containers[broker].kill()

    def start(self, broker: int) -> None:
        """Again after `kill`; returns when it serves clients."""
        self._containers[broker].start()
        self._wait_serving(broker)

    def pause(self, broker: int) -> None:
        """It stands still; connections to it stay."""
        self._containers[broker].pause()

    def unpause(self, broker: int) -> None:
        """It goes on; returns when it serves clients."""
        self._containers[broker].unpause()
        self._wait_serving(broker)

    @contextmanager
    def all_paused(self) -> Iterator[None]:
        """Nobody answers inside; afterwards all of them serve clients."""
        try:
            for container in self._containers.values():
                container.pause()
            yield
        finally:
            # none of them can do anything before the others are back
            for container in self._containers.values():
                if container.is_paused():
                    container.unpause()
        for number in self._nodes:
            self._wait_serving(number)

    def disconnect(self, broker: int) -> None:
        """Nothing reaches it any more, neither brokers nor clients, here or in containers."""
        self._containers[broker].disconnect()

    def connect(self, broker: int) -> None:
        """Heals `disconnect`; returns when it serves clients."""
        self._containers[broker].connect()
        self._wait_serving(broker)

    # ---- inside --------------------------------------------------------------------------------------------------

    def _described(self, number: int, programs: KafkaPrograms) -> MachineContainer:
        node = self._nodes[number]
        config = ContainerConfig(
            name=node.name,
            command=prepare(node, list(self._nodes.values()), programs),
            networks=[self.network],
            folders=[node.folder],
            files=programs.folders,
            ports={node.port: node.port},
        )
        return MachineContainer(config)

    def _wait_ready(self) -> None:
        try:
            for number in self._nodes:
                self._wait_serving(number)
        except AssertionError as error:
            logs = "\n".join(f"{node.name}:\n{_tail(node.log)}" for node in self._nodes.values())
            raise AssertionError(f"{error}\n{logs}") from error

    def _wait_serving(self, broker: int) -> None:
        """It answers by itself, and is one of the cluster's brokers again."""

        def serves() -> bool:
            assert self._containers[broker].is_running(), f"broker {broker} has ended"
            metadata = _asked(self._nodes[broker].bootstrap)
            return metadata is not None and broker in metadata.brokers

        wait_until(serves, f"broker {broker} serves clients")

    def _takes_rows(self, topic: str) -> bool:
        try:
            return bool(broker_topics.offset_ranges(self.bootstrap, topic))
        except HeadraceError:
            return False

    def _metadata(self) -> ClusterMetadata | None:
        return _asked(self.bootstrap)

    def _transaction_partitions(self) -> int:
        metadata = self._metadata()
        found = metadata.topics.get(_TRANSACTIONS) if metadata else None
        return len(found.partitions) if found is not None and found.error is None else 0


def _asked(brokers: str) -> ClusterMetadata | None:
    """What a new client is told; None: nobody answers. A client that is kept remembers what was."""
    try:
        return AdminClient(client_settings(brokers)).list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException:
        return None


def _is_in_sync(metadata: ClusterMetadata | None, topics: Sequence[str]) -> bool:
    """By what a broker says; no topics: all that it knows."""
    known = metadata.topics if metadata is not None else {}
    if any(name not in known for name in topics):
        return False
    found = [partition for name in topics or known for partition in known[name].partitions.values()]
    return bool(found) and all(len(each.isrs) == len(each.replicas) for each in found)


def _java_hash(text: str) -> int:
    """`String.hashCode`, by which Kafka spreads transactional ids over partitions of its log."""
    value = 0
    for unit in array("H", text.encode("utf-16" + ("-le" if sys.byteorder == "little" else "-be"))):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"
