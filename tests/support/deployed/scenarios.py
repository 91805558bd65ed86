"""The deployment suite: what every target has to do in every mode, below a flow that is exactly-once all the while.

A target's tests choose from the tuples below. A scenario leaves the flow running and
exact for the next one, but for the last ones of a cluster that was made for a job.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from support.clusters.kafka_flow import Flow, exact_flow
from support.deployed.deployment import PARALLELISM, Deployed, Mode, starts
from support.processes.running import finish, wait_until

Scenario = Callable[[Deployed], None]
INTERRUPTED = 130
NUMBERS = """\
name: {name}
checkpoint: {{interval: 500ms}}
sources:
  numbers:
    generator: {{{amount}, columns: {{n: {{sequence: {{}}}}}}}}
    schema: {{n: int64}}
sinks:
  out:
    from: numbers
    print: {{}}
    format: json
"""


def listed(deployed: Deployed) -> None:
    """`list` and `status` have the job, by its id and by its name."""
    (job,) = [each for each in _json(deployed, "list")["jobs"] if each["state"] == "RUNNING"]
    assert (job["job_id"], job["name"]) == (deployed.flow.job, deployed.flow.name)
    for named in (job["job_id"], job["name"]):
        status = _json(deployed, "status", named)
        assert (status["job_id"], status["state"]) == (deployed.flow.job, "RUNNING")


def waited_for(deployed: Deployed) -> None:
    """`submit --wait` returns with the end of the job."""
    file = _numbers(deployed, "bounded", "rows: 200")
    done = deployed.cluster.headrace("submit", file, "--wait", "--json")
    assert (done.code, done.json["state"]) == (0, "FINISHED"), done.err
    logged = deployed.cluster.headrace("logs", done.json["job_id"])
    assert logged.code == 0 and "FINISHED" in logged.out, "logs after the end"


def detached_and_attached(deployed: Deployed) -> None:
    """Ctrl-C ends the command, not the job; another command waits for it by the same cluster."""
    cluster = deployed.cluster
    waiting = cluster.begin("submit", _numbers(deployed, "endless", "rate: 50"), "--wait")
    wait_until(lambda: _running(deployed, "endless") is not None, "it runs")
    waiting.send_signal(signal.SIGINT)
    assert finish(waiting).code == INTERRUPTED
    job = _running(deployed, "endless")
    assert job is not None, "it goes on"
    canceled = _json(deployed, "cancel", "endless")
    assert canceled == {"job_id": job, "state": "CANCELED"}
    assert _json(deployed, "status", job)["state"] == "CANCELED"


def a_second_job_drained(deployed: Deployed) -> None:
    """Beside the first one: exact to its last window, with its logs after the end."""
    with _second_flow(deployed) as flow:
        job = flow.job
    assert _json(deployed, "status", job)["state"] == "FINISHED"
    logged = deployed.cluster.headrace("logs", job)
    assert logged.code == 0 and "FINISHED" in logged.out


def slot_killed(deployed: Deployed) -> None:
    """The job restarts from its last checkpoint."""
    with deployed.flow.recovering("slot killed"):
        deployed.deployment.kill_slot(deployed.flow.job)


def worker_killed(deployed: Deployed) -> None:
    """The same; the worker is replaced."""
    with deployed.flow.recovering("worker killed"):
        deployed.deployment.kill_worker(deployed.flow.job)
    _wait_workers(deployed)


def leader_killed(deployed: Deployed) -> None:
    """The next leader goes on from the ledger, with the same jobs; a program is started again beside it."""
    before = {each.job_id for each in deployed.cluster.client.jobs()}
    begun = starts(deployed.deployment)
    with deployed.flow.recovering("leader killed"):
        deployed.deployment.kill_leader()
    assert {each.job_id for each in deployed.cluster.client.jobs()} == before
    if deployed.mode is Mode.APPLICATION and deployed.deployment.program_follows_leader:
        wait_until(lambda: starts(deployed.deployment) > begun, "the program is started again")
        assert {each.job_id for each in deployed.cluster.client.jobs()} == before, "it has found its job"


def all_killed(deployed: Deployed) -> None:
    """At once: the job is resumed from its journal."""
    with deployed.flow.recovering("all killed"):
        deployed.deployment.kill_all()
    _wait_workers(deployed)


def worker_drained(deployed: Deployed) -> None:
    """The job moves from a checkpoint: no failure is counted."""
    failures = len(deployed.cluster.client.exceptions(deployed.flow.job))
    with deployed.flow.recovering("worker drained"):
        deployed.deployment.drain_worker(deployed.flow.job)
        deployed.flow.wait_other_attempt()
    assert len(deployed.cluster.client.exceptions(deployed.flow.job)) == failures
    _wait_workers(deployed)


def leader_frozen(deployed: Deployed) -> None:
    """Past its lease. What it does when it wakes up does not count."""
    flow = deployed.flow
    with flow.recovering("leader frozen"), deployed.deployment.leader_frozen(flow.job):
        pass
    flow.wait_checkpoint()
    flow.settle()


def host_cut_off(deployed: Deployed) -> None:
    """The job goes on without that host; what its slots still do does not count."""
    flow = deployed.flow
    with flow.recovering("host cut off"), deployed.deployment.worker_cut_off(flow.job):
        flow.wait_other_attempt()
        flow.settle()
    flow.wait_checkpoint()
    flow.settle()


def savepoint(deployed: Deployed) -> None:
    """The job goes on."""
    before = deployed.cluster.wait_state(deployed.flow.job, "RUNNING").attempt
    saved = _json(deployed, "savepoint", deployed.flow.job)
    assert saved["job_id"] == deployed.flow.job and saved["path"]
    assert deployed.cluster.wait_state(deployed.flow.job, "RUNNING").attempt == before
    deployed.flow.settle()


def rescaled(deployed: Deployed) -> None:
    """To another number of slots, and back. A cluster of its own has as many as the job, and may have no more."""
    other = PARALLELISM + 1 if deployed.mode is Mode.SESSION else PARALLELISM - 1
    for parallelism in (other, PARALLELISM):
        done = deployed.cluster.headrace("rescale", deployed.flow.job, "--parallelism", str(parallelism))
        assert done.code == 0, done.err
        status = deployed.cluster.wait_state(deployed.flow.job, "RUNNING")
        assert status.parallelism == parallelism
        deployed.flow.settle()


def upgraded(deployed: Deployed) -> None:
    """To a pipeline with a renamed node and one more, and back."""
    _upgrade(deployed, deployed.flow.file(window="by_key", added="positive"), "per_key=by_key")
    assert {"by_key", "positive"} <= {each.node for each in deployed.cluster.client.status(deployed.flow.job).nodes}
    _upgrade(deployed, deployed.flow.file(), "by_key=per_key")


def upgrade_refused(deployed: Deployed) -> None:
    """State would be lost: the command says so. Where it sees the storage the job has not noticed; elsewhere the
    coordinator has found it when the job was stopped, and the same pipeline runs again."""
    flow = deployed.flow
    refused = deployed.cluster.headrace("upgrade", flow.job, flow.file(window="by_key"), "--json")
    assert refused.code == 2 and "per_key" in refused.err, refused.err
    if "error" not in refused.json:  # the document of an upgrade, not of a command that did nothing
        assert refused.json["old_job_id"] == flow.job
        flow.job = refused.json["job_id"]
    deployed.cluster.wait_state(flow.job, "RUNNING")
    flow.file()
    flow.settle()


def upgrade_failed(deployed: Deployed) -> None:
    """The new pipeline fails before it has run: the old one runs again, from the same cut."""
    flow = deployed.flow
    nowhere = ("--set", "sinks.kept_rows.kafka.topic=none.such.topic")
    failed = deployed.cluster.headrace("upgrade", flow.job, flow.file(), *nowhere, "--json")
    assert failed.code != 0 and "none.such.topic" in failed.err, failed.err
    assert failed.json["old_job_id"] == flow.job and failed.json["refused"]
    flow.job = failed.json["job_id"]
    flow.wait_checkpoint()
    flow.settle()


def restored_elsewhere(deployed: Deployed) -> None:
    """Stopped with a savepoint here, it runs on another cluster that is made for it, and then here again."""
    flow, home = deployed.flow, deployed.cluster
    path = flow.stop("--savepoint", f"{deployed.deployment.shared_there}/saved")
    with deployed.deployment.elsewhere() as other:
        flow.move_to(other.cluster)
        flow.job = other.submit_alone(flow.file(), Mode.PER_JOB, "--from-savepoint", path)
        flow.wait_checkpoint()
        flow.settle()
        path = flow.stop("--savepoint", f"{deployed.deployment.shared_there}/saved")
        wait_until(other.has_gone, "the job was stopped, and its cluster is gone")
    flow.move_to(home)
    flow.go_on(path)


def canceled_and_gone(deployed: Deployed) -> None:
    """A cluster ends with its job, and leaves nothing."""
    assert _json(deployed, "cancel", deployed.flow.job)["state"] == "CANCELED"
    wait_until(deployed.deployment.has_gone, "the cluster is gone")


def drained_and_gone(deployed: Deployed) -> None:
    """The output is exact to the last window; then the cluster ends, and leaves nothing."""
    deployed.flow.finish()
    wait_until(deployed.deployment.has_gone, "the cluster is gone")


ON_A_SESSION: tuple[Scenario, ...] = (
    *(listed, waited_for, detached_and_attached, a_second_job_drained),
    *(slot_killed, worker_killed, leader_killed, all_killed, worker_drained),
    *(savepoint, rescaled, upgraded, upgrade_refused, upgrade_failed, restored_elsewhere),
)
WITH_SHORT_LEASES: tuple[Scenario, ...] = (host_cut_off, leader_frozen)
"""On a session, too; whoever is silent is taken for lost within seconds. In this order: a job that is deployed anew may
get all of its slots on one host."""
OF_A_PROGRAM: tuple[Scenario, ...] = (
    *(listed, slot_killed, worker_killed, leader_killed, all_killed, worker_drained),
    *(savepoint, rescaled),
)
"""On a cluster that was made for a program, which waits for the job that it has submitted."""
OF_ITS_OWN: tuple[Scenario, ...] = (*OF_A_PROGRAM, upgraded, upgrade_refused, upgrade_failed)
"""On a cluster that was made for a job. `drained_and_gone` or `canceled_and_gone` is the last one."""


def _json(deployed: Deployed, *arguments: str) -> Any:
    done = deployed.cluster.headrace(*arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def _numbers(deployed: Deployed, name: str, amount: str) -> str:
    """The file of a small pipeline."""
    path = deployed.cluster.folder / f"{name}.yaml"
    path.write_text(NUMBERS.format(name=name, amount=amount))
    return str(path)


def _running(deployed: Deployed, name: str) -> str | None:
    """The running job of that name."""
    jobs = deployed.cluster.client.jobs()
    return next((each.job_id for each in jobs if (each.name, each.state) == (name, "RUNNING")), None)


def _upgrade(deployed: Deployed, file: str, rename: str) -> None:
    flow = deployed.flow
    done = deployed.cluster.headrace("upgrade", flow.job, file, "--rename", rename, "--json")
    assert done.code == 0, done.err
    assert (done.json["old_job_id"], done.json["refused"]) == (flow.job, None)
    flow.job = done.json["job_id"]
    flow.wait_checkpoint()
    flow.settle()


def _wait_workers(deployed: Deployed) -> None:
    """Waits until whatever was lost has been replaced, and nothing else was started."""
    wanted = deployed.deployment.workers_of(deployed.mode)
    wait_until(lambda: len(deployed.cluster.client.cluster().workers) == wanted, f"{wanted} workers have joined")


@contextmanager
def _second_flow(deployed: Deployed) -> Iterator[Flow]:
    with exact_flow(deployed.cluster, deployed.broker, name="second", exactly_once=True) as flow:
        yield flow
