"""The Spark engine: runs a pipeline over a bounded range of its sources, or in increments, in tasks of a Spark cluster.

Spark schedules, retries and shuffles opaque blobs. The operators of the live engine process the rows, opened by the
worker's own code. Importing this package, or a module in it that does not say otherwise, does not import pyspark.

The public functions are loaded lazily (`__init__.pyi` beside this file has the same names for type checkers). Some of
them live in `headrace.api`, above this package, where they accept a pipeline in any form.
"""

__all__ = ["replay", "verify", "bootstrap", "bootstrap_columns", "register"]

_HOMES = {
    "replay": ("headrace.api.spark.replaying", "replay"),
    "verify": ("headrace.api.spark.replaying", "verify"),
    "bootstrap": ("headrace.spark.savepoints.bootstrapping", "bootstrap"),
    "bootstrap_columns": ("headrace.spark.savepoints.bootstrapping", "bootstrap_columns"),
    "register": ("headrace.spark.state_source", "register_state"),
}
"""Name -> module and name there. No module of this package may have one of these names: importing it would hide the
function.
"""


def __getattr__(name: str) -> object:
    """Imports a public name on first use, and keeps it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.spark' has no attribute {name!r}")
    import importlib

    module, own_name = _HOMES[name]
    found: object = getattr(importlib.import_module(module), own_name)
    globals()[name] = found
    return found
