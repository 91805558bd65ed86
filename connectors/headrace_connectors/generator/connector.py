"""The generator's config: the settings, with the methods that open the live halves.

The live halves are imported only when something is opened, so that validating a pipeline stays cheap. Only the
package's `__init__` imports this module: the live halves take the settings of `config`.
"""

from __future__ import annotations

from headrace.connect.source import Enumerator, Reader, SourceConfig, SourceContext
from headrace_connectors.generator.config import GeneratorSourceSettings


class GeneratorSourceConfig(GeneratorSourceSettings, SourceConfig):
    """Generates rows: `rows` of them, or without end, distributed over `partitions` in turn."""

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """Opens the enumerator of the partitions."""
        from headrace_connectors.generator.source import GeneratorEnumerator

        return GeneratorEnumerator(self, context)

    def open_reader(self, context: SourceContext) -> Reader:
        """Opens the reader, which computes rows."""
        from headrace_connectors.generator.source import GeneratorReader

        return GeneratorReader(self, context)
