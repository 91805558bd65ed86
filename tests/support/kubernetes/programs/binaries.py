"""The cache of Kubernetes' programs, and its filling: `python -m support.kubernetes.programs.binaries`.

The cache is a folder of finished programs, without an archive around them: 470 MB, and no step between a restored cache
and a test. A program appears there when it is complete, those of a control cluster first. One process builds, under a
lock; others wait for it, with a bound. Its scratch folder (5 GB) is beside the cache and is removed at the end.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

from headrace.core.errors import ExternalError
from headrace.core.settings import cache_folder
from support.kubernetes.programs.compiling import Compiler
from support.kubernetes.programs.go_toolchain import go_version
from support.kubernetes.programs.recipe import EVERYTHING, KUBERNETES, Component, key

REMEDY = "`make kubernetes` builds them"
BUILD_WAIT_SECONDS = 7200.0
"""How long a process that would build waits for another one that builds."""
_LOOK_SECONDS = 0.5
_REPORT_SECONDS = 30.0

Report = Callable[[str], None]


class BinariesMissingError(ExternalError):
    """Programs are not in the cache, and nobody builds them."""


@cache
def binaries_folder() -> Path:
    """Returns this user's cache folder of the programs. Some of them may not be there yet."""
    return cache_folder() / f"kubernetes-{key(go_version())}"


def build_log() -> Path:
    """Returns the file with what Go has printed."""
    return _beside("log")


def missing(components: Sequence[Component]) -> list[str]:
    """Returns the names of programs that are not in the cache."""
    return [component.name for component in components if not (binaries_folder() / component.name).exists()]


def build(components: Sequence[Component] = EVERYTHING, *, report: Report) -> Path:
    """Returns the cache's folder, with these programs in it: builds what is missing. Raises ExternalError."""
    folder = binaries_folder()
    if missing(components):
        with _lock(report):
            _build_missing(components, report)
    return folder


def wait_for(components: Sequence[Component], seconds: float, report: Report) -> Path:
    """Returns the cache's folder once these programs are in it, while another process builds them.

    Raises BinariesMissingError if none builds them, ExternalError if they are not there after `seconds`.
    """
    last = _Repeated(report)
    deadline = time.monotonic() + seconds
    while names := missing(components):
        if not _is_being_built():
            if not missing(components):  # the build has ended meanwhile
                break
            raise BinariesMissingError(f"Kubernetes {KUBERNETES}: {', '.join(names)} not built", remedy=REMEDY)
        if time.monotonic() > deadline:
            raise ExternalError(
                f"Kubernetes {KUBERNETES}: {', '.join(names)} not built within {seconds:.0f} s ({_state()})",
                remedy=f"the log of the build: {build_log()}",
            )
        last.say(f"waiting for {', '.join(names)}: {_state()}")
        time.sleep(_LOOK_SECONDS)
    return binaries_folder()


def _build_missing(components: Sequence[Component], report: Report) -> None:
    """Builds in a folder that the lock makes this process's own; a killed build may have left some of it."""
    scratch, folder = _beside("building"), binaries_folder()
    folder.mkdir(parents=True, exist_ok=True)
    build_log().unlink(missing_ok=True)
    compiler = None
    try:
        for number, component in enumerate(components, 1):
            if (folder / component.name).exists():
                continue
            step = f"{component.name} ({number} of {len(components)})"
            _beside("lock").write_text(f"{step} since {time.strftime('%H:%M:%S')}")
            report(f"building {step}")
            begun = time.monotonic()
            compiler = compiler or Compiler(scratch, build_log())
            compiler.build(component).rename(folder / component.name)
            report(f"built {step} in {time.monotonic() - begun:.0f} s")
    finally:
        _beside("lock").write_text("")
        _remove(scratch)


def _beside(suffix: str) -> Path:
    """Returns the path of something that belongs to the cache's folder, beside it."""
    folder = binaries_folder()
    return folder.with_name(f"{folder.name}.{suffix}")


@contextmanager
def _lock(report: Report) -> Iterator[None]:
    """Holds the lock between processes. The kernel releases it with the process, so a crash leaves none behind."""
    _beside("lock").parent.mkdir(parents=True, exist_ok=True)
    last = _Repeated(report)
    deadline = time.monotonic() + BUILD_WAIT_SECONDS
    with _beside("lock").open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise ExternalError(
                        f"another process builds Kubernetes for more than {BUILD_WAIT_SECONDS:.0f} s ({_state()})"
                    ) from error
                last.say(f"another process is building: {_state()}")
                time.sleep(_LOOK_SECONDS)
        yield


def _is_being_built() -> bool:
    try:
        with _beside("lock").open() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _state() -> str:
    """What the process that holds the lock is doing."""
    return _beside("lock").read_text() or "it has just begun"


class _Repeated:
    """Reports a line when it changes, and the same line every 30 s."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._line, self._at = "", 0.0

    def say(self, line: str) -> None:
        if line != self._line or time.monotonic() > self._at + _REPORT_SECONDS:
            self._line, self._at = line, time.monotonic()
            self._report(line)


def _remove(scratch: Path) -> None:
    """Go writes its modules without the right to change them."""
    for folder, _, _ in os.walk(scratch):
        Path(folder).chmod(stat.S_IRWXU)
    shutil.rmtree(scratch, ignore_errors=True)


def _print(line: str) -> None:
    sys.stdout.write(f"kubernetes: {line}\n")
    sys.stdout.flush()


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> int:
    """Builds what is missing, or says why it could not."""
    signal.signal(signal.SIGTERM, _end)  # the scratch folder is removed
    try:
        _print(f"{KUBERNETES} in {build(report=_print)}")
    except ExternalError as error:
        sys.stderr.write(f"kubernetes: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
