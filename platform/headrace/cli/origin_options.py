"""The options that select a job's origin, for the verbs that start jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.cli.arguments import renames_of

if TYPE_CHECKING:
    from headrace.execution.origin import OriginWish


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginOptions:
    """The options that select a job's origin, as texts of the command line.

    path                  a savepoint or checkpoint; None: the job starts without state
    rename                `old=new` texts: nodes that have another name in the savepoint
    allow_dropped_state   start although it has state that fits no node
    allow_drained         start although time had advanced to its end before it was taken
    allow_lost_output     start although its last output may not be visible
    accept_new_topic      topics that may be other ones than it has positions in; None: none
    max_parallelism       number of key groups, another one than in the savepoint or the same; None: the pipeline's
    """

    path: str | None
    rename: list[str] | None
    allow_dropped_state: bool
    allow_drained: bool
    allow_lost_output: bool
    accept_new_topic: list[str] | None = None
    max_parallelism: int | None = None

    @property
    def accepted_topics(self) -> tuple[str, ...]:
        """The accepted topics, each once, in order."""
        return tuple(sorted(set(self.accept_new_topic or ())))

    @property
    def renames(self) -> dict[str, str]:
        """Returns node of the savepoint -> node of the pipeline. Raises UserError."""
        return renames_of(self.rename)

    def wish(self) -> OriginWish | None:
        """Returns the origin for a job that this process plans; None: from nothing. Raises UserError."""
        from headrace.execution.origin import OriginWish

        if self.path is None:
            return None
        return OriginWish(
            self.path,
            self.renames,
            self.allow_dropped_state,
            self.allow_drained,
            allow_lost_output=self.allow_lost_output,
            accepted_topics=self.accepted_topics,
            max_parallelism=self.max_parallelism,
        )
