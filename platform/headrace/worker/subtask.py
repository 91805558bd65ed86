"""The loop of a subtask that reads from other tasks: take from the mailbox, hand down the chain."""

from __future__ import annotations

import time
from typing import assert_never

import polars as pl

from headrace.core.signals import Barrier, Element, EndOfInput, Watermark
from headrace.exchange.channel import Mailbox
from headrace.operators.chain import Receiver
from headrace.worker.snapshots import SubtaskSnapshots


class Subtask:
    """One parallel instance of a task without a source. `run` belongs to one thread, `finish` to any."""

    def __init__(self, mailbox: Mailbox, head: Receiver, snapshots: SubtaskSnapshots) -> None:
        self._mailbox = mailbox
        self._head = head
        self._snapshots = snapshots
        self._finished = False
        self._waited_ns = 0
        self._waiting_since_ns = 0

    def finish(self) -> None:
        """Everything is committed and nothing more will come: the loop is left."""
        self._finished = True
        self._mailbox.wake()

    def run(self) -> None:
        """Works until `finish`; the end of input ends nothing, for barriers follow it. Raises Cancelled once the job
        is torn down."""
        while not self._finished:
            for element in self._next():
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

    @property
    def waited_ms(self) -> float:
        """How long it has waited for its input so far."""
        since_ns = self._waiting_since_ns
        return (self._waited_ns + (time.monotonic_ns() - since_ns if since_ns else 0)) / 1e6

    def _next(self) -> list[Element]:
        self._waiting_since_ns = begun_ns = time.monotonic_ns()
        elements = self._mailbox.take()
        self._waiting_since_ns = 0
        self._waited_ns += time.monotonic_ns() - begun_ns
        return elements
