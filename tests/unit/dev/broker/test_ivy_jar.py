"""The Ivy jar: pyspark's, else one that was fetched, if its checksum is right."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError
from headrace_dev.broker import ivy_jar
from headrace_dev.broker.ivy_jar import IVY_VERSION, ensure_ivy

JAR = b"the bytes of a jar"


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The place of the jar in a new cache, without pyspark. JAR is what is expected."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ivy_jar, "IVY_SHA256", hashlib.sha256(JAR).hexdigest())
    return tmp_path / "cache" / "headrace" / f"ivy-{IVY_VERSION}.jar"


def served(folder: Path, data: bytes) -> str:
    file = folder / "served.jar"
    file.write_bytes(data)
    return file.as_uri()


def test_pysparks_jar_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jar = tmp_path / "pyspark" / "jars" / "ivy-2.5.3.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    spec = importlib.util.spec_from_file_location("pyspark", tmp_path / "pyspark" / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "pyspark" else None)
    assert ensure_ivy("file:///nowhere") == jar


def test_without_pyspark_it_is_fetched_once(cached: Path, tmp_path: Path) -> None:
    assert ensure_ivy(served(tmp_path, JAR)) == cached
    assert cached.read_bytes() == JAR
    assert ensure_ivy("file:///nowhere") == cached


def test_a_damaged_jar_is_fetched_anew(cached: Path, tmp_path: Path) -> None:
    cached.parent.mkdir(parents=True)
    cached.write_bytes(JAR[:5])
    assert ensure_ivy(served(tmp_path, JAR)).read_bytes() == JAR


def test_a_jar_with_another_checksum_is_not_kept(cached: Path, tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="nothing was installed"):
        ensure_ivy(served(tmp_path, b"something else"))
    assert not cached.exists()


@pytest.mark.usefixtures("cached")
def test_a_failed_fetch_comes_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="HTTPS_PROXY") as raised:
        ensure_ivy((tmp_path / "missing.jar").as_uri())
    assert raised.value.retry
