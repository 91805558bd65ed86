"""The base of every configuration model: frozen, strict about names, and able to read text scalars.

A pipeline file keeps each scalar as text, and the type of its field decides how it is read: these models read `"123"`
as an int, `"true"` as a bool, and any text as a str. Fields marked `secret()` never appear in a printed plan, a
manifest or a log.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+)\s*(ms|s|m|h|d|w)")


class Config(BaseModel):
    """A frozen, validated, serialisable group of settings."""

    # unexpected errors are logged with their text, which must not contain values of the input
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)


def parse_duration_ms(text: object) -> int:
    """Parses `30m`, `1h30m`, `500ms`, `2d` to milliseconds. Raises ValueError with the remedy."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    body = str(text).strip()
    if body == "0":
        return 0
    parts = _PART.findall(body)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != re.sub(r"\s+", "", body):
        raise ValueError(f"{body!r} is not a duration: write a number with ms, s, m, h, d or w, such as 30s or 1h30m")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in parts)


def duration_text(value_ms: int) -> str:
    """Milliseconds as the shortest duration text: 5400000 -> `90m`, 0 -> `0s`."""
    if value_ms == 0:
        return "0s"
    for unit in ("w", "d", "h", "m", "s"):
        if value_ms % _UNITS_MS[unit] == 0:
            return f"{value_ms // _UNITS_MS[unit]}{unit}"
    return f"{value_ms}ms"


Duration = Annotated[
    int,
    BeforeValidator(parse_duration_ms),
    PlainSerializer(duration_text, return_type=str),
    Field(json_schema_extra={"format": "duration", "examples": ["30s", "1h30m"]}),
]
"""A length of time, in milliseconds; text such as `30s` in files and plans."""


_UNITS_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


def parse_size_bytes(text: object) -> int:
    """Parses `512MiB`, `4g`, `1.5 GB` to bytes; all units are powers of 1024. Raises ValueError with the remedy."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _SIZE.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: write a number with k, m or g, such as 512MiB or 4g")
    return int(float(match[1]) * _UNITS_BYTES[match[2].lower()])


def size_text(size_bytes: int) -> str:
    """Bytes as the shortest size text: 536870912 -> `512MiB`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        count, rest = divmod(size_bytes, _UNITS_BYTES[unit[0].lower()])
        if count and not rest:
            return f"{count}{unit}"
    return f"{size_bytes}b"


Size = Annotated[
    int,
    BeforeValidator(parse_size_bytes),
    PlainSerializer(size_text, return_type=str),
    Field(json_schema_extra={"format": "size", "examples": ["512MiB", "4g"]}),
]
"""A number of bytes; text such as `512MiB` in files and plans."""


def secret(**kwargs: Any) -> Any:
    """A field whose value is printed as `***`."""
    return Field(json_schema_extra={"secret": True}, repr=False, **kwargs)


class Address:
    """In a field's annotation: its text is the public address of a system, host:port, several separated by commas.

    Errors name it even if a variable contains it, as long as it has this form: `core.text.concealment`.
    """


class Reach:
    """In a field's annotation: a part of how an external system is reached. No row depends on it."""


FileForm = Annotated[dict[str, Any], Field(repr=False)]
"""A pipeline as plain data, with secrets: a field of messages and documents hidden from `repr`."""


class FileModel(Config):
    """A frozen model that Python code builds by field name and `read_model` reads by file key only."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
