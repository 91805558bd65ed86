"""Verdicts on what a probe has learnt of brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.connect.access import Finding, Status
from headrace_connectors.kafka.access.judgement import Access, Facts, Needs, TopicFacts, judged

NOW_MS = 1_000_000
READS = Needs("b:9092", ("flights",), group="g")
WRITES = Needs("b:9092", ("delays",), writes=True, in_transactions=True)
READABLE = TopicFacts(exists=True, access=Access.ALLOWED, partitions=3, newest_ms=NOW_MS - 1_500)


def finding(check: str, needs: Needs, facts: Facts) -> Finding:
    (found,) = (each for each in judged(needs, facts, now_ms=NOW_MS) if each.check == check)
    return found


@pytest.mark.parametrize(
    ("topic", "status", "text"),
    [
        (READABLE, Status.OK, "3 partitions, may be read"),
        (replace(READABLE, access=Access.DENIED), Status.FAILED, "may not read it"),
        (replace(READABLE, access=Access.UNKNOWN), Status.UNCHECKED, "do not say whether it may be read"),
        (TopicFacts(exists=False), Status.FAILED, "it does not exist"),
    ],
)
def test_a_topic_that_is_read(topic: TopicFacts, status: Status, text: str) -> None:
    found = finding("topic flights", READS, Facts(1, {"flights": topic}))
    assert found.status is status
    assert text in found.text
    assert (found.remedy is not None) == (status is Status.FAILED)


@pytest.mark.parametrize(
    ("creation", "status"),
    [(Access.ALLOWED, Status.OK), (Access.UNKNOWN, Status.OK), (Access.DENIED, Status.FAILED)],
)
def test_a_missing_topic_that_the_sink_creates(creation: Access, status: Status) -> None:
    facts = Facts(1, {"delays": TopicFacts(exists=False)}, creation=creation)
    assert finding("topic delays", replace(WRITES, creates=True), facts).status is status
    assert "headrace kafka create delays" in (finding("topic delays", WRITES, facts).remedy or "")


@pytest.mark.parametrize(
    ("access", "group", "transactions"),
    [
        (Access.ALLOWED, Status.OK, Status.OK),
        (Access.DENIED, Status.WARNING, Status.FAILED),
        (Access.UNKNOWN, Status.UNCHECKED, Status.UNCHECKED),
    ],
)
def test_groups_and_transactions(access: Access, group: Status, transactions: Status) -> None:
    facts = Facts(1, {}, group=access, transactions=access, refusal="no")
    assert finding("group g", READS, facts).status is group
    assert finding("transactions at b:9092", WRITES, facts).status is transactions


@pytest.mark.parametrize(("members", "said"), [(1, "1 other consumer uses"), (2, "2 other consumers use")])
def test_a_group_that_others_use_is_a_warning(members: int, said: str) -> None:
    found = finding("group g", READS, Facts(1, {}, group=Access.ALLOWED, group_members=members))
    assert found.status is Status.WARNING
    assert said in found.text


@pytest.mark.parametrize(
    ("newest_ms", "status"),
    [(NOW_MS + 60_000, Status.WARNING), (NOW_MS + 1_000, Status.OK), (None, Status.UNCHECKED)],
)
def test_records_of_the_future_show_that_clocks_differ(newest_ms: int | None, status: Status) -> None:
    facts = Facts(1, {"flights": replace(READABLE, newest_ms=newest_ms)})
    assert finding("clock of topic flights", READS, facts).status is status


def test_a_pattern_has_one_line_for_all_its_topics() -> None:
    needs = Needs("b:9092", (), pattern="f.*")
    denied = replace(READABLE, access=Access.DENIED)
    assert finding("topics f.*", needs, Facts(1, {})).status is Status.WARNING
    assert finding("topics f.*", needs, Facts(1, {"fa": READABLE, "fb": READABLE})).text == "2 topics, may be read"
    assert "may not read fb" in finding("topics f.*", needs, Facts(1, {"fa": READABLE, "fb": denied})).text
