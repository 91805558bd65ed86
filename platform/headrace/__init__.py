"""Headrace: Kafka-native stream processing for Python.

`import headrace` is cheap and loads no engine: `POLARS_MAX_THREADS` must be set before polars is imported, and
`headrace --help` must answer at once. The public names live in `headrace.api`; they are offered here lazily
(`__init__.pyi` beside this file tells type checkers the same).
"""

__version__ = "0.1.0"

__all__ = ["__version__"]


def __getattr__(name: str) -> object:
    """Offer what `headrace.api` exports as `headrace.<name>` without importing it up front."""
    if name.startswith("_"):
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    import importlib

    api = importlib.import_module("headrace.api")
    if name in api.__all__:
        found: object = getattr(api, name)
        return found
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
