"""The documents of the REST API about the output of jobs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.client.models import Answer, Moment
from headrace.client.requests import Request

LETTERS_MAX = 10_000
"""Most dead letters of one request."""


class TransactionInfo(Answer):
    """Open output of a job in an external system: neither committed nor aborted.

    state        the state's name in the external system
    holds_back   topic partitions whose read_committed readers wait for its end
    epoch        the complete checkpoint that names it, or null
    safe         the action that is safe (`leave`: none); by_force: the action that `--force` also allows
    done         the result of a request: committed, aborted, lost; null: unchanged
    """

    name: str
    sink: str
    job_id: str
    job_state: str | None = None
    attempt: int | None = None
    subtask: int | None = None
    state: str
    started_at: Moment | None = None
    age_ms: int | None = None
    timeout_ms: int | None = None
    holds_back: tuple[str, ...] = ()
    epoch: int | None = None
    safe: Literal["commit", "abort", "leave"]
    by_force: Literal["commit", "abort", "leave"] = "leave"
    why: str
    done: Literal["committed", "aborted", "lost"] | None = None


class TransactionList(Answer):
    """Open output of a job. `note`: further actions of the request, as text."""

    transactions: tuple[TransactionInfo, ...]
    note: str | None = None


class EndTransactionsRequest(Request):
    """Commit or abort the transactions for which that is safe. names: only these; yes: False only reports them.

    force   also abort undecided transactions of a suspended job
    """

    action: Literal["commit", "abort"]
    names: tuple[str, ...] = ()
    yes: bool = False
    force: bool = False


class DeadLettersRequest(Request):
    """Dead letters of a job. node: only those of this node; limit: number of the newest ones of each sink."""

    node: str | None = None
    limit: int = Field(default=100, ge=1, le=LETTERS_MAX)


class DeadLetterInfo(Answer):
    """A message or row that could not be processed. node: the source or step that diverted it.

    topic, partition, offset   its place in the dead letter topic
    origin   the place that it was read from: topic, partition and offset
    key, value   shortened, as text; bytes: length of the whole value
    """

    node: str
    topic: str
    partition: int
    offset: int
    at: Moment
    origin: str | None = None
    reason: str | None = None
    key: str | None = None
    value: str | None = None
    bytes: int = 0


class DeadLetterList(Answer):
    """Dead letters, oldest first."""

    letters: tuple[DeadLetterInfo, ...]


class RedriveRequest(Request):
    """Send dead letters of a node again, the oldest first, each once. to: another topic than they came from.

    limit   most of them by this request; yes: send them, not only report which would be sent
    """

    node: str
    to: str | None = None
    limit: int = Field(default=LETTERS_MAX, ge=1, le=LETTERS_MAX)
    yes: bool = False


class Redriven(Answer):
    """Dead letters that were, or would be, sent. to: topic -> number; more: further ones are left; empty: letters
    without content, which are passed over."""

    node: str
    to: dict[str, int]
    more: bool
    done: bool
    empty: int = 0
