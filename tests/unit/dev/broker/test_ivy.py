"""Calling Ivy: its jar is found, proxies reach it, and its failures are told. Java is a small script."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError
from headrace_dev.broker import ivy
from headrace_dev.broker.ivy import (
    IVY_VERSION,
    KAFKA,
    KAFKA_VERSION,
    FetchProgress,
    Module,
    ensure_ivy,
    proxy_options,
    retrieve,
)
from headrace_dev.broker.java import Java
from support.processes.running import WAIT_SECONDS

# $folder is where `retrieve` put the descriptor: the argument after -ivy
_FOLDER = 'while [ "$1" != -ivy ]; do shift; done; folder=$(dirname "$2")\n'


def scripted_java(folder: Path, body: str) -> Java:
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{_FOLDER}{body}")
    program.chmod(0o755)
    return Java(program=program, major=17, version="17", origin="a test")


@pytest.fixture
def pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A pyspark that has nothing but an Ivy."""
    package = tmp_path / "pyspark"
    (package / "jars").mkdir(parents=True)
    (package / "jars" / "ivy-2.5.3.jar").write_bytes(b"")
    spec = importlib.util.spec_from_file_location("pyspark", package / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "pyspark" else None)
    return package


@pytest.mark.usefixtures("pyspark")
def test_what_ivy_brought_is_returned_and_counted(tmp_path: Path) -> None:
    java = scripted_java(
        tmp_path,
        'mkdir -p "$folder/cache/org/mod/jars" "$folder/jars"\n'
        'printf 12345 | tee "$folder/cache/org/mod/jars/a.jar" > "$folder/jars/a.jar"\n'
        'touch "$folder/cache/org/mod/ivy-1.xml.original"\n',
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    seen: list[FetchProgress] = []
    out = retrieve(java, scratch, KAFKA, jars_total=2, on_progress=seen.append)
    assert [path.name for path in out.iterdir()] == ["a.jar"]
    assert seen[-1] == FetchProgress(descriptors=1, jars=1, jars_total=2, bytes=5)


@pytest.mark.usefixtures("pyspark")
def test_a_failure_tells_what_ivy_said_and_what_to_do(tmp_path: Path) -> None:
    java = scripted_java(tmp_path, 'echo "Server access error (java.net.UnknownHostException)"\nexit 1\n')
    with pytest.raises(ExternalError) as caught:
        retrieve(java, tmp_path, KAFKA, jars_total=1, on_progress=lambda _: None)
    assert "UnknownHostException" in caught.value.message
    assert "HTTPS_PROXY" in str(caught.value)
    assert caught.value.retry


@pytest.mark.usefixtures("pyspark")
def test_proxies_go_by_the_environment_and_the_users_own_options_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dmine=1")
    java = scripted_java(tmp_path, 'mkdir "$folder/jars"; printf %s "$JAVA_TOOL_OPTIONS" > "$folder/jars/options"\n')
    out = retrieve(java, tmp_path, KAFKA, jars_total=1, on_progress=lambda _: None)
    assert (out / "options").read_text() == ("-Dhttps.proxyHost=proxy.example -Dhttps.proxyPort=3128 -Dmine=1")


def test_proxy_variables_become_javas_properties() -> None:
    options = proxy_options(
        {
            "http_proxy": "plain.example",
            "HTTPS_PROXY": "http://ann:s%40cret@proxy.example:3128",
            "NO_PROXY": "localhost, .corp.example",
        }
    )
    assert options == json.loads(
        """["-Dhttp.proxyHost=plain.example", "-Dhttp.proxyPort=80",
            "-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128",
            "-Dhttp.proxyUser=ann", "-Dhttp.proxyPassword=s@cret", "-Djdk.http.auth.tunneling.disabledSchemes=",
            "-Dhttp.nonProxyHosts=localhost|*.corp.example"]"""
    )


def test_no_proxy_variables_no_properties() -> None:
    assert proxy_options({"NO_PROXY": "localhost", "HTTP_PROXY": ""}) == []


def test_a_module_comes_with_what_it_depends_on_or_alone() -> None:
    alone = Module("org.some", "mod", "1.2", alone=True).dependency()
    assert alone == '    <dependency org="org.some" name="mod" rev="1.2" conf="default->default" transitive="false"/>'
    assert 'transitive="true"' in Module("org.some", "mod", "1.2").dependency()
    packed = Module("org.some", "mod", "1.2", alone=True, archive="all").dependency()
    assert packed.endswith('><artifact name="mod" type="tar.gz" ext="tar.gz" m:classifier="all"/></dependency>')


JAR = b"the bytes of a jar"


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The place of the jar in a new cache, without pyspark. JAR is what is expected."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ivy, "IVY_SHA256", hashlib.sha256(JAR).hexdigest())
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
    monkeypatch.setattr(ivy, "retrieve", fake.retrieve)
    monkeypatch.setattr(ivy, "listed_jars", lambda: digests)
    return fake


def test_the_list_names_a_whole_broker() -> None:
    listed = ivy.listed_jars()
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in listed
    assert any(name.startswith("log4j-slf4j-impl") for name in listed)
    assert len(listed) == 46
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in listed.values())


def test_an_empty_cache_is_filled_once(repository: FakeRepository) -> None:
    seen: list[FetchProgress] = []
    paths = ivy.ensure_jars(JAVA, on_progress=seen.append)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert len(seen) == 1
    assert ivy.ensure_jars(JAVA) == paths
    assert repository.fetches == 1
    assert sorted(path.name for path in ivy.jars_folder().parent.iterdir()) == [
        f"kafka-{KAFKA_VERSION}",
        f"kafka-{KAFKA_VERSION}.lock",
    ]


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_a_damaged_jar_is_fetched_again(repository: FakeRepository, damage: str) -> None:
    first, second = ivy.ensure_jars(JAVA)
    if damage == "missing":
        first.unlink()
    else:
        first.write_bytes(b"the brokes")
    untouched = second.stat()
    assert ivy.ensure_jars(JAVA) == (first, second)
    assert first.read_bytes() == CONTENT["kafka.jar"]
    assert second.stat().st_mtime_ns == untouched.st_mtime_ns
    assert repository.fetches == 2


def test_a_wrong_checksum_is_an_error_and_nothing_gets_in(repository: FakeRepository) -> None:
    repository.content["log.jar"] = b"something else"
    with pytest.raises(ExternalError, match=r"log\.jar has SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}"):
        ivy.ensure_jars(JAVA)
    assert not ivy.jars_folder().exists()


def test_a_jar_that_did_not_come_is_an_error(repository: FakeRepository) -> None:
    del repository.content["log.jar"]
    with pytest.raises(ExternalError, match=r"log\.jar was not among the jars fetched"):
        ivy.ensure_jars(JAVA)


def test_what_a_killed_fetch_left_is_swept_away(repository: FakeRepository) -> None:
    left = ivy.jars_folder().with_name(f"kafka-{KAFKA_VERSION}.partial")
    (left / "jars").mkdir(parents=True)
    (left / "jars" / "half.jar").write_bytes(b"half")
    ivy.ensure_jars(JAVA)
    assert not left.exists()
    assert repository.fetches == 1


def test_many_at_once_fetch_once(repository: FakeRepository) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: ivy.ensure_jars(JAVA), range(8)))
    assert len(found) == 1
    assert repository.fetches == 1


def test_one_that_waits_for_anothers_fetch_shows_how_far_it_is(repository: FakeRepository) -> None:
    folder = ivy.jars_folder()
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

        pool.submit(ivy.ensure_jars, JAVA, on_progress=release).result(timeout=WAIT_SECONDS)
    assert seen[0] == FetchProgress(descriptors=0, jars=1, jars_total=2, bytes=5)
    assert repository.fetches == 1
