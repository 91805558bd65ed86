"""The user's modules in a slot: where they land on the import path."""

from __future__ import annotations

import importlib
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.worker.slot.user_code import fetch_code, put_on_path
from support.storage.permissions import open_to_others


def archive(name: str, text: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr(name, text)
    return out.getvalue()


def tarball(name: str, text: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        info = tarfile.TarInfo(name)
        info.size = len(text)
        file.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def test_modules_and_archives_can_be_imported_in_the_order_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "s3://b/first_of_three.py": b"WHICH = 'module'",
        "s3://b/lib.zip": archive("second_of_three.py", "WHICH = 'zip'"),
        "s3://b/lib.tar.gz": tarball("third_of_three.py", "WHICH = 'tar'"),
    }
    monkeypatch.setattr(sys, "path", list(sys.path))
    entries = fetch_code(files, tmp_path, files.__getitem__)
    put_on_path([*entries, "behind"])
    assert sys.path[:4] == [*entries, "behind"]
    for name, which in (("first_of_three", "module"), ("second_of_three", "zip"), ("third_of_three", "tar")):
        try:
            assert which == __import__(name).WHICH
        finally:
            sys.modules.pop(name, None)


def test_the_first_releases_of_python_3_11_unpack_archives_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no filters; root would give the files to the users of the archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        info = tarfile.TarInfo("package/hello.py")
        info.uid = info.gid = 12_345
        info.uname = "daemon"
        file.addfile(info, io.BytesIO())
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (entry,) = fetch_code(["lib.tgz"], tmp_path, lambda _: out.getvalue())
    there = (Path(entry) / "package" / "hello.py").stat()
    assert (there.st_uid, there.st_gid) == (os.getuid(), os.getgid())
    assert not open_to_others(Path(entry))


@pytest.mark.parametrize("folder", ["/checkpoints/issue #4", "/what?/a b", "s3://bucket/50%/#1"])
def test_code_may_lie_in_a_folder_of_any_name(folder: str, tmp_path: Path) -> None:
    (entry,) = fetch_code([f"{folder}/code/0-module/hello.py"], tmp_path, lambda _: b"")
    assert (Path(entry) / "hello.py").is_file()


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"notes\.txt"):
        fetch_code(["/a/notes.txt"], tmp_path, lambda _: b"")


def test_no_other_user_reads_code_that_was_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "s3://b/alone_and_private.py": b"WHICH = 'module'",
        "s3://b/lib.tar.gz": tarball("private_package/inner/module.py", "WHICH = 'tar'"),
    }
    entries = fetch_code(files, tmp_path / "code", files.__getitem__)
    monkeypatch.setattr(sys, "path", [*entries, *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    importlib.invalidate_caches()
    assert importlib.import_module("private_package.inner.module").WHICH == "tar"
    assert [*(tmp_path / "code").rglob("*.pyc")], "bytecode was written"
    assert open_to_others(tmp_path / "code") == []
