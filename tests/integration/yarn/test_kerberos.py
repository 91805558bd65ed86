"""YARN and HDFS that require Kerberos: a cluster goes on after its first tokens have expired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError
from headrace.hdfs.login import TOKEN_FILE
from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import exact_flow
from support.hdfs.kerberos import KerberosHdfs, kerberos_hdfs
from support.processes.running import wait_until
from support.yarn.secured import SecuredSession, secured_yarn

pytestmark = [
    pytest.mark.full,
    pytest.mark.broker,
    # py4j leaves sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TOKEN_MS = 120_000
"""Tokens are not renewed: they expire so long after they were obtained."""
LIFETIME = {
    "dfs.namenode.delegation.token.max-lifetime": str(TOKEN_MS),
    "dfs.namenode.delegation.token.renew-interval": str(TOKEN_MS),
}


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosHdfs]:
    with kerberos_hdfs(tmp_path_factory.mktemp("kerberos"), LIFETIME) as started:
        yield started


@pytest.fixture
def cluster(hdfs: KerberosHdfs, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[SecuredSession]:
    with secured_yarn(tmp_path_factory.mktemp("secured") / "c", hdfs) as yarn:
        made = SecuredSession(yarn, hdfs, tmp_path, "kerberos")
        try:
            yield made
        finally:
            made.end()


def test_a_job_outlives_the_tokens_that_it_was_started_with(
    cluster: SecuredSession, broker: EmbeddedBroker, hdfs: KerberosHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start()
    with exact_flow(cluster, broker, exactly_once=True) as flow:
        files = cluster.container_files("home/secrets/tokens")
        assert len(files) == 1 + len(cluster.workers())
        assert len(cluster.container_files("keytab")) == 1, "only the coordinator has the key table"
        first = {file: file.read_bytes() for file in files}
        kept = cluster.folder / "kept-tokens"
        kept.write_bytes(first[files[-1]])
        wait_until(lambda: all(file.read_bytes() != first[file] for file in files), "all have new tokens")
        monkeypatch.setenv(TOKEN_FILE, str(kept))
        monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf))

        def has_expired() -> bool:
            try:
                open_store(cluster.place("ledger")).list("")
            except ExternalError as error:
                return "expired" in error.message or "InvalidToken" in error.message
            return False

        wait_until(has_expired, "the first ones have expired")
        flow.settle()
        # YARN fetches the files of a new container with the newest tokens
        done = cluster.headrace("rescale", flow.job, "--parallelism", "3")
        assert done.code == 0, done.err
        wait_until(lambda: len(cluster.workers()) == 3, "a new container runs")
        flow.settle()


def test_a_cluster_is_started_by_a_ticket_and_not_without_one(cluster: SecuredSession) -> None:
    named = ("--target", "yarn", "--name", cluster.name, "--config", cluster.description(kerberos=None))
    refused = cluster.without_login("cluster", "start", *named)
    assert refused.code != 0
    assert "kinit gets a ticket" in refused.err
    assert "Traceback" not in refused.err
    done = cluster.by_ticket("cluster", "start", *named, "--json")
    assert done.code == 0, done.err
    cluster.application = done.json["application"]
    assert "the cluster reaches its storage until" in done.err
