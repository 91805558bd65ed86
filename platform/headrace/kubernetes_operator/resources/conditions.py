"""Conditions of a resource's status, their times, and the Kubernetes events that follow from their changes. Pure.

The API server writes times in UTC with whole seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from headrace.core.config import FileModel

MESSAGE_MAX = 4_000
"""Characters of a message; the API server accepts 32,768."""
READY, UPGRADING, DEGRADED = "Ready", "Upgrading", "Degraded"


class Condition(FileModel):
    """One aspect of a resource. reason: one word in CamelCase; message: for people."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""
    last_transition_time: str = Field(default="", alias="lastTransitionTime", description="of the status")
    observed_generation: int = Field(default=0, alias="observedGeneration")


def condition(type_: str, reason: str, message: str = "", *, is_so: bool) -> Condition:
    """A condition whose time is not set yet."""
    cut = message if len(message) <= MESSAGE_MAX else f"{message[:MESSAGE_MAX]}.."
    return Condition(type=type_, status="True" if is_so else "False", reason=reason, message=cut)


def dated(new: Iterable[Condition], old: Iterable[Condition], *, now: str, generation: int) -> tuple[Condition, ...]:
    """Returns the new conditions with their times: a condition whose status is unchanged keeps the time of before.

    now: as in an object's metadata. A condition that changes in nothing but its generation is dated all the same.
    """
    before = {each.type: each for each in old}
    return tuple(
        each.model_copy(
            update={
                "last_transition_time": before[each.type].last_transition_time
                if each.type in before and before[each.type].status == each.status
                else now,
                "observed_generation": generation,
            }
        )
        for each in new
    )


def condition_of(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type."""
    return next((each for each in conditions if each.type == type_), None)


# ---- times -----------------------------------------------------------------------------------------------------------


def time_text(seconds: float) -> str:
    """Seconds since the epoch as text: `2026-01-31T09:30:00Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_seconds(text: str) -> float:
    """Inverse of `time_text`; fractions of seconds are read, too. Raises ValueError."""
    return datetime.fromisoformat(text).timestamp()


def seconds_between(before: str, after: str) -> float:
    """Seconds from one time to another."""
    return epoch_seconds(after) - epoch_seconds(before)


# ---- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event about a resource. reason: one word in CamelCase."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def announcements(
    before: Sequence[Condition], after: Sequence[Condition], *, phase_before: str, phase: str
) -> tuple[Announcement, ...]:
    """The events of a change: another phase, and conditions whose status or reason has changed."""
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
