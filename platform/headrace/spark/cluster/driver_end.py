"""How a driver that ran on the cluster ended, told to the command that sent it there: one object in checkpoint storage,
which both reach. Knows nothing of what the command was.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from headrace.checkpoint.paths import joined, parted, unique_part
from headrace.checkpoint.stores.opening import open_folder
from headrace.checkpoint.stores.store import ObjectMissing
from headrace.core.errors import HeadraceError

TAIL_CHARACTERS = 200_000
"""Of what was printed, the end."""


@dataclass(frozen=True, slots=True)
class DriverEnd:
    """Its exit code, and what it has printed."""

    code: int
    out: str = ""
    err: str = ""

    def keep(self, url: str) -> None:
        """Writes it. Blocking. Raises HeadraceError."""
        folder, name = parted(url)
        kept = asdict(self) | {"out": self.out[-TAIL_CHARACTERS:], "err": self.err[-TAIL_CHARACTERS:]}
        open_folder(folder).write(name, json.dumps(kept).encode())

    @staticmethod
    def take(url: str) -> DriverEnd | None:
        """Reads and removes it; None where there is none, or it cannot be reached from here. Blocking."""
        folder, name = parted(url)
        try:
            store = open_folder(folder)
            end = DriverEnd(**json.loads(store.read(name)))
            store.delete([name])
        except (ObjectMissing, HeadraceError, OSError, ValueError, TypeError):
            return None
        return end


def end_url(storage: str) -> str:
    """Where one that is about to start is to tell: a place of its own."""
    return joined(storage, f"driver-{unique_part()}.json")
