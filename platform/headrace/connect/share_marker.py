"""What a sink's outside remembers of the shares that a subtask published: the newest one, and how far it came. Pure.

Publishers keep it where it changes together with the rows themselves: in the same transaction, the same folder.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connect.publisher import Share
from headrace.core.errors import ExternalError


@dataclass(frozen=True, slots=True)
class ShareMarker:
    """`rows` of the `of` rows that the subtask's share of `epoch` has are visible. Epochs are published in order."""

    epoch: int
    rows: int
    of: int

    def published(self, share: Share) -> int:
        """How many of this share's first rows are visible. Raises ExternalError where the marker fits no such share."""
        if self.epoch != share.epoch:
            return 0 if self.epoch < share.epoch else share.rows
        if self.of != share.rows or self.rows > share.rows:
            raise ExternalError(
                f"{self.rows} of {self.of} rows of epoch {self.epoch} are published, but now that share has "
                f"{share.rows} rows",
                remedy="another job of the same id publishes to the same place: give it another name",
            )
        return self.rows
