"""Ids are asked for by one thread, once for all who want them, while the registry fails in every way."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headrace.core.errors import UserError
from headrace.formats.registry.access import RegistryAccess
from headrace.formats.registry.asking import SchemaAsker
from headrace.formats.registry.client import RegistryClient
from headrace.formats.registry.id_table import DOUBT_MS, Absent, IdKey, Known, Waiting
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until
from support.registry.stand_in import StandIn, silence, stand_in, status


class StandingClock:
    """A clock that goes on only when a test says so."""

    now = 0

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


RECORD = '{"type": "record", "name": "A", "fields": []}'


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with stand_in() as running:
        yield running


@pytest.fixture
def asker(registry: StandIn) -> Iterator[SchemaAsker]:
    opened = SchemaAsker(RegistryAccess(registry.url))
    yield opened
    opened.close()


def test_all_who_want_an_id_share_one_request(registry: StandIn, asker: SchemaAsker) -> None:
    registry.subjects.register("a-value", {"schema": RECORD})
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(asker.wait([1], WAIT_SECONDS).get(1))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(each) for each in found] == [Known] * 16
    assert registry.paths == ["/schemas/ids/1"]


def test_nothing_is_opened_before_an_id_is_wanted(registry: StandIn) -> None:
    opened: list[RegistryAccess] = []

    def open_client(access: RegistryAccess) -> RegistryClient:
        opened.append(access)
        return RegistryClient(access)

    asker = SchemaAsker(RegistryAccess(registry.url), open_client=open_client)
    asker.look([])
    assert not opened
    asker.wait([1], 0)
    wait_until(lambda: bool(registry.requests), "it is asked for")
    assert len(opened) == 1
    asker.close()


def test_an_id_outlasts_a_registry_in_trouble(registry: StandIn, asker: SchemaAsker) -> None:
    registry.subjects.register("a-value", {"schema": RECORD})
    registry.troubles = [status(503, "no luck"), status(401, "no"), status(404)]
    assert isinstance(asker.wait([1], WAIT_SECONDS)[1], Known)
    assert len(registry.requests) == 4


def test_a_look_does_not_wait_for_a_silent_registry(registry: StandIn, asker: SchemaAsker) -> None:
    registry.trouble = silence
    assert isinstance(asker.look([1])[1], Waiting)
    wait_until(lambda: "does not answer" in asker.waiting()[0][1].reason, "the registry is found silent")
    ((key, _),) = asker.waiting()
    assert key == IdKey(registry.url, None, 1)


def test_absent_is_said_when_the_registry_has_said_so_twice(registry: StandIn) -> None:
    clock = StandingClock()
    asker = SchemaAsker(RegistryAccess(registry.url), clock=clock)
    asker.look([1])
    wait_until(lambda: "no such schema" in asker.waiting()[0][1].reason, "the first answer")
    clock.now += DOUBT_MS
    # its thread waits by the clock of the machine
    wait_until(lambda: isinstance(asker.look([1])[1], Absent), "the second answer")
    assert len(registry.requests) == 2
    asker.close()


def test_a_client_that_cannot_be_opened_is_the_reason(registry: StandIn) -> None:
    def open_client(_access: RegistryAccess) -> RegistryClient:
        raise UserError("no such file")

    asker = SchemaAsker(RegistryAccess(registry.url), open_client=open_client)
    asker.look([1])
    wait_until(lambda: "no such file" in asker.waiting()[0][1].reason, "the failure")
    asker.close()
    assert isinstance(asker.look([2]).get(2), type(None))


def test_a_context_is_part_of_a_number_and_not_of_a_guid(registry: StandIn) -> None:
    inside = registry.subjects.register(":.eu:a-value", {"schema": RECORD}).schema
    asker = SchemaAsker(RegistryAccess(registry.url, context="eu"))
    found = asker.wait([inside.id, inside.guid], WAIT_SECONDS)
    assert [type(each) for each in found.values()] == [Known, Known]
    asker.close()
