"""`headrace state`: the content of a checkpoint or savepoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Json, print_json, print_table
from headrace.cli.errors import reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    import polars as pl

    from headrace.checkpoint.savepoints.savepoint import Found
    from headrace.core.source_state import SplitState

app = typer.Typer(
    name="state",
    help="The content of a checkpoint or savepoint.",
    no_args_is_help=True,
)

CELL_WIDTH = 40
Place = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="A savepoint, a job's folder in checkpoint storage, or a checkpoint's path.",
        show_default=False,
    ),
]
Epoch = Annotated[
    int | None, typer.Option(min=1, help="Of a job's folder: which of its checkpoints. Default: the newest.")
]


@app.command("list", short_help="list states and source positions")
@reporting_errors()
def list_states(path: Place, epoch: Epoch = None, as_json: Json = False) -> None:
    """List the states of every node, and how far the sources had been read."""
    from headrace.checkpoint.savepoints.savepoint import find
    from headrace.checkpoint.savepoints.state_contents import states_of

    found = find(path, epoch)
    states = states_of(found.manifest)
    if as_json:
        print_json(_document(found))
        return
    for line in _header(found):
        typer.echo(line)
    if states:
        rows = [
            (each.node, each.state, each.kind, ",".join(each.keys) or "-", f"{each.rows:,}", f"{each.bytes:,}")
            for each in states
        ]
        print_table(("NODE", "STATE", "KIND", "KEYS", "ROWS", "BYTES"), rows, left=4)
    positions = [
        (source, split.topic, str(split.partition), _position(split))
        for source, state in sorted(found.manifest.sources.items())
        for split in state.splits
    ]
    if positions:
        print_table(("SOURCE", "TOPIC", "PARTITION", "POSITION"), positions, left=2)


@app.command("read", short_help="show the rows of a state, or write them as Parquet")
@reporting_errors()
def read_state(
    path: Place,
    node: Annotated[str | None, typer.Option(help="Default: the only one.", show_default=False)] = None,
    state: Annotated[str | None, typer.Option(help="Default: the node's only one.", show_default=False)] = None,
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="Most rows to print.")] = 20,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all rows as Parquet.", show_default=False)
    ] = None,
    epoch: Epoch = None,
    as_json: Json = False,
) -> None:
    """Show the rows of one state as they are kept, or write all of them to a Parquet file."""
    from headrace.checkpoint.savepoints.savepoint import find
    from headrace.checkpoint.savepoints.state_contents import chosen_state, rows_of, write_rows

    kept = chosen_state(find(path, epoch).manifest, node, state)
    frame = rows_of(kept)
    if to is not None:
        write_rows(frame, to)
    if as_json:
        from headrace.local.comparison.row_text import json_row

        shown = [] if to is not None else [json_row(row) for row in frame.head(rows).to_dicts()]
        document = {"node": kept.node, "state": kept.state, "rows_total": frame.height, "columns": kept.columns}
        print_json({**document, "to": None if to is None else str(to), "rows": shown})
    elif to is not None:
        typer.echo(f"{plural(frame.height, 'row')} of {kept.node}.{kept.state} written to {to}")
    else:
        _print_rows(frame.head(rows))
        if frame.height > rows:
            typer.echo(f"{rows} of {frame.height:,} rows; --rows N shows more, --to FILE writes all", err=True)


def _header(found: Found) -> Iterator[str]:
    from headrace.cli.jobs.jobs import time_text
    from headrace.client.models import moment

    manifest = found.manifest
    marks = [word for word, is_so in (("drained", manifest.drained), ("final", manifest.final)) if is_so]
    yield " ".join([f"{manifest.kind} {manifest.epoch} of {manifest.pipeline} (job {manifest.job})", *marks])
    yield f"  {found.url}"
    yield f"  {time_text(moment(manifest.created_at_ms))} UTC, attempt {manifest.attempt}, headrace {manifest.version}"


def _document(found: Found) -> dict[str, object]:
    from headrace.checkpoint.savepoints.state_contents import states_of

    manifest = found.manifest
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
        "path": found.url,
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


def _position(split: SplitState) -> str:
    return f"{split.position:,}" + (" (end)" if split.finished else "")


def _print_rows(frame: pl.DataFrame) -> None:
    from headrace.local.comparison.row_text import value_text

    cells = [[_cut(value_text(value)) for value in row] for row in frame.rows()]
    print_table(frame.columns, cells, left=len(frame.columns))


def _cut(text: str) -> str:
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 2] + ".."
