"""`headrace verify`: runs a range of a pipeline's sources on both engines and compares the rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import File, Json, Set, print_json
from headrace.cli.errors import FAILED, reporting_errors
from headrace.cli.row_differences import print_comparison
from headrace.cli.spark.settings import (
    AllowLocalStorage,
    Conf,
    Master,
    SparkArchives,
    SparkPyFiles,
    Teller,
    interruptible,
    quiet_driver,
    settings_of,
    travelling,
)

if TYPE_CHECKING:
    from headrace.api.spark.replaying import Verified

MISSING, EXTRA = "missing on Spark", "only on Spark"


@reporting_errors()
def verify(
    file: File,
    range_: Annotated[
        str | None,
        typer.Option(
            "--range",
            metavar="FROM..UNTIL",
            help="Each a word, a time, or offsets as JSON, as for replay; either may be left out. "
            "Default: from `start:` to `stop:`, else to the last offset.",
        ),
    ] = None,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Subtasks on Spark of a node that sets none itself.")
    ] = None,
    master: Master = None,
    conf: Conf = None,
    py_files: SparkPyFiles = None,
    archives: SparkArchives = None,
    allow_local_storage: AllowLocalStorage = False,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Run a range on the native runtime and on Spark, and compare the rows for each sink. No sink is opened.

    Windows are closed at the end of the range, on both.
    """
    quiet_driver()
    from headrace.api.spark.replaying import import_path
    from headrace.api.spark.replaying import verify as verify_on
    from headrace.local.pipeline_file import load_file
    from headrace.spark.cluster.packaging import OWN_CODE, Packages
    from headrace.spark.cluster.session import session

    begin, end = range_of(range_)
    pipeline = load_file(file, set_ or []).pipeline
    (folder,) = import_path(file)
    packages, teller = Packages.of(py_files or (), archives or ()), Teller()
    with (
        interruptible(teller, "nothing was published, and nothing is left of it"),
        travelling(pipeline, Path(folder), packages, master=master, chosen=settings_of(conf)) as settings,
        session(f"headrace verify {pipeline.name}", master, settings) as spark,
    ):
        verified = verify_on(
            spark,
            pipeline,
            from_=begin,
            until=end,
            parallelism=parallelism,
            python_path=(folder, OWN_CODE),
            allow_local_storage=allow_local_storage,
            say=teller.say,
        )
    _print(verified, as_json=as_json)
    if not verified.same:
        raise typer.Exit(FAILED)


def range_of(text: str | None) -> tuple[str | None, str | None]:
    """Splits `FROM..UNTIL`; an empty part is None. Raises UserError."""
    from headrace.core.errors import UserError

    if text is None:
        return None, None
    begin, dots, end = text.partition("..")
    if not dots:
        raise UserError(f"--range {text} is no range", remedy="write FROM..UNTIL, such as earliest..latest")
    return begin.strip() or None, end.strip() or None


def _print(verified: Verified, *, as_json: bool) -> None:
    from headrace.local.comparison.difference_report import comparison_json

    if as_json:
        sinks = [{"sink": each.sink, **comparison_json(each.rows, each.update_key)} for each in verified.sinks]
        print_json({"same": verified.same, "rows_in": verified.rows_in, "sinks": sinks})
        return
    for each in verified.sinks:
        print_comparison(each.sink, each.rows, missing=MISSING, extra=EXTRA, key=each.update_key)
