"""Measures one coordinator with a standby that has many jobs.

usage: PYTHONPATH=tests python benchmarks/many_jobs.py [--jobs N] [--takeovers N] [--seconds N] [--idle-after T]

Jobs read a Kafka topic of two partitions, aggregate in windows, and write to another topic exactly once, at parallelism
2 and with a checkpoint every 10 s. No rows come. Coordinators, connector hosts, journals, ledger and broker are real
processes on this host; slots are the real attempt machine without rows, all in one process
(`tests/support/clusters/rowless`).

    steady    the leader's share of a core and that of all connector hosts, over `--seconds`; the memory that each host
              has of its own; the leader's resident memory
    takeover  kill -9 of the leader until all jobs are RUNNING under the standby, each with a later attempt; the CPU
              seconds of all processes meanwhile, of which half is the least that two cores need. Where other work goes
              on beside it, the share of the machine that they are says how much the clock is worth

A host's own memory is what smaps_rollup counts as private; the rest is shared with the template that it is forked from.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from measuring.process_times import process_times

from headrace_dev.broker import BrokerConfig, EmbeddedBroker
from support.clusters.many_jobs import PARALLELISM, STEP, ManyJobs, many_jobs
from support.clusters.session import CONNECTOR_HOST, COORDINATOR, WORKER, kill
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until

JOBS, TAKEOVERS, SECONDS, SETTLE_S, LOOK_S = 100, 3, 30.0, 10.0, 0.2


@dataclass(frozen=True, slots=True)
class Steady:
    """leader_share, hosts_share: of a core. hosts_mib: of each host, its own memory."""

    leader_share: float
    hosts_share: float
    hosts_mib: list[float]
    leader_mib: float
    leader_own_mib: float

    def text(self) -> str:
        """One line."""
        own = self.hosts_mib
        return (
            f"steady: the leader {self.leader_share:.2f} of a core, {len(own)} hosts {self.hosts_share:.2f}; a host's"
            f" own memory {statistics.median(own):.1f} MiB ({min(own):.1f} .. {max(own):.1f}), the leader"
            f" {self.leader_mib:.0f} MiB, {self.leader_own_mib:.0f} of its own"
        )


@dataclass(frozen=True, slots=True)
class Takeover:
    """elected_s, running_s: since the kill, until there is a leader, and until all jobs run. cpu_s: kind of process ->
    CPU seconds until then."""

    elected_s: float
    running_s: float
    cpu_s: dict[str, float]

    def text(self) -> str:
        """One line."""
        parts = ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in sorted(self.cpu_s.items()))
        total_s = sum(self.cpu_s.values())
        share = total_s / self.running_s / (os.cpu_count() or 1)
        total = f"{total_s:.1f} CPU seconds ({share:.0%} of the machine)"
        return f"takeover: {self.running_s:.1f} s, elected after {self.elected_s:.1f} s; {total}: {parts}"


class Measured:
    """The cluster's processes as seen from outside."""

    def __init__(self, many: ManyJobs, broker: EmbeddedBroker) -> None:
        self._many, self._cluster = many, many.cluster
        self._broker = broker

    def start_jobs(self, jobs: int) -> None:
        """Submits the jobs and waits until all run; says how far it is."""
        while len(self._many.jobs) < jobs:
            self._many.submit(min(STEP, jobs - len(self._many.jobs)))
            _say(f"{len(self._many.jobs)} jobs run")

    def steady(self, seconds: float) -> Steady:
        """Looks at the leader and the hosts for so long."""
        time.sleep(SETTLE_S)
        leader, hosts = self._cluster.leader(), list(self._cluster.processes(CONNECTOR_HOST))
        begun_s, leader_s, hosts_s = time.monotonic(), _cpu_s([leader]), _cpu_s(hosts)
        time.sleep(seconds)
        past_s = time.monotonic() - begun_s
        return Steady(
            (_cpu_s([leader]) - leader_s) / past_s,
            (_cpu_s(hosts) - hosts_s) / past_s,
            [_own_mib(pid) for pid in hosts],
            _resident_mib(leader),
            _own_mib(leader),
        )

    def takeover(self, number: int) -> Takeover:
        """Kills the leader, and starts another standby afterwards."""
        cluster, before = self._cluster, self._many.statuses()
        leader, term = cluster.leader(), cluster.term()
        spent_s = {pid: own for each in self._spent_s().values() for pid, own in each.items()}
        begun_s = time.monotonic()
        kill(leader)
        cluster.wait_later_term(term)
        elected_s = time.monotonic() - begun_s
        self._wait_running(begun_s)
        running_s = time.monotonic() - begun_s
        after_s = self._spent_s()
        cpu_s = {kind: sum(own - spent_s.get(pid, 0.0) for pid, own in each.items()) for kind, each in after_s.items()}
        after = self._many.statuses()
        assert all(after[job].attempt > before[job].attempt for job in before), "an attempt was adopted"
        cluster.start_coordinator(f"later-{number}")
        wait_until(lambda: len(cluster.processes(COORDINATOR)) == 2, "a standby")
        return Takeover(elected_s, running_s, cpu_s)

    def _wait_running(self, begun_s: float) -> None:
        said_s = 0.0
        while (running := self._many.running()) < len(self._many.jobs):
            past_s = time.monotonic() - begun_s
            assert past_s < WAIT_SECONDS, f"{running} jobs run"
            if past_s - said_s > 1:
                said_s = past_s
                _say(f"{past_s:.0f} s: {running} jobs run")
            time.sleep(LOOK_S)

    def _spent_s(self) -> dict[str, dict[int, float]]:
        """Kind of process -> pid -> CPU seconds so far, of those that live now."""
        kinds = {
            "coordinators": self._cluster.processes(COORDINATOR),
            "hosts": self._cluster.processes(CONNECTOR_HOST),
            "templates": self._cluster.processes("headrace-template"),
            "slots": self._cluster.processes(WORKER),
            "broker": [] if self._broker.pid is None else [self._broker.pid],
        }
        times = process_times()
        return {kind: {pid: times[pid].own_s for pid in pids if pid in times} for kind, pids in kinds.items()}


def _cpu_s(pids: Iterable[int]) -> float:
    times = process_times()
    return sum(times[pid].own_s for pid in pids if pid in times)


def _own_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--takeovers", type=int, default=TAKEOVERS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--idle-after", help="of the jobs' source, such as 30s: slots report ten times a second then")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(BrokerConfig(Path(folder, "kafka"))) as broker:
        slots = PARALLELISM * options.jobs
        with many_jobs(Path(folder, "c"), broker, slots=slots, idle_after=options.idle_after) as many:
            measured = Measured(many, broker)
            measured.start_jobs(options.jobs)
            print(measured.steady(options.seconds).text(), flush=True)
            for number in range(options.takeovers):
                print(measured.takeover(number).text(), flush=True)
                time.sleep(SETTLE_S)


if __name__ == "__main__":
    main()
