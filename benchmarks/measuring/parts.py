"""The command line of a benchmark that has parts and runs on its own broker."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from headrace_dev.broker import BrokerConfig, EmbeddedBroker
from measuring.figures import Figure


class Measure(Protocol):
    """Runs the selected parts and returns their figures."""

    def __call__(self, brokers: str, parts: Collection[str], *, pairs: int, rows: int) -> list[Figure]: ...


def on_broker(
    usage: str | None, parts: Collection[str], measure: Measure, *, beside: str, pairs: int, rows: int
) -> None:
    """Runs the parts in the command line and prints one line per figure. pairs, rows: the defaults."""
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=parts)
    parser.add_argument("--pairs", type=int, default=pairs)
    parser.add_argument("--rows", type=int, default=rows)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(BrokerConfig(Path(folder))) as broker:
        found = measure(broker.bootstrap, options.only or parts, pairs=options.pairs, rows=options.rows)
    for each in found:
        print(each.text(beside))
