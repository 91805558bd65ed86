"""Many jobs on a cluster with standbys: Kafka to Kafka, exactly-once, with nothing to read.

Coordinators, connector hosts, journals and the ledger are the product's; slots are without rows
(`support.clusters.rowless`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.client.models import FINAL_STATES, JobStatus
from headrace.client.requests import SubmitRequest
from headrace.core.errors import HeadraceError
from support.clusters.standbys import StandbyCluster
from support.kafka.broker import Broker, create_topic, unique_topic
from support.patience import STANDBY_TIMES
from support.processes.running import wait_until

PARALLELISM = 2
STEP = 10
"""Jobs that are submitted at a time."""


class ManyJobs:
    """Jobs of one cluster. jobs: name -> id. idle_after: of their source; its slots report their time more often."""

    def __init__(self, cluster: StandbyCluster, broker: Broker, idle_after: str | None = None) -> None:
        self.cluster = cluster
        self._time = {"column": "at", "out_of_orderness": "2s"} | ({"idle_after": idle_after} if idle_after else {})
        self.jobs: dict[str, str] = {}
        self._brokers = broker.bootstrap
        self._topic = unique_topic("many")
        for topic in (f"{self._topic}-in", f"{self._topic}-out"):
            create_topic(broker, topic, PARALLELISM)

    def submit(self, count: int) -> None:
        """Submits so many more, and waits until all of them run. Few at a time: a new job fails if its brokers do not
        answer, and these answer late if a hundred hosts open their clients at once on a busy machine."""
        while count > 0:
            for _ in range(min(count, STEP)):
                name = f"job-{len(self.jobs)}"
                self.jobs[name] = self.cluster.client.submit(SubmitRequest(pipeline=self._pipeline(name)))
                count -= 1
            self.wait_running()

    def running(self) -> int:
        """How many of them run, as the leader says; 0 if none answers. Fails if one of them has ended."""
        try:
            states = {each.job_id: each.state for each in self.cluster.client.jobs()}
        except HeadraceError:
            return 0
        own = [states.get(job) for job in self.jobs.values()]
        assert FINAL_STATES.isdisjoint(own), f"a job has ended: {own}"
        return own.count("RUNNING")

    def wait_running(self) -> None:
        """Waits until all of them run."""
        wait_until(lambda: self.running() == len(self.jobs), f"{len(self.jobs)} jobs run")

    def statuses(self) -> dict[str, JobStatus]:
        """The status of each, by id."""
        return {job: self.cluster.client.status(job) for job in self.jobs.values()}

    def _pipeline(self, name: str) -> dict[str, Any]:
        sink = {"brokers": self._brokers, "topic": f"{self._topic}-out", "key": ["key"], "delivery": "exactly-once"}
        return {
            "name": name,
            "parallelism": PARALLELISM,
            "sources": {
                "events": {
                    "kafka": {"brokers": self._brokers, "topic": f"{self._topic}-in", "start": "earliest"},
                    "format": "json",
                    "schema": {"key": "string not null", "value": "int64 not null", "at": "timestamp not null"},
                    "time": self._time,
                }
            },
            "steps": {
                "sums": {
                    "from": "events",
                    "key_by": ["key"],
                    "window": {"tumbling": "10s"},
                    "aggregate": {"total": "sum(value)"},
                }
            },
            "sinks": {"out": {"from": "sums", "kafka": sink, "format": "json"}},
        }


@contextmanager
def many_jobs(
    folder: Path,
    broker: Broker,
    *,
    slots: int,
    idle_after: str | None = None,
    times: Mapping[str, str] = STANDBY_TIMES,
) -> Iterator[ManyJobs]:
    """A cluster with a standby and one worker of so many slots without rows; ended at the end."""
    cluster = StandbyCluster(folder, f"file://{folder}/shared", times=times)
    try:
        for number in range(2):
            cluster.start_coordinator(f"c{number}")
        cluster.leader()
        cluster.start_rowless_worker("w0", slots)
        wait_until(lambda: cluster.client.cluster().slots_free == slots, "slots")
        yield ManyJobs(cluster, broker, idle_after)
    finally:
        cluster.end()
