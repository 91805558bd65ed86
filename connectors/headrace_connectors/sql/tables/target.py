"""The tables of a sink by name: the user's, the one that rows are staged in, the one that tells which are moved. Pure.

delays                        the user's table
delays__headrace_staged       its columns, and before them those of `STAGED_COLUMNS`
headrace_epochs               one row for each part that was moved, beside the user's table
"""

from __future__ import annotations

from dataclasses import dataclass

STAGED_SUFFIX = "__headrace_staged"
EPOCHS_TABLE = "headrace_epochs"
IDENTIFIER_BYTES_MAX = 63
"""PostgreSQL cuts longer names, without an error."""

JOB, SINK, ATTEMPT, SUBTASK, PART, SEQUENCE, DELETE = (
    "__job",
    "__sink",
    "__attempt",
    "__subtask",
    "__part",
    "__sequence",
    "__delete",
)
PART_COLUMNS = (JOB, SINK, ATTEMPT, SUBTASK, PART)
"""Whose rows they are. A part is what one writer staged between two barriers."""
STAGED_COLUMNS = (*PART_COLUMNS, SEQUENCE, DELETE)
"""`SEQUENCE` counts rows within a part, as they were written. No column of a user begins with `__`."""


@dataclass(frozen=True, slots=True)
class Target:
    """The user's table; `schema` None: the database's default."""

    table: str
    schema: str | None = None

    def __str__(self) -> str:
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @property
    def staged(self) -> Target:
        """Where rows wait for their epoch."""
        return Target(self.table + STAGED_SUFFIX, self.schema)

    @property
    def epochs(self) -> Target:
        """Where it says which parts were moved."""
        return Target(EPOCHS_TABLE, self.schema)
