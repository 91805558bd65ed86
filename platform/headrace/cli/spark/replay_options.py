"""The options of `headrace replay`, grouped by meaning."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from headrace.core.errors import UserError

if TYPE_CHECKING:
    from headrace.api.spark.against import TopicRange
    from headrace.spark.cluster.packaging import Packages
    from headrace.spark.launch.replay import BackEnd

From = Annotated[
    str | None,
    typer.Option("--from", metavar="WHERE", help="Begin here: earliest, a time, offsets as JSON. Default: `start:`."),
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="End here: latest, a time, offsets as JSON, a savepoint's path. Default: `stop:`, else latest.",
    ),
]
SavepointFolder = Annotated[
    str | None, typer.Option(metavar="DIR", help="End with a savepoint in this folder: windows stay open in it.")
]
Final = Annotated[bool, typer.Option("--drain", help="With --savepoint or --against: every window fires first.")]
FromSavepoint = Annotated[str | None, typer.Option(metavar="PATH", help="Start from this savepoint or checkpoint.")]
Floors = Annotated[Path | None, typer.Option(help="Floors of an earlier run, to get the same rows again.")]
Parallelism = Annotated[
    int | None, typer.Option(min=1, help="Subtasks of a node that sets none itself. Default: as the cluster can.")
]
FollowFlag = Annotated[
    bool, typer.Option("--follow", help="Continue live, in increments; the same command continues where it ended.")
]
TriggerInterval = Annotated[
    str | None, typer.Option(metavar="LENGTH", help="With --follow: time between two increments. Default: 10s.")
]
Increments = Annotated[int | None, typer.Option(min=1, help="With --follow: end after this number of increments.")]
Against = Annotated[
    str | None,
    typer.Option(metavar="TOPIC", help="Publish nothing: compare with what a sink has published to this topic."),
]
AgainstSink = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --against: which sink, where several write to topics.")
]
AgainstFrom = Annotated[str | None, typer.Option(metavar="WHERE", help="With --against: where in the topic to begin.")]
AgainstUntil = Annotated[str | None, typer.Option(metavar="WHERE", help="With --against: where in the topic to end.")]
AllowRepeatedOutput = Annotated[
    bool,
    typer.Option(
        "--allow-repeated-output",
        help="Publish what an earlier run decided, even if a sink no longer knows which of its rows it has.",
    ),
]
GiveUp = Annotated[bool, typer.Option("--give-up", help="Run nothing: end an unfinished run of this command for good.")]


@dataclass(frozen=True, slots=True)
class History:
    """The range of the sources that is read, and how it ends.

    begin, end   as the user wrote them
    savepoint    folder for a savepoint at the end
    final        every window is closed first
    floors       path of a file with floors
    """

    begin: str | None = None
    end: str | None = None
    savepoint: str | None = None
    final: bool = False
    floors: Path | None = None


@dataclass(frozen=True, slots=True)
class Following:
    """The options of following live. interval: a duration such as 10s; increments_max: end after this number."""

    interval: str | None = None
    increments_max: int | None = None

    def interval_ms(self, default_ms: int) -> int:
        """Returns the time between the starts of two increments. Raises UserError."""
        from headrace.core.config import parse_duration_ms

        if self.interval is None:
            return default_ms
        try:
            return parse_duration_ms(self.interval)
        except ValueError as cause:
            remedy = "write a length such as 10s"
            raise UserError(f"--trigger-interval {self.interval}: {cause}", remedy=remedy) from cause


@dataclass(frozen=True, slots=True)
class Comparison:
    """The other side of a comparison: rows that a sink has published to a topic. begin, end: their range there."""

    topic: str
    sink: str | None
    begin: str | None
    end: str | None

    def range(self) -> TopicRange:
        """Returns the rows of the topic to read."""
        from headrace.api.spark.against import TopicRange

        return TopicRange(self.topic, self.begin, self.end)


Work: TypeAlias = Following | Comparison | None
"""The purpose of a replay: to follow the sources live, to compare history, or (None) to publish its results."""


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """The options that select where on Spark a pipeline runs, and the user's code."""

    master: str | None = None
    deploy_mode: str = "client"
    conf: list[str] | None = None
    py_files: list[str] | None = None
    archives: list[str] | None = None
    back_end: str = "rdd"
    allow_local_storage: bool = False

    def packages(self) -> Packages:
        """Returns the code that travels to the tasks. Raises UserError."""
        from headrace.spark.cluster.packaging import Packages

        return Packages.of(self.py_files or (), self.archives or ())

    def back_end_name(self) -> BackEnd:
        """Returns the back end that carries rows between tasks. Raises UserError."""
        from headrace.cli.spark.settings import one_of
        from headrace.spark.launch.replay import BACK_ENDS

        return BACK_ENDS[one_of("--back-end", self.back_end, tuple(BACK_ENDS))]

    def on_the_cluster(self) -> bool:
        """Whether the driver runs on the cluster, too. Raises UserError."""
        from headrace.cli.spark.settings import one_of
        from headrace.spark.cluster.spark_submit import CLIENT, CLUSTER

        return one_of("--deploy-mode", self.deploy_mode, (CLIENT, CLUSTER)) == CLUSTER


def work_of(comparison: Comparison | None, *, follow: bool, interval: str | None, increments_max: int | None) -> Work:
    """Returns the purpose that the options select. Raises UserError if they contradict each other."""
    if comparison is not None and follow:
        raise UserError("--against looks at history, --follow goes on live", remedy="give one of them")
    if not follow and (interval is not None or increments_max is not None):
        raise UserError("--trigger-interval and --increments say how to follow", remedy="give --follow too")
    return Following(interval, increments_max) if follow else comparison
