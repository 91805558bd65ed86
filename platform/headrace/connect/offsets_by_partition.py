"""Offsets by partition, the form of `start:` and `stop:` of sources: `{<partition>: <offset>}`, or one such mapping per
topic name. Pure.

A savepoint's positions have this form too, so any source can be bounded at a savepoint.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from headrace.connect.source import SplitId
from headrace.core.errors import UserError

Partitions = dict[int, int]
OffsetsByTopic = dict[str, Partitions]

LATEST = "latest"


def offsets_of(given: Mapping[Any, Any]) -> Partitions | OffsetsByTopic:
    """Parses offsets from a pipeline file's mapping. Raises ValueError for a mapping that is not of this form."""
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


_PARTITIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "propertyNames": {"title": "partition", "pattern": "^[0-9]+$"},
    "additionalProperties": {"title": "offset", "type": "integer", "minimum": 0},
}
OFFSETS_SCHEMAS: tuple[dict[str, Any], ...] = (
    _PARTITIONS_SCHEMA,
    {"type": "object", "propertyNames": {"title": "topic"}, "additionalProperties": _PARTITIONS_SCHEMA},
)
"""The JSON schemas of offsets: by partition, and by topic and partition."""

StopField = Annotated[
    str | Partitions | OffsetsByTopic | None,
    BeforeValidator(_stop),
    WithJsonSchema({"anyOf": [{"enum": [LATEST]}, *OFFSETS_SCHEMAS, {"type": "null"}]}),
]
"""`stop:` of a source whose records have no timestamps to seek by: `latest`, or offsets."""


def named_offsets(given: Partitions | OffsetsByTopic, topic: str) -> Partitions:
    """Partition to offset for a topic; empty if the topic is not named."""
    if nested := {str(key): value for key, value in given.items() if isinstance(value, dict)}:
        return nested.get(topic, {})
    return {int(key): value for key, value in given.items() if isinstance(value, int)}


def require_each(what: str, topic: str, named: Collection[int], existing: Collection[int]) -> None:
    """Raises UserError unless the offsets name exactly the existing partitions."""
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
    """The stop of each split. ends: the end of each split's data, the upper limit of a stop.

    Raises UserError if `stop` does not name exactly these partitions, or exceeds the end of one.
    """
    if stop is None or isinstance(stop, str):
        return dict(ends)
    offsets: dict[SplitId, int] = {}
    for topic in dict.fromkeys(split.topic for split in ends):
        named = named_offsets(stop, topic)
        require_each("stop", topic, named, {split.partition for split in ends if split.topic == topic})
        offsets |= {SplitId(topic, partition): offset for partition, offset in named.items()}
    for split, asked in offsets.items():
        if asked > ends[split]:
            raise UserError(
                f"stop: {split} ends at offset {ends[split]}, before {asked}", remedy="write an offset up to that"
            )
    return offsets
