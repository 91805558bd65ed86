"""A leader's address, as electors publish it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from headrace.core.errors import ExternalError

LEADER_HEADER = "X-Headrace-Leader"
"""In the answers of a coordinator that handled nothing: the URL of the leader, empty if it is unknown."""

FORWARDED_HEADER = "X-Headrace-Forwarded"
"""In a request that a standby forwards: which one. It is not forwarded again."""
STANDBY_HEADER = "X-Headrace-Standby"
"""In a request for a leader's health: the standby that shows itself."""


@dataclass(frozen=True, slots=True)
class Leader:
    """A coordinator that leads.

    url      URL of its REST API
    control  HOST:PORT of its control plane
    term     number of the ledger's record with which it took over: a later leader has a higher one
    """

    url: str
    control: str
    term: int

    def encoded(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decoded(data: bytes, place: str) -> Leader:
        """Inverse of `encoded`. place: named in errors. Raises ExternalError."""
        try:
            found = json.loads(data)
            return Leader(str(found["url"]), str(found["control"]), int(found["term"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ExternalError(
                f"{place} does not hold the address of a coordinator",
                remedy="another program may have written it: give the election a place of its own",
            ) from error
