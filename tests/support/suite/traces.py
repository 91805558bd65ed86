"""What a failed test leaves: logs, states and processes, in one folder that the report names.

All that tests write is below the temporary folder of their process: homes of clusters, data of brokers, `tmp_path`.
From there this takes every folder in which something changed during the test, so it need not know any fixture.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import pytest

from support.suite import BROKER_LOG, is_controller

FOLDER = "test-failures"
SECTION = "logs and states"
FILE_BYTES_MAX = 1 << 20
"""Of a larger file the end is kept."""
ALL_BYTES_MAX = 64 << 20
_NAME_MAX = 120
_SKIPPED_FOLDERS = {"__pycache__", "site-packages", "node_modules", ".git"}
_SKIPPED_FILES = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)|.*\.(jar|whl|so|pyc)")
"""Kafka's records and indexes, and code."""
_BEGUN = pytest.StashKey[float]()
_KEPT = pytest.StashKey[bool]()
_TEMPORARY = pytest.StashKey[Path]()


@pytest.fixture(scope="session", autouse=True)
def temporary_folder_is_known(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytestconfig.stash[_TEMPORARY] = tmp_path_factory.getbasetemp()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGUN] = time.time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Before fixtures are torn down: processes still run, and nothing is removed yet."""
    report = yield
    if report.failed:
        is_first = _KEPT not in item.stash
        item.stash[_KEPT] = True
        temporary = item.config.stash.get(_TEMPORARY, None)
        _keep(item.config, report, temporary, since=item.stash.get(_BEGUN, 0.0), is_first=is_first)
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: pytest.TestReport, sched: object) -> None:
    """In the controller: the test's process has died."""
    config: pytest.Config = sched.config  # type: ignore[attr-defined]
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    temporary = factory.getbasetemp() / f"popen-{report.node.gateway.id}"
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        # now: whoever ends the run early has to know it, too
        reporter.write_line(f"\nits process died: {report.nodeid}")
    _keep(config, report, temporary, since=0.0, is_first=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not is_controller(config):
        return
    failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    kept = {text: report.nodeid for report in failed for title, text in report.sections if title == SECTION}
    if kept:
        terminalreporter.section("logs and states of failed tests")
        for path in kept:
            terminalreporter.write_line(path)


def _keep(
    config: pytest.Config, report: pytest.TestReport, temporary: Path | None, *, since: float, is_first: bool
) -> None:
    """`is_first`: nothing of this test has been kept in this run."""
    folder = config.rootpath / FOLDER / folder_name(report.nodeid)
    with suppress(OSError):  # the failure itself must be reported whatever the disk does
        if is_first:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        parts = [report.longreprtext, *(f"---- {title}\n{text}" for title, text in report.sections)]
        (folder / f"{re.sub(r'[^a-z]+', '', report.when or '') or 'crash'}.txt").write_text("\n".join(parts))
        if temporary is not None and temporary.is_dir():
            (folder / "processes.txt").write_text("\n".join(processes_of(str(temporary))) + "\n")
            copy_changed(temporary, folder / "files", since=since)
        if (broker_log := config.stash.get(BROKER_LOG, None)) is not None:
            _copy_end(broker_log, folder / "shared-broker.log")
    report.sections.append((SECTION, str(folder)))


def folder_name(nodeid: str) -> str:
    """A name for a test's folder that every file system accepts."""
    name = re.sub(r"[^\w.-]+", "-", nodeid.removeprefix("tests/")).strip("-")
    return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 9]}-{crc32(name.encode()):08x}"


def copy_changed(source: Path, target: Path, *, since: float) -> None:
    """Copies each folder directly in `source` that has a file changed after `since`: newest files first, while they
    fit into ALL_BYTES_MAX."""
    found: list[tuple[float, int, Path]] = []
    for folder in source.iterdir():
        files = list(_files(folder)) if folder.is_dir() and not folder.is_symlink() else []
        if any(changed >= since for changed, _, _ in files):
            found += files
    left = ALL_BYTES_MAX
    for _, size, path in sorted(found, key=lambda each: -each[0]):
        left -= min(size, FILE_BYTES_MAX)
        if left < 0:
            break
        _copy_end(path, target / path.relative_to(source))


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each regular file was changed, and its size. Files may vanish meanwhile."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        for name in names:
            path = Path(parent, name)
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and not _SKIPPED_FILES.fullmatch(name):
                    yield status.st_mtime, status.st_size, path


def _copy_end(source: Path, target: Path) -> None:
    with suppress(OSError), source.open("rb") as file:
        file.seek(max(0, source.stat().st_size - FILE_BYTES_MAX))
        content = file.read(FILE_BYTES_MAX)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def processes_of(mark: str) -> list[str]:
    """Pid, parent, state and command of processes whose command line or environment names `mark`."""
    lines = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            if mark.encode() not in command + (entry / "environ").read_bytes():
                continue
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            shown = command.replace(b"\0", b" ").decode(errors="replace").strip()
            lines.append(f"{entry.name:>8} parent {parent:>8} {state} {shown}")
    return sorted(lines)
