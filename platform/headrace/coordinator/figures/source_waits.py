"""Sources that read nothing until their format knows a schema. Pure: reports in, texts out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.rpc.status import SlotStatus


@dataclass(frozen=True, slots=True)
class SourceWaiting:
    """A source with a subtask that waits. on: for what, as text; since_ms: the first of them (epoch ms)."""

    node: str
    on: str
    since_ms: int


def source_waits(statuses: Iterable[SlotStatus]) -> tuple[SourceWaiting, ...]:
    """The sources that wait, by name; what several subtasks wait for is named once, for the one that waits longest."""
    found: dict[str, SourceWaiting] = {}
    for each in (each for status in statuses for each in status.sources if each.waits_on):
        waiting = SourceWaiting(each.source, each.waits_on, each.since_ms)
        if each.source not in found or waiting.since_ms < found[each.source].since_ms:
            found[each.source] = waiting
    return tuple(found[name] for name in sorted(found))
