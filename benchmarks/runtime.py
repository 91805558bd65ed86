"""Measures the cost of the runtime with `headrace run` in slot processes: K with a shuffle, and with checkpoints.

usage: runtime.py [--only shuffle|checkpoints|figures] [--pairs N] [--rows N]

    shuffle      K in two slot processes, with half of the rows shuffled between them, compared with one slot process;
                 at least once, a checkpoint every second: rows per CPU-second of all processes, from the first
                 checkpoint to the last one before the end
    checkpoints  K in one slot process with a checkpoint every second, compared with none. The CPU time of a short run
                 is subtracted from that of a long one, which removes start and end: CPU seconds for the additional rows
    figures      K in one slot process with its metrics read every second, compared with the same run whose slots
                 report no figures (they count all the same), and without a port. As `shuffle`
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from measuring.figures import Figure, alternating
from measuring.parts import on_broker
from measuring.slot_run import Run, rows_per_cpu_s, started
from workloads.data import PARTITIONS, fill
from workloads.pipelines import windowed
from workloads.scraped import scraped, were_off, without_figures

from headrace.local.topics.topics import create_topic
from headrace.processes.ports import free_port

ROWS, SHORT_ROWS, PAIRS, CHECKPOINTS = 6_000_000, 1_000_000, 5, 14
PARTS = ("shuffle", "checkpoints", "figures")
EVERY_SECOND, NONE = {"interval": "1s", "retained": 1_000}, {"interval": "none"}
ANSWERS_MIN = 3
"""Fewer readings of the metrics than these are no run that was watched: the shortest takes five seconds."""
_number = itertools.count()


def pipeline(brokers: str, source: str, checkpoint: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The pipeline K with its own output topic, and the topic's name."""
    sink = f"out-{next(_number)}"
    create_topic(brokers, sink, partitions=PARTITIONS, config={"retention.ms": "-1"})
    return sink, windowed(brokers, source, sink) | {"checkpoint": checkpoint}


def speed_of(run: Run, rows: int) -> float:
    """Rows per CPU-second of a run, without its start and end; stops it."""
    speed = rows_per_cpu_s(run, run.follow(CHECKPOINTS), rows)
    run.stop()
    return speed


def shuffled(brokers: str, folder: Path, parallelism: int, rows: int) -> float:
    """Rows per CPU-second at a parallelism, without start and end."""
    sink, made = pipeline(brokers, "large", EVERY_SECOND)
    with started(made, folder / sink, "--parallelism", str(parallelism)) as run:
        return speed_of(run, rows)


def watched(brokers: str, folder: Path, rows: int) -> float:
    """Rows per CPU-second of a run whose metrics are read every second, without start and end."""
    sink, made = pipeline(brokers, "large", EVERY_SECOND)
    port = free_port()
    with started(made, folder / sink, "--metrics-port", str(port)) as run, scraped(port) as answers:
        speed = speed_of(run, rows)
    assert len(answers) >= ANSWERS_MIN, f"the metrics were read only {len(answers)} times"
    return speed


def unwatched(brokers: str, folder: Path, rows: int) -> float:
    """The same of a run whose slots report no figures."""
    sink, made = pipeline(brokers, "large", EVERY_SECOND)
    site = folder / f"{sink}-site"
    with started(made, folder / sink, environment=without_figures(site)) as run:
        speed = speed_of(run, rows)
    assert were_off(site), "slots have reported figures"
    return speed


def whole(brokers: str, folder: Path, source: str, checkpoint: Mapping[str, Any]) -> float:
    """CPU seconds of a run from start to end."""
    sink, made = pipeline(brokers, source, checkpoint)
    with started(made, folder / sink) as run:
        run.wait_for_end()
        # processes that have ended count no more
        return max(run.cpu.seconds)


def checkpointed(brokers: str, folder: Path, checkpoint: Mapping[str, Any], rows: int) -> float:
    """Rows per CPU-second, for the rows that the long topic has in addition to the short one."""
    short = whole(brokers, folder, "short", checkpoint)
    return (rows - SHORT_ROWS) / (whole(brokers, folder, "large", checkpoint) - short)


def measure(brokers: str, parts: Collection[str], *, pairs: int = PAIRS, rows: int = ROWS) -> list[Figure]:
    """Runs the selected parts."""
    for topic, count in (("large", rows), ("short", SHORT_ROWS)):
        create_topic(brokers, topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
        fill(brokers, topic, count)
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "shuffle" in parts:
            two, one = (lambda of=of: shuffled(brokers, folder, of, rows) for of in (2, 1))
            found.append(alternating("K at parallelism 2 beside 1", pairs, two, one))
        if "checkpoints" in parts:
            every, none = (lambda of=of: checkpointed(brokers, folder, of, rows) for of in (EVERY_SECOND, NONE))
            found.append(alternating("K with a checkpoint a second beside none", pairs, every, none))
        if "figures" in parts:
            seen, unseen = (lambda of=of: of(brokers, folder, rows) for of in (watched, unwatched))
            found.append(alternating("K with figures reported and read beside none", pairs, seen, unseen))
    return found


if __name__ == "__main__":
    on_broker(__doc__, PARTS, measure, beside="beside", pairs=PAIRS, rows=ROWS)
