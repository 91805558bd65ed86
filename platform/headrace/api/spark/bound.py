"""The bounds of a replay's sources, as Python values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

Bound = str | datetime | Mapping[object, object] | None
"""A name that the connector defines (`latest`, say), a time (naive: UTC), or offsets by partition; as an end, also the
path of a savepoint. None: the source's own bound.
"""


def bound_text(bound: Bound) -> str | None:
    """Returns the bound as text of the command line."""
    match bound:
        case None | str():
            return bound
        case datetime():
            aware = bound if bound.tzinfo is not None else bound.replace(tzinfo=UTC)
            return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return json.dumps({str(key): value for key, value in bound.items()})
