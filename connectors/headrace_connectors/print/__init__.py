"""Prints rows to standard output."""

from __future__ import annotations

from typing import ClassVar, Literal

from headrace.connect.registry import Connector
from headrace.connect.sink import SinkConfig, SinkContext, Writer


class PrintSinkConfig(SinkConfig):
    """Prints each row as a JSON line, or in its `format:`. If the rows have deletes, each line begins with `+ ` or
    `- `. Lines are whole at any parallelism, and the command's own messages go to standard error: the output can be
    piped."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "optional"

    @property
    def accepts_updates(self) -> bool:
        """Updating rows are printed unchanged."""
        return True

    @property
    def accepts_deletes(self) -> bool:
        """A delete is printed and marked."""
        return True

    def open_writer(self, context: SinkContext) -> Writer:
        """Opens a writer to standard output."""
        from headrace_connectors.print.sink import PrintWriter

        return PrintWriter()


CONNECTOR = Connector(
    name="print",
    summary="Standard output: one JSON line a row, or any text format",
    sink=PrintSinkConfig,
    example_sink="""\
print: {}
""",
)

__all__ = ["CONNECTOR", "PrintSinkConfig"]
