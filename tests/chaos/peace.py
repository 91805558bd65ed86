"""After a round: everything is started again, the job is found, and nothing may be lost, repeated or left open."""

from __future__ import annotations

from chaos.story import Story
from headrace.client.models import FINAL_STATES, JobSummary
from headrace.core.errors import HeadraceError
from support.clusters.kafka_flow import Flow
from support.clusters.session import Cluster
from support.clusters.standbys import StandbyCluster
from support.kafka.broker import Broker
from support.kafka.open_transactions import open_transactions
from support.processes.running import wait_until

SLOTS = 4


def restore_and_check(flow: Flow, broker: Broker, story: Story) -> None:
    """The job runs, completes a checkpoint, and its output is exact; no transaction is open but of its attempt."""
    flow.cluster.start()
    _wait_whole(flow.cluster)
    _find_job(flow, story)
    for failure in reversed(flow.cluster.client.exceptions(flow.job)):
        story.tell_once(f"attempt {failure.attempt} of job {flow.job} failed: {failure.message}")
    epoch = flow.wait_checkpoint()
    flow.settle()
    _require_none_left(flow, broker)
    status = flow.cluster.client.status(flow.job)
    term = f" in term {flow.cluster.term()}" if isinstance(flow.cluster, StandbyCluster) else ""
    story.tell(
        f"job {flow.job} runs{term} in attempt {status.attempt} on {status.parallelism}, checkpoint {epoch}, exact"
    )


def end(flow: Flow, broker: Broker, story: Story) -> None:
    """Drained: every window is there, and no transaction of any job is open."""
    flow.finish()
    jobs = flow.cluster.client.jobs()
    wait_until(lambda: not _open(broker, jobs), "no transaction is open")
    story.tell(f"drained and exact; {len(jobs)} jobs, no transaction is open")


def _wait_whole(cluster: Cluster) -> None:
    """Those that were frozen may have ended when they woke, or are about to."""
    if isinstance(cluster, StandbyCluster):
        cluster.wait_whole()
    wait_until(lambda: len(cluster.slots()) == SLOTS, f"{SLOTS} slots run")
    wait_until(lambda: _answers(cluster), "all workers have joined the coordinator")


def _answers(cluster: Cluster) -> bool:
    try:
        return cluster.client.cluster().slots == SLOTS
    except HeadraceError:
        return False


def _find_job(flow: Flow, story: Story) -> None:
    """Waits until a job of the pipeline runs, and makes it the flow's. One that was stopped is taken up again.

    A command that was not answered may have been done: users look at the list then.
    """
    found: list[JobSummary] = []

    def settled() -> bool:
        found[:] = [each for each in _jobs(flow) if each.state not in FINAL_STATES]
        assert len(found) <= 1, f"two jobs run at once: {found}"
        return not found or found[0].state == "RUNNING"

    wait_until(settled, f"a job runs, or all have ended: {flow.cluster.status(flow.job)}")
    if found:
        flow.job = found[0].job_id
        return
    newest = _jobs(flow)[0]
    assert newest.state == "FINISHED", f"{newest}: {flow.cluster.client.exceptions(newest.job_id)}"
    saved = max(
        (each for each in flow.cluster.client.checkpoints(newest.job_id) if each.status == "committed"),
        key=lambda each: each.epoch,
    )
    assert saved.path is not None
    story.tell(f"job {newest.job_id} was stopped; it is taken up again from {saved.path}")
    flow.submit("--from-savepoint", saved.path)


def _jobs(flow: Flow) -> list[JobSummary]:
    return [each for each in flow.cluster.client.jobs() if each.name == flow.name]


def _require_none_left(flow: Flow, broker: Broker) -> None:
    mine = f"headrace-{flow.job}-"

    def others() -> list[str]:
        names = _open(broker, flow.cluster.client.jobs())
        attempt = flow.cluster.client.status(flow.job).attempt
        return [name for name in names if not name.startswith(mine) or int(name.split("-")[-3]) != attempt % 64]

    wait_until(lambda: not others(), f"no transaction is open but of the attempt that runs {flow.job}")


def _open(broker: Broker, jobs: tuple[JobSummary, ...]) -> list[str]:
    return [name for job in jobs for name in open_transactions(broker, job.job_id)]
