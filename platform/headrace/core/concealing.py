"""Hides values of the pipeline's variables in the texts that this process prints, logs and reports.

For processes that work on one pipeline: a command, a slot, a connector host, a task on Spark. A coordinator, which has
many jobs, hides the values of each in the texts of that job alone (`core.text.concealment`).
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

from headrace.core.errors import HeadraceError
from headrace.core.text.concealment import Concealment, HiddenTexts

_NOTHING = Concealment({})
_current = _NOTHING


class _ConcealingStream:
    """A text stream that hides the values in what is written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the text without the values."""
        self._stream.write(concealed(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def conceal(hidden: HiddenTexts) -> None:
    """Hides these texts from now on, instead of those of an earlier call."""
    global _current  # noqa: PLW0603 - a process works on one pipeline
    _current = Concealment(hidden) if hidden else _NOTHING


def conceal_standard_error() -> None:
    """Hides them in what Python writes to standard error, too: logs and stack traces. For programs of headrace, which
    call it before they log."""
    if not isinstance(sys.stderr, _ConcealingStream):
        sys.stderr = _ConcealingStream(sys.stderr)


def conceals() -> bool:
    """Whether this process hides anything."""
    return bool(_current)


def concealed(text: str) -> str:
    """The text without the values that this process hides."""
    return _current.text(text)


def concealed_data(data: Any) -> Any:
    """Plain data whose texts are without the values that this process hides."""
    return _current.data(data)


def conceal_error(error: HeadraceError) -> None:
    """Removes the values that this process hides from an error."""
    _current.error(error)
