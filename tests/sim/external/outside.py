"""What lies outside the cluster: a source of numbered rows, a sink that only appends, and one that commits.

Rows of a partition are its numbers 0, 1, 2, ..; a range (partition, first, behind the last) stands for all between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import CommittableDocument, SplitDocument
from sim.world import ViolationError, World

TOPIC = "rows"
SOURCE = "numbers"
SINK = "ledger"
Range = tuple[int, int, int]


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of one partition as few as they can be, ascending."""
    out: list[tuple[int, int]] = []
    for first, behind in sorted(ranges):
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], behind))
        elif first < behind:
            out.append((first, behind))
    return out


def digest_of_rows(ranges: Sequence[Range]) -> int:
    """The sum of their hashes, which are numbers of their own here."""
    return sum(
        (behind - first) * (partition + 1) * 1_000_003 + (first + behind - 1) * (behind - first) // 2
        for partition, first, behind in ranges
    )


@dataclass(slots=True)
class Source:
    """Partitions and where they end; `stops[p]` None: it never does. More may be added."""

    stops: list[int | None]
    discovered_ms: int | None = None

    @property
    def splits(self) -> tuple[SplitDocument, ...]:
        """As an enumerator names them."""
        return tuple(
            SplitDocument(topic=TOPIC, partition=partition, start=0, stop=stop)
            for partition, stop in enumerate(self.stops)
        )


@dataclass(slots=True)
class Appended:
    """A sink that shows everything that is ever written to it, twice if it is written twice."""

    ranges: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def append(self, rows: Sequence[Range]) -> None:
        """Rows are visible at once."""
        for partition, first, behind in rows:
            self.ranges[partition] = merged([*self.ranges.get(partition, []), (first, behind)])


class Ledger:
    """A sink that shows what is committed. Each committable has a name; committing one again changes nothing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.parts: dict[str, tuple[Range, ...]] = {}
        self.ranges: dict[int, list[tuple[int, int]]] = {}

    def commit(self, item: CommittableDocument) -> None:
        """Makes a committable visible. A row that is visible already, by another one, is a violation."""
        name = str(item.payload["part"])
        if name not in self.parts:
            self.show(name, tuple((p, first, behind) for p, first, behind in item.payload["rows"]))

    def show(self, name: str, rows: tuple[Range, ...]) -> None:
        """Makes rows visible."""
        self.parts[name] = rows
        self._world.tell(f"ledger: {name} {rows}")
        for partition, first, behind in rows:
            for other, end in self.ranges.get(partition, []):
                if first < end and other < behind:
                    raise ViolationError(
                        f"rows {first}..{behind} of partition {partition} are visible twice, by {name}"
                    )
            self.ranges[partition] = merged([*self.ranges.get(partition, []), (first, behind)])

    def require_committed(self, items: Sequence[CommittableDocument]) -> None:
        """All of these are visible."""
        for item in items:
            if item.payload["part"] not in self.parts:
                raise ViolationError(f"{item.payload['part']} is said to be committed, but is not visible")
