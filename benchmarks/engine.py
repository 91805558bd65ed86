"""The engine side of K and P: runs the pipeline with `LocalJob` in its own process.

usage: engine.py k|p|g BROKERS SOURCE SINK [follow]

follow: from the topic's end on until stdin closes; else to its end
"""

from __future__ import annotations

import json
import os
import sys
import threading

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import polars as pl
import pyarrow as pa
from measuring.figures import Stopwatch
from workloads.pipelines import broken, passed, windowed

from headrace.connect.format import Messages
from headrace.connect.registry import format_named
from headrace.core.types import schema_of
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import LocalJob
from headrace.spec.reading.read import pipeline_from_dict
from headrace.testing import run_pipeline


def warm_up(data: dict[str, object]) -> None:
    """Imports modules and makes first calls, which the bare loop excludes too: 100 rows without Kafka, one message."""
    pipeline = pipeline_from_dict(data)
    source = pipeline.sources["events"]
    rows = pl.DataFrame({"k": [1] * 100, "ts": [1_700_000_000_000] * 100, "v": [0.75] * 100})
    made = run_pipeline(pipeline, {"events": rows.to_dicts()}).frame("out")
    json_format = format_named("json").config()
    json_format.open_encoder(schema_of({"v": "float64"})).encode(made.select(pl.lit(0.5).alias("v")))
    message = pa.array([b'{"k": 1, "ts": 1, "v": 1.0}'] * 1000, pa.large_binary())
    json_format.open_decoder(source.columns).decode(Messages(message))


def stop_when_stdin_closes(job: LocalJob) -> None:
    sys.stdin.read()
    job.stop()


def main() -> None:
    job, brokers, source, sink, *rest = sys.argv[1:]
    match job:
        case "k":
            data = windowed(brokers, source, sink)
        case "g":
            data = broken(brokers, source, sink)
        case _:
            data = passed(brokers, source, sink, bounded=not rest)
    warm_up(data)
    running = LocalJob(compile_pipeline(pipeline_from_dict(data)).physical)
    if rest:
        threading.Thread(target=stop_when_stdin_closes, args=(running,), daemon=True).start()
    watch = Stopwatch.start()
    running.run()
    progress = running.progress()
    figures = watch.report(progress.rows_in, progress.rows_out) | {"bad": progress.bad}
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
