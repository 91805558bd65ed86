"""A cluster on YARN with ledger, checkpoints, savepoints and staging folders on HDFS."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import exact_flow
from support.hdfs.cluster import Hdfs, hdfs_cluster
from support.yarn.cluster import Yarn
from support.yarn.session import YarnSession

pytestmark = [pytest.mark.full, pytest.mark.broker]


class HdfsSession(YarnSession):
    """Its clients and containers have the settings of both systems, in one folder."""

    def __init__(self, yarn: Yarn, hdfs: Hdfs, folder: Path) -> None:
        super().__init__(yarn, folder, "on-hdfs")
        self._hdfs = hdfs
        self._conf = folder / "conf"
        shutil.copytree(hdfs.conf, self._conf)
        shutil.copy(yarn.conf / "yarn-site.xml", self._conf)

    def environment(self) -> Mapping[str, str]:
        """The default file system is HDFS."""
        return {**super().environment(), **self._hdfs.environment(), "HADOOP_CONF_DIR": str(self._conf)}

    def start(self, workers: int = 4, slots: int = 1, memory: str = "1Gi") -> None:
        """With nothing on this host."""
        where = {"ledger": self._hdfs.url("ledger"), "staging": self._hdfs.url("staging")}
        self.start_described(self.description(workers, slots, memory, **where))


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[Hdfs]:
    with hdfs_cluster(tmp_path / "h") as running:
        yield running


def test_nothing_of_a_cluster_is_on_its_hosts(
    yarn: Yarn, hdfs: Hdfs, broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c").mkdir()
    cluster = HdfsSession(yarn, hdfs, tmp_path / "c")
    for name in ("HADOOP_CONF_DIR", "HADOOP_USER_NAME"):
        # clients in this process
        monkeypatch.setenv(name, cluster.environment()[name])
    try:
        cluster.start()
        assert names(hdfs, "/staging") == [cluster.application]
        with exact_flow(cluster, broker, exactly_once=True) as flow:
            with flow.recovering("ApplicationMaster killed"):
                cluster.kill_coordinator()
            saved = cluster.headrace("savepoint", flow.job, hdfs.url("saved"), "--json")
            assert saved.code == 0, saved.err
            assert saved.json["path"].startswith(hdfs.url("saved/"))
            assert flow.job in names(hdfs, "/ledger/checkpoints")
    finally:
        cluster.end()
    assert names(hdfs, "/staging") == []
    assert not list(cluster.ledger.iterdir())


def names(hdfs: Hdfs, folder: str) -> list[str]:
    """The entries of a folder."""
    document = hdfs.ask("GET", folder, "LISTSTATUS")
    statuses = document["FileStatuses"]
    assert isinstance(statuses, dict)
    return [str(each["pathSuffix"]) for each in statuses["FileStatus"]]
