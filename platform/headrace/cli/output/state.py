"""`headrace state`: the content of a checkpoint or savepoint, of a path or of a job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Coordinator, Json, print_json, print_table
from headrace.cli.errors import reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    import polars as pl

    from headrace.checkpoint.inspection.difference import StateDifference
    from headrace.checkpoint.inspection.views import View
    from headrace.core.source_state import SplitState
    from headrace.local.output.found_state import FoundState

app = typer.Typer(
    name="state",
    help="The content of a checkpoint or savepoint.",
    no_args_is_help=True,
)

CELL_WIDTH = 40
_PLACE = "A savepoint, a job's folder in checkpoint storage, a checkpoint's path, or a job of the cluster."
Place = Annotated[str, typer.Argument(metavar="PATH|JOB", help=_PLACE, show_default=False)]
Epoch = Annotated[int | None, typer.Option(min=1, help="Of a job: which of its checkpoints. Default: the newest.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Of a running job: take a checkpoint first.")]


@app.command("list", short_help="list states and source positions")
@reporting_errors()
def list_states(
    path: Place, epoch: Epoch = None, fresh: Fresh = False, coordinator: Coordinator = None, as_json: Json = False
) -> None:
    """List the states of every node, and how far the sources had been read."""
    from headrace.checkpoint.inspection.stored_state import states_of
    from headrace.local.output.found_state import find_state

    place = find_state(path, epoch=epoch, fresh=fresh, coordinator=coordinator)
    manifest = place.found.manifest
    states = states_of(manifest)
    if as_json:
        print_json(_document(place))
        return
    for line in _header(place):
        typer.echo(line)
    if states:
        rows = [
            (each.node, each.state, each.kind, ",".join(each.keys) or "-", f"{each.rows:,}", f"{each.bytes:,}")
            for each in states
        ]
        print_table(("NODE", "STATE", "KIND", "KEYS", "ROWS", "BYTES"), rows, left=4)
    positions = [
        (source, split.topic, str(split.partition), _position(split))
        for source, state in sorted(manifest.sources.items())
        for split in state.splits
    ]
    if positions:
        print_table(("SOURCE", "TOPIC", "PARTITION", "POSITION"), positions, left=2)


@app.command("read", short_help="show the rows of a state, or write them to a file")
@reporting_errors()
def read_state(
    path: Place,
    node: Annotated[
        str | None, typer.Option(help="A step or a source. Default: the only step with state.", show_default=False)
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(help="Its rows as they are kept. Default: rows of the step's output.", show_default=False),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="COLUMN=VALUE", help="Only rows of this key; repeatable. A whole key is looked up."
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="EXPRESSION", help="Only rows for which it is true.", show_default=False),
    ] = None,
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="Most rows to print.")] = 20,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write all of them, as .parquet, .jsonl (JSON lines) or .csv.", show_default=False
        ),
    ] = None,
    epoch: Epoch = None,
    fresh: Fresh = False,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Show the state of a node, or write all of it to a file.

    Of a step: the rows of its output as of the checkpoint, one for each key, or for each open window and key. With
    --state: the rows of one state as they are kept. Of a source: its positions.
    """
    from headrace.checkpoint.inspection.row_files import write_rows
    from headrace.checkpoint.inspection.selection import first_rows, parse_key, selected
    from headrace.checkpoint.inspection.views import open_view
    from headrace.local.output.found_state import find_state

    place = find_state(path, epoch=epoch, fresh=fresh, coordinator=coordinator)
    view = open_view(place.found.manifest, node, state)
    frames = selected(view, parse_key(view, key or ()), where)
    if place.job is not None:
        typer.echo(_age_text(place), err=True)
    if to is None:
        known = None if key or where else view.rows
        shown, total = first_rows(view, frames, rows, total=known)
    else:
        shown, total = None, write_rows(frames, view.columns, to)
    if as_json:
        print_json(_read_document(place, view, shown, total, to))
    elif shown is None:
        name = view.node if view.state is None else f"{view.node}.{view.state}"
        typer.echo(f"{plural(total, 'row')} of {name} written to {to}")
    else:
        _print_rows(shown)
        if total > shown.height:
            typer.echo(f"{rows} of {total:,} rows; --rows N shows more, --to FILE writes all", err=True)
    if view.failed:
        text = f"{plural(view.failed, 'key')} left out: the result does not fit its type; --state shows what is kept"
        typer.echo(text, err=True)


@app.command("diff", short_help="compare two checkpoints or savepoints")
@reporting_errors()
def diff_states(
    before: Annotated[str, typer.Argument(metavar="A", help=_PLACE, show_default=False)],
    after: Annotated[str, typer.Argument(metavar="B", help="What A is compared with; as A.", show_default=False)],
    node: Annotated[str | None, typer.Option(help="Only of this step or source.", show_default=False)] = None,
    rows: Annotated[int, typer.Option("-n", "--rows", min=0, help="Most rows of each state to print.")] = 0,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Compare the state of every node: rows added, removed and changed from A to B, and the columns that differ.

    A step's rows are those of its output; a job is its newest checkpoint.
    """
    from headrace.checkpoint.inspection.difference import differences
    from headrace.local.output.found_state import find_state

    places = [find_state(each, coordinator=coordinator) for each in (before, after)]
    found = list(differences(places[0].found.manifest, places[1].found.manifest, node, examples_max=rows))
    if as_json:
        print_json(_diff_document(places, found))
        return
    for sign, place in zip("-+", places, strict=True):
        typer.echo(f"{sign} {_title(place)}  {place.found.url}")
    print_table(
        ("NODE", "STATE", "ROWS", "ADDED", "REMOVED", "CHANGED", "COLUMNS"),
        [
            (
                each.node,
                each.state,
                f"{each.rows_after:,}",
                f"{each.added:,}",
                f"{each.removed:,}",
                f"{each.changed:,}",
                _columns_text(each),
            )
            for each in found
        ],
        left=2,
    )
    for each in found:
        _print_examples(each)


def _title(place: FoundState) -> str:
    manifest = place.found.manifest
    marks = [word for word, is_so in (("drained", manifest.drained), ("final", manifest.final)) if is_so]
    return " ".join([f"{manifest.kind} {manifest.epoch} of {manifest.pipeline} (job {manifest.job})", *marks])


def _age_text(place: FoundState) -> str:
    from headrace.core.text.span_text import span_text

    manifest = place.found.manifest
    return f"{manifest.kind} {manifest.epoch}, {span_text(place.age_ms)} old; --fresh takes one first"


def _header(place: FoundState) -> Iterator[str]:
    from headrace.cli.jobs.jobs import time_text
    from headrace.client.models import moment

    manifest = place.found.manifest
    yield _title(place)
    yield f"  {place.found.url}"
    yield f"  {time_text(moment(manifest.created_at_ms))} UTC, attempt {manifest.attempt}, headrace {manifest.version}"
    if place.job is not None:
        yield f"  {_age_text(place)}"


def _document(place: FoundState) -> dict[str, object]:
    from headrace.checkpoint.inspection.stored_state import states_of

    manifest = place.found.manifest
    kept = {
        "epoch",
        "attempt",
        "created_at_ms",
        "version",
        "max_parallelism",
        "parallelism",
        "nodes",
        "drained",
        "final",
    }
    return {
        "path": place.found.url,
        "age_ms": place.age_ms,
        "kind": manifest.kind,
        "job_id": manifest.job,
        "pipeline": manifest.pipeline,
        **manifest.model_dump(mode="json", include=kept),
        "states": [
            {
                "node": each.node,
                "state": each.state,
                "kind": each.kind,
                "keys": list(each.keys),
                "rows": each.rows,
                "bytes": each.bytes,
                "columns": each.columns,
            }
            for each in states_of(manifest)
        ],
        "sources": manifest.model_dump(mode="json", include={"sources"})["sources"],
    }


def _read_document(
    place: FoundState, view: View, shown: pl.DataFrame | None, total: int, to: Path | None
) -> dict[str, object]:
    from headrace.core.text.row_text import json_row

    return {
        "path": place.found.url,
        "age_ms": place.age_ms,
        "node": view.node,
        "state": view.state,
        "keys": list(view.keys),
        "rows_total": total,
        "rows_without_result": view.failed,
        "columns": {name: str(dtype) for name, dtype in view.columns.items()},
        "to": None if to is None else str(to),
        "rows": [] if shown is None else [json_row(row) for row in shown.to_dicts()],
    }


def _diff_document(places: list[FoundState], found: list[StateDifference]) -> dict[str, object]:
    from headrace.core.text.row_text import json_row

    return {
        "paths": [place.found.url for place in places],
        "same": all(each.is_same for each in found),
        "states": [
            {
                "node": each.node,
                "state": each.state,
                "keys": list(each.keys),
                "rows_before": each.rows_before,
                "rows_after": each.rows_after,
                "added": each.added,
                "removed": each.removed,
                "changed": each.changed,
                "columns": each.columns,
                "only_before": list(each.only_before),
                "only_after": list(each.only_after),
                "rows": [
                    {"change": change, "before": json_row(before), "after": json_row(after)}
                    for change, before, after in each.examples
                ],
            }
            for each in found
        ],
    }


def _columns_text(found: StateDifference) -> str:
    differing = [f"{name} ({count:,})" for name, count in found.columns.items()]
    lacking = [*(f"-{name}" for name in found.only_before), *(f"+{name}" for name in found.only_after)]
    return ", ".join([*differing, *lacking]) or "-"


def _print_examples(found: StateDifference) -> None:
    from headrace.core.text.row_text import row_text

    if found.examples:
        typer.echo(f"{found.node}.{found.state}")
    for _, before, after in found.examples:
        if before:
            typer.secho(f"  - {row_text(before)}", fg="red")
        if after:
            typer.secho(f"  + {row_text(after)}", fg="green")


def _position(split: SplitState) -> str:
    return f"{split.position:,}" + (" (end)" if split.finished else "")


def _print_rows(frame: pl.DataFrame) -> None:
    from headrace.core.text.row_text import value_text

    cells = [[_cut(value_text(value)) for value in row] for row in frame.rows()]
    print_table(frame.columns, cells, left=len(frame.columns))


def _cut(text: str) -> str:
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 2] + ".."
