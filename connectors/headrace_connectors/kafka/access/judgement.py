"""Judges what a probe has learnt of brokers and topics: findings with a remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.connect.access import Finding, Status
from headrace.core.text.plural import plural

CLOCK_TOLERANCE_MS = 2_000
"""Records may be this far in the future: clocks of hosts differ by less where they are kept."""


class Access(StrEnum):
    """Whether a resource may be used."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Needs:
    """The operations of a source or sink at its brokers.

    topics       by name; `pattern`: those that match a pattern, if there are no names
    group        consumer group that offsets are committed to; None: none
    writes       else it reads
    creates      a missing topic is created
    in_transactions   writes in transactions
    """

    brokers: str
    topics: tuple[str, ...]
    pattern: str | None = None
    group: str | None = None
    writes: bool = False
    creates: bool = False
    in_transactions: bool = False


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the principal sees it. newest_ms: time of its newest record; None: not known."""

    exists: bool
    access: Access = Access.UNKNOWN
    partitions: int = 0
    newest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The results of the probe.

    brokers      number of brokers that the cluster has
    topics       by name; with a pattern those that match
    group, creation, transactions   whether they are allowed
    group_members   consumers that use the group now
    refusal      the brokers' own words about transactions
    """

    brokers: int
    topics: Mapping[str, TopicFacts]
    group: Access = Access.UNKNOWN
    group_members: int = 0
    creation: Access = Access.UNKNOWN
    transactions: Access = Access.UNKNOWN
    refusal: str = ""
    library: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)


def judged(needs: Needs, facts: Facts, *, now_ms: int) -> tuple[Finding, ...]:
    """Returns a finding for the brokers, each topic, and each right that the node needs."""
    return (
        Finding(
            f"brokers {needs.brokers}",
            Status.OK,
            f"{plural(facts.brokers, 'broker')} answer{'s' if facts.brokers == 1 else ''}, {facts.library}",
        ),
        *_topics(needs, facts, now_ms),
        *_group(needs, facts),
        *_transactions(needs, facts),
    )


def _topics(needs: Needs, facts: Facts, now_ms: int) -> Iterator[Finding]:
    if needs.pattern is not None:
        yield _matching(needs.pattern, facts)
        return
    for name, topic in facts.topics.items():
        yield _topic(name, topic, needs, facts)
        yield _clock(name, topic, now_ms)


def _matching(pattern: str, facts: Facts) -> Finding:
    """All topics of a pattern in one line: there may be many."""
    check, found = f"topics {pattern}", plural(len(facts.topics), "topic")
    denied = [name for name, topic in facts.topics.items() if topic.access is Access.DENIED]
    if not facts.topics:
        return Finding(check, Status.WARNING, "no topic has such a name", "a job waits until there is one")
    if denied:
        return Finding(
            check,
            Status.FAILED,
            f"of {found} this principal may not read {', '.join(denied[:5])}{', ..' if len(denied) > 5 else ''}",
            "ask for ACLs that allow READ and DESCRIBE on these topics",
        )
    return Finding(check, Status.OK, f"{found}, may be read")


def _topic(name: str, topic: TopicFacts, needs: Needs, facts: Facts) -> Finding:
    check = f"topic {name}"
    verb = "write" if needs.writes else "read"
    if topic.access is Access.DENIED:
        return Finding(
            check,
            Status.FAILED,
            f"this principal may not {verb} it, or not see it",
            f"ask for an ACL that allows {verb.upper()} and DESCRIBE on topic {name}",
        )
    if not topic.exists:
        return _missing(check, name, needs, facts)
    found = plural(topic.partitions, "partition")
    if topic.access is Access.UNKNOWN:
        return Finding(check, Status.UNCHECKED, f"{found}; the brokers do not say whether it may be {_done(verb)}")
    return Finding(check, Status.OK, f"{found}, may be {_done(verb)}")


def _missing(check: str, name: str, needs: Needs, facts: Facts) -> Finding:
    if needs.creates and facts.creation is Access.DENIED:
        return Finding(
            check,
            Status.FAILED,
            "it does not exist, and this principal may not create it",
            f"ask for an ACL that allows CREATE on topic {name}, or have it created",
        )
    if needs.creates:
        return Finding(check, Status.OK, "it does not exist; the sink creates it")
    hint = facts.hints.get(name)
    create = f"create it: headrace kafka create {name} --brokers {needs.brokers}"
    return Finding(check, Status.FAILED, "it does not exist", f"{hint} {create}" if hint else create)


def _clock(name: str, topic: TopicFacts, now_ms: int) -> Finding:
    check = f"clock of topic {name}"
    if topic.newest_ms is None:
        return Finding(check, Status.UNCHECKED, "brokers show their time in records only, and it has no recent one")
    ahead_ms = topic.newest_ms - now_ms
    if ahead_ms > CLOCK_TOLERANCE_MS:
        return Finding(
            check,
            Status.WARNING,
            f"its newest record is {ahead_ms / 1_000:.1f} s in the future of this machine",
            "let NTP keep the clocks of this machine, the brokers and the producers",
        )
    return Finding(check, Status.OK, f"its newest record is {-ahead_ms / 1_000:,.1f} s old: not in the future")


def _group(needs: Needs, facts: Facts) -> Iterator[Finding]:
    if needs.group is None:
        return
    check = f"group {needs.group}"
    if facts.group_members:
        yield Finding(
            check,
            Status.WARNING,
            f"{plural(facts.group_members, 'other consumer')} use{'s' if facts.group_members == 1 else ''} it now: "
            "jobs run, but Kafka refuses their offsets",
            "give the source a `group:` of its own",
        )
        return
    match facts.group:
        case Access.ALLOWED:
            yield Finding(check, Status.OK, "offsets may be committed")
        case Access.DENIED:
            yield Finding(
                check,
                Status.WARNING,
                "this principal may not use it: jobs run, but publish no offsets",
                f"ask for an ACL that allows READ on group {needs.group}",
            )
        case Access.UNKNOWN:
            yield Finding(check, Status.UNCHECKED, "the brokers do not say whether offsets may be committed")


def _transactions(needs: Needs, facts: Facts) -> Iterator[Finding]:
    if not needs.in_transactions:
        return
    check = f"transactions at {needs.brokers}"
    match facts.transactions:
        case Access.ALLOWED:
            yield Finding(check, Status.OK, "transactional ids with prefix headrace- may be used")
        case Access.DENIED:
            yield Finding(
                check,
                Status.FAILED,
                f"transactional ids may not be used: {facts.refusal}",
                "ask for an ACL that allows WRITE on TransactionalIds with prefix headrace-",
            )
        case Access.UNKNOWN:
            yield Finding(check, Status.UNCHECKED, facts.refusal or "the brokers did not answer in time")


def _done(verb: str) -> str:
    return "written" if verb == "write" else verb
