"""Which transactions are open on a broker, as the broker says."""

from __future__ import annotations

import kafka.admin

from support.broker import Broker


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
