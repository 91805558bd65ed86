"""The deeds of a plan, done to a live flow. Decides nothing: what becomes of the job is looked at by `chaos.peace`."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import assert_never

from chaos.plan import (
    Deed,
    Fault,
    Freeze,
    HaltBroker,
    Kill,
    Rescale,
    Savepoint,
    Start,
    Step,
    TakeUp,
    Target,
    Terminate,
    Upgrade,
)
from chaos.story import Story
from chaos.victims import find, send
from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow
from support.clusters.session import COORDINATOR, WORKER, wait_gone
from support.clusters.standbys import StandbyCluster
from support.processes.running import Finished, finish

WORKERS = 2
PATIENCE_S = 20.0
"""So long users wait for a command before they see to the workers."""


class Strikes:
    """Does steps, and tells what it does."""

    def __init__(self, flow: Flow, broker: EmbeddedBroker, story: Story) -> None:
        self._flow, self._broker, self._story = flow, broker, story
        self._cluster = flow.cluster
        self._starting = threading.Lock()

    def step(self, step: Step, *, first: bool) -> None:
        """Pauses and does it. `first` of a round: all is well, so commands that are given alone must be done."""
        time.sleep(step.pause_s)
        if len(step.deeds) == 1:
            self._do(step.deeds[0], must=first)
            return
        with ThreadPoolExecutor(len(step.deeds)) as pool:
            done: list[Future[None]] = []
            for deed in step.deeds:
                time.sleep(step.apart_s if done else 0.0)
                done.append(pool.submit(self._do, deed, must=False))
        for each in done:
            each.result()

    def _do(self, deed: Deed, *, must: bool) -> None:
        match deed:
            case Kill():
                self._end(signal.SIGKILL, deed.target, deed.choice)
            case Terminate():
                self._end(signal.SIGTERM, Target.COORDINATOR, 0.0)
            case Freeze():
                self._freeze(deed)
            case HaltBroker():
                self._halt(deed)
            case Start():
                self._start(must=must)
            case Rescale() | Savepoint() | TakeUp() | Upgrade():
                before = self._failures() if must else set()
                done = self._ask(deed)
                # a lease that runs out on a slow host ends an attempt, and with it what it was asked for
                assert done.code == 0 or not must or self._failures() - before, f"{deed}: {done.err}"
            case _:
                assert_never(deed)

    def _failures(self) -> set[tuple[str, int, datetime]]:
        """Of the jobs of the name: job, attempt and time."""
        client = self._cluster.client
        jobs = [each.job_id for each in client.jobs() if each.name == self._flow.name]
        return {(job, each.attempt, each.at) for job in jobs for each in client.exceptions(job)}

    def _end(self, number: signal.Signals, target: Target, choice: float) -> None:
        struck = send(number, find(self._cluster, target, choice))
        wait_gone(*struck)
        self._story.tell(f"{number.name} to {target.value}: {_named(struck)}")

    def _start(self, *, must: bool) -> None:
        """Starts what has ended; one at a time, as users do."""
        with self._starting:
            if isinstance(self._cluster, StandbyCluster):
                self._story.tell("what has ended is started")
                self._cluster.start()
                return
            done = self._command("cluster", "start", "--workers", "2", "--slots", "2")
            assert done.code == 0 or not must, done.err

    def _freeze(self, deed: Freeze) -> None:
        pids = send(signal.SIGSTOP, find(self._cluster, deed.target, deed.choice))
        self._story.tell(f"froze {deed.target.value} for {deed.seconds} s: {_named(pids)}")
        try:
            time.sleep(deed.seconds if pids else 0.0)
        finally:
            awake = send(signal.SIGCONT, pids)
            self._story.tell(f"woke {deed.target.value}: {_named(awake)}")

    def _halt(self, deed: HaltBroker) -> None:
        pid = self._broker.pid
        assert pid is not None
        send(signal.SIGSTOP, [pid])
        self._story.tell(f"halted the broker for {deed.seconds} s")
        try:
            time.sleep(deed.seconds)
        finally:
            send(signal.SIGCONT, [pid])
            self._story.tell("the broker goes on")

    def _ask(self, deed: Fault) -> Finished:
        """Of whichever job of the name runs; gives how the (last) command ended."""
        flow = self._flow
        match deed:
            case Rescale():
                return self._command("rescale", flow.name, "--parallelism", str(deed.parallelism))
            case Savepoint():
                return self._command("savepoint", flow.name, "saved")
            case Upgrade():
                file = flow.file(deed.parallelism, added="positive" if deed.has_more else "")
                return self._command("upgrade", flow.name, file)
            case TakeUp():
                stopped = self._command(
                    "stop", flow.name, "--json", *(("--savepoint", "saved") if deed.savepoint else ())
                )
                if stopped.code:
                    return stopped
                path = str(stopped.json["path"])
                return self._command("submit", flow.file(deed.parallelism), "--from-savepoint", path)
            case _:
                raise AssertionError(f"{deed} is no command")

    def _command(self, *arguments: str) -> Finished:
        said = " ".join(arguments)
        self._story.tell(f"headrace {said}")
        process = self._cluster.begin(*arguments)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
        if process.poll() is None and self._lacks_processes():
            # a job without slots waits for them, and its users with it, until somebody starts workers
            self._story.tell(f"headrace {said} waits, and what has ended is started")
            with self._starting:
                self._cluster.start_again()
        done = finish(process)
        self._story.tell(f"headrace {said}: exit code {done.code} {(done.err if done.code else done.out).strip()}")
        return done

    def _lacks_processes(self) -> bool:
        return len(self._cluster.processes(WORKER)) < WORKERS or not self._cluster.processes(COORDINATOR)


def _named(pids: Sequence[int]) -> str:
    return ", ".join(map(str, pids)) or "nobody is there"
