"""What a Lease of a real API server suffers: a server that hangs or restarts, other writers, missing rights."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError
from headrace.kubernetes.connection import ConflictError, ForbiddenError, NotFoundError
from headrace.kubernetes.documents import Collection, Document, Json, metadata_of, value_at
from headrace.leadership.elector import Elected, InDoubt, Lost
from headrace.leadership.kubernetes_election import KubernetesElector, KubernetesLocator, LeaseAddress
from headrace.leadership.lease_record import LEADER, OWNER_VARIABLE, LeaseRecord, OwnerOfLease, new_lease
from headrace.leadership.opening import LEASE_VARIABLE
from support.clusters.session import frozen
from support.leadership.candidate import PUBLISHED, REFUSED
from support.leadership.candidates import ADDRESS, LATER, LONG_LEASE_MS, Candidate, Make, candidates
from support.leadership.lease_api import LEASES, NAMESPACE, LeaseApi, lease_api, lease_name
from support.processes.running import wait_until
from support.repository import ROOT

pytestmark = pytest.mark.turns(3)

LEASE_MS = 4_000
"""For candidates that have to lose or to supersede; a request may take a quarter of it."""
NOW = "2026-11-26T10:00:00.000000Z"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaseApi]:
    with lease_api(tmp_path_factory.mktemp("k")) as started:
        yield started


@pytest.fixture
def name(tmp_path: Path) -> str:
    return lease_name(tmp_path)


@pytest.fixture
def make(api: LeaseApi, name: str) -> Iterator[Make]:
    with candidates(lambda lease_ms: KubernetesElector(LeaseAddress("", name), api.environment, lease_ms)) as another:
        yield another


def _elected(candidate: Candidate) -> Candidate:
    candidate.campaign()
    assert candidate.next() == Elected()
    return candidate


def _transitions(api: LeaseApi, name: str) -> Json:
    return value_at(api.lease(name).document, "spec", "leaseTransitions")


def _annotate(api: LeaseApi, name: str, text: str) -> None:
    api.connection.patch(LEASES, name, {"metadata": {"annotations": {"note": text}}})


# ---- the server --------------------------------------------------------------------------------------------------


def test_a_server_that_hangs_puts_leadership_in_doubt_and_ends_it_in_time(api: LeaseApi, name: str, make: Make) -> None:
    leader = _elected(make(LEASE_MS))
    leader.elector.announce(ADDRESS)
    with api.hung():
        assert isinstance(leader.next(), InDoubt)
        assert isinstance(leader.next(), Lost)
        with pytest.raises(ExternalError):
            leader.elector.announce(LATER)
    assert not leader.elector.is_elected()
    later = _elected(make())
    # the address of the last leader stays until the next one has announced its own
    assert later.elector.find() == ADDRESS
    later.elector.announce(LATER)
    assert later.elector.find() == LATER
    assert _transitions(api, name) == 1


def test_a_server_that_is_gone_for_longer_than_a_lease_ends_leadership(api: LeaseApi, make: Make) -> None:
    leader, standby = _elected(make(LEASE_MS)), make(LEASE_MS).campaign()
    api.kill()
    try:
        assert isinstance(leader.next(), InDoubt)
        assert isinstance(leader.next(), Lost)
    finally:
        api.respawn()
    assert standby.next() == Elected()


def test_a_server_that_restarts_within_a_lease_leaves_the_leader(api: LeaseApi, name: str, make: Make) -> None:
    leader, standby = _elected(make()), make().campaign()
    api.kill()
    api.respawn()
    beat = api.lease(name).beat
    wait_until(lambda: api.lease(name).beat != beat, "a renewal")
    leader.elector.announce(ADDRESS)
    assert standby.elector.find() == ADDRESS
    # a server that takes a third of the lease to start puts leadership in doubt, and no more than that
    assert not any(isinstance(event, Lost) for event in leader.events.queue)
    assert leader.elector.is_elected()
    assert standby.events.empty()
    assert _transitions(api, name) == 0


@pytest.mark.full
def test_a_server_that_answers_again_within_a_lease_ends_the_doubt(api: LeaseApi, make: Make) -> None:
    leader = _elected(make())
    with api.hung():
        assert isinstance(leader.next(), InDoubt)
    assert leader.next() == Elected()
    assert leader.elector.is_elected()


def test_who_finds_the_leader_remembers_it_while_the_server_is_gone(api: LeaseApi, name: str, make: Make) -> None:
    locator = KubernetesLocator(LeaseAddress("default", name), api.environment)
    try:
        assert locator.find() is None
        _elected(make()).elector.announce(ADDRESS)
        assert locator.find() == ADDRESS
        api.kill()
        try:
            assert locator.find() == ADDRESS
        finally:
            api.respawn()
    finally:
        locator.close()


# ---- the holder --------------------------------------------------------------------------------------------------


class Suspended:
    """A candidate in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def next(self) -> str:
        return self._stdout.readline().strip()

    def announce(self) -> None:
        self._stdin.write("\n")
        self._stdin.flush()


@contextmanager
def _candidate(name: str, environment: Mapping[str, str]) -> Iterator[Suspended]:
    with subprocess.Popen(
        [sys.executable, "-m", "support.leadership.candidate", f"kubernetes:///{name}"],
        env={**environment, LEASE_VARIABLE: f"{LEASE_MS}ms", "PYTHONPATH": str(ROOT / "tests")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Suspended(process)
        finally:
            process.kill()


def test_a_holder_that_is_suspended_has_lost_when_it_wakes_and_publishes_nothing(
    api: LeaseApi, name: str, make: Make
) -> None:
    with _candidate(name, api.environment) as suspended:
        assert suspended.next() == "Elected"
        suspended.announce()
        assert suspended.next() == PUBLISHED
        with frozen(suspended.process.pid):
            later = _elected(make())
            later.elector.announce(LATER)
            # it reads this when it wakes, while it may still believe that it is elected
            suspended.announce()
        assert {suspended.next(), suspended.next()} == {"Lost", REFUSED}
        assert later.elector.find() == LATER
        assert later.elector.is_elected()
        assert _transitions(api, name) == 1


def test_a_holder_that_is_killed_is_replaced_after_its_lease(api: LeaseApi, name: str, make: Make) -> None:
    with _candidate(name, api.environment) as killed:
        assert killed.next() == "Elected"
        # waits for what the Lease states, however long its own lease is
        standby = make(LONG_LEASE_MS).campaign()
        killed.process.kill()
        assert standby.next() == Elected()
        assert api.lease(name).duration_ms == LONG_LEASE_MS


# ---- other writers -----------------------------------------------------------------------------------------------


def test_of_candidates_that_race_one_is_elected(api: LeaseApi, name: str, make: Make) -> None:
    racing = [make() for _ in range(6)]
    start = threading.Barrier(len(racing))

    def campaign(candidate: Candidate) -> None:
        start.wait()
        candidate.campaign()

    threads = [threading.Thread(target=campaign, args=(each,)) for each in racing]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: any(not each.events.empty() for each in racing), "one is elected")
    assert sum(each.elector.is_elected() for each in racing) == 1
    assert _transitions(api, name) == 0


def test_a_program_that_annotates_the_lease_disturbs_nobody(api: LeaseApi, name: str, make: Make) -> None:
    leader, over = _elected(make(LEASE_MS * 3)), threading.Event()

    def annotate() -> None:
        number = 0
        while not over.wait(0.02):
            number += 1
            _annotate(api, name, str(number))

    thread = threading.Thread(target=annotate)
    thread.start()
    try:
        wait_until(lambda: "note" in metadata_of(api.lease(name).document).annotations, "an annotation")
        _announce(leader)
        beat = api.lease(name).beat
        wait_until(lambda: api.lease(name).beat != beat, "a renewal")
    finally:
        over.set()
        thread.join()
    annotations = metadata_of(api.lease(name).document).annotations
    assert annotations.keys() == {"note", LEADER}
    assert leader.events.empty()


def _announce(candidate: Candidate) -> None:
    def announced() -> bool:
        try:
            candidate.elector.announce(ADDRESS)
        except ExternalError as error:
            # again, as a coordinator does
            assert error.retry
            return False
        return True

    wait_until(announced, "an announcement")


@pytest.mark.parametrize("made_again", [False, True], ids=["deleted", "made again"])
def test_a_lease_that_is_deleted_is_its_holders_again(made_again: bool, api: LeaseApi, name: str, make: Make) -> None:
    leader = _elected(make())
    leader.elector.announce(ADDRESS)
    holder = api.lease(name).holder
    api.connection.delete(LEASES, name)
    if made_again:
        api.connection.create(LEASES, {"metadata": {"name": name}})

    def is_held() -> bool:
        with suppress(NotFoundError):
            return api.lease(name).holder == holder
        return False

    wait_until(is_held, "the Lease is there again")
    assert leader.elector.find() == ADDRESS
    assert leader.events.empty()


def test_a_lease_that_another_candidate_has_taken_is_lost(api: LeaseApi, name: str, make: Make) -> None:
    leader = _elected(make())
    api.connection.delete(LEASES, name)
    api.connection.create(LEASES, new_lease(name, "another", LONG_LEASE_MS, NOW, LATER))
    assert not leader.elector.is_elected()
    with pytest.raises(ExternalError, match="not elected"):
        leader.elector.announce(ADDRESS)
    assert leader.next() == Lost("another coordinator holds the Lease")
    leader.elector.close()
    record = api.lease(name)
    assert (record.holder, record.published) == ("another", LATER.encoded().decode())


def test_a_write_with_a_version_that_was_replaced_is_rejected(api: LeaseApi, name: str) -> None:
    """What the election is built on, also for a Lease that was deleted since."""

    def rejected(document: Document) -> None:
        with pytest.raises(ConflictError):
            api.connection.replace(LEASES, name, document)

    api.connection.create(LEASES, new_lease(name, "one", LONG_LEASE_MS, NOW))
    read: LeaseRecord = api.lease(name)
    _annotate(api, name, "later")
    rejected(read.held_by("two", LONG_LEASE_MS, NOW))
    read = api.lease(name)
    api.connection.delete(LEASES, name)
    rejected(read.held_by("two", LONG_LEASE_MS, NOW))
    api.connection.create(LEASES, new_lease(name, "three", LONG_LEASE_MS, NOW))
    rejected(read.held_by("two", LONG_LEASE_MS, NOW))
    assert api.lease(name).holder == "three"


# ---- rights ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verbs", "missing"),
    [(["create", "update"], "get"), (["get", "update"], "create"), (["get", "create"], "update")],
)
def test_a_right_that_is_missing_is_named_before_the_campaign(
    verbs: list[str], missing: str, api: LeaseApi, name: str
) -> None:
    environment = api.allow(name, verbs)
    with candidates(lambda lease_ms: KubernetesElector(LeaseAddress("", name), environment, lease_ms)) as another:
        candidate = another()

        def refused() -> ForbiddenError:
            with pytest.raises(ForbiddenError) as error:
                candidate.campaign()
            return error.value

        # the API server has the new Role a moment later
        wait_until(lambda: f'verbs: ["{missing}"]' in str(refused().remedy), "only this right is missing")
        error = refused()
    assert f'cannot {missing} resource "leases"' in error.message
    assert "a Role in namespace default" in str(error.remedy)
    assert not error.retry
    with pytest.raises(NotFoundError):
        api.lease(name)


def test_get_create_and_update_are_all_rights_that_it_needs(api: LeaseApi, name: str) -> None:
    environment = api.allow(name, ["get", "create", "update"])
    with candidates(lambda lease_ms: KubernetesElector(LeaseAddress("", name), environment, lease_ms)) as another:
        candidate = another()

        def is_allowed() -> bool:
            try:
                candidate.campaign()
            except ForbiddenError:
                return False
            return True

        wait_until(is_allowed, "the API server has the Role")
        assert candidate.next() == Elected()
        candidate.elector.announce(ADDRESS)
        # a right that was there before may come back: an API server that starts refuses all for a moment
        bindings = Collection("rbac.authorization.k8s.io/v1", "rolebindings", "default")
        api.connection.delete(bindings, name)

        def refusal() -> ForbiddenError | None:
            try:
                candidate.elector.find()
            except ForbiddenError as error:
                return error
            return None

        wait_until(lambda: refusal() is not None, "the right is gone")
        error = refusal()
        assert error is not None
        assert error.retry


def test_a_lease_belongs_to_its_owner_and_is_not_made_once_that_is_gone(api: LeaseApi, name: str) -> None:
    owners = Collection("v1", "configmaps", NAMESPACE)
    api.connection.create(owners, {"metadata": {"name": name}})
    environment = {**api.environment, OWNER_VARIABLE: OwnerOfLease("v1", "configmaps", name).text}
    with candidates(lambda lease_ms: KubernetesElector(LeaseAddress("", name), environment, lease_ms)) as another:
        leader = _elected(another(LEASE_MS))
        api.connection.delete(owners, name)
        # with its owner the Lease goes; whoever leads, or would lead, makes no other one
        assert isinstance(leader.next(), InDoubt)
        assert isinstance(leader.next(), Lost)
        waiting = another(LEASE_MS).campaign()
        with pytest.raises(NotFoundError):
            api.lease(name)
        assert waiting.events.empty()
