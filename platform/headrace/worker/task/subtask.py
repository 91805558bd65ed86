"""The loop of a subtask that reads from other tasks: take elements from the mailbox, pass them down the chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import polars as pl

from headrace.core.reporting import reporting
from headrace.core.signals import Barrier, Element, EndOfInput, Watermark
from headrace.exchange.mailbox import Mailbox
from headrace.exchange.stopwatch import Stopwatch
from headrace.operators.chain import Receiver
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.key_sample import KeySample


class Subtask:
    """One parallel instance of a task without a source. `run` belongs to one thread, `finish` to any."""

    def __init__(
        self,
        mailbox: Mailbox,
        inputs: Sequence[Receiver],
        snapshots: SubtaskSnapshots,
        keys: KeySample | None = None,
    ) -> None:
        """
        inputs  the receiver of each input's batches, by number; signals go to the first one
        keys    samples the rows; None: they are not sent by key, or to one subtask only
        """
        self._mailbox = mailbox
        self._inputs = inputs
        self._head = inputs[0]
        self._snapshots = snapshots
        self._finished = False
        self.waited = Stopwatch()
        """Time spent waiting for input."""
        self.batches = 0
        """Batches that were taken so far. Other threads may read it."""
        self.keys = keys

    def finish(self) -> None:
        """Ends the loop. To be called once all output is committed and no further barrier will come."""
        self._finished = True
        self._mailbox.wake()

    def run(self) -> None:
        """Runs until `finish`. EndOfInput does not end the loop, because barriers follow it.

        Raises TaskCancelledError when the mailbox is cancelled.
        """
        while not self._finished:
            for element in self._next():
                match element:
                    case pl.DataFrame():
                        number = self._mailbox.input_taken
                        self.batches += 1
                        if self.keys is not None:
                            with reporting("sample of keys"):
                                self.keys.add(element, number)
                        self._inputs[number].on_batch(element)
                    case Watermark():
                        self._head.on_signal(element)
                    case Barrier(epoch):
                        self._head.on_signal(element)
                        self._snapshots.complete(epoch, self._mailbox.aligned_ms)
                    case EndOfInput():
                        self._head.on_signal(element)
                        self._snapshots.input_ended()
                    case _:
                        assert_never(element)

    def _next(self) -> list[Element]:
        with self.waited.running():
            return self._mailbox.take()
