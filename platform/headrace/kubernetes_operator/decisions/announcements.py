"""Events of Kubernetes that follow from a change of a status. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.kubernetes_operator.resources.conditions import DEGRADED, READY, Condition


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event about a resource. reason: one word in CamelCase."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def announcements(
    before: Sequence[Condition], after: Sequence[Condition], *, phase_before: str, phase: str
) -> tuple[Announcement, ...]:
    """What a change is worth saying: another phase, and conditions that have become another thing."""
    return (*_of_phase(phase_before, phase), *_of_conditions(before, after))


def _of_phase(before: str, after: str) -> Iterator[Announcement]:
    if before != after:
        yield Announcement("Normal", after, f"{before or 'New'} -> {after}")


def _of_conditions(before: Sequence[Condition], after: Sequence[Condition]) -> Iterator[Announcement]:
    known = {each.type: (each.status, each.reason) for each in before}
    for each in after:
        if known.get(each.type) == (each.status, each.reason):
            continue
        if each.type == DEGRADED and each.status == "True":
            yield Announcement("Warning", each.reason, each.message or each.reason)
        elif each.type == READY and each.status == "True":
            yield Announcement("Normal", "Ready", each.message or each.reason)
