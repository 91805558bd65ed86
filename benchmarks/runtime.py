"""Measures the cost of the runtime with `headrace run` in slot processes: K with a shuffle, and with checkpoints.

usage: runtime.py [--only shuffle|checkpoints|figures] [--pairs N] [--rows N]

    shuffle      K in two slot processes, with half of the rows shuffled between them, compared with one slot process;
                 at least once, a checkpoint every second: rows per CPU-second of all processes, from the first
                 checkpoint to the last one before the end
    checkpoints  K in one slot process with a checkpoint every second, compared with none. The CPU time of a short run
                 is subtracted from that of a long one, which removes start and end: CPU seconds for the additional rows
    figures      K in one slot process over four times the rows; its slot reports figures, and its metrics are read
                 every second, in every second phase of four seconds. Rows per CPU-second of all processes in such
                 phases, compared with the others of the same runs (the slot counts all the same)
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from measuring.figures import Figure, alternating, paired
from measuring.parts import on_broker
from measuring.slot_run import rows_per_cpu_s, rows_per_cpu_s_by_turns, started
from workloads.data import PARTITIONS, fill
from workloads.pipelines import windowed
from workloads.scraped import in_phases, paused, phase, scraped

from headrace.local.topics.topics import create_topic
from headrace.processes.ports import free_port

ROWS, SHORT_ROWS, PAIRS, CHECKPOINTS = 6_000_000, 1_000_000, 5, 14
FIGURES_TIMES, FIGURES_CHECKPOINTS = 4, 1_000
PARTS = ("shuffle", "checkpoints", "figures")
EVERY_SECOND, NONE = {"interval": "1s", "retained": 1_000}, {"interval": "none"}
_number = itertools.count()


def pipeline(brokers: str, source: str, checkpoint: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The pipeline K with its own output topic, and the topic's name."""
    sink = f"out-{next(_number)}"
    create_topic(brokers, sink, partitions=PARTITIONS, config={"retention.ms": "-1"})
    return sink, windowed(brokers, source, sink) | {"checkpoint": checkpoint}


def shuffled(brokers: str, folder: Path, parallelism: int, rows: int) -> float:
    """Rows per CPU-second at a parallelism, without start and end."""
    sink, made = pipeline(brokers, "large", EVERY_SECOND)
    with started(made, folder / sink, "--parallelism", str(parallelism)) as run:
        speed = rows_per_cpu_s(run, run.follow(CHECKPOINTS), rows)
        run.stop()
        return speed


def by_turns(brokers: str, folder: Path, rows: int) -> tuple[float, float]:
    """Rows per CPU-second of one run: while it reports figures and its metrics are read, and while neither is done."""
    sink, made = pipeline(brokers, "long", EVERY_SECOND)
    port, site = free_port(), folder / f"{sink}-site"
    arguments = "--metrics-port", str(port)
    with started(made, folder / sink, *arguments, environment=in_phases(site)) as run, scraped(port) as answers:
        on, off = rows_per_cpu_s_by_turns(run, run.follow(FIGURES_CHECKPOINTS), rows, phase)
    assert paused(site), "the slot has always reported figures"
    assert len(set(answers)) > 1, "the metrics were read in fewer than two phases"
    return on, off


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
    topics = {
        "shuffle": {"large": rows},
        "checkpoints": {"large": rows, "short": SHORT_ROWS},
        "figures": {"long": FIGURES_TIMES * rows},
    }
    for topic, count in {topic: count for part in parts for topic, count in topics[part].items()}.items():
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
            title = "K with figures reported and read beside none"
            found.append(paired(title, pairs, lambda _: by_turns(brokers, folder, FIGURES_TIMES * rows)))
    return found


if __name__ == "__main__":
    on_broker(__doc__, PARTS, measure, beside="beside", pairs=PAIRS, rows=ROWS)
