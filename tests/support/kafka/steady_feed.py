"""Rows that are written to Kafka all the while, with what must come of them: windows, kept rows, late and bad ones.

Deterministic: a round has the same rows for a partition whoever runs it. The reference is plain Python over the input,
partition by partition, for a row is late by the watermark of its own partition just after it.
"""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer

from support.processes.running import WAIT_SECONDS, wait_until

WINDOW_MS, OUT_OF_ORDERNESS_MS, LATE_MS, ROUND_MS = 10_000, 2_000, 60_000, 4_000
BEGIN_MS = 1_767_225_600_000
KEYS = 8
ROWS = 5
"""A round and partition."""
EVERY_S = 0.4
"""Between rounds. Each one wakes every process that its rows pass through, on machines whose processors are few."""
_STEP_MS = ROUND_MS // ROWS
"""Between rows of a partition, by the time that they carry."""

Place = tuple[str, int]
Window = tuple[str, int]
"""Key and start (epoch ms)."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What a window has."""

    rows: int
    total: int


@dataclass(slots=True)
class Expected:
    """What the rows written so far must come to.

    windows   those that every partition has passed
    kept      ids of rows that pass the filter -> their doubled value
    late      ids; bad: (topic, partition, offset)
    """

    windows: dict[Window, Totals]
    kept: dict[str, int]
    late: set[str]
    bad: set[tuple[str, int, int]]


@dataclass(slots=True)
class _Partition:
    place: Place
    first_round: int
    random: random.Random
    offset: int = 0
    newest_ms: int | None = None


@dataclass(slots=True)
class _Sums:
    windows: dict[Window, tuple[int, int]] = field(default_factory=lambda: defaultdict(lambda: (0, 0)))
    kept: dict[str, int] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    bad: set[tuple[str, int, int]] = field(default_factory=set)


class SteadyFeed:
    """Writes a round of rows to every partition, again and again, in a thread of its own, until it is closed."""

    def __init__(self, brokers: str, topics: Mapping[str, int]) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": brokers,
                # a broker that is busy may refuse a request for a moment: later ones must not overtake it
                "enable.idempotence": True,
                "linger.ms": 2,
                "topic.metadata.refresh.interval.ms": 200,
                "log_level": 3,
            }
        )
        self._partitions: list[_Partition] = []
        self._sums = _Sums()
        self._round = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed")
        for topic, count in topics.items():
            self.add(topic, range(count))

    def __enter__(self) -> SteadyFeed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        self._producer.flush(30)

    def add(self, topic: str, numbers: range) -> None:
        """Partitions that exist and get rows from the next round on. Only while it is paused, or not begun."""
        wait_until(lambda: set(numbers) <= set(self._partitions_of(topic)), "the producer knows the partitions")
        for number in numbers:
            seed = f"{topic[-1]}-{number}"
            self._partitions.append(_Partition((topic, number), self._round, random.Random(seed)))

    def _partitions_of(self, topic: str) -> Collection[int]:
        return set(self._producer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic].partitions)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is written inside, and all that was is with the broker."""
        with self._lock:
            assert self._thread.is_alive(), "the feed has failed"
            assert self._producer.flush(WAIT_SECONDS) == 0, "the broker takes no rows"
            yield

    def write_round(self, *, poison: Place | None = None) -> None:
        """One round, now; inside of `paused`. `poison`: a partition whose round ends with a message for nobody."""
        self._write_round()
        if poison is not None:
            partition = next(each for each in self._partitions if each.place == poison)
            self._send(partition, b"\xff not json")
        assert self._producer.flush(WAIT_SECONDS) == 0, "the broker takes no rows"

    def expected(self, *, drained: bool = False) -> Expected:
        """As of now; inside of `paused`. `drained`: time went to its end, so that every window has closed."""
        newest = [each.newest_ms for each in self._partitions]
        known = [time for time in newest if time is not None]
        watermark = min(known) - OUT_OF_ORDERNESS_MS - 1 if len(known) == len(newest) else 0
        return Expected(
            windows={
                window: Totals(*sums)
                for window, sums in self._sums.windows.items()
                if drained or window[1] + WINDOW_MS - 1 <= watermark
            },
            kept=dict(self._sums.kept),
            late=set(self._sums.late),
            bad=set(self._sums.bad),
        )

    def _run(self) -> None:
        while not self._closing.wait(EVERY_S):
            with self._lock:
                self._write_round()

    def _write_round(self) -> None:
        for partition in self._partitions:
            for at in range(ROWS):
                self._write(partition, at)
        self._producer.poll(0)
        self._round += 1

    def _write(self, partition: _Partition, at: int) -> None:
        draw = partition.random
        is_first = self._round == partition.first_round
        chance = 1.0 if is_first else draw.random()
        if chance < 0.02:
            self._sums.bad.add((*partition.place, partition.offset))
            self._send(partition, b"no row")
            return
        time_ms = BEGIN_MS + (self._round * ROWS + at) * _STEP_MS + draw.randrange(_STEP_MS)
        if chance < 0.05:
            time_ms -= LATE_MS
        elif not is_first:
            time_ms -= draw.randrange(OUT_OF_ORDERNESS_MS)
        row_id = f"{partition.place[0]}-{partition.place[1]}-{self._round}-{at}"
        key, value = f"k{draw.randrange(KEYS)}", draw.randrange(1_000)
        self._count(partition, row_id, key, value, time_ms)
        self._send(partition, json.dumps({"id": row_id, "key": key, "value": value, "at": time_ms}).encode())

    def _send(self, partition: _Partition, message: bytes) -> None:
        topic, number = partition.place
        self._producer.produce(topic, message, partition=number)
        partition.offset += 1

    def _count(self, partition: _Partition, row_id: str, key: str, value: int, time_ms: int) -> None:
        newest = time_ms if partition.newest_ms is None else max(partition.newest_ms, time_ms)
        partition.newest_ms = newest
        if value % 3:
            self._sums.kept[row_id] = value * 2
        start_ms = time_ms - time_ms % WINDOW_MS
        if start_ms + WINDOW_MS - 1 <= newest - OUT_OF_ORDERNESS_MS - 1:
            self._sums.late.add(row_id)
            return
        rows, total = self._sums.windows[key, start_ms]
        self._sums.windows[key, start_ms] = (rows + 1, total + value)
