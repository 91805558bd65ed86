"""The values of `start:` and `stop:` of a Kafka source, as text and typed. Pure: `enumerator` turns them into
offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from headrace.connect.offsets_by_partition import OFFSETS_SCHEMAS, OffsetsByTopic, Partitions, offsets_of


@dataclass(frozen=True, slots=True)
class AtWord:
    """`earliest`, `latest`, `committed` or `archived`."""

    word: Literal["earliest", "latest", "committed", "archived"]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after this time (epoch ms)."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Offsets by topic and partition; with one topic in the source its name may be omitted (key None)."""

    by_topic: Mapping[str | None, Mapping[int, int]]

    def partitions_of(self, topic: str) -> Mapping[int, int]:
        """Partition to offset for a topic; empty if the topic is not named."""
        return self.by_topic.get(topic) or self.by_topic.get(None) or {}


Place = AtWord | AtTime | AtOffsets


def parse_place(given: str | Partitions | OffsetsByTopic) -> Place:
    """A validated `start` or `stop` as a value. Raises ValueError for an invalid text."""
    if isinstance(given, str):
        match given:
            case "earliest" | "latest" | "committed" | "archived":
                return AtWord(given)
            case _:
                return AtTime(_epoch_ms(given))
    by_topic: dict[str | None, Mapping[int, int]] = {}
    flat: dict[int, int] = {}
    for key, value in given.items():
        if isinstance(value, dict):
            by_topic[str(key)] = value
        else:
            flat[int(key)] = value
    if flat:
        by_topic[None] = flat
    return AtOffsets(by_topic)


def _epoch_ms(text: str) -> int:
    # digits without a dash are not a time: fromisoformat would read 20240101 as a day
    if "-" not in text:
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _check(words: tuple[str, ...]) -> BeforeValidator:
    listed = ", ".join(words)

    def check(given: Any) -> Any:
        if isinstance(given, Mapping):
            return offsets_of(given)
        if given is None:
            return None
        text = str(given)
        if text in words:
            return text
        try:
            _epoch_ms(text)
        except ValueError:
            raise ValueError(
                f"{text!r} is no position: write {listed}, a time such as 2024-05-01T00:00:00Z, "
                "or {<partition>: <offset>}"
            ) from None
        return text

    return BeforeValidator(check)


def _schema(words: tuple[str, ...], *more: dict[str, Any]) -> WithJsonSchema:
    time = {"type": "string", "format": "date-time"}
    return WithJsonSchema({"anyOf": [{"enum": list(words)}, time, *OFFSETS_SCHEMAS, *more]})


_STARTS = ("earliest", "latest", "committed", "archived")
_STOPS = ("latest",)

StartField = Annotated[str | Partitions | OffsetsByTopic, _check(_STARTS), _schema(_STARTS)]
StopField = Annotated[str | Partitions | OffsetsByTopic | None, _check(_STOPS), _schema(_STOPS, {"type": "null"})]
