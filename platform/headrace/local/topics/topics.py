"""Lists, describes, creates and deletes topics of any Kafka cluster.

It owns the calls of the admin client and translates its errors; every call has a time limit. It does not know the
embedded broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicMetadata,
)

from headrace.core.errors import ExternalError, HeadraceError, UnreachableError, UserError, did_you_mean
from headrace.core.retry import Backoff, Retries

ANSWER_SECONDS = 5.0
"""Time limit of a broker's response; a broker that exceeds it counts as unreachable."""

_FIRST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_AFTER_LAST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_SET_ON_TOPIC = 1  # the source of a setting, by its number in the protocol
_T = TypeVar("_T")
AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE})
"""Error codes of unreachable brokers."""
# transient errors: not every broker knows a topic or leader that was created a moment ago
_SETTLING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._NOENT,  # the client: "no leaders found"
    }
)
_SETTLE_BACKOFF = Backoff(first_s=0.05, max_s=0.05)
_WRONG_USE = frozenset(
    {
        KafkaError.TOPIC_ALREADY_EXISTS,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_REQUEST,
        KafkaError._INVALID_ARG,
    }
)


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic in a list. `messages` is the sum of the offset ranges: compacted records and markers count."""

    name: str
    partitions: int
    messages: int


@dataclass(frozen=True, slots=True)
class PartitionDetail:
    """One partition: its replicas, and its offsets [`start`, `end`)."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """A topic with its partitions and the settings that differ from the broker's defaults."""

    name: str
    partitions: tuple[PartitionDetail, ...]
    config: Mapping[str, str]


def client_settings(brokers: str) -> dict[str, str | int | float | bool]:
    """Returns librdkafka settings for a short-lived client: it notices unreachable brokers soon, and prints nothing to
    stderr.
    """
    return {
        "bootstrap.servers": brokers,
        "client.id": "headrace-cli",
        "socket.connection.setup.timeout.ms": 4000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }


def cluster_id_of(brokers: str, *, seconds: float) -> str | None:
    """Returns the id of the cluster that answers there; None if none does within `seconds`."""
    try:
        return AdminClient(client_settings(brokers)).list_topics(timeout=seconds).cluster_id
    except KafkaException:
        return None


def list_topics(brokers: str, *, internal: bool = False) -> list[TopicSummary]:
    """Returns all topics by name; Kafka's internal ones only with `internal`."""
    admin = AdminClient(client_settings(brokers))
    topics = _metadata(admin, brokers).topics
    names = sorted(name for name in topics if internal or not name.startswith("__"))
    ranges = _offset_ranges(brokers, [topics[name] for name in names])
    return [
        TopicSummary(
            name=name,
            partitions=len(topics[name].partitions),
            messages=sum(ranges[name, p][1] - ranges[name, p][0] for p in topics[name].partitions),
        )
        for name in names
    ]


def describe_topic(brokers: str, topic: str) -> TopicDetail:
    """Returns one topic in full. Raises UserError, with the nearest name, if it does not exist."""
    admin = AdminClient(client_settings(brokers))
    found = _require(_metadata(admin, brokers), topic)
    ranges = _offset_ranges(brokers, [found])
    details = tuple(
        PartitionDetail(
            partition=number,
            leader=partition.leader,
            replicas=tuple(partition.replicas),
            in_sync=tuple(partition.isrs),
            start=ranges[topic, number][0],
            end=ranges[topic, number][1],
        )
        for number, partition in sorted(found.partitions.items())
    )
    return TopicDetail(name=topic, partitions=details, config=_own_config(admin, brokers, topic))


def partitions_of(brokers: str, topic: str) -> list[int]:
    """Returns the partition numbers of a topic. Raises UserError, with the nearest name, if it does not exist."""
    admin = AdminClient(client_settings(brokers))
    return sorted(_require(_metadata(admin, brokers), topic).partitions)


def offset_ranges(brokers: str, topic: str) -> dict[int, tuple[int, int]]:
    """Returns partition -> (first offset, offset after the last one)."""
    admin = AdminClient(client_settings(brokers))
    found = _require(_metadata(admin, brokers), topic)
    return {partition: ends for (_, partition), ends in _offset_ranges(brokers, [found]).items()}


def offsets_at(brokers: str, topic: str, time_ms: int) -> dict[int, int]:
    """Returns partition -> offset of its first record at or after a time; without partitions that have none."""
    admin = AdminClient(client_settings(brokers))
    found = _require(_metadata(admin, brokers), topic)
    places = [TopicPartition(topic, number) for number in found.partitions]
    spec: OffsetSpec = OffsetSpec.for_timestamp(time_ms)
    return {number: offset for (_, number), offset in _offsets(brokers, places, spec).items() if offset >= 0}


def create_topic(
    brokers: str, topic: str, *, partitions: int, replication: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Creates a topic. Returns once its partitions accept records.

    Raises UserError if it exists, or if the broker rejects a setting.
    """
    admin = AdminClient(client_settings(brokers))
    _metadata(admin, brokers)
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=replication, config=dict(config or {}))
    done = admin.create_topics([wanted], operation_timeout=ANSWER_SECONDS, request_timeout=2 * ANSWER_SECONDS)
    try:
        _result(done[topic], brokers, f"topic {topic!r} was not created")
    except UserError as error:
        if topic in _metadata(admin, brokers).topics:
            error.remedy = f"headrace kafka topics {topic} describes it, headrace kafka delete {topic} removes it"
        raise
    _offsets(brokers, [TopicPartition(topic, number) for number in range(partitions)], _AFTER_LAST)


def delete_topic(brokers: str, topic: str) -> None:
    """Deletes a topic with its records. Returns once no broker lists it any more.

    Raises UserError if it does not exist, or is internal to Kafka.
    """
    if topic.startswith("__"):
        raise UserError(f"Kafka keeps topic {topic!r} for itself")
    admin = AdminClient(client_settings(brokers))
    _require(_metadata(admin, brokers), topic)
    done = admin.delete_topics([topic], operation_timeout=ANSWER_SECONDS, request_timeout=2 * ANSWER_SECONDS)
    _result(done[topic], brokers, f"topic {topic!r} was not deleted")
    retries = Retries(_SETTLE_BACKOFF, 2 * ANSWER_SECONDS)
    # a caller that creates it again at once must not receive TOPIC_ALREADY_EXISTS
    while topic in _metadata(AdminClient(client_settings(brokers)), brokers).topics:
        if not retries.pause():
            raise ExternalError(f"topic {topic!r} is being deleted, but brokers still name it", retry=True)


def translated(error: KafkaException, brokers: str, doing: str) -> HeadraceError:
    """Returns headrace's error for one of the client library: unreachable, wrong use, or a refusal."""
    cause = error.args[0]
    if not isinstance(cause, KafkaError):
        return ExternalError(f"{doing}: {error}")
    if cause.code() in AWAY:
        return _nobody(brokers)
    text = f"{doing}: {cause.str()}"
    if cause.code() in _WRONG_USE:
        return UserError(text)
    return ExternalError(text, retry=cause.retriable())


def _nobody(brokers: str) -> UnreachableError:
    return UnreachableError(
        f"no Kafka broker answers at {brokers}",
        remedy="check the address (--brokers), or start the development broker: headrace kafka up",
    )


def _metadata(admin: AdminClient, brokers: str) -> ClusterMetadata:
    try:
        return admin.list_topics(timeout=ANSWER_SECONDS)
    except KafkaException as error:
        raise translated(error, brokers, "the topics could not be listed") from error


def _require(metadata: ClusterMetadata, topic: str) -> TopicMetadata:
    found = metadata.topics.get(topic)
    if found is None or found.error is not None:
        names = [name for name in metadata.topics if not name.startswith("__")]
        raise UserError(
            f"there is no topic {topic!r}",
            remedy=did_you_mean(topic, names) or f"make it: headrace kafka create {topic} --partitions 4",
        )
    return found


def _offset_ranges(brokers: str, topics: Iterable[TopicMetadata]) -> dict[tuple[str, int], tuple[int, int]]:
    """Returns (topic, partition) -> (first offset, offset after the last), with one request per broker and end."""
    wanted = [TopicPartition(str(topic.topic), number) for topic in topics for number in topic.partitions]
    if not wanted:
        return {}
    first, after = (_offsets(brokers, wanted, spec) for spec in (_FIRST, _AFTER_LAST))
    return {place: (first[place], after[place]) for place in first}


def _offsets(brokers: str, wanted: Iterable[TopicPartition], spec: OffsetSpec) -> dict[tuple[str, int], int]:
    """Returns (topic, partition) -> offset; waits for the leaders of a new topic."""
    places = list(wanted)
    retries = Retries(_SETTLE_BACKOFF, 2 * ANSWER_SECONDS)
    while True:
        # a client caches for seconds that a partition had no leader: each try needs a new client
        admin = AdminClient(client_settings(brokers))
        answers = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=ANSWER_SECONDS)
        try:
            return {
                (place.topic, place.partition): answer.result(timeout=1.2 * ANSWER_SECONDS).offset
                for place, answer in answers.items()
            }
        except KafkaException as error:
            if not _settles(error) or not retries.pause():
                raise translated(error, brokers, "the offsets could not be read") from error
        except TimeoutError as error:
            # librdkafka may drop a request to a broker that disconnects meanwhile, and never answer it
            if not retries.pause():
                raise _nobody(brokers) from error


def _settles(error: KafkaException) -> bool:
    cause = error.args[0]
    return isinstance(cause, KafkaError) and (cause.code() in _SETTLING or cause.retriable())


def _own_config(admin: AdminClient, brokers: str, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    answer = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)[resource]
    entries = _result(answer, brokers, "the settings could not be read")
    return {name: str(entry.value) for name, entry in sorted(entries.items()) if entry.source == _SET_ON_TOPIC}


def _result(answer: Future[_T], brokers: str, doing: str) -> _T:
    try:
        return answer.result(timeout=3 * ANSWER_SECONDS)
    except KafkaException as error:
        raise translated(error, brokers, doing) from error
    except TimeoutError as error:
        raise _nobody(brokers) from error
