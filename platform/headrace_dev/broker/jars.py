"""The broker's jars: their list, their cache, and the verification of each file. Other sets of jars (`JarSet`) are
cached in the same way.

The list `jars.sha256` beside this module names every jar with its SHA-256. The cache folder contains only verified
files. A fetch runs in a separate folder and is moved into place once verified, under a lock between processes, so no
reader ever sees half a set.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from headrace.core.errors import ExternalError
from headrace.core.settings import cache_folder
from headrace_dev.broker.ivy import KAFKA, KAFKA_VERSION, FetchProgress, Module, arrived, retrieve
from headrace_dev.broker.java import Java

_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that run together. name: of their folder in the cache; listed: file name -> SHA-256 (hex) of each."""

    name: str
    modules: tuple[Module, ...]
    listed: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """This user's cache folder of the set."""
        return cache_folder() / self.name


def jars_folder() -> Path:
    """Returns this user's cache folder of the Kafka jars."""
    return _kafka().folder


def listed_jars() -> Mapping[str, str]:
    """Returns file name -> SHA-256 (hex) of the broker's jars."""
    return read_list(files(__package__).joinpath("jars.sha256").read_text(encoding="ascii"))


def read_list(text: str) -> Mapping[str, str]:
    """Returns file name -> SHA-256, from lines in the format of `sha256sum`; `#` begins a comment."""
    pairs = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: digest for digest, name in pairs}


def ensure_jars(java: Java, *, on_progress: Callable[[FetchProgress], None] | None = None) -> tuple[Path, ...]:
    """Returns the broker's verified jars: as `ensure`."""
    return ensure(_kafka(), java, on_progress=on_progress)


def ensure(jars: JarSet, java: Java, *, on_progress: Callable[[FetchProgress], None] | None = None) -> tuple[Path, ...]:
    """Returns the verified jars of a set, in list order; fetches the set first if any is missing or damaged.

    `on_progress` is called during a fetch only. Raises ExternalError if the fetch fails or a fetched jar has another
    checksum; the cache is then unchanged.
    """
    folder = jars.folder
    if unfit_jars(folder, jars.listed):
        report = on_progress or _silent
        with _lock(folder, lambda: report(arrived(_scratch(folder), len(jars.listed)))):
            # another process may have fetched them while this one waited
            unfit = unfit_jars(folder, jars.listed)
            if unfit:
                _fetch(java, jars, unfit, report)
    return tuple(folder / name for name in jars.listed)


def _kafka() -> JarSet:
    return JarSet(f"kafka-{KAFKA_VERSION}", KAFKA, listed_jars())


def unfit_jars(folder: Path, listed: Mapping[str, str]) -> list[str]:
    """Returns the listed names whose file in `folder` is missing or has another content."""
    return [name for name, digest in listed.items() if _sha256(folder / name) != digest]


def _fetch(java: Java, jars: JarSet, unfit: list[str], on_progress: Callable[[FetchProgress], None]) -> None:
    """Resolves the whole set beside its folder, verifies it, and moves the replacements into place."""
    folder = jars.folder
    scratch = _scratch(folder)
    shutil.rmtree(scratch, ignore_errors=True)  # of a killed fetch; safe to delete, because this process holds the lock
    scratch.mkdir()
    try:
        fetched = retrieve(java, scratch, jars.modules, jars_total=len(jars.listed), on_progress=on_progress)
        _require_as_listed(fetched, jars.listed)
        folder.mkdir(exist_ok=True)
        for name in unfit:
            (fetched / name).replace(folder / name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _require_as_listed(fetched: Path, listed: Mapping[str, str]) -> None:
    for name in unfit_jars(fetched, listed):
        actual = _sha256(fetched / name)
        found = "was not among the jars fetched" if actual is None else f"has SHA-256 {actual}, not {listed[name]}"
        raise ExternalError(
            f"{name} {found}; nothing was installed",
            remedy="a proxy or mirror between here and Maven Central may have changed it: try from another network",
        )


def _sha256(path: Path) -> str | None:
    """Returns the hex digest of a file, or None if there is none."""
    try:
        with path.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except OSError:
        return None


def _scratch(folder: Path) -> Path:
    """Returns the folder of a fetch, beside its destination."""
    return folder.with_name(f"{folder.name}.partial")


@contextmanager
def _lock(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds a lock between processes. The kernel releases it with the process, so a crash leaves none behind.

    A fetch ends or fails in bounded time, so the wait for one is bounded, too.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                on_wait()
                time.sleep(_LOOK_SECONDS)
        yield


def _silent(progress: FetchProgress) -> None:
    """Discards the progress."""
