"""A peer in a process of its own, for tests that kill or freeze it: python exchange_peer.py listen|send <JSON>.

listen  opens a listener, prints its address, and takes rows from the mailbox of task `t` when told to (`take`)
send    connects to `address` and sends batches of `rows` rows until it is killed
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl

from headrace.exchange.mailbox import ChannelBounds, Mailbox
from headrace.exchange.network.handshake import Identity
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.link import LinkTimes
from headrace.exchange.network.outgoing import Connection


def listen(told: dict[str, Any]) -> None:
    """Until standard input ends."""
    folder = Path(told["folder"]) if told["folder"] else None
    listener = Listener("127.0.0.1", folder, times=LinkTimes(**told["times"]))
    mailbox = Mailbox((0,), ChannelBounds(rows_max=told["rows_max"]), merge_rows_max=1_000)
    listener.serve(Identity("job", 1, "token", 1), {"t": mailbox}, lambda loss: None)
    if told["take"]:
        threading.Thread(target=take_for_ever, args=(mailbox,), daemon=True).start()
    say(listener.address)
    sys.stdin.read()
    listener.close()


def say(words: object) -> None:
    """One line for the test."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def take_for_ever(mailbox: Mailbox) -> None:
    while True:
        mailbox.take()


def send(told: dict[str, Any]) -> None:
    """Until it is killed."""
    host, port, unix_path = told["address"]
    times = LinkTimes(**told["times"])
    connection = Connection(
        (host, port, unix_path), Identity("job", 1, "token", 0), 1, 240_000, lambda loss: None, times=times
    )
    outlet = connection.outlet("t", 0)
    say("sending")
    while True:
        outlet.put(pl.DataFrame({"a": range(told["rows"])}))


if __name__ == "__main__":
    {"listen": listen, "send": send}[sys.argv[1]](json.loads(sys.argv[2]))
