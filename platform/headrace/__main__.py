"""`headrace`, and `python -m headrace`: the command line.

SIGINT gets its default action before the first import that runs Python code, so that Ctrl-C during the start shows no
trace. Therefore `_signal`, the built-in module that `signal` wraps: importing `signal` runs `enum` first.
"""

import _signal as signal  # type: ignore[import-not-found]


def main() -> None:
    """The entry point of the `headrace` script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # until the command begins, Ctrl-C ends the process as it ends any other
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from headrace.processes.garbage_collection import defer_first_collection, skip_last_collection

    defer_first_collection()
    from headrace.cli.app import main as run_command

    try:
        run_command()
    finally:
        skip_last_collection()


if __name__ == "__main__":
    main()
