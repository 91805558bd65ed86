"""Windows as a pipeline file writes them: `{tumbling: 1h}`, `{sliding: 10m, every: 1m}`, `{cumulate: 1d, every: 1h}`.

Data only; the operators assign rows to windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from headrace.core.config import Duration, FileModel, duration_text
from headrace.core.errors import did_you_mean
from headrace.spec.findings import Finding, FindingsError, joined, wrong
from headrace.spec.wording import file_keys, kind_of, read_model, unknown_key

NOT_IN_THIS_VERSION = "not in this version"


def _known_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = did_you_mean(name, tuple(sorted(available_timezones())))
        raise wrong(f"unknown timezone {name!r}", joined(near, "write UTC or Area/City")) from error
    return name


TimeZone = Annotated[str, AfterValidator(_known_timezone)]
Length = Annotated[Duration, Field(gt=0)]
Offset = Annotated[Duration, Field(ge=0)]


class _Placed(FileModel):
    """Where windows begin: `offset` after midnight of 1970-01-01 in `timezone`; days are local days.

    EXAMPLE   a field of a step that aggregates, for the reference
    """

    EXAMPLE: ClassVar[str]

    offset_ms: Offset = Field(
        default=0, validation_alias="offset", serialization_alias="offset", description="moves every window's start"
    )
    timezone: TimeZone = Field(
        default="UTC", description="windows follow the clocks of this zone, such as Europe/Berlin"
    )


class Tumbling(_Placed):
    """Windows of one size, side by side."""

    EXAMPLE = "window: {tumbling: 1d, timezone: Europe/Berlin}\n"

    size_ms: Length = Field(validation_alias="tumbling", serialization_alias="tumbling", description="window size")


class Sliding(_Placed):
    """Windows of one size, one beginning at each `every`; a row is in several."""

    EXAMPLE = "window: {sliding: 10m, every: 1m}\n"

    size_ms: Length = Field(validation_alias="sliding", serialization_alias="sliding", description="window size")
    every_ms: Length = Field(
        validation_alias="every", serialization_alias="every", description="time between the starts of two windows"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.every_ms > self.size_ms:
            raise wrong(
                f"every {duration_text(self.every_ms)} is longer than the window of {duration_text(self.size_ms)}",
                "make `every` at most the size: 0 < every <= size",
                "every",
            )
        return self


class Cumulate(_Placed):
    """Windows that share a start and grow by `every` until they have the full size."""

    EXAMPLE = "window: {cumulate: 1d, every: 1h}\n"

    size_ms: Length = Field(
        validation_alias="cumulate", serialization_alias="cumulate", description="size of the longest window"
    )
    every_ms: Length = Field(
        validation_alias="every",
        serialization_alias="every",
        description="time by which a window is longer than the one before",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size_ms % self.every_ms:
            raise wrong(
                f"every {duration_text(self.every_ms)} does not divide the size {duration_text(self.size_ms)}",
                "make the size a multiple of `every`",
                "every",
            )
        return self


Window = Tumbling | Sliding | Cumulate

KINDS: dict[str, type[Tumbling] | type[Sliding] | type[Cumulate]] = {
    "tumbling": Tumbling,
    "sliding": Sliding,
    "cumulate": Cumulate,
}
LATER_KINDS = ("session", "count", "global")


def read_window(data: object) -> Window:
    """A window from its file form (a Window is returned unchanged). Raises FindingsError."""
    if isinstance(data, Tumbling | Sliding | Cumulate):
        return data
    if not isinstance(data, Mapping):
        raise wrong(f"takes a mapping, not {kind_of(data)}", "write {tumbling: 1h}")
    kinds = [kind for kind in data if kind in KINDS]
    for later in (kind for kind in data if kind in LATER_KINDS):
        raise wrong(f"window {later!r} is {NOT_IN_THIS_VERSION}", f"use {', '.join(KINDS)}", str(later), on_key=True)
    if len(kinds) == 1:
        return read_model(KINDS[kinds[0]], data)
    if kinds:
        raise wrong(f"a window has one kind, not {len(kinds)}", f"keep one of {', '.join(map(str, kinds))}", kinds[1])
    kind = data.get("type")
    if isinstance(kind, str) and kind in KINDS:
        remedy = f"write {{{kind}: {data.get('size', '1h')}}}"
        raise wrong("a window's kind is a key, not the value of 'type'", remedy, "type", on_key=True)
    known = {key for model in KINDS.values() for key in file_keys(model)}
    strangers: list[Finding] = [unknown_key(str(key), tuple(KINDS)) for key in data if key not in known]
    raise FindingsError(
        strangers or [Finding("a window has no kind", f"write one of {', '.join(KINDS)}, such as tumbling: 1h")]
    )


def window_dict(window: Window) -> dict[str, Any]:
    """The file form of a window."""
    data = window.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    kind = next(kind for kind in KINDS if kind in data)
    return {kind: data.pop(kind), **data}


def window_json_schema() -> dict[str, Any]:
    """The JSON schema of `window:`, for editors."""
    return {"oneOf": [{"title": kind, **model.model_json_schema(by_alias=True)} for kind, model in KINDS.items()]}


WindowField = Annotated[
    Window,
    BeforeValidator(read_window),
    PlainSerializer(window_dict, return_type=dict),
    WithJsonSchema(window_json_schema()),
]
"""A window in a model: read from and written to its file form."""
