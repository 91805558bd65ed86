"""How requests about transactions find their broker and are sent again: what one real broker cannot be made to answer.

The brokers here are a script: each kind of request has a list of answers, one for each time that it comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from headrace.core.errors import ExternalError
from headrace_connectors.kafka.requests.requests import Coordinator, EndCall, RawDescription
from headrace_connectors.kafka.transactions.rules import Described, Undescribed
from headrace_connectors.kafka.transactions.txn_admin import TxnAdmin
from support.processes.running import WAIT_SECONDS

A, B = "headrace-j-out-1-0-0", "headrace-j-out-1-0-1"


class ScriptedClient:
    """Stands for the connections to a cluster; `asked` is what came."""

    script: dict[str, list[Any]]
    asked: list[tuple[str, Any]]
    opened: list[ScriptedClient]

    def __init__(self, *_: object, **__: object) -> None:
        failure = self.next_answer("open", None) if self.script.get("open") else None
        if failure is not None:
            raise failure
        self.broken = self.closed = False
        self.opened.append(self)

    def next_answer(self, kind: str, what: Any) -> Any:
        self.asked.append((kind, what))
        return self.script[kind].pop(0)

    def last_failure(self) -> str:
        return "the cable is out"

    def brokers(self) -> tuple[int, ...]:
        return tuple(self.next_answer("brokers", None))

    def find(self, names: Sequence[str]) -> Any:
        return self.next_answer("find", list(names))

    def describe(self, by_broker: Mapping[int, Sequence[str]]) -> Any:
        return self.next_answer("describe", by_broker)

    def end(self, by_broker: Mapping[int, Sequence[EndCall]]) -> Any:
        answer = self.next_answer("end", {node: [call.name for call in calls] for node, calls in by_broker.items()})
        self.broken = 13 in answer.values()
        return answer

    def listed(self, brokers: Sequence[int], **_: object) -> Any:
        return self.next_answer("listed", tuple(brokers))

    def broker_setting(self, brokers: Sequence[int], name: str) -> Any:
        return self.next_answer("setting", name)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[ScriptedClient]]:
    class Fresh(ScriptedClient):
        script: dict[str, list[Any]] = {}  # noqa: RUF012 - one class a test
        asked: list[tuple[str, Any]] = []  # noqa: RUF012
        opened: list[ScriptedClient] = []  # noqa: RUF012

    monkeypatch.setattr("headrace_connectors.kafka.transactions.txn_admin.BrokerClient", Fresh)
    yield Fresh
    assert not any(Fresh.script.values()), "the script was not played to its end"


def admin_of_script() -> TxnAdmin:
    """One whose patience outlasts its script."""
    return TxnAdmin("x:1", {}, patience_s=WAIT_SECONDS)


def at(**places: int) -> dict[str, Coordinator]:
    return {{"a": A, "b": B}[name]: Coordinator(0, broker) for name, broker in places.items()}


def calls(*names: str) -> list[EndCall]:
    return [EndCall(name, 7, 0, committed=True) for name in names]


def test_a_coordinator_that_moved_is_found_again_and_only_its_names_are_asked_for_again(
    cluster: type[ScriptedClient],
) -> None:
    cluster.script.update(
        find=[at(a=1, b=2), at(b=3)],
        end=[{A: 0, B: 16}, {B: 0}],
    )
    assert admin_of_script().end(calls(A, B)) == {A: 0, B: 0}
    assert [what for kind, what in cluster.asked if kind == "end"] == [{1: [A], 2: [B]}, {3: [B]}]
    assert [what for kind, what in cluster.asked if kind == "find"] == [[A, B], [B]]
    assert len(cluster.opened) == 1


def test_what_passes_is_asked_for_again_at_the_same_broker(cluster: type[ScriptedClient]) -> None:
    cluster.script.update(find=[at(a=1)], end=[{A: 51}, {A: 51}, {A: 0}])
    assert admin_of_script().end(calls(A)) == {A: 0}


def test_a_coordinator_that_loads_is_waited_for(cluster: type[ScriptedClient]) -> None:
    cluster.script.update(find=[{A: Coordinator(15), **at(b=2)}, {A: Coordinator(14)}, at(a=1)], end=[{B: 48}, {A: 90}])
    assert admin_of_script().end(calls(A, B)) == {A: 90, B: 48}


def test_after_a_broken_connection_comes_a_new_client(cluster: type[ScriptedClient]) -> None:
    cluster.script.update(find=[at(a=1, b=2), at(a=3)], end=[{A: 13, B: 0}, {A: 0}])
    admin = admin_of_script()
    assert admin.end(calls(A, B)) == {A: 0, B: 0}
    assert [each.closed for each in cluster.opened] == [True, False]
    admin.close()
    assert all(each.closed for each in cluster.opened)


def test_brokers_that_do_not_answer_are_tried_until_they_do(cluster: type[ScriptedClient]) -> None:
    away = ExternalError("nobody is there", retry=True)
    cluster.script.update(open=[away, away, None], find=[at(a=1)], end=[{A: 0}])
    assert admin_of_script().end(calls(A)) == {A: 0}


def test_a_refused_login_is_told_at_once(cluster: type[ScriptedClient]) -> None:
    cluster.script.update(open=[ExternalError("wrong password")])
    with pytest.raises(ExternalError, match="wrong password"):
        admin_of_script().describe([A])


def test_patience_ends_with_an_error_that_asks_to_be_called_again(cluster: type[ScriptedClient]) -> None:
    cluster.script.update(find=[at(a=1, b=1)], end=[{A: 51, B: 51}])
    with pytest.raises(ExternalError, match=rf"transaction {A} and 1 more: CONCURRENT_TRANSACTIONS \(51\)") as caught:
        TxnAdmin("x:1", {}, patience_s=0).end(calls(A, B))
    assert caught.value.retry


def test_each_name_gets_an_answer_of_its_own(cluster: type[ScriptedClient]) -> None:
    there = RawDescription(0, "Ongoing", 7, 0, 1000, 60_000, {"t": (0,)})
    cluster.script.update(find=[at(a=1, b=1)], describe=[{A: RawDescription(105), B: there}])
    assert admin_of_script().describe([A, B]) == {
        A: Undescribed(A, 105),
        B: Described(B, "Ongoing", 7, 0, 1000, 60_000, {"t": (0,)}),
    }


def test_no_names_ask_nothing(cluster: type[ScriptedClient]) -> None:
    admin = admin_of_script()
    assert (admin.describe([]), admin.end([]), admin.fence([])) == ({}, {}, {})
    assert cluster.asked == []


def test_a_list_is_of_all_brokers_or_not_at_all(cluster: type[ScriptedClient]) -> None:
    cluster.script.update(
        brokers=[(1, 2), (1, 3)],
        listed=[
            {1: (0, {A: "Ongoing"}), 2: (14, {})},
            # brokers before 4.1 give all names
            {1: (0, {A: "Ongoing", "orders-1": "Ongoing"}), 3: (0, {B: "Ongoing"})},
        ],
    )
    assert admin_of_script().listed("headrace-j-", ["Ongoing"]) == {A: "Ongoing", B: "Ongoing"}


@pytest.mark.parametrize(
    ("answers", "longest"),
    [
        ({1: (0, "900000"), 2: (0, "600000")}, 600_000),
        ({1: (31, None), 2: (0, "900000")}, 900_000),
        ({1: (31, None), 2: (31, None)}, None),
    ],
)
def test_the_lowest_maximum_counts(
    cluster: type[ScriptedClient], answers: dict[int, tuple[int, str | None]], longest: int | None
) -> None:
    cluster.script.update(brokers=[(1, 2)], setting=[answers])
    assert admin_of_script().timeout_max_ms() == longest


def test_a_coordinator_that_may_not_be_asked_for_is_denied(cluster: type[ScriptedClient]) -> None:
    cluster.script.update(find=[{A: Coordinator(53)}])
    with pytest.raises(ExternalError, match=f"denies access to transaction {A}") as caught:
        admin_of_script().describe([A])
    assert not caught.value.retry
