"""How long tests wait, and how long the processes that they start wait for each other: every such number stands here.

All of them are long unless their name says `SHORT`: a process that a busy machine holds up is not lost, no transaction
of it expires, and no wait ends before its condition. A test may use a `SHORT_` one only if it *stops* the process that
has to be late (by a gate, SIGSTOP or a cut network), so that the machine's speed decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.rpc.time_settings import ClusterTimes

WAIT_SECONDS: Final = 240.0
"""A test fails if what it waits for has not come true by then; also a client's patience with one answer of a broker."""
BROKER_SESSION: Final[Mapping[str, str]] = {"broker.session.timeout.ms": "600000"}
"""For brokers that nobody kills. One whose session with its own controller ends is fenced: no partition has a leader,
and Kafka forgets the markers of open commits."""
SHORT_BROKER_SESSION: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
"""For brokers that a test kills: they come back only when their session has ended."""
SPARK_SECONDS: Final = 900.0
"""The same for a command that starts a Spark, and for each of its steps."""
IMAGE_SECONDS: Final = 900.0
"""For an engine that builds or writes an image of 900 MB."""
KUBERNETES_BUILD_SECONDS: Final = 1_000.0
"""For as long a test waits for programs of Kubernetes that another process is building: less than a test may take."""

CLUSTER_TIMES: Final[Mapping[str, str]] = {
    "HEADRACE_HEARTBEAT": "500ms",
    "HEADRACE_LEASE": "5m",
    "HEADRACE_WORKER_LOST": "5m",
    # counts from a dropped connection, which only a process that ended leaves behind: tests of kills wait for it
    "HEADRACE_RECONNECT": "2s",
    # ends slots that hang while their job is being canceled; no data depends on it
    "HEADRACE_CANCEL": "6s",
    # YARN fails to kill a container now and then: its worker ends before a test gives up to wait for it
    "HEADRACE_ORPHAN": "3m",
}
"""Settings for the processes of a session cluster: the default of `support.clusters.session.Cluster`."""
CLUSTER_TIMES_TO_FENCE: Final[Mapping[str, str]] = {**CLUSTER_TIMES, "HEADRACE_CANCEL": "1m"}
"""For clusters of tests that cancel a job while rows flow, and then look for transactions that are open: a job that is
canceled gives up, after that time, to end its own."""
SHORT_CLUSTER_LEASES: Final[Mapping[str, str]] = {
    **CLUSTER_TIMES,
    "HEADRACE_LEASE": "4s",
    "HEADRACE_WORKER_LOST": "5s",
}
"""For clusters whose processes a test freezes, or cuts off, for longer than their lease."""
STANDBY_TIMES: Final[Mapping[str, str]] = {**CLUSTER_TIMES, "HEADRACE_LEADER_LEASE": "30s"}
"""For coordinators with standbys of which none is suspended or cut off: one that dies is replaced at once."""
SHORT_STANDBY_LEASES: Final[Mapping[str, str]] = {**SHORT_CLUSTER_LEASES, "HEADRACE_LEADER_LEASE": "3s"}
"""For those of which a test suspends or cuts off the leader."""
RUN_TIMES: Final = {
    "HEADRACE_LEASE": "5m",
    "HEADRACE_WORKER_LOST": "5m",
    "HEADRACE_RECONNECT": "1m",
    "HEADRACE_CANCEL": "5m",
}
"""Settings for `headrace run`: a slot that counted as lost would make sinks write rows twice."""

GIVES_UP: Final = "20s"
"""After so long without a coordinator a worker gives up and says why, for tests that wait for it."""
SHORT_ORPHAN: Final = "5s"
"""The same for workers that a cluster has made, where a test kills the coordinator."""

CONTROL_TIMES: Final = ClusterTimes(heartbeat=100, worker_lost=480_000, reconnect=240_000, lease=240_000, cancel=30_000)
"""For a control server or a worker inside a test process."""
SHORT_CONTROL_LEASES: Final = ClusterTimes(heartbeat=200, worker_lost=4_500, reconnect=1_000, lease=3_000, cancel=3_000)
"""The same for tests of loss; all relations of the defaults hold."""

SHORT_TOKEN_LIFE_S: Final = 5.0
"""For access tokens that clients have to renew while a test runs. Nothing is lost with a token that expires on a slow
machine: the login is refused, and tried again with the next one.
"""
SHORT_TRANSACTION_TIMEOUT: Final = "20s"
"""For tests that want a transaction to expire: its writer or committer is frozen meanwhile. The job also commits while
nothing is frozen, so it is longer than a slow machine needs for an epoch.
"""
SHORT_CHECKPOINT_TIMEOUT: Final = "18s"
"""For jobs with such transactions: a checkpoint must time out before its transactions do."""
