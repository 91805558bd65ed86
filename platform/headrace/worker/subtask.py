"""The loop of a subtask that reads from other tasks: take from the mailbox, hand down the chain."""

from __future__ import annotations

import polars as pl

from headrace.core.signals import EndOfInput
from headrace.exchange.channel import Mailbox
from headrace.operators.chain import Receiver


class Subtask:
    """One parallel instance of a task without a source. `run` belongs to one thread."""

    def __init__(self, mailbox: Mailbox, head: Receiver) -> None:
        self._mailbox = mailbox
        self._head = head

    def run(self) -> None:
        """Works until the end of input. Raises Cancelled once the job is torn down."""
        while True:
            for element in self._mailbox.take():
                if isinstance(element, pl.DataFrame):
                    self._head.on_batch(element)
                    continue
                self._head.on_signal(element)
                if isinstance(element, EndOfInput):
                    return
