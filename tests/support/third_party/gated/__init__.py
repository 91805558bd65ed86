"""The generator and files sources behind a gate: they read only rows that a test has released.

Each source has a folder of its own, through which the test and the readers of all processes talk (the test's side is
`support.clusters.gates`):

    opening       JSON, written by the test: `until`, the position before which each partition may be read, and `closed`
    held-<number> written by a reader that stands at a closed opening: all of its rows are out

An opening that is not closed holds rows back and nothing else: watermarks, barriers and commands pass. At a closed
one the reader does not return from `poll` once it has read all that it may: no checkpoint completes after that, so the
rows that came since the last one are lost with the process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.connect.registry import Connector
from headrace.connect.source import Polled, Reader, SourceContext, Split, SplitId
from headrace_connectors.files import FilesSourceConfig
from headrace_connectors.generator import GeneratorSourceConfig

LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Opening:
    """Which rows are released. number: of the openings of this gate, from 1; 0: the test has not opened it yet."""

    number: int = 0
    until: Mapping[str, int] = field(default_factory=dict)
    closed: bool = False


class Gate:
    """One source's gate, as a reader sees it."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def opening(self) -> Opening:
        """The newest one. The test replaces the file, so it is always whole."""
        try:
            return Opening(**json.loads((self._folder / "opening").read_text()))
        except FileNotFoundError:
            return Opening()

    def hold(self, opening: Opening) -> None:
        """Waits here until the test opens the gate again."""
        (self._folder / f"held-{opening.number}").touch()
        while self.opening() == opening:
            time.sleep(LOOK_S)


class GatedReader:
    """The inner source's reader, opened anew for each opening of the gate: there its splits stop at the gate."""

    def __init__(self, gate: Gate, open_inner: Callable[[], Reader]) -> None:
        self._gate, self._open_inner = gate, open_inner
        self._opening = Opening()
        self._inner = open_inner()
        self._splits: dict[SplitId, Split] = {}
        """Those not yet finished, each from where it goes on."""
        self._paused: set[SplitId] = set()

    def assign(self, splits: Sequence[Split]) -> None:
        """Adds splits."""
        self._splits |= {split.id: split for split in splits}
        self._read(splits)

    def poll(self, timeout_ms: int) -> Polled:
        """Rows that are released. A split that only stands at the gate is not finished."""
        opening = self._gate.opening()
        if opening != self._opening:
            self._opening = opening
            self._inner.close()
            self._inner = self._open_inner()
            self._read(list(self._splits.values()))
        elif opening.closed and all(self._limit(split) == split.start for split in self._splits.values()):
            self._gate.hold(opening)
            return Polled()
        polled = self._inner.poll(timeout_ms)
        for split, position in polled.positions.items():
            self._splits[split] = self._splits[split].starting_at(position)
        # the inner reader calls a split finished where the gate stops it, too
        finished = polled.finished & {split.id for split in self._splits.values() if split.start == split.stop}
        for split in finished:
            del self._splits[split]
        return replace(polled, finished=finished)

    def _read(self, splits: Sequence[Split]) -> None:
        """Has the inner reader read splits up to the gate."""
        self._inner.assign([replace(split, stop=self._limit(split)) for split in splits])
        self._inner.pause(sorted(self._paused & self._splits.keys()))

    def _limit(self, split: Split) -> int:
        """Where the split stops for now. A gate that is not open, or lies before it, holds it where it stands."""
        assert split.stop is not None, "a gated source is bounded"
        return min(split.stop, max(split.start, self._opening.until.get(str(split.id.partition), 0)))

    def pause(self, splits: Sequence[SplitId]) -> None:
        """As the inner source's."""
        self._paused.update(splits)
        self._inner.pause(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """As the inner source's."""
        self._paused.difference_update(splits)
        self._inner.resume(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """As the inner source's."""
        self._inner.commit(positions)

    def close(self) -> None:
        """As the inner source's."""
        self._inner.close()


class GatedGeneratorConfig(GeneratorSourceConfig):
    """Made-up rows behind a gate."""

    gate: str

    def open_reader(self, context: SourceContext) -> Reader:
        """Makes rows that are released."""
        return GatedReader(Gate(self.gate), lambda: super(GatedGeneratorConfig, self).open_reader(context))


class GatedFilesConfig(FilesSourceConfig):
    """Files behind a gate."""

    gate: str

    def open_reader(self, context: SourceContext) -> Reader:
        """Reads lines that are released."""
        return GatedReader(Gate(self.gate), lambda: super(GatedFilesConfig, self).open_reader(context))


GENERATOR = Connector(
    name="gated_generator",
    summary="Made-up rows behind a gate",
    source=GatedGeneratorConfig,
    example_source="""\
gated_generator:
  rows: 10
  columns: {id: {sequence: {start: 1}}}
  gate: /tmp/gate
schema: {id: int64 not null}
""",
)
FILES = Connector(
    name="gated_files",
    summary="Files behind a gate",
    source=GatedFilesConfig,
    example_source="""\
gated_files: {path: data/*.json, gate: /tmp/gate}
format: json
schema: {id: int64}
""",
)
