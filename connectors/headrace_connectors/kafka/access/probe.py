"""Asks brokers what a source or sink may do there; `judgement` decides what that means.

Reads metadata and authorized operations. It writes no record and no offset. Of transactions it registers the one id
`headrace-doctor`, which no job has, because brokers reveal that right in no other way.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AclOperation,
    AdminClient,
    OffsetSpec,
)

from headrace.connect.access import Finding, Status
from headrace.core.errors import ExternalError, HeadraceError, UserError, did_you_mean
from headrace.core.retry import Backoff, Retries
from headrace_connectors.kafka.access.judgement import Access, Facts, Needs, TopicFacts, judged
from headrace_connectors.kafka.clients.client import (
    UNKNOWN_TOPIC_CODES,
    ClientWatch,
    base_settings,
    known_cluster,
    open_admin,
)
from headrace_connectors.kafka.clients.committed_offsets import is_transient
from headrace_connectors.kafka.clients.properties import connection_settings
from headrace_connectors.kafka.clients.transaction_names import PREFIX

DOCTORS_ID = f"{PREFIX}-doctor"
TOPICS_MAX = 50
"""Most topics of a pattern that are looked at one by one."""
_DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
GROUP_SECONDS = 5.0
"""How long a group may take: the first request for one makes a new cluster create the topic that groups are kept in."""
_BACKOFF = Backoff(first_s=0.2, max_s=0.2)

_T = TypeVar("_T")


class KafkaAccessCheck:
    """`connect.access.AccessCheck` of the brokers of one source or sink."""

    def __init__(self, needs: Needs, properties: Mapping[str, str]) -> None:
        self._needs = needs
        self._properties = properties
        self._watch = ClientWatch(needs.brokers)

    def run(self, *, timeout_s: float) -> Sequence[Finding]:
        """See AccessCheck. A broker that is away, or refuses the login, is one finding."""
        deadline_s = time.monotonic() + timeout_s
        try:
            admin = open_admin(self._needs.brokers, self._properties, self._watch)
            facts = self._facts(admin, deadline_s)
        except (ExternalError, UserError) as error:
            return (Finding(f"brokers {self._needs.brokers}", Status.FAILED, error.message, _remedy(error)),)
        return judged(self._needs, facts, now_ms=time.time_ns() // 1_000_000)

    def _facts(self, admin: AdminClient, deadline_s: float) -> Facts:
        needs = self._needs
        cluster = known_cluster(admin, self._watch, timeout_s=_left(deadline_s) / 2)
        existing = tuple(sorted(cluster.topics))
        names = needs.topics or _matching(needs.pattern, existing)
        topics = {name: self._topic(admin, name, deadline_s) for name in names[:TOPICS_MAX]}
        transactions, refusal = self._transactions(deadline_s) if needs.in_transactions else (Access.UNKNOWN, "")
        shown = tuple(name for name in existing if not name.startswith("__"))
        group, members = self._group(admin, deadline_s)
        hints = {name: hint for name, topic in topics.items() if not topic.exists and (hint := _nearest(name, shown))}
        return Facts(
            brokers=len(cluster.brokers),
            topics=topics,
            group=group,
            group_members=members,
            creation=self._creation(admin, deadline_s) if needs.creates else Access.UNKNOWN,
            transactions=transactions,
            refusal=refusal,
            library=f"librdkafka {confluent_kafka.libversion()[0]}",
            hints=hints,
        )

    def _topic(self, admin: AdminClient, name: str, deadline_s: float) -> TopicFacts:
        call = admin.describe_topics
        try:
            described: Any = _answer(
                call(
                    TopicCollection([name]),
                    include_authorized_operations=True,
                    request_timeout=_left(deadline_s),
                )[name],
                deadline_s,
            )
        except KafkaException as cause:
            code = cause.args[0].code()
            if code in UNKNOWN_TOPIC_CODES:
                return TopicFacts(exists=False)
            return TopicFacts(exists=True, access=Access.DENIED if code in _DENIED else Access.UNKNOWN)
        wanted = AclOperation.WRITE if self._needs.writes else AclOperation.READ
        return TopicFacts(
            exists=True,
            access=_access(described.authorized_operations, wanted),
            partitions=len(described.partitions),
            newest_ms=_newest_ms(admin, name, len(described.partitions), deadline_s),
        )

    def _group(self, admin: AdminClient, deadline_s: float) -> tuple[Access, int]:
        """Whether the group may be used, and how many consumers use it."""
        group = self._needs.group
        if group is None:
            return Access.UNKNOWN, 0
        members = 0

        def ask() -> Any:
            nonlocal members
            asked = admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=_left(deadline_s)
            )
            described = _answer(asked[group], deadline_s)
            members = len(described.members)
            return described.authorized_operations

        access = _asked(ask, AclOperation.READ, patience_s=min(GROUP_SECONDS, _left(deadline_s)))
        return access, members

    def _creation(self, admin: AdminClient, deadline_s: float) -> Access:
        """The right to create any topic. An ACL for one topic is not visible before the topic exists."""

        def ask() -> Any:
            asked = admin.describe_cluster(include_authorized_operations=True, request_timeout=_left(deadline_s))
            return _answer(asked, deadline_s).authorized_operations

        return Access.ALLOWED if _asked(ask, AclOperation.CREATE) is Access.ALLOWED else Access.UNKNOWN

    def _transactions(self, deadline_s: float) -> tuple[Access, str]:
        settings = base_settings(self._needs.brokers, connection_settings(self._properties), self._watch)
        producer = Producer({**settings, "transactional.id": DOCTORS_ID})
        try:
            producer.init_transactions(max(1.0, _left(deadline_s)))
        except KafkaException as cause:
            error = cause.args[0]
            return (Access.DENIED if error.code() in _DENIED else Access.UNKNOWN), error.str()
        return Access.ALLOWED, ""


def _asked(ask: Callable[[], Any], wanted: AclOperation, *, patience_s: float = 0.0) -> Access:
    retries = Retries(_BACKOFF, patience_s)
    while True:
        try:
            return _access(ask(), wanted)
        except KafkaException as cause:
            error = cause.args[0]
        if error.code() in _DENIED:
            return Access.DENIED
        if not is_transient(error) or not retries.pause():
            return Access.UNKNOWN


def _access(operations: Sequence[AclOperation] | None, wanted: AclOperation) -> Access:
    if operations is None:
        return Access.UNKNOWN
    return Access.ALLOWED if wanted in operations or AclOperation.ALL in operations else Access.DENIED


def _newest_ms(admin: AdminClient, topic: str, partitions: int, deadline_s: float) -> int | None:
    """The time of the newest record; None: there is none, or it may not be read."""
    places = {TopicPartition(topic, number): OffsetSpec.max_timestamp() for number in range(partitions)}  # type: ignore[no-untyped-call]
    newest = -1
    with suppress(KafkaException):
        for future in admin.list_offsets(places, request_timeout=_left(deadline_s)).values():
            newest = max(newest, _answer(future, deadline_s).timestamp)
    return newest if newest >= 0 else None


def _answer(future: Future[_T], deadline_s: float) -> _T:
    try:
        return future.result(timeout=_left(deadline_s) + 1.0)
    except TimeoutError as cause:
        # librdkafka may lose a request to a broker that goes away
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from cause


def _left(deadline_s: float) -> float:
    return max(0.5, deadline_s - time.monotonic())


def _matching(pattern: str | None, existing: Sequence[str]) -> tuple[str, ...]:
    if pattern is None:
        return ()
    return tuple(name for name in existing if re.fullmatch(pattern, name) and not name.startswith("__"))


def _nearest(name: str, names: tuple[str, ...]) -> str | None:
    return did_you_mean(name, names)


def _remedy(error: HeadraceError) -> str | None:
    return error.remedy
