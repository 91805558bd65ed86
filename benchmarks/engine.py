"""The engine side of K and P: the pipeline through `LocalJob`, as `headrace run` does it, in a process of its own.

usage: engine.py k|p BROKERS SOURCE SINK [SECONDS]   (SECONDS: follow the topic's end for so long; else to its end)
"""

from __future__ import annotations

import json
import os
import sys
import threading

os.environ.setdefault("POLARS_MAX_THREADS", "1")

from measure import Stopwatch
from pipelines import passed, windowed

from headrace.local.compile import compile_pipeline
from headrace.local.job import LocalJob
from headrace.spec.pipeline import Pipeline


def main() -> None:
    job, brokers, source, sink, *rest = sys.argv[1:]
    data = windowed(brokers, source, sink) if job == "k" else passed(brokers, source, sink, bounded=not rest)
    running = LocalJob(compile_pipeline(Pipeline.from_dict(data)).physical)
    if rest:
        threading.Timer(float(rest[0]), running.stop).start()
    watch = Stopwatch.start()
    running.run()
    progress = running.progress()
    print(json.dumps(watch.report(progress.rows_in, progress.rows_out)), flush=True)


if __name__ == "__main__":
    main()
