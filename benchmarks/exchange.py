"""Measures a shuffle alone: rows split by key, from one process to another, through a Unix socket, TCP and TLS.

usage: exchange.py [seconds of each run, default 2] [runs of each, default 3]

Four columns of about 50 bytes a row. The sender splits each batch by its text column over four channels of the
receiver's mailbox. Rows per CPU-second count the time of sender and receiver together, and so does the time of a batch.
The upper bound is `bare`: the same number of bytes, written to a Unix socket and read into one buffer. Prints one JSON
line for each kind and batch size.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl
from measuring.figures import Stopwatch, median, spread

from headrace.core.signals import EndOfInput
from headrace.exchange.edge.partition import open_partitioner
from headrace.exchange.mailbox import ChannelBounds, Mailbox
from headrace.exchange.network.encryption import Encryption
from headrace.exchange.network.handshake import Identity
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.outgoing import Connection
from headrace.exchange.output import EdgeOutput
from headrace.plan.partitioning import Hash
from headrace.tls.files import TlsFiles

TASK, TOKEN, MERGE_ROWS = "reader", "bench", 32_768
BATCH_ROWS = (10, 1_000, 16_000, 64_000)
BATCHES = 4
CHANNELS = 4
BARE_BYTES = 1 << 20


def batches(rows: int) -> list[pl.DataFrame]:
    """Batches with the memory layout that a decoder produces: each has its own buffers, in the order of its rows."""
    random = np.random.default_rng(1)
    return [
        pl.DataFrame(
            {
                "origin": [f"airport-number-{n:07d}" for n in random.integers(0, 5_000, rows)],
                "delay": random.random(rows),
                "scheduled": pl.Series(random.integers(0, 10**15, rows)).cast(pl.Datetime("us", "UTC")),
                "__ts": random.integers(0, 10**12, rows),
            }
        )
        for _ in range(BATCHES)
    ]


def encryption(kind: str, folder: str) -> Encryption | None:
    """The TLS settings, with a self-signed certificate that the first call creates."""
    if kind != "tls":
        return None
    key, cert = Path(folder) / "key.pem", Path(folder) / "cert.pem"
    if cert.exists():
        return Encryption(TlsFiles(cert, key, cert))
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=bench"
    subprocess.run([*command.split(), "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    return Encryption(TlsFiles(cert, key, cert))


def receive(kind: str, folder: str) -> None:
    """The receiving process: receives until the end of the stream, then prints its figures."""
    own = Path(folder) / "receiver"
    own.mkdir()
    listener = Listener("127.0.0.1", own if kind == "unix" else None, encryption=encryption(kind, folder))
    mailbox = Mailbox((0,) * CHANNELS, ChannelBounds(), merge_rows_max=MERGE_ROWS)
    listener.serve(Identity("bench", 1, TOKEN, 1), {TASK: mailbox}, lambda loss: sys.exit(str(loss)))
    _say(listener.address)
    rows, watch = 0, None
    while True:
        for element in mailbox.take():
            watch = watch or Stopwatch.start()
            if isinstance(element, pl.DataFrame):
                rows += element.height
            elif isinstance(element, EndOfInput):
                _say(watch.report(rows, rows))
                listener.close()
                return


def receive_bare(folder: str) -> None:
    """The receiver of `bare`: reads into one buffer until the end of the stream."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path := f"{folder}/bare")
        listener.listen()
        _say(path)
        peer, _ = listener.accept()
    with peer:
        buffer, size, watch = bytearray(BARE_BYTES), 0, Stopwatch.start()
        while got := peer.recv_into(buffer):
            size += got
    _say(watch.report(size, size))


def _say(words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def shuffle(connection: Connection) -> EdgeOutput:
    """The sending end of an edge by key."""
    partitioner = open_partitioner(Hash(("origin",)), subtask=0, senders=1, receivers=CHANNELS, max_parallelism=128)
    outlets = {target: connection.outlet(TASK, target) for target in partitioner.targets}
    return EdgeOutput(partitioner, outlets, columns=["origin", "delay", "scheduled"], order_columns=False)


def run(kind: str, rows: int, seconds: float) -> tuple[float, float]:
    """(MB a second, rows per CPU-second) of one run."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        secure = encryption(kind, folder)
        arguments = [sys.executable, __file__, "receive", kind, folder]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as receiver:
            assert receiver.stdout is not None
            host, port, unix_path = json.loads(receiver.stdout.readline())
            connection = Connection(
                (host, port, unix_path),
                Identity("bench", 1, TOKEN, 0),
                1,
                10_000,
                lambda loss: sys.exit(str(loss)),
                encryption=secure,
            )
            output = shuffle(connection)
            whole = batches(rows)
            sent, watch = 0, Stopwatch.start()
            while time.perf_counter() - watch.wall_start < seconds:
                for batch in whole:
                    output.on_batch(batch)
                    sent += rows
            output.on_signal(EndOfInput())
            received = json.loads(receiver.stdout.readline())
            sender = watch.report(sent, sent)
            connection.close()
    assert received["rows"] == sent, "rows were lost"
    size = sum(batch.estimated_size() for batch in whole) / (rows * BATCHES)
    return sent * size / 1e6 / sender["wall_s"], sent / (sender["cpu_s"] + received["cpu_s"])


def run_bare(rows: int, seconds: float) -> tuple[float, float]:
    """As `run`, for the same number of bytes without an exchange."""
    size = int(batches(rows)[0].estimated_size())
    message = bytes(size)
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        arguments = [sys.executable, __file__, "receive_bare", folder]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as receiver:
            assert receiver.stdout is not None
            with socket.socket(socket.AF_UNIX) as sender:
                sender.connect(json.loads(receiver.stdout.readline()))
                sent, watch = 0, Stopwatch.start()
                while time.perf_counter() - watch.wall_start < seconds:
                    sender.sendall(message)
                    sent += rows
            received = json.loads(receiver.stdout.readline())
            figures = watch.report(sent, sent)
    return sent * size / rows / 1e6 / figures["wall_s"], sent / (figures["cpu_s"] + received["cpu_s"])


def main(seconds: float, runs: int) -> None:
    """All kinds and sizes, in turn within each run."""
    for rows in BATCH_ROWS:
        found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in ("bare", "unix", "tcp", "tls")}
        for _ in range(runs):
            for kind, figures in found.items():
                figures.append(run_bare(rows, seconds) if kind == "bare" else run(kind, rows, seconds))
        for kind, figures in found.items():
            speeds, per_cpu = [each[0] for each in figures], [each[1] for each in figures]
            _say(
                {
                    "kind": kind,
                    "batch_rows": rows,
                    "mb_per_s": round(median(speeds)),
                    "rows_per_cpu_s": round(median(per_cpu)),
                    "cpu_us_per_batch": round(1e6 * rows / median(per_cpu), 1),
                    "spread": spread(per_cpu),
                }
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["receive"]:
        receive(sys.argv[2], sys.argv[3])
    elif sys.argv[1:2] == ["receive_bare"]:
        receive_bare(sys.argv[2])
    else:
        main(float(sys.argv[1]) if sys.argv[1:] else 2.0, int(sys.argv[2]) if sys.argv[2:] else 3)
