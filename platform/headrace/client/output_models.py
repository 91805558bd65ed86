"""The documents of the REST API about what jobs have put out."""

from __future__ import annotations

from typing import Literal

from headrace.client.models import Answer, Moment, Request


class TransactionInfo(Answer):
    """Output of a job that is open outside: neither visible nor given up.

    state        the outside's own word
    holds_back   what read_committed readers wait for: topic partitions
    epoch        the complete checkpoint that names it, or null
    safe         what may be done with it (`leave`: nothing), by_force: what `--force` allows beside that
    done         what a request did with it: committed, aborted, lost; null: nothing
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
    """What is open of a job. `note`: what was done beside, for people."""

    transactions: tuple[TransactionInfo, ...]
    note: str | None = None


class EndTransactionsRequest(Request):
    """Commit or abort what may be. names: only these; yes: do it, not only say what would be done.

    force   abort what is undecided of a job that is suspended
    """

    action: Literal["commit", "abort"]
    names: tuple[str, ...] = ()
    yes: bool = False
    force: bool = False
