"""The reports of a coordinator's jobs to its process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.leadership.candidacy.candidacy import TermOver


@dataclass(frozen=True, slots=True)
class TermHandlers:
    """Called in the event loop.

    on_shutdown   a client asked for the end of the cluster
    on_over       another coordinator leads, or should: the ledger or all workers have been out of reach for long
    """

    on_shutdown: Callable[[], None]
    on_over: Callable[[TermOver], None]
