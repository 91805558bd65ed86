"""Elections by the contract of `leadership.elector`: of a folder, of a real ZooKeeper, and of a real API server.

`test_lease_election` has what only a Lease can suffer.
"""

from __future__ import annotations

import queue
import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError
from headrace.leadership.elector import Elected, Elector, ElectorEvent, InDoubt, Lost
from headrace.leadership.file_election import LOCK, FileElector
from headrace.leadership.opening import LEASE_VARIABLE, open_elector, open_locator
from headrace.leadership.zookeeper_client import ZooKeeperAddress, zookeeper_client
from headrace.leadership.zookeeper_election import ZooKeeperElector
from support.leadership.breakable_way import BreakableWay, breakable_way
from support.leadership.candidates import ADDRESS, LATER, LEASE_MS, LONG_LEASE_MS, Make, candidates
from support.leadership.lease_api import LeaseApi, lease_api, lease_name
from support.leadership.zookeeper import LOOPBACK, ZooKeeper, zookeeper
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until

pytestmark = pytest.mark.turns(2)

LEASE_WITH_A_TRY_MORE_MS = 15_000
"""A third of it is the limit of a handshake."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with zookeeper(tmp_path_factory.mktemp("z")) as started:
        yield started


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaseApi]:
    with lease_api(tmp_path_factory.mktemp("k")) as started:
        yield started


@pytest.fixture(params=["file", "zookeeper", "kubernetes"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def environment(kind: str, request: pytest.FixtureRequest) -> Mapping[str, str]:
    if kind != "kubernetes":
        return {}
    api: LeaseApi = request.getfixturevalue("api")
    return api.environment


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match kind:
        case "file":
            return f"file://{tmp_path}"
        case "zookeeper":
            servers: ZooKeeper = request.getfixturevalue("servers")
            return f"zookeeper://{servers.hosts}/{tmp_path.name}"
        case _:
            return f"kubernetes:///{lease_name(tmp_path)}"


@pytest.fixture
def make(url: str, environment: Mapping[str, str]) -> Iterator[Make]:
    def elector(lease_ms: int) -> Elector:
        return open_elector(url, {**environment, LEASE_VARIABLE: f"{lease_ms}ms"})

    with candidates(elector) as another:
        yield another


def _finds(elector: Elector) -> bool:
    return elector.find() == ADDRESS


def test_one_of_all_candidates_is_elected(make: Make) -> None:
    first = make().campaign()
    assert first.next() == Elected()
    others = [make().campaign() for _ in range(2)]
    first.elector.announce(ADDRESS)
    for each in others:
        # it finds the leader, whose lease is renewed all the while
        wait_until(partial(_finds, each.elector), "a leader that is found")
    assert all(each.events.empty() for each in others)


def test_a_candidate_knows_whether_it_is_elected(make: Make) -> None:
    first, second = make().campaign(), make()
    assert first.next() == Elected()
    second.campaign()
    assert first.elector.is_elected()
    assert not second.elector.is_elected()
    first.elector.close()
    assert second.next() == Elected()
    assert second.elector.is_elected()


def test_who_gives_up_makes_room_for_the_next(make: Make) -> None:
    first, second = make().campaign(), make()
    assert first.next() == Elected()
    second.campaign()
    first.elector.close()
    assert second.next() == Elected()
    assert first.events.empty(), "who gives up has not lost"
    second.elector.announce(ADDRESS)
    assert second.elector.find() == ADDRESS


def test_clients_find_the_leader_that_published_last(make: Make, url: str, environment: Mapping[str, str]) -> None:
    locator = open_locator(url, environment)
    try:
        assert locator.find() is None
        first = make().campaign()
        assert first.next() == Elected()
        assert locator.find() is None
        first.elector.announce(ADDRESS)
        assert locator.find() == ADDRESS
        second = make().campaign()
        first.elector.close()
        assert second.next() == Elected()
        second.elector.announce(LATER)
        wait_until(lambda: locator.find() == LATER, "the later leader")
    finally:
        locator.close()


def test_a_folder_that_is_gone_puts_leadership_in_doubt_and_then_ends_it(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    with candidates(lambda lease_ms: FileElector(folder, lease_ms)) as another:
        leader = another(LEASE_MS).campaign()
        assert leader.next() == Elected()
        folder.rename(tmp_path / "away")
        assert isinstance(leader.next(), InDoubt | Lost)


def test_a_lock_that_another_candidate_has_replaced_is_lost(tmp_path: Path) -> None:
    """What a process finds that was suspended for longer than its lease."""
    with candidates(lambda lease_ms: FileElector(tmp_path, lease_ms)) as another:
        suspended = another(LEASE_MS).campaign()
        assert suspended.next() == Elected()
        other = tmp_path / "other"
        other.touch()
        other.replace(tmp_path / LOCK)
        # also before its thread has noticed
        assert not suspended.elector.is_elected()
        with pytest.raises(ExternalError, match="not elected"):
            suspended.elector.announce(ADDRESS)
        assert suspended.elector.find() is None
        assert isinstance(suspended.next(), Lost)


def test_a_holder_without_a_beat_is_superseded_though_its_lock_stays(tmp_path: Path) -> None:
    holder = FileElector(tmp_path, LONG_LEASE_MS)
    # the lock of a process that is suspended: held, and nothing beats
    assert holder._is_free()
    assert (tmp_path / LOCK).exists()
    with candidates(lambda lease_ms: FileElector(tmp_path, lease_ms)) as another:
        assert another(LEASE_MS).campaign().next() == Elected()
    holder._release()


def test_a_session_that_ended_is_lost_and_another_candidate_is_elected(servers: ZooKeeper, tmp_path: Path) -> None:
    """ZooKeeper stands still for longer than the session, as it does for a leader that is cut off from it."""
    address = ZooKeeperAddress.parsed(f"zookeeper://{servers.hosts}/{tmp_path.name}")
    with candidates(lambda lease_ms: ZooKeeperElector(address, {}, lease_ms)) as another:
        leader = another(LEASE_MS).campaign()
        assert leader.next() == Elected()
        servers.servers[1].send_signal(signal.SIGSTOP)
        try:
            assert isinstance(leader.next(), InDoubt)
            assert isinstance(leader.next(), Lost)
        finally:
            servers.servers[1].send_signal(signal.SIGCONT)
        assert another().campaign().next() == Elected()


def test_who_has_lost_does_not_take_the_place_of_the_next_leader(servers: ZooKeeper, tmp_path: Path) -> None:
    """It wakes in the midst of an announcement: its session is another one, or its node is gone."""
    address = ZooKeeperAddress.parsed(f"zookeeper://{servers.hosts}/{tmp_path.name}")
    refused = queue.Queue[ExternalError]()
    with candidates(lambda lease_ms: ZooKeeperElector(address, {}, lease_ms)) as another:
        first, second = another(), another()

        def on_event(event: ElectorEvent) -> None:
            first.events.put(event)
            if isinstance(event, Lost):
                # the thread that would end its session is here
                assert second.next() == Elected()
                second.elector.announce(LATER)
                try:
                    first.elector.announce(ADDRESS)
                except ExternalError as error:
                    refused.put(error)

        first.elector.campaign(on_event)
        assert first.next() == Elected()
        second.campaign()
        client = zookeeper_client(address, {}, LONG_LEASE_MS)
        client.start()
        try:
            folder = f"{address.path}/candidates"
            wait_until(lambda: len(client.get_children(folder)) == 2, "both are candidates")
            lowest = min(client.get_children(folder), key=lambda node: int(node.rpartition("-")[2]))
            client.delete(f"{folder}/{lowest}")
            assert isinstance(first.next(), Lost)
            assert "not elected" in refused.get(timeout=WAIT_SECONDS).message
        finally:
            client.stop()
            client.close()
        assert second.elector.find() == LATER


def test_a_connection_that_comes_back_in_time_leaves_the_leader(servers: ZooKeeper, tmp_path: Path) -> None:
    with breakable_way(servers.ports[0]) as way, _candidates_behind(way, tmp_path) as another:
        leader = another().campaign()
        assert leader.next() == Elected()
        way.cut()
        assert isinstance(leader.next(), InDoubt)
        way.open()
        assert leader.next() == Elected()
        leader.elector.announce(ADDRESS)
        assert leader.elector.find() == ADDRESS


def test_a_handshake_that_is_swallowed_does_not_cost_the_leadership(servers: ZooKeeper, tmp_path: Path) -> None:
    """As a server that starts may do, and a host that is lost."""
    with breakable_way(servers.ports[0]) as way, _candidates_behind(way, tmp_path) as another:
        leader = another(LEASE_WITH_A_TRY_MORE_MS).campaign()
        assert leader.next() == Elected()
        way.cut()
        assert isinstance(leader.next(), InDoubt)
        way.open(swallowed=1)
        assert leader.next() == Elected()


def _candidates_behind(way: BreakableWay, tmp_path: Path) -> AbstractContextManager[Make]:
    address = ZooKeeperAddress.parsed(f"zookeeper://{LOOPBACK}:{way.port}/{tmp_path.name}")
    return candidates(lambda lease_ms: ZooKeeperElector(address, {}, lease_ms))
