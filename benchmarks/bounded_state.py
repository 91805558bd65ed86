"""State beyond memory, in the slot of a `headrace run`: what the slot holds over time, and what it writes.

usage: bounded_state.py [--job running|window] [--keys N] [--minutes M] [--memory 64MiB] [--interval 5s] [--folder DIR]

    running   a running aggregate: every key is touched again and again, in an order that has nothing to do with places
    window    windows that every key reaches once or twice, and that fire

Every two seconds a line: rows of the newest checkpoint, anonymous memory (RssAnon), mapped pages of files (RssFile),
descriptors, mappings. After the time the run is stopped, and the rows of its last checkpoint are compared with those
that its positions say. A second run resumes it, and shows what that takes. In the end: by how much anonymous memory
grew after the first million keys, and the bytes that changed, were written locally and uploaded.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring.slot_run import Run, position, started

import headrace

STEP = 7_919
"""Row n has key n * STEP % keys."""
START_MS = 1_704_067_200_000
KEYS_FIRST = 1_000_000
LOOK_S, LOOK_RESTORE_S, END_S = 2.0, 0.1, 600.0
STATE_ROW_BYTES = 64
"""About: a key of 14 bytes with its view, four values, a place."""


def pipeline(given: argparse.Namespace, local: Path) -> dict[str, Any]:
    """The job. Nobody reads its results: a sink would measure itself."""
    key = f"'device-' || cast(n * {STEP} % {given.keys} as string)"
    totals: dict[str, Any] = {"from": "named", "key_by": ["k"], "on_error": "divert"}
    totals["aggregate"] = {"rows": "count(*)", "total": "sum(n)", "least": "min(n)", "last": "max(n)"}
    if given.job == "window":
        totals["window"] = {"tumbling": f"{window_rows(given.keys)}ms"}
    state = {"backend": given.backend} | ({"memory": given.memory} if given.memory else {})
    return {
        "name": "bounded-state",
        "checkpoint": {"interval": given.interval},
        "state": state | ({"dir": str(local)} if given.backend == "disk" else {}),
        "sources": {
            "numbers": {
                "generator": {"columns": {"n": {"sequence": {}}, "at": {"time": {"step": "1ms"}}}},
                "schema": {"n": "int64 not null", "at": "timestamp not null"},
                "time": {"column": "at"},
            }
        },
        "steps": {
            "named": {"from": "numbers", "with_columns": {"k": key}},
            "totals": totals,
        },
        "sinks": {"out": {"from": "totals.bad", "print": {}}},
    }


def window_rows(keys: int) -> int:
    """Rows of a window, which are milliseconds of event time."""
    return keys * 3 // 2


# ---- what is seen ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """A slot at one moment. Memory in MiB."""

    at_s: float
    anonymous: int
    mapped: int
    descriptors: int
    mappings: int


@dataclass(slots=True)
class Watched:
    """What was seen of a run. files: bytes of every state file that a checkpoint named; written: bytes by any write."""

    looks: list[tuple[int, Look]] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    written: int = 0
    rows: int = 0

    def add(self, run: Run, slot: int, begun: float) -> None:
        """Looks at the slot and at its checkpoints."""
        for record in run.checkpoints():
            self.rows = max(self.rows, position(record))
            self.files |= {part.path: part.bytes for state in record.manifest.states for part in state.files}
        root = Path("/proc", str(slot))
        try:
            status, io = dict(_pairs(root / "status")), dict(_pairs(root / "io"))
            counts = len(list((root / "fd").iterdir())), len((root / "maps").read_text().splitlines())
        except (OSError, IndexError):
            return
        anonymous, mapped = (int(status[name].split()[0]) >> 10 for name in ("RssAnon", "RssFile"))
        self.written = max(self.written, int(io["wchar"]))
        self.looks.append((self.rows, Look(time.monotonic() - begun, anonymous, mapped, *counts)))

    def most(self) -> int:
        """The most anonymous memory, in MiB."""
        return max(look.anonymous for _, look in self.looks)


def _pairs(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text().splitlines():
        name, _, rest = line.partition(":")
        yield name, rest.strip()


def watched(run: Run, seconds: float, every_s: float, *, is_shown: bool) -> Watched:
    """Looks at a run until it has run for so long."""
    seen, begun = Watched(), time.monotonic()
    slot = run.wait_for_slot()
    while time.monotonic() - begun < seconds and run.process.poll() is None:
        time.sleep(every_s)
        seen.add(run, slot, begun)
        if is_shown and seen.looks:
            rows, look = seen.looks[-1]
            print(
                f"{look.at_s:7.1f} s {rows:13,} rows  anonymous {look.anonymous:5,} MiB  mapped {look.mapped:5,} MiB"
                f"  descriptors {look.descriptors:3}  mappings {look.mappings:5,}",
                flush=True,
            )
    assert run.process.poll() is None, "the run ended before its time: see run.log"
    return seen


# ---- what must be in the checkpoint ----------------------------------------------------------------------------------


def expected(given: argparse.Namespace, rows: int) -> pl.DataFrame:
    """A row a key, of rows 0 to `rows` - 1; of a window job only the last window."""
    first = 0
    if given.job == "window":
        size = window_rows(given.keys)
        first = max(0, (START_MS + rows - 1) // size * size - START_MS)
    begin = np.arange(first, min(rows, first + given.keys), dtype=np.int64)
    count = -(-(rows - begin) // given.keys)
    last = begin + given.keys * (count - 1)
    return pl.DataFrame(
        {"number": begin * STEP % given.keys, "rows": count, "total": (begin + last) * count // 2, "least": begin}
        | {"last": last}
    ).select(pl.format("device-{}", "number").alias("k"), "rows", "total", "least", "last")


def check(given: argparse.Namespace, job: Path) -> int:
    """Compares every row of state with the expected one; returns the number of rows read. Raises AssertionError."""
    state = headrace.open_state(str(job))
    rows = int(state.read("numbers").get_column("position").sum())
    found, wanted = state.read("totals"), expected(given, rows)
    if given.job == "window":
        found = found.filter(pl.col("window_start") == pl.col("window_start").max())
    found = found.select(wanted.columns)
    assert found.height == wanted.height, f"{found.height:,} keys instead of {wanted.height:,}"
    assert found.join(wanted, on=wanted.columns, how="anti").is_empty(), "a key has other values"
    return rows


# ---- the run ---------------------------------------------------------------------------------------------------------


def stopped(run: Run) -> Path:
    """Ends a run as Ctrl-C does; returns its folder in checkpoint storage."""
    run.process.send_signal(signal.SIGINT)
    run.process.wait(END_S)
    (journal,) = run.home.glob("checkpoints/**/journal")
    return journal.parent


def growth(seen: Watched) -> tuple[int, int]:
    """Anonymous memory when the first million keys had been read, and the most after it, in MiB."""
    after = [look.anonymous for rows, look in seen.looks if rows >= KEYS_FIRST]
    return (after[0], max(after)) if after else (0, 0)


def measure(given: argparse.Namespace, folder: Path) -> None:
    local = folder / "local"
    local.mkdir()
    job = pipeline(given, local)
    with started(job, folder / "run") as run:
        seen = watched(run, given.minutes * 60, LOOK_S, is_shown=True)
        kept = stopped(run)
    rows = check(given, kept)
    first, most = growth(seen)
    uploaded, changed = sum(seen.files.values()), rows * STATE_ROW_BYTES
    print(f"rows       {rows:,}, {given.keys:,} keys: state is as expected")
    print(f"anonymous  {first:,} MiB after {KEYS_FIRST:,} rows, at most {most:,} MiB later")
    print(
        f"bytes      {changed >> 20:,} MiB changed (about), {max(0, seen.written - uploaded) >> 20:,} MiB written"
        f" locally, {uploaded >> 20:,} MiB uploaded"
    )
    if given.restore:
        with started(job, folder / "run", "--resume") as run:
            again = watched(run, given.restore, LOOK_RESTORE_S, is_shown=False)
            run.stop()
        assert again.rows > rows, "the restored run goes on"
        print(f"restored   anonymous at most {again.most():,} MiB in {given.restore} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", choices=["running", "window"], default="running")
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--backend", choices=["disk", "memory"], default="disk")
    parser.add_argument("--memory", default="64MiB", help="empty: what is usual")
    parser.add_argument("--interval", default="5s", help="between two checkpoints")
    parser.add_argument("--restore", type=float, default=20.0, help="seconds of the second run; 0: none")
    parser.add_argument("--folder", type=Path, help="of everything that is written, on a disk; kept")
    given = parser.parse_args()
    assert np.gcd(given.keys, STEP) == 1, f"keys must not be divisible by {STEP}"
    if given.folder is not None:
        given.folder.mkdir(parents=True)
        measure(given, given.folder)
        return
    with tempfile.TemporaryDirectory(prefix="headrace-bounded-") as folder:
        measure(given, Path(folder))


if __name__ == "__main__":
    main()
