"""The command line of a benchmark that has parts and runs on a broker of its own."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from headrace_dev.broker import BrokerConfig, EmbeddedBroker
from measuring.figures import Figure


class Measure(Protocol):
    """Takes the parts that are wanted, and gives their figures."""

    def __call__(self, brokers: str, parts: Collection[str], *, pairs: int, rows: int) -> list[Figure]: ...


def on_broker(
    usage: str | None, parts: Collection[str], measure: Measure, *, beside: str, pairs: int, rows: int
) -> None:
    """Runs what the command line asks for and prints a line a figure. pairs, rows: unless told otherwise."""
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=parts)
    parser.add_argument("--pairs", type=int, default=pairs)
    parser.add_argument("--rows", type=int, default=rows)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(BrokerConfig(Path(folder))) as broker:
        found = measure(broker.bootstrap, options.only or parts, pairs=options.pairs, rows=options.rows)
    for each in found:
        print(each.text(beside))
