"""Rows of a stream as polars frames, in this process, and as HTML for notebooks. The engine is imported on the first
call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from headrace.core.ids import split_output

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.types import Schema
    from headrace.local.inspection.preview import Preview
    from headrace.spec.pipeline import Pipeline as PipelineModel


PREVIEWS_MAX = 16
"""Previews of a pipeline that are kept for its streams to show."""


class Previews:
    """The last preview of each stream, of the `PREVIEWS_MAX` streams that were previewed last. A node never changes
    once it was added, so a preview stays one of it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Preview] = OrderedDict()

    def keep(self, reference: str, preview: Preview) -> None:
        """Replaces the stream's last preview."""
        self._kept[reference] = preview
        self._kept.move_to_end(reference)
        while len(self._kept) > PREVIEWS_MAX:
            self._kept.popitem(last=False)

    def find(self, reference: str) -> Preview | None:
        """The stream's last preview; None: there is none."""
        return self._kept.get(reference)


def first_rows(data: dict[str, Any], reference: str, *, rows: int, seconds: float) -> Preview:
    """The first rows of a stream of the pipeline `data`, which need not have sinks, nor valid nodes elsewhere."""
    from headrace.core.errors import UserError
    from headrace.local.inspection.preview import preview
    from headrace.local.pipeline_file import Loaded

    if rows < 1:
        raise UserError(f"preview of {reference}: rows={rows} asks for no row", remedy="ask for 1 or more")
    if seconds <= 0:
        raise UserError(f"preview of {reference}: seconds={seconds:g} leaves no time", remedy="give it some")
    return preview(Loaded(_model(data, reference)), reference, rows=rows, seconds=seconds)


def all_rows(data: dict[str, Any], reference: str, *, rows_max: int) -> pl.DataFrame:
    """All rows of a stream, whose sources must end."""
    from headrace.local.inspection.preview import collect
    from headrace.local.pipeline_file import Loaded

    return collect(Loaded(_model(data, reference)), reference, rows_max=rows_max)


def stream_schema(data: dict[str, Any], reference: str) -> Schema:
    """The columns of a stream. Raises InvalidPipelineError."""
    from headrace.local.inspection.preview import schema_of_stream
    from headrace.local.pipeline_file import Loaded

    return schema_of_stream(Loaded(_model(data, reference)), reference)


def _model(data: dict[str, Any], reference: str) -> PipelineModel:
    from headrace.spec.reading.read import pipeline_from_dict

    return pipeline_from_dict(upstream_of(data, reference), needs_sinks=False)


def upstream_of(data: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """The file form of a pipeline with only `reference` and the nodes that its rows come from: no sinks, no tests."""
    steps: Mapping[str, Mapping[str, Any]] = data.get("steps", {})
    needed: set[str] = set()
    left = [split_output(reference)[0]]
    while left:
        name = left.pop()
        if name in needed:
            continue
        needed.add(name)
        left += [split_output(each)[0] for each in _inputs(steps.get(name, {}))]
    kept = {key: value for key, value in data.items() if key not in {"sources", "steps", "sinks", "tests"}}
    kept["sources"] = {name: node for name, node in data.get("sources", {}).items() if name in needed}
    if behind := {name: node for name, node in steps.items() if name in needed}:
        kept["steps"] = behind
    return kept


def _inputs(step: Mapping[str, Any]) -> list[str]:
    from headrace.spec.verbs.table import named_inputs

    return [name for name, _ in named_inputs(step)]


def stream_html(title: str, columns: Sequence[tuple[str, str]], frame_html: str | None) -> str:
    """The HTML of a stream, for notebooks. columns: (name, type); frame_html: of its preview, or None."""
    rows = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td><td style='text-align:left'>{escape(kind)}</td></tr>"
        for name, kind in columns
    )
    table = f"<table><thead><tr><th>column</th><th>type</th></tr></thead><tbody>{rows}</tbody></table>"
    return f"<div><b>{escape(title)}</b>{table}{frame_html or ''}</div>"


def problem_html(title: str, problem: str) -> str:
    """The HTML of a stream whose columns cannot be found."""
    return f"<div><b>{escape(title)}</b><pre>{escape(problem)}</pre></div>"
