"""The Spark engine: a pipeline over a bounded range of its sources, or in increments, in tasks of a Spark cluster.

Spark schedules, retries and shuffles opaque blobs; what happens to rows is done by the operators that run live, opened
by the worker's own code. Importing this package, or anything in it but what says so, does not import pyspark.

What users call is offered here lazily (`__init__.pyi` beside this file tells type checkers the same); some of it lives
in `headrace.api`, above this package, where it can take a pipeline in any form.
"""

__all__ = ["replay", "verify", "bootstrap", "bootstrap_columns", "register"]

_HOMES = {
    "replay": ("headrace.api.on_spark", "replay"),
    "verify": ("headrace.api.verifying", "verify"),
    "bootstrap": ("headrace.spark.savepoints.bootstrapping", "bootstrap"),
    "bootstrap_columns": ("headrace.spark.savepoints.bootstrapping", "bootstrap_columns"),
    "register": ("headrace.spark.state_source", "register_state"),
}
"""Name -> module and name there. No module of this package is called as one of these: importing it would hide the
function."""


def __getattr__(name: str) -> object:
    """Imports what is asked for; from then on it is here."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.spark' has no attribute {name!r}")
    import importlib

    module, own_name = _HOMES[name]
    found: object = getattr(importlib.import_module(module), own_name)
    globals()[name] = found
    return found
