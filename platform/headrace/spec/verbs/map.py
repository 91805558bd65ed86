"""`map: {function: package.module:function, schema: {..}}`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from headrace.spec.columns import Columns, schema_dict
from headrace.spec.findings import wrong
from headrace.spec.verbs.verb import Form, Verb

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")


def _import_path(text: str) -> str:
    if not _FUNCTION.match(text):
        raise wrong(f"{text!r} is not an import path", "write package.module:function")
    return text


class Map(Verb):
    """Calls a Python function with a polars DataFrame of the rows; it returns as many rows, in the same order.

    A function that raises, `sys.exit` included, makes its rows bad (`on_error`). One that ends its process (`os._exit`,
    a crash of native code) fails the attempt: the error names function and step.
    """

    NAME = "map"
    FORM = Form.BLOCK
    EXPRESSIONS = ("schema",)
    EXAMPLE = """\
scored:
  from: departed
  map:
    function: flight_functions:add_score
    schema:
      origin: string not null
      carrier: string
      dep_delay: float64
      codes: [string]
      scheduled: timestamp
      score: float64
"""

    function: Annotated[str, AfterValidator(_import_path)] = Field(description="package.module:function")
    columns: Columns = Field(
        validation_alias="schema", serialization_alias="schema", description="the columns that the function returns"
    )

    def file_form(self) -> dict[str, Any]:
        """Function and schema."""
        return {self.NAME: {"function": self.function, "schema": schema_dict(self.columns)}}

    @property
    def functions(self) -> tuple[str, ...]:
        """The function."""
        return (self.function,)
