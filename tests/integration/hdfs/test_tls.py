"""`swebhdfs://`: NameNode and DataNode by TLS, their certificates checked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError
from headrace.hdfs import connection
from support.certificates import Authority
from support.hdfs.cluster import HdfsServers, hdfs_cluster

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def hdfs(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServers]:
    issued = authority.issue("hdfs", other_hosts=["localhost"])
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs"), issued) as started:
        yield started


def test_content_goes_by_tls(hdfs: HdfsServers, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    store = open_store(f"swebhdfs://{hdfs.tls_page}/tls")
    assert store.put_if_absent("journal/1", b"one")
    assert not store.put_if_absent("journal/1", b"two")
    assert store.read("journal/1") == b"one"
    assert store.list("") == ["journal/1"]
    store.delete(["journal/1"])
    assert store.list("") == []


def test_an_authority_that_nobody_trusts(hdfs: HdfsServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PATIENCE_S", 0.5)
    port = hdfs.tls_page.rpartition(":")[2]
    # by another name, for which there is no connection yet
    with pytest.raises(ExternalError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        open_store(f"swebhdfs://localhost:{port}/tls").put_if_absent("a", b"")
    assert "SSL_CERT_FILE" in str(caught.value.remedy)
