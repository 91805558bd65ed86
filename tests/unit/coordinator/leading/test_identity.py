"""Coordinators that share a ledger have one id and the same tokens; a ledger in a home leaves them to its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.client.discovery import token_file
from headrace.coordinator.leading.config import CoordinatorConfig
from headrace.coordinator.leading.identity import read_identity, taken_over_identity
from headrace.coordinator.store.job_store import JobStore, open_job_store
from headrace.coordinator.store.shared_ledger import SharedLedger, shared_ledger
from headrace.core.errors import ExternalError, UserError
from headrace.core.settings import Home
from support.storage.permissions import mode_of


def sharing(folder: Path, name: str, token: Path | None = None) -> tuple[CoordinatorConfig, JobStore]:
    """A coordinator on a host of its own."""
    ledger = SharedLedger(str(folder / "shared"), folder / "key")
    config = CoordinatorConfig(folder / name, ledger=ledger, election="file:///x", token_file=token)
    return config, open_job_store(Home(config.home), shared=ledger)


def test_who_leads_next_has_the_same_id_and_tokens(tmp_path: Path) -> None:
    first = taken_over_identity(*sharing(tmp_path, "one"))
    config, store = sharing(tmp_path, "two")
    # a standby serves with them before it leads, and clients of its home find them
    assert read_identity(config, store) == first.tokens
    assert token_file(Home(config.home)).read_text().strip() == first.tokens.full
    assert mode_of(token_file(Home(config.home))) == 0o600
    assert taken_over_identity(config, store) == first
    assert store.term > 1
    # no token is there in plain
    kept = b"".join(path.read_bytes() for path in (tmp_path / "shared").rglob("*.json"))
    assert first.tokens.full.encode() not in kept
    assert first.tokens.metrics.encode() not in kept


def test_a_standby_of_a_cluster_that_nobody_has_led_knows_no_token(tmp_path: Path) -> None:
    assert read_identity(*sharing(tmp_path, "one")) is None


def test_a_named_token_replaces_the_shared_one(tmp_path: Path) -> None:
    first = taken_over_identity(*sharing(tmp_path, "one"))
    (tmp_path / "token").write_text("another token\n")
    named = taken_over_identity(*sharing(tmp_path, "two", tmp_path / "token"))
    assert (named.cluster, named.tokens.full) == (first.cluster, "another token")
    assert named.tokens.metrics == first.tokens.metrics
    assert taken_over_identity(*sharing(tmp_path, "three")) == named


def test_another_key_is_an_error_that_names_it(tmp_path: Path) -> None:
    taken_over_identity(*sharing(tmp_path, "one"))
    (tmp_path / "key").write_text("another key of another deployment\n")
    with pytest.raises(ExternalError, match="another key"):
        taken_over_identity(*sharing(tmp_path, "two"))


def test_a_ledger_in_a_home_has_no_token(tmp_path: Path) -> None:
    config = CoordinatorConfig(tmp_path)
    store = open_job_store(Home(tmp_path))
    first = taken_over_identity(config, store)
    found = store.read_identity()
    assert found is not None
    assert (found.cluster, found.tokens) == (first.cluster, None)
    # a token that is removed is drawn anew, as the warning about a readable one advises
    token_file(Home(tmp_path)).unlink()
    again = taken_over_identity(config, open_job_store(Home(tmp_path)))
    assert again.cluster == first.cluster
    assert again.tokens.full != first.tokens.full


def test_where_a_ledger_is_shared_follows_from_the_options(tmp_path: Path) -> None:
    key = tmp_path / "key"
    assert shared_ledger(None, None, None) is None
    assert shared_ledger("file:///shared/a", None, None) == SharedLedger("/shared/a", Path("/shared/a/key"))
    assert shared_ledger("file:///shared/a", "s3://b/c", key) == SharedLedger("s3://b/c", key)
    assert shared_ledger("zookeeper://h/p", "/mnt/b", None) == SharedLedger("/mnt/b", Path("/mnt/b/key"))
    assert SharedLedger("s3://b/c", key).checkpoints == "s3://b/c/checkpoints"
    for election, url, file, said in (
        ("zookeeper://h/p", None, None, "where coordinators share"),
        (None, None, key, "where coordinators share"),
        ("zookeeper://h/p", "s3://b/c", None, "the key of the shared ledger"),
    ):
        with pytest.raises(UserError, match=said) as refused:
            shared_ledger(election, url, file)
        assert refused.value.remedy


def test_a_wildcard_is_no_address_to_publish(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no address that it could publish"):
        CoordinatorConfig(tmp_path, host="0.0.0.0", election="file:///x")
    config = CoordinatorConfig(tmp_path, host="0.0.0.0", election="file:///x", advertise="one.example")
    assert (config.url(8480), config.address(8481)) == ("http://one.example:8480", "one.example:8481")
    assert CoordinatorConfig(tmp_path, host="::1").url(1) == "http://[::1]:1"
