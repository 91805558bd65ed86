"""A NameNode and a DataNode that are away for a while, and safe mode."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError
from headrace.hdfs import connection
from support.hdfs.cluster import HdfsServers, hdfs_cluster
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until

pytestmark = pytest.mark.full

GIVES_UP_S = 1.0
"""The patience of a request that is to fail."""


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServers]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as started:
        yield started


@pytest.fixture
def folder(hdfs: HdfsServers, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The path of a test's own folder."""
    for name, value in hdfs.environment().items():
        monkeypatch.setenv(name, value)
    return str(request.node.originalname)


def test_a_data_node_that_is_away_for_a_while(hdfs: HdfsServers, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(hdfs.url(folder))
    store.write("a", b"data")
    monkeypatch.setattr(connection, "_PATIENCE_S", GIVES_UP_S)
    hdfs.data_node.kill()
    for call in (lambda: store.read("a"), lambda: store.put_if_absent("b", b"data")):
        with pytest.raises(
            ExternalError, match=r"no answer of DataNode|Failed to find datanode|nodes contain this block"
        ) as caught:
            call()
        assert "DataNodes" in str(caught.value.remedy)
    assert store.list("") == ["a"], "the NameNode answers"
    monkeypatch.setattr(connection, "_PATIENCE_S", WAIT_SECONDS)
    waiting = threading.Thread(target=store.put_if_absent, args=("b", b"more"))
    waiting.start()
    hdfs.data_node.start()
    waiting.join()
    assert (store.read("a"), store.read("b")) == (b"data", b"more")


def test_a_name_node_that_is_away_for_a_while(hdfs: HdfsServers, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(hdfs.url(folder))
    store.write("a", b"data")
    hdfs.name_node.kill()
    monkeypatch.setattr(connection, "_PATIENCE_S", GIVES_UP_S)
    with pytest.raises(ExternalError, match=f"no answer of NameNode http://{hdfs.page}") as caught:
        store.put_if_absent("b", b"data")
    assert "HTTP ports" in str(caught.value.remedy)
    monkeypatch.setattr(connection, "_PATIENCE_S", WAIT_SECONDS)
    waiting = threading.Thread(target=store.put_if_absent, args=("b", b"more"))
    waiting.start()
    # it starts, then it is in safe mode until the DataNode has reported
    hdfs.name_node.start()
    waiting.join()
    assert (store.read("a"), store.read("b")) == (b"data", b"more")


def test_safe_mode_is_waited_for_and_then_named(
    hdfs: HdfsServers, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(hdfs.url(folder))
    store.write("a", b"data")
    hdfs.admin("-safemode", "enter")
    monkeypatch.setattr(connection, "_PATIENCE_S", GIVES_UP_S)
    with pytest.raises(ExternalError, match=r"Name node is in safe mode\. It was turned on manually") as caught:
        store.put_if_absent("b", b"data")
    assert "-safemode leave" in str(caught.value.remedy)
    assert store.read("a") == b"data"
    monkeypatch.setattr(connection, "_PATIENCE_S", WAIT_SECONDS)
    waiting = threading.Thread(target=store.put_if_absent, args=("b", b"more"))
    waiting.start()
    hdfs.admin("-safemode", "leave")
    waiting.join()
    assert store.read("b") == b"more"


def test_blocks_are_on_disk_before_a_write_ends(hdfs: HdfsServers, folder: str) -> None:
    """The DataNode syncs no block without a flag, and publishes its count every 10 s."""
    open_store(hdfs.url(folder)).write("a", b"data")
    wait_until(lambda: hdfs.blocks_synced() > 0, "the block was synced")
