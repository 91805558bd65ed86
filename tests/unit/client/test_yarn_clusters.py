"""What a home knows of clusters on YARN."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.client.yarn_clusters import started_address, token_of
from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.deployment.yarn.deployer import OWN_KEPT, ClientRecord, old_own_records
from headrace.leadership.opening import is_election
from headrace.leadership.yarn_locator import YarnAddress, name_tag

APPLICATION = "application_1795714186115_0004"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """It has started the cluster `flights`."""
    home = Home(tmp_path)
    record = ClientRecord.of(home, "flights")
    record.token()
    record.started(APPLICATION)
    return home


@pytest.mark.parametrize("url", ["yarn://flights", f"yarn://{APPLICATION}"])
def test_a_token_is_found_by_name_and_by_application(home: Home, url: str) -> None:
    assert token_of(home, url) == ClientRecord.of(home, "flights").token()
    assert started_address(home, url) == YarnAddress(APPLICATION)
    assert is_election(url)


def test_other_clusters_are_unknown(home: Home) -> None:
    assert token_of(home, "yarn://others") is None
    assert token_of(home, "yarn://application_1_0001") is None
    assert started_address(home, "yarn://others") == YarnAddress("others")


@pytest.mark.parametrize("url", ["yarn://", "yarn://a/b", "flights"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UserError, match="names no cluster on YARN"):
        YarnAddress.parsed(url)


def test_files_are_private_and_are_kept(home: Home) -> None:
    record = ClientRecord.of(home, "flights")
    key = record.key()
    assert record.key() == key
    assert {file.stat().st_mode & 0o777 for file in record.folder.iterdir()} == {0o600}
    record.delete()
    assert not record.folder.exists()


def test_tags_are_written_in_lower_case() -> None:
    assert name_tag("Flights") == "headrace-cluster-flights"


def test_old_records_of_clusters_of_their_own_go_and_others_stay(home: Home) -> None:
    for number in range(OWN_KEPT + 2):
        record = ClientRecord.of(home, f"job-{number:02}")
        record.token()
        record.started(f"application_1_{number:04}", is_own=True)
        os.utime(record.folder / "own", (number, number))
    assert [each.application() for each in old_own_records(home)] == ["application_1_0000", "application_1_0001"]
