"""A cluster on one target, in one mode: what is submitted to it, and what may happen to it there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, running_flow
from support.clusters.session import Cluster
from support.kafka.open_transactions import require_none_open
from support.processes.running import wait_until

PARALLELISM = 2
"""Of the flow."""


class Mode(StrEnum):
    """SESSION: on a cluster that runs; PER_JOB: on one that is made for the job; APPLICATION: for a program."""

    SESSION = "session"
    PER_JOB = "per-job"
    APPLICATION = "application"


class Deployment(Protocol):
    """Faults return once they have struck. Whatever restarts processes on the target restarts those that were killed:
    an attendant, a Deployment, or these methods in place of a service manager."""

    @property
    def cluster(self) -> Cluster:
        """Finds processes, runs commands, and has a client of the coordinator that leads."""
        ...

    @property
    def shared(self) -> Path:
        """A folder that programs of the cluster reach."""
        ...

    @property
    def shared_there(self) -> str:
        """The path of the same folder for these programs."""
        ...

    @property
    def program_follows_leader(self) -> bool:
        """Whether an application is started again when its leader is killed, beside the next one."""
        ...

    def start(self) -> None:
        """Starts a cluster for a session, with slots for two jobs of two slots."""
        ...

    def submit_alone(self, file: str, mode: Mode, *arguments: str) -> str:
        """Starts a cluster for a job or a program; returns what the command has printed."""
        ...

    def workers_of(self, mode: Mode) -> int:
        """How many workers a cluster has, or gets for the flow alone."""
        ...

    def kill_slot(self, job: str) -> None:
        """Kills a process that runs a slot of the job."""
        ...

    def kill_worker(self, job: str) -> None:
        """Kills a worker with a slot of the job."""
        ...

    def kill_leader(self) -> None:
        """Kills the coordinator that leads; returns when another one, or the same again, leads."""
        ...

    def kill_all(self) -> None:
        """Kills all workers and coordinators at once."""
        ...

    def drain_worker(self, job: str) -> None:
        """Has a worker with a slot of the job leave in order, as its system does before it takes a machine away."""
        ...

    def leader_frozen(self, job: str) -> AbstractContextManager[None]:
        """Freezes the coordinator that leads; entered once the cluster has noticed."""
        ...

    def worker_cut_off(self, job: str) -> AbstractContextManager[None]:
        """Cuts a host off on which a slot of the job runs, and not the leader."""
        ...

    def elsewhere(self) -> AbstractContextManager[Deployment]:
        """Another cluster, not started, which reads savepoints of this one."""
        ...

    def has_gone(self) -> bool:
        """Whether nothing is left of a cluster that served a job or a program."""
        ...


@dataclass(frozen=True, slots=True)
class Deployed:
    """A flow that runs on a cluster, in one mode."""

    deployment: Deployment
    broker: EmbeddedBroker
    flow: Flow
    mode: Mode

    @property
    def cluster(self) -> Cluster:
        """That of the deployment."""
        return self.deployment.cluster


class Launch(Protocol):
    """Starts a flow on a cluster of a target, and ends the cluster."""

    def __call__(self, mode: Mode, *, short_leases: bool = False) -> AbstractContextManager[Deployed]:
        """short_leases: whoever is silent is taken for lost within seconds."""
        ...


PROGRAM = """\
import os

import headrace as hr

os.chdir("{folder}")
with open("starts.txt", "a") as starts:
    starts.write("started\\n")
job = hr.submit("{flow}.yaml")
with open("job.txt", "w") as file:
    file.write(job)
raise SystemExit(0 if hr.wait(job).state == "FINISHED" else 7)
"""
"""An application. It is started again beside each coordinator that leads, and finds its job there."""


@contextmanager
def deployed(deployment: Deployment, broker: EmbeddedBroker, mode: Mode) -> Iterator[Deployed]:
    """A flow that runs and has been exact once. It is drained at the end, unless a scenario has ended its cluster."""
    with running_flow(deployment.cluster, broker, exactly_once=True) as flow:
        if mode is Mode.SESSION:
            deployment.start()
        _submit(deployment, flow, mode)
        yield Deployed(deployment, broker, flow, mode)
        if mode is Mode.SESSION:
            flow.finish()
            require_none_open(broker, flow.job)
        elif not deployment.has_gone():
            # a run of chosen scenarios, without the one that ends the cluster
            flow.finish()
            wait_until(deployment.has_gone, "the cluster is gone")


def _submit(deployment: Deployment, flow: Flow, mode: Mode) -> None:
    match mode:
        case Mode.SESSION:
            flow.submit()
        case Mode.PER_JOB:
            flow.job = deployment.submit_alone(flow.file(), mode)
        case Mode.APPLICATION:
            flow.job = _submit_by_program(deployment, flow)
    flow.wait_checkpoint()
    flow.settle()


def _submit_by_program(deployment: Deployment, flow: Flow) -> str:
    flow.file()
    for name in (f"{flow.name}.yaml", "doubling.py"):
        (deployment.shared / name).write_text((deployment.cluster.folder / name).read_text())
    program = deployment.cluster.folder / "app.py"
    program.write_text(PROGRAM.format(folder=deployment.shared_there, flow=flow.name))
    deployment.submit_alone(str(program), Mode.APPLICATION)
    job = deployment.shared / "job.txt"
    wait_until(lambda: job.exists() and bool(job.read_text()), "the program has submitted its job")
    return job.read_text()


def starts(deployment: Deployment) -> int:
    """How often the program was started; 0: there is none."""
    file = deployment.shared / "starts.txt"
    return file.read_text().count("started") if file.exists() else 0
