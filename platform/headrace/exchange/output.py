"""The sending end of an edge between tasks: selects columns, splits rows, and queues them; signals go to every
target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.batch import ORDER_COLUMNS, hidden_columns
from headrace.core.signals import Element, Signal
from headrace.exchange.edge.partition import Partitioner
from headrace.exchange.edge.rows import Rows
from headrace.exchange.mailbox import Mailbox
from headrace.exchange.outlet import Outlet
from headrace.exchange.traffic import NodeBytes


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel of the mailbox of a subtask in this process. Implements `Outlet`."""

    mailbox: Mailbox
    number: int

    def put(self, element: Element | Rows) -> None:
        """Appends the element; a batch waits while the channel is full. Raises TaskCancelledError."""
        self.mailbox.put(self.number, element.gathered() if isinstance(element, Rows) else element)

    @property
    def waited_ms(self) -> float:
        """How long the sender has waited for room so far, in ms."""
        return self.mailbox.waited_ms(self.number)


class EdgeOutput:
    """The sending end of one edge in one subtask, as a `Receiver` (`operators.chain`) at the end of its chain.

    outlets        target -> the outlet to that subtask of the reading task, for each target of the partitioner
    columns        visible columns in the reader's order
    order_columns  whether the order columns are sent too
    sent           counts the bytes of the parts
    """

    def __init__(
        self,
        partitioner: Partitioner,
        outlets: Mapping[int, Outlet],
        *,
        columns: Sequence[str],
        order_columns: bool,
        sent: NodeBytes | None = None,
    ) -> None:
        self._partitioner = partitioner
        self._outlets = dict(outlets)
        self._columns = list(columns)
        self._order_columns = order_columns
        self._sent = NodeBytes() if sent is None else sent

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Splits the batch and appends each part to its outlet; waits while that outlet has no room."""
        for target, part in self._partitioner.split(self.shaped(batch)):
            self._outlets[target].put(part)
            self._sent.bytes_out += part.bytes

    def shaped(self, batch: pl.DataFrame) -> pl.DataFrame:
        """The batch with exactly the columns to send, in order."""
        hidden = hidden_columns(batch)
        if not self._order_columns:
            hidden = [name for name in hidden if name not in ORDER_COLUMNS]
        wanted = [*self._columns, *hidden]
        return batch if batch.columns == wanted else batch.select(wanted)

    def on_signal(self, signal: Signal) -> None:
        """Queues the signal for every target that this sender feeds."""
        for target in self._partitioner.targets:
            self._outlets[target].put(signal)

    @property
    def waited_ms(self) -> float:
        """How long this sender has waited for room so far, over all targets, in ms: backpressure."""
        return sum(outlet.waited_ms for outlet in self._outlets.values())
