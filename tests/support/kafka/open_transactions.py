"""Which transactions are open on the brokers, as they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace_connectors.kafka.transactions.txn_admin import TxnAdmin
from support.kafka.broker import Broker
from support.processes.running import WAIT_SECONDS, wait_until

if TYPE_CHECKING:
    from support.clusters.kafka_flow import Flow

ONGOING, ENDING = "Ongoing", ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")


def open_transactions(broker: Broker, job: str, states: Sequence[str] = (ONGOING, *ENDING)) -> list[str]:
    """Names of the job's transactions that are neither committed nor aborted. Waits for brokers that are away."""
    admin = TxnAdmin(broker.bootstrap, {}, patience_s=WAIT_SECONDS)
    try:
        return sorted(admin.listed(f"headrace-{job}-", states))
    finally:
        admin.close()


def require_none_open(broker: Broker, job: str) -> None:
    """Nothing that somebody would have to end. What has been ended may still wait for its markers, and they come."""
    assert open_transactions(broker, job, [ONGOING]) == []
    wait_settled(broker, job)


def wait_settled(broker: Broker, job: str) -> None:
    """Waits until what has been committed or aborted is so for readers as well: brokers answer before it is."""
    wait_until(lambda: not open_transactions(broker, job, ENDING), f"transactions of job {job} have their markers")


def require_none_left(broker: Broker, flow: Flow) -> None:
    """Whatever is open belongs to the attempt that runs, which may be another one at each look."""

    def others() -> list[str]:
        found = open_transactions(broker, flow.job)
        attempt = flow.cluster.client.status(flow.job).attempt
        return [name for name in found if int(name.split("-")[-3]) != attempt % 64]

    wait_until(lambda: not others(), f"no transaction of job {flow.job} is open but of its attempt")
