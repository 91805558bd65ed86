"""Where users let sources begin and end, in Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

Bound = str | datetime | Mapping[object, object] | None
"""A word of the connector, a time (naive: UTC), offsets by partition; to end also a savepoint's path. None: as the
source says."""


def bound_text(bound: Bound) -> str | None:
    """As the command line has it."""
    match bound:
        case None | str():
            return bound
        case datetime():
            aware = bound if bound.tzinfo is not None else bound.replace(tzinfo=UTC)
            return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return json.dumps({str(key): value for key, value in bound.items()})
