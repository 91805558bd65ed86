"""The loop of a subtask that reads from other tasks: take from the mailbox, hand down the chain."""

from __future__ import annotations

from typing import assert_never

import polars as pl

from headrace.core.signals import Barrier, EndOfInput, Watermark
from headrace.exchange.channel import Mailbox
from headrace.operators.chain import Receiver
from headrace.worker.snapshots import SubtaskSnapshots


class Subtask:
    """One parallel instance of a task without a source. `run` belongs to one thread."""

    def __init__(self, mailbox: Mailbox, head: Receiver, snapshots: SubtaskSnapshots) -> None:
        self._mailbox = mailbox
        self._head = head
        self._snapshots = snapshots

    def run(self) -> None:
        """Works until the mailbox is told to finish; the end of input ends nothing, for barriers follow it. Raises
        Cancelled once the job is torn down."""
        while elements := self._mailbox.take():
            for element in elements:
                match element:
                    case pl.DataFrame():
                        self._head.on_batch(element)
                    case Watermark():
                        self._head.on_signal(element)
                    case Barrier(epoch):
                        self._head.on_signal(element)
                        self._snapshots.complete(epoch)
                    case EndOfInput():
                        self._head.on_signal(element)
                        self._snapshots.input_ended()
                    case _:
                        assert_never(element)
