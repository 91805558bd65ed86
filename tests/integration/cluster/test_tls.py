"""A cluster whose processes speak TLS: jobs, rows between workers and the command line, and who is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.certificates import DAY, Authority, tls_files_of
from support.clusters.session import Cluster, kill
from support.clusters.shuffled import SHUFFLED
from support.patience import GIVES_UP
from support.processes.running import WAIT_SECONDS, Finished, wait_until

pytestmark = pytest.mark.turns(2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Too long a path for Unix sockets: slots reach each other by TCP."""
    return tmp_path_factory.mktemp("c" * 60)


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    (folder / "certificates").mkdir()
    return Authority(folder / "certificates")


@pytest.fixture(scope="module")
def cluster(folder: Path, authority: Authority) -> Iterator[Cluster]:
    cluster = Cluster(folder)
    try:
        flags = tls_files_of(authority, "cluster").arguments()
        done = cluster.headrace("cluster", "start", "--workers", "2", "--slots", "1", *flags)
        assert done.code == 0, done.err
        yield cluster
    finally:
        cluster.end()


def url_of(cluster: Cluster) -> str:
    url = json.loads((cluster.home / "cluster" / "coordinator.json").read_text())["url"]
    assert isinstance(url, str) and url.startswith("https://127.0.0.1:")
    return url


def test_a_job_shuffles_over_two_workers_and_takes_a_savepoint(cluster: Cluster) -> None:
    file = cluster.folder / "shuffled.yaml"
    file.write_text(SHUFFLED)
    job = cluster.headrace("submit", str(file), "--json").json["job_id"]
    cluster.wait_state(job, "RUNNING")
    assert cluster.hosts_of(job) == {"worker-1": 1, "worker-2": 1}
    assert not list(cluster.home.rglob("*.sock")) and not list(cluster.temporary.rglob("*.sock"))

    def rows_counted() -> int:
        nodes = cluster.headrace("status", job, "--json").json["nodes"]
        return next(int(node["rows_in"]) for node in nodes if node["node"] == "counts")

    wait_until(lambda: rows_counted() > 10_000, "rows are exchanged")
    saved = cluster.headrace("savepoint", job, "saved", "--json")
    assert saved.code == 0 and Path(saved.json["path"]).is_dir(), saved.err
    # what died comes back with the TLS that the home records
    kill(cluster.worker(1))
    cluster.start_again()
    cluster.wait_state(job, "RUNNING")
    assert cluster.headrace("cancel", job).code == 0
    wait_until(lambda: cluster.state(job) == "CANCELED", "it ends")


def _elsewhere(cluster: Cluster) -> dict[str, str]:
    """Another home, with the cluster's token."""
    token = cluster.home / "cluster" / "token"
    return {"HEADRACE_HOME": str(cluster.folder / "elsewhere"), "HEADRACE_TOKEN_FILE": str(token)}


def command(environment: Mapping[str, str], *arguments: str) -> Finished:
    """Runs one from outside, with this environment alone, to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_SECONDS,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def asked(cluster: Cluster, url: str, environment: Mapping[str, str]) -> Finished:
    """`headrace list` of another home, with this environment."""
    return command({**os.environ, **_elsewhere(cluster), **environment}, "list", "--coordinator", url)


def test_clients_trust_the_authority_that_is_named(cluster: Cluster, authority: Authority) -> None:
    url = url_of(cluster)
    assert asked(cluster, url, {"HEADRACE_TLS_CA": str(authority.certificate)}).code == 0
    strange = Authority(cluster.folder / "certificates", "strange").certificate
    for environment in ({}, {"HEADRACE_TLS_CA": str(strange)}):
        refused = asked(cluster, url, environment)
        assert refused.code == 3 and "HEADRACE_TLS_CA" in refused.err, refused
    plain = asked(cluster, url.replace("https", "http"), {})
    assert plain.code == 3 and "it speaks TLS: write https://" in plain.err, plain


def joined(cluster: Cluster, *flags: str, worker: str = "another") -> Finished:
    """A worker that gives up soon."""
    grpc = json.loads((cluster.home / "cluster" / "coordinator.json").read_text())["grpc"]
    return command(
        {**cluster.environment(), **_elsewhere(cluster)},
        *("worker", "--coordinator", grpc, "--id", worker, "--slots", "1"),
        *("--host", "127.0.0.1", "--reconnect-for", GIVES_UP, *flags),
    )


def test_workers_without_a_certificate_of_the_authority_do_not_join(cluster: Cluster, authority: Authority) -> None:
    strange = tls_files_of(Authority(cluster.folder / "certificates", "foreign"), "another")
    # side by side, for each of them waits
    with ThreadPoolExecutor() as pool:
        with_none = pool.submit(joined, cluster)
        with_another = pool.submit(joined, cluster, *strange.arguments(), worker="other")
        plain, other = with_none.result(), with_another.result()
    assert plain.code == 3 and re.search("it speaks TLS, .*--tls-cert", plain.err, re.DOTALL), plain
    assert other.code == 3 and "its certificate is not valid here" in other.err, other
    expired = joined(cluster, *tls_files_of(authority, "expired", lasts=-DAY / 2).arguments())
    assert expired.code == 2 and "certificate has expired" in expired.err, expired
    assert {each.worker for each in cluster.client.cluster().workers} == {"worker-1", "worker-2"}


@pytest.mark.full
def test_the_files_of_a_running_cluster_stay(cluster: Cluster, authority: Authority) -> None:
    refused = cluster.headrace("cluster", "start", *tls_files_of(authority, "new").arguments())
    assert refused.code == 2 and "headrace cluster stop" in refused.err, refused
