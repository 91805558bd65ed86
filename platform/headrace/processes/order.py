"""A process to start: its program, arguments, environment and descriptors, and how an order travels to the template."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ORDER_BYTES_MAX = 8 << 20
"""An order is mostly its environment; Linux bounds that to 6 MiB."""
DESCRIPTORS_MAX = 16
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class ProcessOrder:
    """One process to start.

    program      a module with `main(arguments: list[str])`, which ends the process
    arguments    the role first: it marks the process in lists of processes
    environment  all of it, not what comes on top of the owner's
    stdout       a descriptor of the owner; as are stderr and those in `keep`
    keep         descriptors that the process inherits under the same numbers
    """

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    stdout: int
    stderr: int
    keep: tuple[int, ...] = ()

    @property
    def role(self) -> str:
        """What lists of processes show."""
        return self.arguments[0]


def send_order(connection: socket.socket, order: ProcessOrder) -> None:
    """Sends an order and its descriptors. Raises OSError where the template is gone."""
    document = {
        "program": order.program,
        "arguments": order.arguments,
        "environment": dict(order.environment),
        "keep": order.keep,
    }
    # surrogates: an environment may hold bytes that are not UTF-8
    body = json.dumps(document).encode("ascii")
    socket.send_fds(connection, [_LENGTH.pack(len(body))], [order.stdout, order.stderr, *order.keep])
    connection.sendall(body)


def receive_order(connection: socket.socket) -> tuple[ProcessOrder, list[int]] | None:
    """The next order, with the descriptors as they are numbered here; `keep` has the owner's numbers. None: the owner
    is gone."""
    head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, DESCRIPTORS_MAX)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > ORDER_BYTES_MAX:
        return None
    body = receive_exactly(connection, length)
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


def receive_exactly(connection: socket.socket, count: int) -> bytes | None:
    """`count` bytes; None at the end of the stream."""
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            return None
        data += part
    return bytes(data)


def place_descriptors(order: ProcessOrder, kept: Sequence[int]) -> None:
    """Makes the received descriptors 0 to 2 and the owner's numbers in `keep`; all others are closed."""
    # above every target first, so that no target overwrites a descriptor that is still to be placed
    floor = max(2, *order.keep, 0) + 1
    sources = [os.open(os.devnull, os.O_RDONLY), order.stdout, order.stderr, *kept]
    lifted = [_lift(descriptor, floor) for descriptor in sources]
    for number, descriptor in zip((0, 1, 2, *order.keep), lifted, strict=True):
        os.dup2(descriptor, number)
    wanted = sorted({0, 1, 2, *order.keep})
    for low, high in zip(wanted, [*wanted[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)


def _lift(descriptor: int, floor: int) -> int:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, floor)
