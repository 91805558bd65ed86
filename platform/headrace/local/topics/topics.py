"""Looking at topics of any Kafka broker, and making them.

Owns the calls of the admin client and the turning of its errors into ours; every call is bounded in time. Nothing
here knows the embedded broker.
"""

from __future__ import annotations

import time
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

from headrace.core.errors import ExternalError, HeadraceError, Unreachable, UserError, did_you_mean

ANSWER_SECONDS = 5.0
"""How long a broker may take to answer before it counts as unreachable."""

_FIRST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_AFTER_LAST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_SET_ON_TOPIC = 1  # the source of a setting, as the protocol numbers it
_T = TypeVar("_T")
AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE})
"""Error codes that mean: nobody answers."""
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
_SETTLE_SECONDS = 0.05
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
    """A topic in a list. `messages` is the sum of the offset ranges: what compaction or markers took away counts."""

    name: str
    partitions: int
    messages: int


@dataclass(frozen=True, slots=True)
class PartitionDetail:
    """One partition: who has it, and the offsets it holds, `start` up to but without `end`."""

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
    """librdkafka settings for a short-lived client: quick to notice that nobody is there, silent on stderr."""
    return {
        "bootstrap.servers": brokers,
        "client.id": "headrace-cli",
        "socket.connection.setup.timeout.ms": 4000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }


def cluster_id_of(brokers: str, *, seconds: float) -> str | None:
    """The id of the cluster that answers there, None when none does within `seconds`."""
    try:
        return AdminClient(client_settings(brokers)).list_topics(timeout=seconds).cluster_id
    except KafkaException:
        return None


def list_topics(brokers: str, *, internal: bool = False) -> list[TopicSummary]:
    """All topics by name; those that Kafka keeps for itself only with `internal`."""
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
    """One topic in full. Raises UserError, with the nearest name, when there is none such."""
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
    """The partition numbers of a topic. Raises UserError, with the nearest name, when there is none such."""
    admin = AdminClient(client_settings(brokers))
    return sorted(_require(_metadata(admin, brokers), topic).partitions)


def offset_ranges(brokers: str, topic: str) -> dict[int, tuple[int, int]]:
    """Partition -> (first offset, offset after the last one)."""
    admin = AdminClient(client_settings(brokers))
    found = _require(_metadata(admin, brokers), topic)
    return {partition: ends for (_, partition), ends in _offset_ranges(brokers, [found]).items()}


def create_topic(
    brokers: str, topic: str, *, partitions: int, replication: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Make a topic and return once its partitions take records.

    Raises UserError when it exists or when the broker does not take a setting.
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
    """Delete a topic with all that is in it, and return once no broker names it any more.

    Raises UserError where there is none, or Kafka keeps it for itself.
    """
    if topic.startswith("__"):
        raise UserError(f"Kafka keeps topic {topic!r} for itself")
    admin = AdminClient(client_settings(brokers))
    _require(_metadata(admin, brokers), topic)
    done = admin.delete_topics([topic], operation_timeout=ANSWER_SECONDS, request_timeout=2 * ANSWER_SECONDS)
    _result(done[topic], brokers, f"topic {topic!r} was not deleted")
    deadline = time.monotonic() + 2 * ANSWER_SECONDS
    # who makes it anew at once must not be told that it exists
    while topic in _metadata(AdminClient(client_settings(brokers)), brokers).topics:
        if time.monotonic() > deadline:
            raise ExternalError(f"topic {topic!r} is being deleted, but brokers still name it", retry=True)
        time.sleep(_SETTLE_SECONDS)


def translated(error: KafkaException, brokers: str, doing: str) -> HeadraceError:
    """Our error for one of the client library: nobody there, wrong use, or a refusal."""
    cause = error.args[0]
    if not isinstance(cause, KafkaError):
        return ExternalError(f"{doing}: {error}")
    if cause.code() in AWAY:
        return _nobody(brokers)
    text = f"{doing}: {cause.str()}"
    if cause.code() in _WRONG_USE:
        return UserError(text)
    return ExternalError(text, retry=cause.retriable())


def _nobody(brokers: str) -> Unreachable:
    return Unreachable(
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
    """(topic, partition) -> (first offset, offset after the last), with one request a broker and end."""
    wanted = [TopicPartition(str(topic.topic), number) for topic in topics for number in topic.partitions]
    if not wanted:
        return {}
    first, after = (_offsets(brokers, wanted, spec) for spec in (_FIRST, _AFTER_LAST))
    return {place: (first[place], after[place]) for place in first}


def _offsets(brokers: str, wanted: Iterable[TopicPartition], spec: OffsetSpec) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset; waits for the leaders of a topic that was made a moment ago."""
    places = list(wanted)
    deadline = time.monotonic() + 2 * ANSWER_SECONDS
    while True:
        # a client remembers for seconds that a partition had no leader: ask with a new one each time
        admin = AdminClient(client_settings(brokers))
        answers = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=ANSWER_SECONDS)
        try:
            return {
                (place.topic, place.partition): answer.result(timeout=1.2 * ANSWER_SECONDS).offset
                for place, answer in answers.items()
            }
        except KafkaException as error:
            if not _settles(error) or time.monotonic() > deadline:
                raise translated(error, brokers, "the offsets could not be read") from error
        except TimeoutError as error:
            # a client may forget what it has asked a broker that goes away meanwhile, and never answer
            if time.monotonic() > deadline:
                raise _nobody(brokers) from error
        time.sleep(_SETTLE_SECONDS)


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
