"""A candidate in a process of its own, which a test suspends and wakes.

`python -m support.leadership.candidate URL` prints a line for each event. For each line that it reads it announces an
address, and prints whether it was published. It ends with its input.
"""

from __future__ import annotations

import os
import sys

from headrace.core.errors import ExternalError
from headrace.leadership.elector import ElectorEvent, Leader
from headrace.leadership.opening import open_elector

PUBLISHED, REFUSED = "published", "refused"


def main() -> None:
    elector = open_elector(sys.argv[1], os.environ)
    elector.campaign(_print_event)
    for number, _ in enumerate(sys.stdin):
        try:
            elector.announce(Leader("http://suspended:1", "suspended:2", number))
        except ExternalError:
            _print(REFUSED)
        else:
            _print(PUBLISHED)
    elector.close()


def _print_event(event: ElectorEvent) -> None:
    _print(type(event).__name__)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
