"""`headrace infer`: a `schema:` block from data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.arguments import Json, print_json
from headrace.cli.development.kafka import Brokers
from headrace.cli.errors import reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.local.inspection.infer import Inferred


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
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether a CSV file's first line names the columns. Default: found in the data.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="COLUMN", help="A column that is `not null`; repeatable.")
    ] = None,
    not_null: Annotated[
        bool, typer.Option("--not-null", help="Every column that is never null in the sample is `not null`.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a schema made from data, ready to paste under a source.

    Columns are nullable unless --key or --not-null says otherwise. `out_of_orderness` is measured for each partition of
    the sample: 99.9 % of its rows are on time with it.
    """
    from headrace.local.inspection.infer import declared, schema_lines
    from headrace.local.inspection.sample import infer_file, infer_topic, is_file

    if is_file(target):
        found = infer_file(target, form, rows, header=header)
    else:
        from headrace.cli.development.kafka import broker_address

        found = infer_topic(broker_address(brokers), target, form, rows)
    found = declared(found, keys=key or (), not_null=not_null)
    if as_json:
        print_json(_document(found))
        return
    typer.echo("\n".join(schema_lines(found)))
    typer.echo(f"inferred from {plural(found.rows, 'row')}; {_nullability(not_null=not_null)}", err=True)
    if found.naming is not None:
        typer.echo(found.naming, err=True)


def _nullability(*, not_null: bool) -> str:
    if not_null:
        return "`not null` means: never null among those"
    return "columns are nullable: --key COLUMN or --not-null declares them `not null`"


def _document(found: Inferred) -> dict[str, object]:
    from headrace.spec.columns import schema_dict

    disorder = found.disorder
    return {
        "rows": found.rows,
        "schema": schema_dict(found.schema),
        "time": found.time,
        "notes": dict(found.notes),
        "format": found.format,
        "naming": found.naming,
        "out_of_orderness_ms": None if disorder is None else disorder.bound_ms,
        "late": None if disorder is None else disorder.late,
        "longest_delay_ms": None if disorder is None else disorder.longest_ms,
    }
