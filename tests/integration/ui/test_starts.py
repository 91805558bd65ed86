"""How the page starts and ends: as a process of the cluster, in the foreground, and where it must not start."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from support.clusters.session import Cluster, kill
from support.page_browser import serving_page
from support.processes.running import WAIT_SECONDS

pytestmark = pytest.mark.turns(2)


def opened(link: str) -> httpx.Response:
    """What a browser gets that opens the link."""
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=WAIT_SECONDS) as http:
        return http.get(link, headers={"Accept": "text/html"})


def test_the_page_is_a_process_of_the_cluster(cluster: Cluster) -> None:
    """The cluster's end, which the fixture checks, ends it, too."""
    begun = cluster.headrace("cluster", "start", "--ui", "--json").json
    assert begun["started"] == ["ui"]
    link = begun["ui"]["url"]
    assert "<title>Jobs - Headrace</title>" in opened(link).text

    kill(begun["ui"]["pid"])
    assert "ui" in cluster.headrace("cluster", "status", "--json").json["dead"]
    again = cluster.headrace("cluster", "start", "--json").json
    assert again["started"] == ["ui"]
    assert again["ui"]["url"] == link
    assert opened(link).status_code == 200
    assert link in cluster.headrace("cluster", "status").out


def test_other_hosts_need_a_token_file(cluster: Cluster, tmp_path: Path) -> None:
    refused = cluster.headrace("ui", "--host", "0.0.0.0", "--port", "0")
    assert refused.code == 2
    assert "--token-file" in refused.err
    missing = cluster.headrace("ui", "--token-file", str(tmp_path / "none"), "--port", "0")
    assert (missing.code, "no such file" in missing.err) == (2, True)


def test_a_token_of_the_users_own_is_not_printed(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("the token of tests\n")
    with serving_page(cluster, "--token-file", str(file)) as (_, url):
        assert "token" not in url
        assert "Token of this page" in opened(url).text
        assert "<title>Jobs" in opened(f"{url}/login?token=the%20token%20of%20tests").text
        assert httpx.get(f"{url}/", headers={"Authorization": "Bearer the token of tests"}).status_code == 200


def test_without_a_cluster_nothing_listens(tmp_path: Path) -> None:
    nowhere = Cluster(tmp_path).headrace("ui", "--port", "0")
    assert nowhere.code == 3
    assert "no cluster runs" in nowhere.err
