"""Offsets by partition, as `start:` and `stop:` of sources take them: `{<partition>: <offset>}`, or the same under the
name of each topic. Pure.

A savepoint's positions have this form too, so that every source can be cut where a savepoint stands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from headrace.connect.source import SplitId
from headrace.core.errors import UserError

Partitions = dict[int, int]
OffsetsByTopic = dict[str, Partitions]

LATEST = "latest"


def offsets_of(given: Mapping[Any, Any]) -> Partitions | OffsetsByTopic:
    """Typed offsets out of a pipeline file's mapping. Raises ValueError for one that is none."""
    if not given:
        raise ValueError("no partition is named: write {<partition>: <offset>}")
    if any(isinstance(value, Mapping) for value in given.values()):
        return {str(topic): _flat(inner) for topic, inner in given.items()}
    return _flat(given)


def _flat(given: Any) -> Partitions:
    if not isinstance(given, Mapping):
        raise ValueError("either every entry is <topic>: {<partition>: <offset>} or none is")  # noqa: TRY004 - pydantic collects ValueErrors
    return {_number(key, "a partition"): _number(value, "an offset") for key, value in given.items()}


def _number(text: Any, what: str) -> int:
    try:
        number = int(str(text))
    except ValueError:
        number = -1
    if number < 0:
        raise ValueError(f"{text!r} is not {what}: write {{<partition>: <offset>}} with whole numbers from 0")
    return number


def _stop(given: Any) -> Any:
    if given is None or given == LATEST:
        return given
    if isinstance(given, Mapping):
        return offsets_of(given)
    raise ValueError(f"{given!r} is no position: write latest, or {{<partition>: <offset>}}")


StopField = Annotated[str | Partitions | OffsetsByTopic | None, BeforeValidator(_stop)]
"""`stop:` of a source whose partitions stand in no log with times: `latest`, or offsets."""


def named_offsets(given: Partitions | OffsetsByTopic, topic: str) -> Partitions:
    """Partition to offset for a topic; empty where it is not named."""
    if nested := {str(key): value for key, value in given.items() if isinstance(value, dict)}:
        return nested.get(topic, {})
    return {int(key): value for key, value in given.items() if isinstance(value, int)}


def require_each(what: str, topic: str, named: Collection[int], existing: Collection[int]) -> None:
    """Raises UserError where offsets do not name exactly the partitions that there are."""
    listed = ", ".join(str(partition) for partition in sorted(existing))
    if missing := set(existing) - set(named):
        gone = ", ".join(str(partition) for partition in sorted(missing))
        raise UserError(
            f"{what} does not name partition {gone} of {topic}", remedy=f"name each of its partitions: {listed}"
        )
    if unknown := set(named) - set(existing):
        gone = ", ".join(str(partition) for partition in sorted(unknown))
        raise UserError(f"{what} names partition {gone}, but {topic} has {listed}")


def stops_of(stop: str | Partitions | OffsetsByTopic | None, ends: Mapping[SplitId, int]) -> dict[SplitId, int]:
    """Where each split stops. ends: where it ends of itself, the limit for what is asked.

    Raises UserError where `stop` does not name exactly these partitions, or lies past the end of one.
    """
    if stop is None or isinstance(stop, str):
        return dict(ends)
    found: dict[SplitId, int] = {}
    for topic in dict.fromkeys(split.topic for split in ends):
        named = named_offsets(stop, topic)
        require_each("stop", topic, named, {split.partition for split in ends if split.topic == topic})
        found |= {SplitId(topic, partition): offset for partition, offset in named.items()}
    for split, asked in found.items():
        if asked > ends[split]:
            raise UserError(
                f"stop: {split} ends at offset {ends[split]}, before {asked}", remedy="write an offset up to that"
            )
    return found
