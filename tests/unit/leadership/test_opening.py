"""Addresses of elections, the lease that the environment sets, and where a worker dials."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ExternalError, UserError
from headrace.leadership.elector import Leader
from headrace.leadership.file_election import FileElector
from headrace.leadership.kubernetes_election import LeaseAddress
from headrace.leadership.opening import (
    LEASE_VARIABLE,
    is_election,
    lease_from,
    open_addresses,
    open_elector,
    open_locator,
)
from headrace.leadership.zookeeper_client import ZooKeeperAddress, zookeeper_client
from headrace.leadership.zookeeper_election import ZooKeeperElector
from support.leadership.announcing import announcing


def test_an_election_is_a_folder_or_a_path_in_zookeeper(tmp_path: Path) -> None:
    elector = open_elector(f"file://{tmp_path}", {LEASE_VARIABLE: "3s"})
    assert (type(elector), elector.lease_ms) == (FileElector, 3_000)
    assert isinstance(open_elector("zookeeper://a,b/c", {}), ZooKeeperElector)
    assert is_election("file:///a")
    assert is_election("zookeeper://a/b")
    assert is_election("kubernetes:///b")
    assert not is_election("http://a:1")
    assert not is_election("host:7070")
    parsed = ZooKeeperAddress.parsed("zookeeper://a,b:99,[::1]/x/y/")
    assert parsed == ZooKeeperAddress("a:2181,b:99,[::1]:2181", "/x/y")


@pytest.mark.parametrize(
    "url", ["http://a:1", "host:1", "file://host/folder", "file:///", "zookeeper://a", "zookeeper:///p", "etcd://a/b"]
)
def test_another_address_is_refused(url: str) -> None:
    with pytest.raises(UserError) as refused:
        open_elector(url, {})
    assert refused.value.remedy


def test_a_lease_of_kubernetes_is_in_a_namespace_or_in_that_of_the_pod() -> None:
    assert LeaseAddress.parsed("kubernetes://orders/leader-1.a") == LeaseAddress("orders", "leader-1.a")
    assert LeaseAddress.parsed("kubernetes:///leader") == LeaseAddress("", "leader")


@pytest.mark.parametrize("rest", ["a", "a/", "/", "A/b", "a/B", "a/b/c", "a.b/c", "a/b?x=1", "-a/b"])
def test_a_name_that_kubernetes_does_not_have_is_refused(rest: str) -> None:
    with pytest.raises(UserError, match="no address of an election"):
        open_locator(f"kubernetes://{rest}", {})


@pytest.mark.parametrize("lease", ["fast", "0s", "100ms"])
def test_a_lease_is_a_duration_of_a_second_at_least(lease: str) -> None:
    with pytest.raises(UserError, match=LEASE_VARIABLE):
        lease_from({LEASE_VARIABLE: lease})


def test_a_session_is_not_longer_than_servers_keep_one() -> None:
    with pytest.raises(UserError, match="longer than servers keep"):
        open_elector("zookeeper://a/b", {LEASE_VARIABLE: "41s"})


def test_security_of_zookeeper_is_passed_through() -> None:
    given = {
        "HEADRACE_ZOOKEEPER_AUTH": "digest:user:secret:with colons",
        "HEADRACE_ZOOKEEPER_SASL": '{"mechanism": "DIGEST-MD5", "username": "u", "password": "p"}',
        "HEADRACE_ZOOKEEPER_CA": "/ca.pem",
        "HEADRACE_ZOOKEEPER_CERT": "/cert.pem",
        "HEADRACE_ZOOKEEPER_KEY": "/key.pem",
    }
    client = zookeeper_client(ZooKeeperAddress("a:1", "/p"), given, 4_000)
    assert client.auth_data == {("digest", "user:secret:with colons")}
    assert [each.perms for each in client.default_acl] == [31]
    assert client._connection.sasl_options["mechanism"] == "DIGEST-MD5"
    assert (client.use_ssl, client.ca, client.certfile, client.keyfile) == (True, "/ca.pem", "/cert.pem", "/key.pem")


@pytest.mark.parametrize(
    ("name", "text"), [("AUTH", "user:secret"), ("AUTH", "digest:user"), ("SASL", "GSSAPI"), ("SASL", "{}")]
)
def test_security_that_cannot_work_is_refused(name: str, text: str) -> None:
    with pytest.raises(UserError, match=f"HEADRACE_ZOOKEEPER_{name}"):
        zookeeper_client(ZooKeeperAddress("a:1", "/p"), {f"HEADRACE_ZOOKEEPER_{name}": text}, 4_000)


def test_fixed_addresses_are_dialled_in_turn() -> None:
    addresses = open_addresses("a:1, b:2,", {})
    assert [addresses.next() for _ in range(3)] == ["a:1", "b:2", "a:1"]
    assert (addresses.may_move, addresses.moved()) == (False, None)
    with pytest.raises(UserError, match="is no address"):
        open_addresses(" , ", {})


def test_a_later_leader_is_noticed_and_an_earlier_one_is_not(tmp_path: Path) -> None:
    addresses = open_addresses(f"file://{tmp_path}", {})
    with pytest.raises(ExternalError, match="no coordinator leads"):
        addresses.next()
    with announcing(tmp_path) as elector:
        for term, control in ((5, "a:1"), (7, "b:2"), (6, "c:3")):
            elector.announce(Leader("http://x:1", control, term))
            match term:
                case 5:
                    assert (addresses.moved(), addresses.next(), addresses.moved()) == (None, "a:1", None)
                case 7:
                    assert (addresses.moved(), addresses.next(), addresses.moved()) == ("b:2", "b:2", None)
                case _:
                    # the one before, which was suspended, has published once more
                    assert addresses.moved() is None


def test_what_another_program_has_written_is_an_error(tmp_path: Path) -> None:
    locator = open_locator(f"file://{tmp_path}", {})
    assert locator.find() is None
    for text in ("no json", "[]", '{"leader": {"url": "http://a:1"}}'):
        (tmp_path / "leader.json").write_text(text)
        with pytest.raises(ExternalError):
            locator.find()
