"""A slow sink under an unbounded source: the queues stop growing at their bound, and so does the source."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import ConfigDict

from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext, Writer
from headrace.exchange.mailbox import ChannelBounds
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, LocalJob
from headrace.spec.reading.read import pipeline_from_dict
from support.processes.running import WAIT_SECONDS, wait_until

BATCH_ROWS, QUEUE_ROWS, PARALLELISM = 500, 2_000, 2


class StuckSink(SinkConfig):
    """Takes its first batch and nothing more until the door opens."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    door: threading.Event

    def open_writer(self, context: SinkContext) -> Writer:
        return StuckWriter(self.door)


class StuckWriter:
    def __init__(self, door: threading.Event) -> None:
        self._door = door

    def write(self, batch: SinkBatch) -> None:
        self._door.wait()

    def flush(self, epoch: int) -> Sequence[Committable]:
        return ()

    def close(self) -> None: ...


def test_rows_in_queues_stay_bounded() -> None:
    pipeline = pipeline_from_dict(
        {
            "name": "slow",
            "parallelism": PARALLELISM,
            "batch": {"max_rows": BATCH_ROWS},
            "sources": {
                "made": {
                    "generator": {"partitions": 2, "columns": {"n": {"sequence": {}}}},
                    "schema": {"n": "int64"},
                }
            },
            "sinks": {"out": {"from": "made", "print": {}, "partition": {"hash": ["n"]}}},
        }
    )
    door = threading.Event()
    stuck = pipeline.sinks["out"].model_copy(update={"connector": "stuck", "config": StuckSink(door=door)})
    plan = compile_pipeline(pipeline.model_copy(update={"sinks": {"out": stuck}})).physical
    job = LocalJob(plan, JobOptions(bounds=ChannelBounds(rows_max=QUEUE_ROWS)))
    running = threading.Thread(target=job.run)
    running.start()
    try:
        wait_until(lambda: job.progress().rows_queued >= QUEUE_ROWS, "the queues never filled")
        read = [-1, 0]

        def stands_still() -> bool:
            read.append(job.progress().rows_in)
            return len(read) > 30 and len(set(read[-30:])) == 1

        wait_until(stands_still, "the source never stopped")
        channels = PARALLELISM * PARALLELISM
        assert job.rows_queued_max()["out"] <= PARALLELISM * (QUEUE_ROWS + BATCH_ROWS)
        assert read[-1] <= channels * (QUEUE_ROWS + BATCH_ROWS) + 3 * channels * BATCH_ROWS
    finally:
        job.stop()
        door.set()
        running.join(WAIT_SECONDS)
    assert not running.is_alive()
