"""The tables of a sink by name: the user's, the staging table, and the table of moved parts. Pure.

delays                        the user's table
delays__headrace_staged       `STAGED_COLUMNS`, then the user's columns
headrace_epochs               one row per moved part, in the user table's schema
"""

from __future__ import annotations

from dataclasses import dataclass

STAGED_SUFFIX = "__headrace_staged"
EPOCHS_TABLE = "headrace_epochs"
IDENTIFIER_BYTES_MAX = 63
"""PostgreSQL truncates longer names without an error."""

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
"""The part of a staged row: the rows that one writer staged between two barriers."""
STAGED_COLUMNS = (*PART_COLUMNS, SEQUENCE, DELETE)
"""`SEQUENCE` numbers the rows of a part in order of writing. No user column begins with `__`."""


@dataclass(frozen=True, slots=True)
class Target:
    """The user's table; `schema` None: the database's default."""

    table: str
    schema: str | None = None

    def __str__(self) -> str:
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @property
    def staged(self) -> Target:
        """The staging table."""
        return Target(self.table + STAGED_SUFFIX, self.schema)

    @property
    def epochs(self) -> Target:
        """The table of moved parts."""
        return Target(EPOCHS_TABLE, self.schema)
