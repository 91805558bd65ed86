"""The documents of the REST API about the state of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.client.models import Answer, Moment

ROWS_MAX = 1_000
"""Most rows of state in one answer."""


@dataclass(frozen=True, slots=True)
class StateQuery:
    """Rows of the state of a node. state: those of one state as they are kept; None: those of the step's output.

    key    COLUMN=VALUE of each column of a key, or of some; none: the first rows
    rows   most rows to return
    """

    node: str
    state: str | None = None
    key: Sequence[str] = ()
    rows: int = 100


class StateInfo(Answer):
    """One state of a node, over all its subtasks. columns: name -> type, as polars writes it; bytes: of its files."""

    node: str
    state: str
    kind: str
    keys: tuple[str, ...]
    rows: int
    bytes: int
    columns: dict[str, str]


class PositionInfo(Answer):
    """How far a partition of a source has been read. position: the next one to read; finished: it reached its stop."""

    source: str
    topic: str
    partition: int
    position: int
    finished: bool


class StateList(Answer):
    """The state of a job as of its newest complete checkpoint. age_ms: since the checkpoint's barrier.

    steps  steps whose state is also read as rows of their output
    """

    epoch: int
    path: str
    created_at: Moment
    age_ms: int
    states: tuple[StateInfo, ...]
    positions: tuple[PositionInfo, ...]
    steps: tuple[str, ...] = ()


class StateRows(Answer):
    """Rows of the state of a node, as of the job's newest complete checkpoint.

    state    null: the rows of the step's output
    keys     columns by which rows are found
    columns  name -> type, as polars writes it
    rows     times, decimals, NaN and infinities as text, binary as base64
    more     there are more rows than these
    """

    epoch: int
    path: str
    age_ms: int
    node: str
    state: str | None
    keys: tuple[str, ...]
    columns: dict[str, str]
    rows: tuple[dict[str, Any], ...]
    more: bool
