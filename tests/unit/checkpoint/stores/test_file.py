"""Objects as files of this host."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from headrace.checkpoint.stores.opening import open_store, read_url
from headrace.checkpoint.stores.store import ObjectNotFoundError
from headrace.core.errors import ExternalError, UserError


def test_the_first_put_wins(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "new" / "folder"))
    assert store.put_if_absent("journal/00000001.json", b"one")
    assert not store.put_if_absent("journal/00000001.json", b"two")
    assert store.read("journal/00000001.json") == b"one"
    assert read_url(f"{store.url}/journal/00000001.json") == b"one"
    assert list(store.leftovers()) == []


def test_a_link_whose_answer_is_lost_is_a_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS: the request is sent again, and fails because of the first one."""
    link = os.link

    def linked_twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", linked_twice)
    store = open_store(str(tmp_path))
    assert store.put_if_absent("a", b"one")
    assert not store.put_if_absent("a", b"two")
    assert store.read("a") == b"one"
    assert list(store.leftovers()) == []


def test_a_file_url_is_the_same_folder(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/with%20space")
    store.write("a", memoryview(b"data"))
    assert open_store(str(tmp_path / "with space")).read("a") == b"data"
    assert store.url == f"file://{tmp_path}/with%20space"
    with pytest.raises(UserError, match="three slashes"):
        open_store("file://checkpoints/here")
    for url in ("file:///checkpoints/issue#4", "file:///checkpoints/?"):
        with pytest.raises(UserError, match="end the path"):
            open_store(f"{url}x")


def test_it_lists_by_prefix_without_temporary_files(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for path in ("state/b", "state/a", "state/deep/c", "statement", "journal/1"):
        store.write(path, b"12")
    (tmp_path / "state" / ".tmp-dead").write_bytes(b"123")
    assert store.list("") == ["journal/1", "state/a", "state/b", "state/deep/c", "statement"]
    assert store.list("state/") == ["state/a", "state/b", "state/deep/c"]
    assert store.list("state/de") == ["state/deep/c"]
    assert store.list("nothing/") == []
    assert [(each.path, each.bytes) for each in store.objects("state/a")] == [("state/a", 2)]
    assert [(each.path, each.bytes) for each in store.leftovers()] == [("state/.tmp-dead", 3)]
    assert all(each.modified_ms > 1_600_000_000_000 for each in store.objects(""))


def test_deleting_what_is_not_there_is_fine(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.write("a", b"")
    store.delete(["missing", "a", "a/below"])
    assert store.list("") == []
    with pytest.raises(ObjectNotFoundError, match="a is not there"):
        store.read("a")


def test_a_folder_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ExternalError, match="file") as caught:
        open_store(str(tmp_path / "file")).write("a", b"")
    assert caught.value.remedy is not None


@pytest.mark.parametrize("url", ["memory://checkpoints", "gs://bucket/folder"])
def test_schemes_without_a_conditional_put_are_refused(url: str) -> None:
    with pytest.raises(UserError) as caught:
        open_store(url)
    assert caught.value.remedy is not None


def test_a_file_that_may_not_grow_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(ExternalError, match="File too large") as caught:
            store.write("state/big", bytes(1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(tmp_path) in str(caught.value)
    assert caught.value.retry
    assert list((tmp_path / "state").iterdir()) == []
    store.write("state/big", bytes(1_000_000))
