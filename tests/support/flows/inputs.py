"""What the flows of tests/flows read: the same rows every time, made from seeds.

Lines of files, partition by partition, and messages for a topic in parts that come one after the other. A flow
with generators makes its own rows; they are made here once more for the oracle.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from headrace.core.types import Schema
from headrace_connectors.generator.rules import ColumnRule
from headrace_connectors.generator.source import ColumnMaker

BEGIN_MS = 1_709_251_200_000
"""2024-03-01T00:00:00Z"""

FUNCTION = "def same(rows):\n    return rows\n"
"""`same_rows.py`, the module of the function that a flow maps with."""

Lines = list[list[str]]
"""Lines by partition."""

UNNAMED = "more"
"""A field that no schema names."""
UNREADABLE = ('"cut \\ud83d"', "[1e400]", "7" * 400)
"""Values of it that no column can hold: they change nothing."""


@dataclass(frozen=True, slots=True)
class Part:
    """Messages by partition. What is written with it, a test waits for before the next part comes.

    watermark   where the source stands when all of it has been read (epoch ms); None: not waited for
    floors      partition -> floor that its rows of this part begin at
    speaker     the partition that goes on until time stands there, by rows that say nothing
    """

    messages: Lines
    watermark: int | None = None
    floors: Mapping[int, int] = field(default_factory=dict)
    speaker: int = 0


def baskets() -> Lines:
    """JSON rows with lists, among them lines that are none and prices that are no numbers. 3 partitions."""
    draw = random.Random("baskets")
    partitions: Lines = []
    for partition in range(3):
        lines = []
        for number in range(400):
            row_id = partition * 1_000 + number
            items = [f"{draw.choice('abcdef')}{row_id}-{at}" for at in range(draw.randrange(4))]
            price = draw.choice(["7", "12", "300", "free", None]) if draw.random() < 0.2 else str(draw.randrange(100))
            row = json.dumps({"id": row_id, "price": price, "items": items, UNNAMED: [1]})
            good = row.replace("[1]", UNREADABLE[number % 3]) if number % 10 == 0 else row
            lines.append(good if draw.random() > 0.05 else draw.choice([row[:-9], '{"id": "x"}', "[]", "12"]) + " ")
        partitions.append(lines)
    return partitions


def drifting() -> Lines:
    """Rows of the same six hours, 30, 300 and 1500 of them. Some are late."""
    draw = random.Random("drifting")
    partitions: Lines = []
    for partition, count in enumerate((30, 300, 1_500)):
        lines = []
        for number in range(count):
            at = BEGIN_MS + number * 6 * 3_600_000 // count + draw.randrange(60_000)
            if draw.random() < 0.03:
                at -= 30 * 60_000
            row = {"id": partition * 10_000 + number, "meter": draw.choice("xyz"), "watts": draw.random(), "at": at}
            lines.append(json.dumps(row))
        partitions.append(lines)
    return partitions


def orders() -> list[Part]:
    """Three parts over three partitions, out of order, with dead letters."""
    draw = random.Random("orders")
    parts, number = [], 0
    for part in range(3):
        messages: Lines = [[], [], []]
        for step in range(400):
            number += 1
            at = BEGIN_MS + (part * 400 + step) * 1_500 - draw.randrange(400_000 if step % 9 == 0 else 20_000)
            shop = draw.choice(["north", "south", "east"])
            row = json.dumps({"id": number, "shop": shop, "amount": draw.randrange(60), "at": at})
            messages[draw.randrange(3)].append(row if number % 50 else f"{row[:20]}")
        parts.append(Part(messages))
    return parts


OUT_OF_ORDERNESS_MS = 5_000
SAYS_NOTHING = json.dumps({"id": -1, "meter": "a", "watts": -1, "at": BEGIN_MS})
"""A reading that its flow drops and that moves no time: it only shows that the partition is not silent."""


def readings() -> list[Part]:
    """One partition silent from the start, then the only one to speak, then another one again.

    In the first part the two others end at the same time: where a silent one stands then does not depend on which
    of them falls silent first.
    """
    draw = random.Random("readings")
    ends = [BEGIN_MS + 600_000, BEGIN_MS + 1_200_000, BEGIN_MS + 2_000_000]
    watermarks = [end - OUT_OF_ORDERNESS_MS - 1 for end in ends]

    def rows(first: int, begin: int, end: int) -> list[str]:
        times = [begin + draw.randrange(end - begin) for _ in range(199)]
        jittered = sorted(times, key=lambda at: at + draw.randrange(30_000))
        return [
            json.dumps({"id": first + at, "meter": draw.choice("abc"), "watts": draw.randrange(100), "at": time})
            for at, time in enumerate([*jittered, end])
        ]

    return [
        Part([rows(0, BEGIN_MS, ends[0]), rows(1_000, BEGIN_MS, ends[0]), []], watermarks[0]),
        Part([[], [], rows(2_000, BEGIN_MS + 300_000, ends[1])], watermarks[1], {2: watermarks[0]}, speaker=2),
        Part([rows(3_000, BEGIN_MS + 900_000, ends[2]), [], []], watermarks[2], {0: watermarks[1]}),
    ]


FILES: dict[str, Callable[[], Lines]] = {"baskets": baskets, "drifting": drifting}
"""By the beginning of the files' names."""
TOPICS: dict[str, Callable[[], list[Part]]] = {"orders": orders, "readings": readings}
"""By the end of the topic's name."""


def write_files(folder: Path) -> None:
    """`<name>-<partition>.jsonl` for all of them, and the function's module."""
    (folder / "same_rows.py").write_text(FUNCTION)
    for name, made in FILES.items():
        for partition, lines in enumerate(made()):
            (folder / f"{name}-{partition}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def generated(rows: int, partitions: int, seed: int, columns: Mapping[str, object], schema: Schema) -> pl.DataFrame:
    """What a generator source makes, with `_partition`, in the order of its partitions."""
    numbers = pl.Series(range(rows), dtype=pl.Int64)
    frame = pl.DataFrame(
        [
            ColumnMaker(item.name, ColumnRule.model_validate(columns[item.name]), item.type, seed).make(
                numbers.to_numpy()
            )
            for item in schema
            if item.name in columns
        ]
    )
    return frame.with_columns(_partition=numbers % partitions).sort("_partition", maintain_order=True)


def read_rows(partitions: Sequence[Sequence[str]]) -> pl.DataFrame:
    """Good JSON rows of lines or messages with `_partition`; `at` (epoch ms) as a time."""
    found = [
        {**row, "_partition": partition}
        for partition, lines in enumerate(partitions)
        for row in map(_row, lines)
        if row is not None
    ]
    frame = pl.DataFrame(found, infer_schema_length=None)
    return frame.with_columns(pl.col("at").cast(pl.Datetime("ms", "UTC"))) if "at" in frame.columns else frame


def _row(line: str) -> dict[str, object] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("id"), int):
        return None
    return {name: value for name, value in row.items() if name != UNNAMED}
