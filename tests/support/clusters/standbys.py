"""A cluster with standbys: coordinators with a home each, which share an election and a ledger, and workers.

Whoever uses it finds the leader by the election's URL, as users do.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from headrace.client.http import Client
from headrace.core.errors import HeadraceError
from headrace.leadership.elector import Leader
from headrace.leadership.opening import open_locator
from support.clusters.session import COORDINATOR, WORKER, Cluster
from support.clusters.worker_process import is_running
from support.patience import STANDBY_TIMES, WAIT_SECONDS
from support.processes.running import wait_until
from support.repository import ROOT

_ELECTED = re.compile(r"^(\S+ \S+) INFO headrace.coordinator: this coordinator was elected", re.MULTILINE)
ROWLESS = "support.clusters.rowless.worker"
"""The program of a worker without rows."""


class StandbyCluster(Cluster):
    """election: its URL; arguments: of each coordinator, beside those; environment: of every process."""

    def __init__(
        self,
        folder: Path,
        election: str,
        arguments: Sequence[str] = (),
        *,
        times: Mapping[str, str] = STANDBY_TIMES,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(folder, times=times)
        self._environment = environment
        self.election = election
        self._arguments = arguments
        self._locator = open_locator(election, {**times, **environment})
        self._processes: list[subprocess.Popen[bytes]] = []
        self._begun: dict[str, tuple[subprocess.Popen[bytes], Sequence[str], Sequence[str]]] = {}
        """Name -> its process, the prefix and the arguments."""
        self._election_client: Client | None = None
        self.token_file = folder / "token"
        self.token_file.write_text("the token of this cluster\n")

    def environment(self) -> Mapping[str, str]:
        """What every process has: the election in place of a coordinator's address."""
        own = {"HEADRACE_COORDINATOR": self.election, "HEADRACE_TOKEN_FILE": str(self.token_file)}
        return {**super().environment(), **self._environment, **own}

    @property
    def client(self) -> Client:
        """A client that follows the leader."""
        if self._election_client is None:
            token = self.token_file.read_text().strip()
            locator = open_locator(self.election, {**self._times, **self._environment})
            self._election_client = Client("", token, locator=locator)
        return self._election_client

    def start_coordinator(self, name: str, *arguments: str, prefix: Sequence[str] = ()) -> int:
        """Starts one, with these arguments beside its own; gives its pid. prefix: puts it on a host."""
        shared = ("--ha", self.election, "--token-file", str(self.token_file), *self._arguments, *arguments)
        return self._start(name, prefix, "coordinator", "--port", "0", "--grpc-port", "0", *shared)

    def start_worker(self, name: str, *arguments: str, prefix: Sequence[str] = ()) -> int:
        """Starts one with two slots; gives its pid."""
        return self._start(
            name, prefix, "worker", "--coordinator", self.election, "--slots", "2", "--id", name, *arguments
        )

    def start(self, workers: int = 2, slots: int = 2) -> None:
        """Starts what has ended, with what it began with."""
        for name, (process, prefix, arguments) in tuple(self._begun.items()):
            # not `poll`: a process that was killed counts as gone before the system has ended all its threads
            if not is_running(process.pid):
                process.wait(WAIT_SECONDS)
                self._start(name, prefix, *arguments)

    def start_again(self) -> None:
        """The same."""
        self.start()

    def start_rowless_worker(self, name: str, slots: int) -> int:
        """Starts one whose slots are all in its own process and have no rows; gives its pid."""
        arguments = ("--coordinator", self.election, "--slots", str(slots), "--id", name)
        return self._start(name, (), ROWLESS, *arguments)

    def ended(self, pid: int) -> int:
        """Waits for the end of a process that was started here; gives its exit code."""
        (process,) = (each for each in self._processes if each.pid == pid)
        return process.wait(WAIT_SECONDS)

    def log(self, name: str) -> str:
        """What a process has logged."""
        return (self.folder / "logs" / f"{name}.log").read_text()

    def elections(self) -> Sequence[datetime]:
        """When one of its coordinators was elected, as they have logged it."""
        logs = "\n".join(path.read_text() for path in (self.folder / "logs").glob("*.log"))
        # local time without a zone
        return [datetime.strptime(each, "%Y-%m-%d %H:%M:%S,%f").astimezone(UTC) for each in _ELECTED.findall(logs)]

    def leader(self) -> int:
        """The pid of the coordinator that leads; waits for one."""
        found: list[int] = []

        def leads() -> bool:
            found[:] = self.leaders()
            return len(found) == 1

        wait_until(leads, "one coordinator leads")
        return found[0]

    def leaders(self) -> list[int]:
        """The pid of the coordinator that is published as the leader, if it is there."""
        return [pid for pid in self.processes(COORDINATOR) if self._leads(pid)]

    def find(self) -> Leader | None:
        """The leader as published."""
        try:
            return self._locator.find()
        except HeadraceError:
            return None

    def term(self) -> int:
        """The term of the leader as published; 0: none."""
        found = self.find()
        return 0 if found is None else found.term

    def wait_whole(self) -> None:
        """Waits until one of its coordinators leads, and the others are standbys."""
        standbys = ["standby"] * (sum("--ha" in arguments for _, _, arguments in self._begun.values()) - 1)

        def is_whole() -> bool:
            return sorted(self.health(pid) for pid in self.processes(COORDINATOR)) == ["ok", *standbys]

        wait_until(is_whole, "a leader and its standbys")

    def wait_later_term(self, term: int) -> None:
        """Waits for a leader of a later term."""
        wait_until(lambda: self.term() > term, f"a leader after term {term}")

    def health(self, pid: int) -> str:
        """What a coordinator says of itself; empty if it does not answer."""
        url = self.url(pid)
        if url is None:
            return ""
        try:
            with Client(url, self.token_file.read_text().strip(), answer_s=WAIT_SECONDS) as client:
                return client.health().status
        except HeadraceError:
            return ""

    def _leads(self, pid: int) -> bool:
        found = self.find()
        return found is not None and self.url(pid) == found.url

    def url(self, pid: int) -> str | None:
        """The URL that a coordinator has written into its home; None: it has not yet."""
        # homes of processes that were started one by one, and of clusters of one job or program
        for record in (
            *self.home.glob("*/cluster/coordinator.json"),
            *self.home.glob("clusters/*/cluster/coordinator.json"),
        ):
            try:
                text = record.read_text()
            except OSError:
                continue
            if f'"pid": {pid},' in text:
                return text.split('"url": "')[1].split('"')[0]
        return None

    def _start(self, name: str, prefix: Sequence[str], *arguments: str) -> int:
        (self.folder / "logs").mkdir(exist_ok=True)
        is_rowless = arguments[0] == ROWLESS
        # a program of the tests finds its package; processes of the product must not have a path of their own
        path = {"PYTHONPATH": str(ROOT / "tests")} if is_rowless else {}
        program = [ROWLESS, WORKER, *arguments[1:]] if is_rowless else ["headrace", *arguments]
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-m", *program],
                cwd=self.folder,
                env={**self.environment(), **path, "HEADRACE_HOME": str(self.home / name)},
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        self._begun[name] = (process, prefix, arguments)
        return process.pid

    def restart(self, name: str) -> int:
        """SIGTERM, as a service manager sends it; starts it again once it is gone. Gives the new pid."""
        process, prefix, arguments = self._begun[name]
        process.terminate()
        process.wait(WAIT_SECONDS)
        return self._start(name, prefix, *arguments)

    def name_of(self, pid: int) -> str:
        """The name of a process that was started here."""
        (name,) = (name for name, (process, _, _) in self._begun.items() if process.pid == pid)
        return name

    def stop(self) -> None:
        """Ends workers, then coordinators."""
        for role in (WORKER, COORDINATOR):
            for process in self._processes:
                if process.pid in self.processes(role):
                    process.terminate()
                    process.wait(WAIT_SECONDS)

    def end(self) -> None:
        """Stops it, and fails if anything of it is left."""
        try:
            super().end()
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
            self._locator.close()
            if self._election_client is not None:
                self._election_client.close()


@contextmanager
def standby_cluster(
    folder: Path,
    election: str,
    arguments: Sequence[str] = (),
    *,
    coordinators: int = 2,
    workers: int = 2,
    times: Mapping[str, str] = STANDBY_TIMES,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[StandbyCluster]:
    """One that leads, with standbys and workers of two slots; ended at the end, and checked for what it leaves."""
    cluster = StandbyCluster(folder, election, arguments, times=times, environment=environment)
    try:
        for number in range(coordinators):
            cluster.start_coordinator(f"c{number}")
        cluster.leader()
        for number in range(workers):
            cluster.start_worker(f"w{number}")
        wait_until(lambda: cluster.client.cluster().slots_free == 2 * workers, "slots")
        yield cluster
    finally:
        cluster.end()
