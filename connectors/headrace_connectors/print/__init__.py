"""Prints rows to standard output."""

from headrace.connect.registry import Connector
from headrace_connectors.print.config import PrintSinkConfig

CONNECTOR = Connector(
    name="print",
    summary="Standard output: one JSON line a row, or any text format",
    sink=PrintSinkConfig,
    example_sink="""\
print: {}
""",
)

__all__ = ["CONNECTOR", "PrintSinkConfig"]
