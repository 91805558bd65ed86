"""Which transactions are open on a broker, as the broker says."""

from __future__ import annotations

import kafka.admin

from support.broker import Broker
from support.cluster_flow import Flow
from support.running import wait_until


def open_transactions(broker: Broker, job: str) -> list[str]:
    """Names of the job's transactions that are neither committed nor aborted."""
    client = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        listed = client.list_transactions(transactional_id_pattern=f"headrace-{job}-.*")
        return sorted(
            each.transactional_id
            for found in listed.values()
            for each in found
            if str(getattr(each.state, "value", each.state)) in {"Ongoing", "PrepareCommit", "PrepareAbort"}
        )
    finally:
        client.close()


def require_none_left(broker: Broker, flow: Flow) -> None:
    """Whatever is open belongs to the attempt that runs."""
    attempt = flow.cluster.client.status(flow.job).attempt

    def others() -> list[str]:
        return [name for name in open_transactions(broker, flow.job) if int(name.split("-")[-3]) != attempt % 64]

    wait_until(lambda: not others(), f"no transaction but of attempt {attempt} is open: {others()}")
