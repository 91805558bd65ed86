"""The leader's address beside a ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ExternalError
from headrace.leadership.elector import Leader
from headrace.leadership.opening import is_election, open_locator
from headrace.leadership.published_leader import KEPT, PublishedLeader, published_url


def leader(term: int, host: str = "a") -> Leader:
    return Leader(f"http://{host}:1", f"{host}:2", term)


def test_the_highest_term_leads_whoever_publishes_last(tmp_path: Path) -> None:
    url = published_url(str(tmp_path))
    PublishedLeader(url).publish(leader(7))
    PublishedLeader(url).publish(leader(3))
    assert is_election(url)
    assert open_locator(url, {}).find() == leader(7)


def test_nobody_has_published(tmp_path: Path) -> None:
    assert PublishedLeader(published_url(f"file://{tmp_path}")).find() is None


def test_an_answer_that_was_lost_is_no_conflict_and_another_leader_of_the_term_is(tmp_path: Path) -> None:
    published = PublishedLeader(published_url(str(tmp_path)))
    for _ in range(2):
        published.publish(leader(1))
    with pytest.raises(ExternalError, match="another leader"):
        published.publish(leader(1, "b"))


def test_addresses_of_the_past_are_deleted(tmp_path: Path) -> None:
    published = PublishedLeader(published_url(str(tmp_path)))
    for term in range(1, 9):
        published.publish(leader(term))
    assert len(list((tmp_path / "leaders").iterdir())) == KEPT
    assert PublishedLeader(published_url(str(tmp_path))).find() == leader(8)
