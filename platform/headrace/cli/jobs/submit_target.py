"""Which options of `headrace submit` belong to which target: what means nothing there is refused, not passed over."""

from __future__ import annotations

from collections.abc import Mapping

import typer

ON_SPARK: Mapping[str, str] = {
    "mode": "Spark runs the job, whatever clusters of headrace there are: leave it out",
    "claim": "on Spark a savepoint's files stay the savepoint's: leave it out",
    "take_over": "the same command takes a job on Spark over by itself: leave it out",
    "allow_duplicate": "the same command goes on with the job that runs: leave it out",
    "wait": "this process is the driver and stays until the job has ended: leave it out",
    "coordinator": "Spark is found by --master: give that one",
}
"""What has no meaning with --target spark: parameter -> what to do."""
ELSEWHERE: Mapping[str, str] = {
    "master": "it says where Spark runs: give --target spark too",
    "conf": "these are settings of Spark: give --target spark too",
}
"""What has a meaning with --target spark only."""


def require_fitting(context: typer.Context, *, spark: bool) -> None:
    """Raises UserError for the first option on the command line that the target does not take. What the environment
    says (HEADRACE_COORDINATOR) is meant for others too."""
    from headrace.core.errors import UserError

    for name, remedy in (ON_SPARK if spark else ELSEWHERE).items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            place = "with --target spark" if spark else "without --target spark"
            raise UserError(f"{option} means nothing {place}", remedy=remedy)
