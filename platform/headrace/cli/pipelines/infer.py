"""`headrace infer`: a `schema:` block from data."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headrace.cli.arguments import Json, plural, print_json
from headrace.cli.development.kafka import Brokers
from headrace.cli.errors import reporting_errors


@reporting_errors()
def infer(
    target: Annotated[
        str, typer.Argument(metavar="TOPIC|PATH", help="A Kafka topic, or a file (json lines, csv, parquet).")
    ],
    brokers: Brokers = None,
    form: Annotated[
        Literal["json", "csv", "parquet"] | None,
        typer.Option("--format", help="Default: by the file's name; json for a topic."),
    ] = None,
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="Number of records to read.")] = 1000,
    as_json: Json = False,
) -> None:
    """Print a schema made from data, ready to paste under a source."""
    from headrace.local.inspection.infer import schema_lines
    from headrace.local.inspection.sample import infer_file, infer_topic, is_file

    if is_file(target):
        found = infer_file(target, form, rows)
    else:
        from headrace.cli.development.kafka import broker_address

        found = infer_topic(broker_address(brokers), target, form, rows)
    if as_json:
        from headrace.spec.columns import schema_dict

        document = {"rows": found.rows, "schema": schema_dict(found.schema), "time": found.time}
        print_json({**document, "notes": dict(found.notes), "format": found.format})
        return
    typer.echo("\n".join(schema_lines(found)))
    typer.echo(f"inferred from {plural(found.rows, 'row')}; `not null` means: never null among those", err=True)
