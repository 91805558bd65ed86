"""`headrace`, and `python -m headrace`: the command line."""

from __future__ import annotations

import signal


def main() -> None:
    """The entry point of the `headrace` script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # until the command begins, Ctrl-C ends the process as it ends any other: without a trace of imports
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from headrace.cli.app import main as run_command

    run_command()


if __name__ == "__main__":
    main()
