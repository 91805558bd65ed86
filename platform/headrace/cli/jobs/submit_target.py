"""The options of `headrace submit` by target: an option without meaning for the target is refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from headrace.cli.arguments import given_option

ON_SPARK: Mapping[str, str] = {
    "mode": "Spark runs the job, whatever clusters of headrace there are: leave it out",
    "claim": "on Spark a savepoint's files stay the savepoint's: leave it out",
    "take_over": "the same command takes a job on Spark over by itself: leave it out",
    "allow_duplicate": "the same command goes on with the job that runs: leave it out",
    "wait": "this process is the driver and stays until the job has ended: leave it out",
    "ha": "there is no coordinator: leave it out",
    "ledger": "there is no coordinator: leave it out",
    "key_file": "there is no coordinator: leave it out",
    "host": "there is no coordinator: leave it out",
    "coordinator": "Spark is found by --master: give that one",
}
"""Options without meaning with --target spark: parameter -> remedy."""
ELSEWHERE: Mapping[str, str] = {
    "master": "it says where Spark runs: give --target spark too",
    "conf": "these are settings of Spark: give --target spark too",
}
"""Options that only have a meaning with --target spark."""


def require_fitting(context: typer.Context, *, spark: bool) -> None:
    """Raises UserError for the first command line option that the target does not take. Variables of the environment
    (HEADRACE_COORDINATOR) are ignored, because other commands use them, too.
    """
    from headrace.core.errors import UserError

    remedies = ON_SPARK if spark else ELSEWHERE
    for name, remedy in remedies.items():
        if (option := given_option(context, [name])) is not None:
            place = "with --target spark" if spark else "without --target spark"
            raise UserError(f"{option} means nothing {place}", remedy=remedy)
