"""The documents that open pages need: the poller requests no others. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum


class Topic(Enum):
    """A document about one job, or about the cluster."""

    STATUS = "status"
    CHECKPOINTS = "checkpoints"
    EXCEPTIONS = "exceptions"
    BOTTLENECK = "bottleneck"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Want:
    """A document. job: "" for the cluster's; node: the one whose subtasks are wanted with a status."""

    topic: Topic
    job: str = ""
    node: str | None = None


class Wanted:
    """How many pages want each document."""

    def __init__(self) -> None:
        self._counts: Counter[Want] = Counter()

    def add(self, want: Want) -> None:
        """One page more wants it."""
        self._counts[want] += 1

    def drop(self, want: Want) -> None:
        """One page less wants it."""
        self._counts[want] -= 1
        if self._counts[want] <= 0:
            del self._counts[want]

    def __contains__(self, want: Want) -> bool:
        return want in self._counts

    def __len__(self) -> int:
        return len(self._counts)

    def all(self) -> list[Want]:
        """Each document once."""
        return list(self._counts)
