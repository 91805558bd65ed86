"""`headrace replay --give-up`: ends an unfinished run of the same command, and runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json

if TYPE_CHECKING:
    from headrace.spark.launch.replay import ReplayOptions
    from headrace.spec.pipeline import Pipeline


def give_up_replay(pipeline: Pipeline, options: ReplayOptions, *, follow: bool, as_json: bool) -> None:
    """Ends the run that the same command without --give-up would continue. Raises UserError if there is none."""
    from headrace.checkpoint.paths import job_url
    from headrace.checkpoint.stores.opening import open_store
    from headrace.core.clock import SystemClock
    from headrace.core.settings import Home
    from headrace.spark.launch.follow import FollowOptions, prepare_follow
    from headrace.spark.launch.give_up import give_up
    from headrace.spark.launch.replay import prepare

    home = Home.from_environment()
    prepared = prepare_follow(pipeline, FollowOptions(options), home) if follow else prepare(pipeline, options, home)
    given = give_up(prepared.job, open_store(job_url(prepared.storage, prepared.job)), SystemClock())
    if as_json:
        print_json({"state": "CANCELED", "job_id": given.job, "rows_given_up": given.rows})
        return
    typer.echo(f"CANCELED: {given.job}")
    if given.rows:
        typer.echo(f"{given.rows:,} rows that were decided on stay as they are in the sinks: published, or not")
