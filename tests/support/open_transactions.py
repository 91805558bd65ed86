"""Which transactions are open on the brokers, as they say."""

from __future__ import annotations

from headrace_connectors.kafka.txn_admin import TxnAdmin
from support.broker import Broker
from support.cluster_flow import Flow
from support.running import wait_until


def open_transactions(broker: Broker, job: str) -> list[str]:
    """Names of the job's transactions that are neither committed nor aborted. Waits for brokers that are away."""
    admin = TxnAdmin(broker.bootstrap, {})
    try:
        return sorted(admin.listed(f"headrace-{job}-", ["Ongoing", "PrepareCommit", "PrepareAbort"]))
    finally:
        admin.close()


def require_none_left(broker: Broker, flow: Flow) -> None:
    """Whatever is open belongs to the attempt that runs."""
    attempt = flow.cluster.client.status(flow.job).attempt

    def others() -> list[str]:
        return [name for name in open_transactions(broker, flow.job) if int(name.split("-")[-3]) != attempt % 64]

    wait_until(lambda: not others(), f"no transaction but of attempt {attempt} is open: {others()}")
