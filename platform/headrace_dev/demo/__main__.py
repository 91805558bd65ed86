"""`python -m headrace_dev.demo`: prints the flights as lines, airport, tab, message, for `headrace kafka produce`."""

from __future__ import annotations

import os
import sys

from headrace.core.errors import HeadraceError
from headrace_dev.demo.flights import load_flights, write_lines


def main() -> None:
    """Writes all flights to stdout."""
    try:
        write_lines(sys.stdout.buffer, load_flights())
    except BrokenPipeError:
        # the reader has closed the pipe (`| head`): the rest of the buffer is discarded
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except HeadraceError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
