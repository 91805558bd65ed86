"""What only HDFS has: servers that die, quotas, permissions, lost answers; and archives. The rest is in
`conformance/test_stores.py`."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

from headrace.checkpoint.job_folder.orphans import GRACE_MS, delete_orphans
from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.stores.opening import open_store, read_url
from headrace.checkpoint.stores.store import ObjectNotFoundError
from headrace.core.errors import ExternalError
from headrace.formats.archive.folder import ArchiveFolder, ArchiveNotFoundError
from headrace.formats.archive.partition import PartitionReader
from headrace.formats.archive.schema import SCHEMA
from headrace.hdfs.connection import ADDRESSES
from headrace_connectors.archive.writer import FileBuilder, Origin
from support.hdfs.cluster import Hdfs
from support.hdfs.forgetful import forgetful_way
from support.processes.running import wait_until


@pytest.fixture
def folder(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The path of a test's own folder."""
    for name, value in hdfs.environment().items():
        monkeypatch.setenv(name, value)
    return str(request.node.originalname)


def test_every_url_of_a_place_leads_there(hdfs: Hdfs, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(hdfs.url(folder)).write("a/b", b"data")
    assert read_url(f"{hdfs.web_url(folder)}/a/b") == b"data"
    assert read_url(f"hdfs:///{folder}/a/b") == b"data"
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.setenv(ADDRESSES, f"http://{hdfs.page}")
    assert read_url(f"hdfs://anywhere/{folder}/a/b") == b"data"


def test_another_user_needs_permission(hdfs: Hdfs, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(hdfs.url(folder)).write("private/a", b"data")
    hdfs.ask("PUT", f"/{folder}/private", "SETPERMISSION", permission="700")
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    store = open_store(hdfs.url(folder))
    for call in (
        lambda: store.put_if_absent("private/b", b""),
        lambda: store.read("private/a"),
        lambda: store.delete(["private/a"]),
        lambda: store.list(""),
    ):
        with pytest.raises(ExternalError, match="Permission denied: user=bob") as caught:
            call()
        assert "HADOOP_USER_NAME" in str(caught.value.remedy)
        assert caught.value.retry


def test_any_user_may_ask_whether_a_name_node_is_active(hdfs: Hdfs) -> None:
    """By the request that a connection to several NameNodes begins with."""
    assert hdfs.ask("PUT", "/", "MKDIRS", user="bob") == {"boolean": True}


def test_a_quota_is_named(hdfs: Hdfs, folder: str) -> None:
    names, space = open_store(hdfs.url(f"{folder}/names")), open_store(hdfs.url(f"{folder}/space"))
    for store in (names, space):
        store.write("first", b"data")
    # the folder and its file
    hdfs.ask("PUT", f"/{folder}/names", "SETQUOTA", namespacequota="2", storagespacequota=str(2**63 - 1))
    hdfs.ask("PUT", f"/{folder}/space", "SETQUOTA", namespacequota=str(2**63 - 1), storagespacequota="1000")
    with pytest.raises(
        ExternalError, match=r"cannot write hdfs://.*names/b: .*NameSpace quota .* is exceeded"
    ) as caught:
        names.put_if_absent("b", b"data")
    assert "-setQuota" in str(caught.value.remedy)
    with pytest.raises(ExternalError, match=r"DiskSpace quota of .* is exceeded") as caught:
        space.write("b", b"data")
    assert "\tat " not in str(caught.value), "no stack trace"
    for store in (names, space):
        assert store.list("") == ["first"]
        assert list(store.leftovers()) == []


def test_a_file_in_the_way_of_a_folder(hdfs: Hdfs, folder: str) -> None:
    store = open_store(hdfs.url(folder))
    store.write("file", b"data")
    with pytest.raises(ExternalError, match="ParentNotDirectoryException") as caught:
        store.put_if_absent("file/below", b"")
    assert not isinstance(caught.value, ObjectNotFoundError)
    with pytest.raises(ObjectNotFoundError):
        store.read("file/below")


_STOPPING_WRITER = """
import sys
from headrace.checkpoint.stores.opening import open_store
from headrace.hdfs import connection

whole = connection._chunks
def half(data):
    yield next(whole(data))
    print("half", flush=True)
    sys.stdin.read()
connection._chunks = half
open_store(sys.argv[1]).put_if_absent("state/a", bytes(3_000_000))
"""


def test_a_writer_that_is_killed_in_the_midst_of_a_put(hdfs: Hdfs, folder: str) -> None:
    store = open_store(hdfs.url(folder))
    with subprocess.Popen(
        [sys.executable, "-c", _STOPPING_WRITER, store.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half\n"
        wait_until(lambda: len(list(store.leftovers())) == 1, "the DataNode has begun the file")
        writer.kill()
    assert store.list("") == []
    assert store.put_if_absent("state/a", b"another one's")
    (left,) = store.leftovers()
    assert left.path.startswith("state/.tmp-")
    assert delete_orphans(store, Journal(), left.modified_ms).paths == ()
    assert delete_orphans(store, Journal(), left.modified_ms + GRACE_MS).paths == (left.path,)
    assert list(store.leftovers()) == []
    assert store.read("state/a") == b"another one's"


def test_an_archive_is_read_in_ranges(hdfs: Hdfs, folder: str) -> None:
    archive = ArchiveFolder(hdfs.url(folder))
    assert archive.partitions("t") == []
    builder = FileBuilder(Origin("t", 2, "job"), 0)
    values = [b"%d" % number * 1000 for number in range(2_000)]
    builder.add(
        pa.table(
            {
                "offset": range(len(values)),
                "timestamp": [1000] * len(values),
                "key": [None] * len(values),
                "value": values,
                "headers": [[]] * len(values),
            },
            schema=SCHEMA,
        )
    )
    built = builder.finish()
    for _ in range(2):
        # the second one finds the first one's file
        archive.put("t", 2, built.file, built.data)
    assert (archive.partitions("t"), archive.files("t", 2)) == ([2], [built.file])
    with archive.open("t", 2, built.file) as file:
        assert file.seek(0, os.SEEK_END) == len(built.data)
        file.seek(100)
        assert file.read(50) == built.data.to_pybytes()[100:150]
    found = PartitionReader(archive, ("t", 2), 1_990, None, ["value"]).read(100)
    assert found is not None
    assert found["value"].to_pylist() == values[1_990:]
    assert list(open_store(hdfs.url(folder)).leftovers()) == []
    with pytest.raises(ArchiveNotFoundError, match="no longer exists"):
        archive.open("t", 3, built.file)


def test_an_archive_without_permission(hdfs: Hdfs, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(hdfs.url(folder)).write("t/00002/x", b"data")
    hdfs.ask("PUT", f"/{folder}/t", "SETPERMISSION", permission="700")
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    with pytest.raises(ExternalError, match="Permission denied"):
        ArchiveFolder(hdfs.url(folder)).files("t", 2)


def test_a_lost_answer_to_a_rename(hdfs: Hdfs, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The put cannot know that it has succeeded: it says that the object exists, and whoever reads it finds its own."""
    with forgetful_way(hdfs.page) as way:
        monkeypatch.setenv(ADDRESSES, way.address)
        store = open_store(hdfs.url(folder))
        way.losing.add("RENAME")
        assert not store.put_if_absent("journal/1", b"mine")
        assert way.losing == set()
        assert store.read("journal/1") == b"mine"
        way.losing |= {"CREATE", "RENAME", "OPEN", "LISTSTATUS", "DELETE"}
        store.write("state/a", b"data")
        assert store.read("state/a") == b"data"
        assert store.list("state/") == ["state/a"]
        store.delete(["state/a"])
        assert way.losing == set()
        assert store.list("") == ["journal/1"]
        assert list(store.leftovers()) == []
