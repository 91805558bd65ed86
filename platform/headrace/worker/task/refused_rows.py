"""Where the rows go that a sink cannot write, by its `on_error`: nowhere, or to the readers of its output `bad`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl

from headrace.connect.row_check import Refused, raise_refused
from headrace.core.signals import Signal
from headrace.operators.chain import Receiver
from headrace.operators.operator import OnError
from headrace.operators.row_errors import RowErrors
from headrace.plan.physical import SinkSpec


class RefusedRows:
    """The refused rows of one subtask of a sink. A `Collector` that has no main output.

    receivers   read the output `bad`
    """

    def __init__(self, spec: SinkSpec, receivers: Sequence[Receiver], counters: Counter[str]) -> None:
        self._spec = spec
        self._receivers = tuple(receivers)
        self._counters = counters
        self._errors = RowErrors(spec.node, spec.on_error)

    def refuse(self, rows: pl.DataFrame, refused: Refused) -> None:
        """Applies the policy to the refused ones of these rows. Raises DataError for the first one with `fail`.

        rows   with all of their hidden columns
        """
        if self._spec.on_error is OnError.FAIL:
            raise_refused(self._spec.node, rows, refused)
        elif refused:
            self._errors.reject(rows, {row: refusal.why for row, refusal in refused.items()}, self)

    def emit(self, batch: pl.DataFrame) -> None:
        """Never called: a sink has no main output."""
        raise AssertionError("a sink has no main output")

    def emit_side(self, output: str, batch: pl.DataFrame) -> None:
        """Passes refused rows on."""
        for receiver in self._receivers:
            receiver.on_batch(batch)

    def count(self, counter: str, rows: int) -> None:
        """Counts refused rows for the sink."""
        self._counters[counter] += rows

    def on_signal(self, signal: Signal) -> None:
        """Passes a signal on; called when the rows before it are written or refused."""
        for receiver in self._receivers:
            receiver.on_signal(signal)
