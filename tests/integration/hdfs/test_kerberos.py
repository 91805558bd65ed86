"""A NameNode that requires Kerberos: a delegation token is enough, and nothing less is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError
from headrace.hdfs.login import TOKEN_FILE
from support.hdfs.kerberos import USER, KerberosHdfs, kerberos_hdfs

pytestmark = [
    pytest.mark.full,
    # py4j leaves sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosHdfs]:
    with kerberos_hdfs(tmp_path_factory.mktemp("kerberos")) as started:
        yield started


@pytest.fixture(autouse=True)
def settings(hdfs: KerberosHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf))
    monkeypatch.setenv("HADOOP_USER_NAME", USER)


@pytest.mark.parametrize("stored", [True, False], ids=["token storage file", "text"])
def test_a_token_in_a_file(
    hdfs: KerberosHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stored: bool
) -> None:
    token, file = hdfs.grant(), tmp_path / "token"
    text = str(token.encodeToUrlString())
    if stored:
        hdfs.store(token, file)
    else:
        file.write_text(text)
    monkeypatch.setenv(TOKEN_FILE, str(file))
    store = open_store(f"{hdfs.home}/{stored}")
    assert store.put_if_absent("journal/1", b"one")
    assert not store.put_if_absent("journal/1", b"two")
    assert store.read("journal/1") == b"one"
    assert store.list("") == ["journal/1"]

    hdfs.cancel(token)
    with pytest.raises(ExternalError, match="InvalidToken") as caught:
        store.read("journal/1")
    assert TOKEN_FILE in str(caught.value.remedy)
    assert text not in str(caught.value)
    # whatever renews tokens replaces the file
    file.write_text(str(hdfs.grant().encodeToUrlString()))
    assert store.read("journal/1") == b"one"


def test_a_name_is_not_enough(hdfs: KerberosHdfs) -> None:
    with pytest.raises(ExternalError, match="cannot list") as caught:
        open_store(hdfs.home).list("")
    assert TOKEN_FILE in str(caught.value.remedy)
