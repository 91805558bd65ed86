"""Checks of the external system behind a source or sink, for `headrace doctor`: what was checked, and the verdict.

A connector answers for its own systems; the command only runs the checks and prints their findings. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Status(StrEnum):
    """The verdict of one check. UNCHECKED: it could not or need not be made, and the text is the reason."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, as one line.

    check    its subject: `topic flights`
    text     what was found, without a remedy
    remedy   what the user can do about a failure or warning
    """

    check: str
    status: Status
    text: str
    remedy: str | None = None


class AccessCheck(Protocol):
    """Checks one node's external system. Does I/O and blocks; used by one thread."""

    def run(self, *, timeout_s: float) -> Sequence[Finding]:
        """Returns the findings after at most about `timeout_s` seconds. Raises HeadraceError for what it did not
        foresee. Changes nothing that a job could notice."""
        ...
