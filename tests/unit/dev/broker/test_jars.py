"""The cache of jars: only what is listed gets in, damage is mended, a fetch happens once. Ivy is replaced."""

from __future__ import annotations

import fcntl
import hashlib
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError
from headrace_dev.broker import jars
from headrace_dev.broker.ivy import KAFKA_VERSION, FetchProgress, Module
from headrace_dev.broker.java import Java
from support.processes.running import WAIT_SECONDS

JAVA = Java(program=Path("java"), major=17, version="17", origin="a test")
CONTENT = {"kafka.jar": b"the broker", "log.jar": b"its log"}


class FakeRepository:
    """Stands for Ivy: puts `content` into the folder asked for, and counts."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content
        self.fetches = 0

    def retrieve(
        self,
        _java: Java,
        folder: Path,
        _modules: Sequence[Module],
        *,
        jars_total: int,
        on_progress: Callable[[FetchProgress], None],
    ) -> Path:
        self.fetches += 1
        out = folder / "jars"
        out.mkdir()
        for name, content in self.content.items():
            (out / name).write_bytes(content)
        on_progress(FetchProgress(descriptors=1, jars=jars_total, jars_total=jars_total, bytes=1))
        return out


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRepository:
    fake = FakeRepository(dict(CONTENT))
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "retrieve", fake.retrieve)
    monkeypatch.setattr(jars, "listed_jars", lambda: digests)
    return fake


def test_the_list_names_a_whole_broker() -> None:
    listed = jars.listed_jars()
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in listed
    assert any(name.startswith("log4j-slf4j-impl") for name in listed)
    assert len(listed) == 46
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in listed.values())


def test_an_empty_cache_is_filled_once(repository: FakeRepository) -> None:
    seen: list[FetchProgress] = []
    paths = jars.ensure_jars(JAVA, on_progress=seen.append)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert len(seen) == 1
    assert jars.ensure_jars(JAVA) == paths
    assert repository.fetches == 1
    assert sorted(path.name for path in jars.jars_folder().parent.iterdir()) == [
        f"kafka-{KAFKA_VERSION}",
        f"kafka-{KAFKA_VERSION}.lock",
    ]


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_a_damaged_jar_is_fetched_again(repository: FakeRepository, damage: str) -> None:
    first, second = jars.ensure_jars(JAVA)
    if damage == "missing":
        first.unlink()
    else:
        first.write_bytes(b"the brokes")
    untouched = second.stat()
    assert jars.ensure_jars(JAVA) == (first, second)
    assert first.read_bytes() == CONTENT["kafka.jar"]
    assert second.stat().st_mtime_ns == untouched.st_mtime_ns
    assert repository.fetches == 2


def test_a_wrong_checksum_is_an_error_and_nothing_gets_in(repository: FakeRepository) -> None:
    repository.content["log.jar"] = b"something else"
    with pytest.raises(ExternalError, match=r"log\.jar has SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}"):
        jars.ensure_jars(JAVA)
    assert not jars.jars_folder().exists()


def test_a_jar_that_did_not_come_is_an_error(repository: FakeRepository) -> None:
    del repository.content["log.jar"]
    with pytest.raises(ExternalError, match=r"log\.jar was not among the jars fetched"):
        jars.ensure_jars(JAVA)


def test_what_a_killed_fetch_left_is_swept_away(repository: FakeRepository) -> None:
    left = jars.jars_folder().with_name(f"kafka-{KAFKA_VERSION}.partial")
    (left / "jars").mkdir(parents=True)
    (left / "jars" / "half.jar").write_bytes(b"half")
    jars.ensure_jars(JAVA)
    assert not left.exists()
    assert repository.fetches == 1


def test_many_at_once_fetch_once(repository: FakeRepository) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: jars.ensure_jars(JAVA), range(8)))
    assert len(found) == 1
    assert repository.fetches == 1


def test_one_that_waits_for_anothers_fetch_shows_how_far_it_is(repository: FakeRepository) -> None:
    folder = jars.jars_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    arriving = folder.with_name(f"{folder.name}.partial") / "cache" / "org" / "mod" / "jars"
    arriving.mkdir(parents=True)
    (arriving / "a.jar").write_bytes(b"12345")
    seen: list[FetchProgress] = []
    with folder.with_name(f"{folder.name}.lock").open("w") as other, ThreadPoolExecutor(1) as pool:
        fcntl.flock(other, fcntl.LOCK_EX)

        def release(progress: FetchProgress) -> None:
            seen.append(progress)
            fcntl.flock(other, fcntl.LOCK_UN)

        pool.submit(jars.ensure_jars, JAVA, on_progress=release).result(timeout=WAIT_SECONDS)
    assert seen[0] == FetchProgress(descriptors=0, jars=1, jars_total=2, bytes=5)
    assert repository.fetches == 1
