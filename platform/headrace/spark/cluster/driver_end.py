"""The exit code and output of a driver that ran on the cluster: one object in checkpoint storage, which the driver
writes and the submitting command reads. Independent of the command.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from headrace.checkpoint.paths import joined, parted
from headrace.checkpoint.stores.opening import open_folder
from headrace.checkpoint.stores.store import ObjectNotFoundError
from headrace.checkpoint.unique_names import unique_part
from headrace.core.errors import HeadraceError

TAIL_CHARACTERS = 200_000
"""Characters of the output that are kept, from its end."""


@dataclass(frozen=True, slots=True)
class DriverEnd:
    """Its exit code and its output."""

    code: int
    out: str = ""
    err: str = ""

    def keep(self, url: str) -> None:
        """Writes the object. Blocking. Raises HeadraceError."""
        folder, name = parted(url)
        kept = asdict(self) | {"out": self.out[-TAIL_CHARACTERS:], "err": self.err[-TAIL_CHARACTERS:]}
        open_folder(folder).write(name, json.dumps(kept).encode())

    @staticmethod
    def take(url: str) -> DriverEnd | None:
        """Reads and deletes the object. Returns None if there is none, or if it cannot be reached from here.
        Blocking.
        """
        folder, name = parted(url)
        try:
            store = open_folder(folder)
            end = DriverEnd(**json.loads(store.read(name)))
            store.delete([name])
        except (ObjectNotFoundError, HeadraceError, OSError, ValueError, TypeError):
            return None
        return end


def end_url(storage: str) -> str:
    """Returns a unique URL for the end of a driver that is about to start."""
    return joined(storage, f"driver-{unique_part()}.json")
