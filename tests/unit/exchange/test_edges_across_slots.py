"""Every kind of edge between slots, as the wiring numbers it: half of the channels are sockets, and rows, barriers and
the end reach whom they must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

from headrace.core.errors import HeadraceError
from headrace.core.signals import TIME_MAX, Barrier, Element, EndOfInput, Watermark
from headrace.exchange.mailbox import ChannelBounds, Mailbox
from headrace.exchange.network.handshake import Identity
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.link import LinkTimes
from headrace.exchange.network.outgoing import Connection
from headrace.exchange.outlet import Outlet
from headrace.exchange.output import Channel, EdgeOutput
from headrace.local.engine.compile import compile_pipeline
from headrace.plan.physical import PhysicalPlan
from headrace.spec.reading.read import pipeline_from_dict
from headrace.worker.wiring import wire
from support.processes.running import WAIT_SECONDS

BATCHES, ROWS = 12, 50
CALM = LinkTimes(lost_ms=240_000, linger_ms=60_000)
"""Nothing is lost, however busy the machine is."""


def plan(partition: object, senders: int, receivers: int) -> PhysicalPlan:
    """A source and a sink with an edge between them."""
    data: dict[str, Any] = {
        "name": "edges",
        "sources": {
            "made": {
                "generator": {"partitions": senders, "columns": {"n": {"sequence": {}}}},
                "schema": {"n": "int64"},
                "parallelism": senders,
            }
        },
        "sinks": {"out": {"from": "made", "print": {}, "parallelism": receivers, "partition": partition}},
    }
    return compile_pipeline(pipeline_from_dict(data)).physical


@dataclass
class Slot:
    """The slot of one index: it listens, and reads with subtask `index` where there is one."""

    index: int
    listener: Listener
    mailbox: Mailbox | None
    lost: list[HeadraceError]

    def identity(self) -> Identity:
        return Identity("job", 1, "token", self.index)


def open_slots(stack: ExitStack, channels: tuple[tuple[int, ...], ...], slots: int) -> list[Slot]:
    opened = []
    for index in range(slots):
        listener = Listener("127.0.0.1", None, times=CALM)
        stack.callback(listener.close)
        inputs = channels[index] if index < len(channels) else ()
        mailbox = Mailbox(inputs, ChannelBounds(rows_max=100), merge_rows_max=1_000) if inputs else None
        slot = Slot(index, listener, mailbox, [])
        listener.serve(slot.identity(), {"out": mailbox} if mailbox else {}, slot.lost.append)
        opened.append(slot)
    return opened


def outlets(stack: ExitStack, slots: list[Slot], sender: int, channels: dict[int, int]) -> Iterator[tuple[int, Outlet]]:
    """To its own slot through the mailbox, to others through a connection."""
    for target, number in channels.items():
        slot = slots[target]
        if target == sender and slot.mailbox is not None:
            yield target, Channel(slot.mailbox, number)
            continue
        connection = Connection(
            slot.listener.address, slots[sender].identity(), target, 240_000, slot.lost.append, times=CALM
        )
        stack.callback(connection.close)
        yield target, connection.outlet("out", number)


def send(output: EdgeOutput, sender: int) -> None:
    """Rows, a barrier in their midst, all time, the end, and a barrier after it."""
    for n in range(BATCHES):
        begin = (sender * BATCHES + n) * ROWS
        output.on_batch(pl.DataFrame({"n": range(begin, begin + ROWS), "__ts": [n] * ROWS}))
        if n == BATCHES // 2:
            output.on_signal(Barrier(1))
    for signal in (Watermark(TIME_MAX), EndOfInput(), Barrier(2)):
        output.on_signal(signal)


def receive(mailbox: Mailbox) -> tuple[list[int], list[Element]]:
    """Rows and signals up to the last barrier."""
    values: list[int] = []
    signals: list[Element] = []
    while not (signals and signals[-1] == Barrier(2)):
        for element in mailbox.take():
            if isinstance(element, pl.DataFrame):
                values += element["n"].to_list()
            else:
                signals.append(element)
    return values, signals


def everyone(rows: list[int], receivers: list[list[int]]) -> bool:
    return all(sorted(each) == rows for each in receivers)


def the_first(rows: list[int], receivers: list[list[int]]) -> bool:
    return sorted(receivers[0]) == rows and not any(receivers[1:])


def spread(rows: list[int], receivers: list[list[int]]) -> bool:
    return sorted(value for each in receivers for value in each) == rows and all(receivers)


@pytest.mark.parametrize(("senders", "receivers"), [(2, 2), (3, 2), (2, 3), (1, 3), (3, 1)])
@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ("rebalance", spread),
        ("rescale", spread),
        ("broadcast", everyone),
        ("global", the_first),
        ({"hash": ["n"]}, spread),
    ],
    ids=["rebalance", "rescale", "broadcast", "global", "hash"],
)
def test_rows_and_signals_reach_whom_they_must(
    partition: object, expected: Callable[[list[int], list[list[int]]], bool], senders: int, receivers: int
) -> None:
    physical = plan(partition, senders, receivers)
    (edge,) = physical.edges
    wiring = wire(physical)
    with ExitStack() as stack:
        slots = open_slots(stack, wiring.channels["out"], max(senders, receivers))
        outputs = []
        for sender in range(senders):
            wired = wiring.senders[edge, sender]
            to = dict(outlets(stack, slots, sender, dict(wired.channels)))
            outputs.append(EdgeOutput(wired.partitioner, to, columns=edge.columns, order_columns=edge.order_columns))
        pool = stack.enter_context(ThreadPoolExecutor(senders + receivers))
        reading = [pool.submit(receive, slot.mailbox) for slot in slots if slot.mailbox is not None]
        sending = [pool.submit(send, output, sender) for sender, output in enumerate(outputs)]
        for each in sending:
            each.result(WAIT_SECONDS)
        received = [each.result(WAIT_SECONDS) for each in reading]
        assert not [loss for slot in slots for loss in slot.lost]
    assert len(received) == receivers
    assert expected(list(range(senders * BATCHES * ROWS)), [values for values, _ in received])
    for _, signals in received:
        assert signals == [Barrier(1), Watermark(TIME_MAX), EndOfInput(), Barrier(2)]
