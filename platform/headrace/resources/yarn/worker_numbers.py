"""A worker's id as the number of its request at YARN, and back. Pure.

YARN keeps the number (allocation request id, 64 bits) with the container, over restarts of the ApplicationMaster and of
the ResourceManager. So the containers that an attempt keeps name their workers, and nothing has to be stored.
"""

from __future__ import annotations

import re

from headrace.core.errors import InternalError

_ID = re.compile(r"w(\d+)-(\d+)\Z")
_MADE_BITS = 24
"""At most 16 million workers in a term."""


def number_of(worker: str) -> int:
    """The number of `w<term>-<n>`."""
    found = _ID.match(worker)
    if found is None or int(found[2]) >> _MADE_BITS or int(found[1]) >> (62 - _MADE_BITS):
        raise InternalError(f"{worker!r} is no id of a worker")
    return int(found[1]) << _MADE_BITS | int(found[2])


def worker_of(number: int) -> str:
    """Inverse of `number_of`."""
    return f"w{number >> _MADE_BITS}-{number & ((1 << _MADE_BITS) - 1)}"
