"""The gates of a pipeline's sources, through the connectors in `third_party/gated`: the test's side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.flows.cuts import Cut, ends_of, position

GATED = ("generator", "files")
"""Connectors that there is a gated form of."""


class Gates:
    """Gates before all sources of a pipeline in its file form; each of its sources has a connector of `GATED`.

    document  the pipeline with gates
    ends      behind the last row of each partition
    """

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        self._plain = document
        self._folder = folder
        self._number = 0
        self.ends = ends_of(document)
        self.document: dict[str, Any] = json.loads(json.dumps(document))
        for name, source in self.document["sources"].items():
            (kind,) = (kind for kind in GATED if kind in source)
            (folder / name).mkdir(parents=True)
            source[f"gated_{kind}"] = source.pop(kind) | {"gate": str(folder / name)}

    def open(self, cut: Cut, *, closed: bool = False) -> Mapping[str, Mapping[int, int]]:
        """Releases the rows before a cut; gives source -> partition -> its position.

        closed   readers stand still there, and with them every checkpoint, until the next `open`
        """
        self._number += 1
        opened: dict[str, dict[int, int]] = {}
        for source, rows in cut.items():
            until = {int(number): position(self._plain, self.ends, cut, source, int(number)) for number in rows}
            opening = {"number": self._number, "until": until, "closed": closed}
            fresh = self._folder / source / "opening.new"
            fresh.write_text(json.dumps(opening))
            fresh.replace(self._folder / source / "opening")
            opened[source] = until
        return opened

    def is_held(self) -> bool:
        """Whether a reader stands at the newest opening."""
        return any(self._folder.glob(f"*/held-{self._number}"))

    def share(self, part: int, parts: int) -> Cut:
        """The cut behind the first `part` of `parts` equal parts of every partition, and one row more.

        Rows are spread evenly over the same span of time in each partition. With that row a sparse partition is not
        behind the dense ones at the cut: else those would wait for it (`max_drift`), and it for the gate.
        """
        return {
            source: {number: min(rows, -(-rows * part // parts) + 1) for number, rows in counts.items()}
            for source, counts in self.ends.items()
        }
