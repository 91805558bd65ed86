"""The order to start a process: its program, arguments, environment and descriptors, and its encoding for the
template.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from headrace.core.network.frames import LENGTH_BYTES, decode_length, encode_frame, receive_exactly

ORDER_BYTES_MAX = 8 << 20
"""An order is mostly its environment; Linux limits that to 6 MiB."""
DESCRIPTORS_MAX = 16
OPEN_DESCRIPTORS = "/proc/self/fd"


@dataclass(frozen=True, slots=True)
class ProcessOrder:
    """One process to start.

    program       a module with `main(arguments: list[str])`, which ends the process
    arguments     the role first: it marks the process in lists of processes
    environment   all of it, not only additions to the owner's
    stdout        a descriptor of the owner; as are stderr and those in `keep`
    keep          descriptors that the process inherits under the same numbers
    """

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    stdout: int
    stderr: int
    keep: tuple[int, ...] = ()

    @property
    def role(self) -> str:
        """The name in lists of processes."""
        return self.arguments[0]


def send_order(connection: socket.socket, order: ProcessOrder) -> None:
    """Sends an order and its descriptors. Raises OSError if the template is gone."""
    document = {
        "program": order.program,
        "arguments": order.arguments,
        "environment": dict(order.environment),
        "keep": order.keep,
    }
    # JSON in ASCII keeps surrogates: an environment may contain bytes that are not UTF-8
    frame = encode_frame(json.dumps(document).encode("ascii"), bytes_max=ORDER_BYTES_MAX)
    # the descriptors travel with the length, because SCM_RIGHTS needs at least one byte of data
    socket.send_fds(connection, [frame[:LENGTH_BYTES]], [order.stdout, order.stderr, *order.keep])
    connection.sendall(memoryview(frame)[LENGTH_BYTES:])


def receive_order(connection: socket.socket) -> tuple[ProcessOrder, list[int]] | None:
    """Returns the next order, with its descriptors as numbered here; `keep` has the owner's numbers. None: the owner is
    gone. Raises OSError if the owner goes within an order.
    """
    head, descriptors, _, _ = socket.recv_fds(connection, LENGTH_BYTES, DESCRIPTORS_MAX)
    if len(head) < LENGTH_BYTES:
        return None
    body = receive_exactly(connection.recv_into, decode_length(head, bytes_max=ORDER_BYTES_MAX))
    if body is None:
        return None
    document = json.loads(body)
    order = ProcessOrder(
        program=document["program"],
        arguments=tuple(document["arguments"]),
        environment=document["environment"],
        stdout=descriptors[0],
        stderr=descriptors[1],
        keep=tuple(document["keep"]),
    )
    return order, descriptors[2:]


def place_descriptors(order: ProcessOrder, kept: Sequence[int]) -> None:
    """Moves the received descriptors to 0 to 2 and to the owner's numbers in `keep`; closes all others."""
    # first above every target, so that no dup2 overwrites a descriptor that is still to be placed
    floor = max(2, *order.keep, 0) + 1
    sources = [os.open(os.devnull, os.O_RDONLY), order.stdout, order.stderr, *kept]
    lifted = [_lift(descriptor, floor) for descriptor in sources]
    for number, descriptor in zip((0, 1, 2, *order.keep), lifted, strict=True):
        os.dup2(descriptor, number)
    close_all_but({0, 1, 2, *order.keep})


def close_all_but(kept: Collection[int]) -> None:
    """Closes the descriptors of this process but these. Open ones are listed, because their greatest number may be
    1e9, and without the system call `close_range` each number would be tried."""
    try:
        opened = [int(name) for name in os.listdir(OPEN_DESCRIPTORS)]  # noqa: PTH208
    except OSError:  # no /proc here
        opened = list(range(os.sysconf("SC_OPEN_MAX")))
    for number in opened:
        if number not in kept:
            # the listing's own is closed already
            with suppress(OSError):
                os.close(number)


def _lift(descriptor: int, floor: int) -> int:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, floor)
