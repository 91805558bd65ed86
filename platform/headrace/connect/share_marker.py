"""The external record of the shares that a subtask published: the newest one, and how many of its rows. Pure.

Publishers store it where it changes atomically with the rows: in the same transaction, the same folder.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connect.publisher import Share
from headrace.core.errors import ExternalError


@dataclass(frozen=True, slots=True)
class ShareMarker:
    """`rows` of the `of` rows in the subtask's share of `epoch` are visible. Epochs are published in order."""

    epoch: int
    rows: int
    of: int

    def published(self, share: Share) -> int:
        """Number of this share's first rows that are visible. Raises ExternalError if the marker contradicts the
        share."""
        if self.epoch != share.epoch:
            return 0 if self.epoch < share.epoch else share.rows
        if self.of != share.rows or self.rows > share.rows:
            raise ExternalError(
                f"{self.rows} of {self.of} rows of epoch {self.epoch} are published, but now that share has "
                f"{share.rows} rows",
                remedy="another job of the same id publishes to the same place: give it another name",
            )
        return self.rows
