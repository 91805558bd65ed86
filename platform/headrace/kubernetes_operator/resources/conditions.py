"""Conditions of a resource's status, as Kubernetes defines them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from headrace.spec.model import FileModel

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
