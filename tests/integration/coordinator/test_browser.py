"""Web pages in a real Chromium try every way to the API that a page has: of other sites, by a rebound name, by its own.

A page posts to its site what it could read; what it has changed is seen in the cluster behind the real REST API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from headrace.client.requests import SubmitRequest
from support.browser import Site, browsing
from support.control.scripted_cluster import TOKEN, ScriptedCluster, client_of, serving
from support.processes.running import wait_until

PAGE = Path(__file__).parents[2] / "support" / "every_way.html"
REBOUND = "rebound.example"
PIPELINE = {
    "name": "counting",
    "sources": {"numbers": {"generator": {"rows": 10, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}},
    "sinks": {"out": {"from": "numbers", "print": {}, "format": "json"}},
}
ATTEMPTS_MIN = 15
"""Requests of a page that reach the API, at least: the browser holds others back."""


class Served:
    """A cluster with a running job, and a site on the API's own address."""

    def __init__(self, cluster: ScriptedCluster, job: str, site: Site) -> None:
        self.cluster, self.job, self.site = cluster, job, site

    @property
    def state(self) -> str:
        return self.cluster.jobs_by_id[self.job].state


@contextmanager
def served() -> Iterator[Served]:
    cluster = ScriptedCluster(looks=1)
    with client_of(cluster) as client:
        job = client.submit(SubmitRequest(pipeline=PIPELINE))
    with serving(cluster) as url, Site(PAGE.read_text(), url) as site:
        yield Served(cluster, job, site)


def visit(host: str, site: Site, target: Served, *, api: str = "", token: str = "", then: str = "") -> str:
    """The address of a page at that host, which tries to reach the target's API, and then goes to the next one."""
    what = json.dumps({"api": api, "job": target.job, "token": token, "next": then})
    return f"http://{host}:{site.port}/#{quote(what)}"


def test_no_page_but_the_apis_own_with_the_token_reads_or_changes_anything(tmp_path: Path) -> None:
    with served() as target, served() as own, Site(PAGE.read_text()) as other, Site(PAGE.read_text()) as same_site:
        api = f"http://127.0.0.1:{target.site.port}"
        # the last one is the same page in its right place: it shows that the others fail for what they are
        route = visit("127.0.0.1", own.site, own, token=TOKEN)
        route = visit(REBOUND, target.site, target, then=route)
        route = visit("127.0.0.1", same_site, target, api=api, token=TOKEN, then=route)
        route = visit("localhost", other, target, api=api, then=route)
        with browsing(route, tmp_path, names=REBOUND):
            for site in (other, same_site, target.site):
                reads_nothing(site.found())
            found = own.site.found()
        assert (target.state, len(target.cluster.jobs_by_id)) == ("RUNNING", 1)
        assert not target.cluster.ended.is_set()
        assert {each.status for each in target.site.passed} == {401}
        assert {each.method for each in target.site.passed} >= {"GET", "POST", "OPTIONS", "DELETE"}
        assert len(target.site.passed) > 3 * ATTEMPTS_MIN

        assert found["read"].startswith("200")
        assert own.job in found["read"]
        assert found["cancel"].startswith("202")
        assert found["shutdown"].startswith("202")
        wait_until(own.cluster.ended.is_set, "the page has shut its cluster down")


def reads_nothing(found: dict[str, str]) -> None:
    """The page has tried all, and has read neither a job nor a version."""
    assert len(found) > ATTEMPTS_MIN
    for way, what in found.items():
        assert not any(word in what for word in ("job_id", "counting", "RUNNING", "version")), (way, what)
    assert (found["events"], found["socket"]) == ("error", "error")
