"""What a run cost: its slowest tests, seconds by folder, and how many processes it started.

Set-up and tear-down of fixtures count for the test that needed them.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest

from support.suite import is_controller
from support.suite.durations import CACHE_KEY, COMMIT, FULL

SLOWEST = 20
_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}
"""Audit events of CPython, one for each process that it starts."""
_REPORTED = "processes_started"


class Tally:
    """Of one process; the controller's has the tests of all."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.started = 0
        self._begun_at_first = begun_on_this_machine()
        sys.addaudithook(self._audit)

    def _audit(self, event: str, _arguments: object) -> None:
        if event in _STARTS:
            self.started += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config = session.config
        if not is_controller(config):
            config.workeroutput[_REPORTED] = self.started  # type: ignore[attr-defined]
            return
        cache = getattr(config, "cache", None)
        if cache is not None and self.seconds:
            tier = FULL if config.getoption("--full") else COMMIT
            cache.set(CACHE_KEY.format(tier), dict(self.by_file()))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """A process that crashed has not reported how many processes it had started."""
        self.started += getattr(node, "workeroutput", {}).get(_REPORTED, 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if not config.getoption("--tally") or not self.seconds:
            return
        write = terminalreporter.write_line
        terminalreporter.section(f"slowest {SLOWEST} tests")
        for name, seconds in sorted(self.seconds.items(), key=lambda each: -each[1])[:SLOWEST]:
            write(f"{seconds:7.1f} s  {name}")
        terminalreporter.section("seconds by folder")
        counts = Counter(folder_of(name) for name in self.seconds)
        for folder, seconds in sorted(self.by_folder().items(), key=lambda each: -each[1]):
            write(f"{seconds:7.1f} s  {counts[folder]:5}  {folder}")
        write(f"{sum(self.seconds.values()):7.1f} s  {len(self.seconds):5}  in all")
        write(self._processes())

    def by_file(self) -> dict[str, float]:
        """File -> seconds."""
        return _summed((name.split("::", 1)[0], seconds) for name, seconds in self.seconds.items())

    def by_folder(self) -> dict[str, float]:
        """Folder -> seconds."""
        return _summed((folder_of(name), seconds) for name, seconds in self.seconds.items())

    def _processes(self) -> str:
        begun = begun_on_this_machine()
        if begun is None or self._begun_at_first is None:
            return f"{self.started} processes started by tests"
        return (
            f"{self.started} processes started by tests themselves; meanwhile {begun - self._begun_at_first} processes "
            "and threads began on this machine, those of other programs included"
        )


def folder_of(name: str) -> str:
    """The folder of a test, below `tests`."""
    return str(PurePosixPath(name.split("::", 1)[0]).parent).removeprefix("tests/")


def begun_on_this_machine() -> int | None:
    """How many processes and threads the kernel has started since it booted; None where it does not say."""
    with suppress(OSError):
        for line in Path("/proc/stat").read_text().splitlines():
            if line.startswith("processes "):
                return int(line.split()[1])
    return None


def _summed(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for name, seconds in pairs:
        sums[name] += seconds
    return sums


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tally", action="store_true", help="end with the slowest tests, seconds by folder and processes")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Tally(), "headrace-tally")
