"""Dead letters of a job, read and sent again by a connector host of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.client.output_models import DeadLetterList, DeadLettersRequest, Redriven, RedriveRequest
from headrace.coordinator.output.job_handle import HeldJob, ToolHosts
from headrace.coordinator.output.transaction_safety import Phase
from headrace.core.errors import UserError
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic

pytestmark = pytest.mark.broker


def test_letters_of_a_job_are_read_and_sent_beside_it(broker: EmbeddedBroker, tmp_path: Path) -> None:
    source, dead = (create_topic(broker, unique_topic(name), 1) for name in ("in", "dead"))
    origin = [[("topic", source), ("partition", "0"), ("offset", str(n)), ("reason", "no JSON")] for n in range(3)]
    produce(broker, dead, ["a", "b", "c"], headers=origin)  # type: ignore[arg-type]
    kafka = {"brokers": broker.bootstrap, "topic": source}
    pipeline = {
        "name": "kept",
        "sources": {
            "rows": {"kafka": kafka, "format": "json", "schema": {"n": "int64"}, "on_error": {"dead_letter": dead}}
        },
        "sinks": {"out": {"from": "rows", "print": {}, "format": "json"}},
    }
    held = HeldJob(
        job="aabbccddeeff",
        name="kept",
        phase=Phase.ENDED,
        state="FINISHED",
        pipeline=pipeline,
        storage=str(tmp_path),
        folder=tmp_path,
    )

    async def work() -> tuple[DeadLetterList, Redriven, Redriven]:
        async with ToolHosts().empty(held) as host:
            listed = await host.letters(held.pipeline, DeadLettersRequest(limit=2))
            first = await host.resend(held.pipeline, RedriveRequest(node="rows", limit=2, yes=True))
            with pytest.raises(UserError, match="did you mean 'rows'"):
                await host.resend(held.pipeline, RedriveRequest(node="row", yes=True))
            return listed, first, await host.resend(held.pipeline, RedriveRequest(node="rows", limit=2))

    listed, first, left = asyncio.run(work())
    assert [(each.value, each.origin, each.reason) for each in listed.letters] == [
        ("b", f"{source}[0] offset 1", "no JSON"),
        ("c", f"{source}[0] offset 2", "no JSON"),
    ]
    assert (first.to, first.more, first.done) == ({source: 2}, True, True)
    assert (left.to, left.more, left.done) == ({source: 1}, False, False)
    assert [record.value for record in consume_all(broker, source)] == [b"a", b"b"]
