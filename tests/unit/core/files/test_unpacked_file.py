"""Files that are compressed: two kinds are read, others are named, damaged ones are errors with the path."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.core.errors import UserError
from headrace.core.files.unpacked_file import UnpackedFile, packing_of

TEXT = b"".join(b"line %d\n" % number for number in range(50_000))


def zstd(text: bytes) -> bytes:
    packed: bytes = pa.compress(text, codec="zstd", asbytes=True)
    return packed


def tar(text: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("a.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return out.getvalue()


def zipped(text: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.json", text)
    return out.getvalue()


def content(path: Path, size: int = 10_000) -> bytes:
    found = []
    with closing(UnpackedFile(path)) as file:
        while part := file.read(size):
            found.append(part)
    return b"".join(found)


@pytest.mark.parametrize("size", [1_000, 1 << 20])
@pytest.mark.parametrize(
    "packed",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:1_000]) + gzip.compress(TEXT[1_000:]) + b"\0" * 512,
        zstd(TEXT),
        zstd(TEXT[:1_000]) + b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstd(TEXT[1_000:]),
        b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstd(TEXT),
    ],
    ids=["plain", "gzip", "gzip members", "zstd", "zstd frames", "zstd skipped"],
)
def test_plain_gzip_and_zstd_are_read(tmp_path: Path, packed: bytes, size: int) -> None:
    # the name says nothing
    path = tmp_path / "f"
    path.write_bytes(packed)
    assert content(path, size) == TEXT
    with io.TextIOWrapper(io.BufferedReader(UnpackedFile(path)), newline="") as text:
        assert text.read().encode() == TEXT


@pytest.mark.parametrize("packed", [b"", gzip.compress(b""), zstd(b"")], ids=["plain", "gzip", "zstd"])
def test_files_without_content(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(packed)
    assert content(path) == b""


@pytest.mark.parametrize("program", ["gzip", "zstd"])
def test_what_the_programs_write(tmp_path: Path, program: str) -> None:
    try:
        packed = subprocess.run([program, "-c"], input=TEXT, capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip(f"there is no {program}")
    path = tmp_path / "f"
    path.write_bytes(packed)
    assert content(path) == TEXT


@pytest.mark.parametrize(
    ("kind", "pack"),
    [
        ("bzip2", bz2.compress),
        ("xz", lzma.compress),
        ("zip", zipped),
        ("tar", tar),
        ("tar", lambda text: gzip.compress(tar(text))),
        ("tar", lambda text: zstd(tar(text))),
        ("lz4", lambda text: pa.compress(text, codec="lz4", asbytes=True)),
        ("compress (.Z)", lambda text: b"\x1f\x9d\x90" + text),
        ("7z", lambda text: b"7z\xbc\xaf\x27\x1c" + text),
        ("snappy", lambda text: b"\xff\x06\0\0sNaPpY" + text),
    ],
)
def test_others_are_named(tmp_path: Path, kind: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "f"
    path.write_bytes(pack(TEXT))
    with pytest.raises(UserError) as refused:
        content(path)
    assert refused.value.message == f"{path} is packed with {kind}"
    assert refused.value.remedy == "unpack it, or pack it with gzip or zstd"


def test_brotli_has_only_its_name(tmp_path: Path) -> None:
    path = tmp_path / "f.json.br"
    path.write_bytes(pa.compress(TEXT, codec="brotli", asbytes=True))
    assert packing_of(path) == "brotli"
    assert packing_of(tmp_path / "none") is None


def flipped(packed: bytes) -> bytes:
    return packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(TEXT)[:-5],
        gzip.compress(TEXT)[:5],
        gzip.compress(TEXT)[:3_000],
        flipped(gzip.compress(TEXT)),
        gzip.compress(TEXT) + b"rubbish",
        zstd(TEXT)[:-5],
        zstd(TEXT)[:-3_000],
    ],
    ids=["gzip, no end", "gzip, five bytes", "gzip, half", "gzip, flipped", "gzip, more", "zstd, no end", "zstd, half"],
)
def test_a_damaged_file_is_an_error_with_its_path(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "f.gz"
    path.write_bytes(packed)
    with pytest.raises(UserError) as refused:
        content(path)
    assert refused.value.message.startswith(f"{path} is damaged, or not complete: ")
