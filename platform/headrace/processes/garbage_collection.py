"""When Python's garbage collector begins and ends: it collects while a process works, not while it starts or exits.

Imports make a hundred thousand objects that stay. Meanwhile the collector traverses them hundreds of times,
and once more when the interpreter ends, and frees almost nothing: a fifth of the cost of a short command.
"""

from __future__ import annotations

import gc

STARTING_OBJECTS = 200_000
"""Objects that exist before the first collection; `headrace validate` makes 130,000."""
_USUAL = gc.get_threshold()


def defer_first_collection() -> None:
    """Makes the first collection wait until STARTING_OBJECTS more objects exist; from then on all is as usual.

    The number bounds the garbage of a process that goes on and runs a job: nobody has to end the deferral.
    """
    if _on_first not in gc.callbacks:
        gc.set_threshold(STARTING_OBJECTS, *_USUAL[1:])
        gc.callbacks.append(_on_first)


def collect_as_usual() -> None:
    """Ends the deferral, if one is left."""
    if _on_first in gc.callbacks:
        gc.callbacks.remove(_on_first)
        gc.set_threshold(*_USUAL)


def skip_last_collection() -> None:
    """Keeps the interpreter, which is about to end, from looking through every object once more."""
    gc.freeze()


def _on_first(_phase: str, _facts: object) -> None:
    collect_as_usual()
