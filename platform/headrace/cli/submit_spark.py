"""`headrace submit --target spark`: the pipeline is followed on Spark, with this process as the driver.

The same as `headrace replay --follow`, under the name by which jobs are started.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FollowedOnSpark:
    """What of `submit` means something on Spark, as the command line gave it."""

    master: str | None
    conf: list[str] | None
    py_files: list[str] | None
    archives: list[str] | None
    set_: list[str] | None
    parallelism: int | None
    from_savepoint: str | None
    rename: list[str] | None
    allow_dropped_state: bool
    allow_drained: bool
    allow_lost_output: bool


def submit_to_spark(file: str, asked: FollowedOnSpark, *, as_json: bool) -> None:
    """Follows until Ctrl-C; the same command goes on where it stood."""
    from headrace.cli.replay import replay

    replay(
        file,
        follow=True,
        master=asked.master,
        conf=asked.conf,
        py_files=asked.py_files,
        archives=asked.archives,
        set_=asked.set_,
        parallelism=asked.parallelism,
        from_savepoint=asked.from_savepoint,
        rename=asked.rename,
        allow_dropped_state=asked.allow_dropped_state,
        allow_drained=asked.allow_drained,
        allow_lost_output=asked.allow_lost_output,
        as_json=as_json,
    )
