"""Clients and the page that reach a standby and not the leader use the cluster all the same, encrypted or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.certificates import Authority, tls_files_of
from support.clusters.network_hosts import CONTROL, Network, running_network
from support.clusters.session import COORDINATOR
from support.clusters.standbys import StandbyCluster
from support.page_browser import serving_page
from support.patience import STANDBY_TIMES, WAIT_SECONDS
from support.processes.running import wait_until

HOSTS, NAME = ("m", "n"), "coordinators.test"
PIPELINE = """\
name: never
sources: {numbers: {generator: {columns: {n: {sequence: {start: 1}}}}, schema: {n: int64}}}
sinks: {out: {from: numbers, print: {}}}
"""


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    with running_network(*HOSTS) as running:
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(variable, ",".join(running.address(name, CONTROL) for name in HOSTS))
        yield running


@pytest.fixture(params=[pytest.param("plain", marks=pytest.mark.full), "encrypted"])
def cluster(request: pytest.FixtureRequest, network: Network, tmp_path: Path) -> Iterator[StandbyCluster]:
    """A coordinator on each host, and no worker."""
    environment: dict[str, str] = {}
    own: dict[str, tuple[str, ...]] = dict.fromkeys(HOSTS, ())
    if request.param == "encrypted":
        authority = Authority(tmp_path)
        # as in pods: the certificates hold a name that all of them have, and no address
        environment |= {"HEADRACE_TLS_CA": str(authority.certificate), "HEADRACE_TLS_NAME": NAME}
        own = {name: tls_files_of(authority, name, host=NAME).arguments() for name in HOSTS}
    made = StandbyCluster(tmp_path, f"file://{tmp_path}/shared", times=STANDBY_TIMES, environment=environment)
    try:
        for name in HOSTS:
            place = ("--host", network.address(name, CONTROL), *own[name])
            made.start_coordinator(name, *place, prefix=network.hosts[name].prefix)
        yield made
    finally:
        made.end()


def test_a_client_and_the_page_reach_only_the_standby(cluster: StandbyCluster, network: Network) -> None:
    leader = cluster.name_of(cluster.leader())
    (standby,) = set(HOSTS) - {leader}
    urls = {cluster.name_of(pid): cluster.url(pid) for pid in cluster.processes(COORDINATOR)}
    wait_until(lambda: cluster.url(pid_of(cluster, standby)) is not None, "the standby answers")
    url = cluster.url(pid_of(cluster, standby))
    assert url is not None
    with network.out_of_reach(leader, CONTROL):
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{urls[leader]}/v1/health", timeout=1.0, verify=False, trust_env=False)
        given = ("--coordinator", url)
        (cluster.folder / "p.yaml").write_text(PIPELINE)
        submitted = cluster.headrace("submit", "p.yaml", *given, "--json")
        assert submitted.code == 0, submitted
        job = submitted.json["job_id"]
        listed = cluster.headrace("list", *given, "--json")
        assert [each["job_id"] for each in listed.json["jobs"]] == [job]
        with serving_page(cluster, *given) as (_, link):
            page = httpx.get(link, follow_redirects=True, timeout=WAIT_SECONDS, headers={"Accept": "text/html"})
            assert "<title>Jobs - Headrace</title>" in page.text
        cancelled = cluster.headrace("cancel", job, *given)
        assert cancelled.code == 0, cancelled
        missing = cluster.headrace("status", "nothing", *given)
        assert (missing.code, "nothing" in missing.err) == (2, True)


def pid_of(cluster: StandbyCluster, name: str) -> int:
    (pid,) = (pid for pid in cluster.processes(COORDINATOR) if cluster.name_of(pid) == name)
    return pid
