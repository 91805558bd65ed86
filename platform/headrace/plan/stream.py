"""The stream on an edge: columns, time, and whether rows are appended or update earlier ones."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.types import Field, Primitive, Schema
from headrace.operators.operator import REASON


@dataclass(frozen=True, slots=True)
class Stream:
    """Properties of one output of a node.

    timed        rows have an event time
    update_key   columns by which a row replaces an earlier one; None: append only
    owner_keys   the update key's columns by which the rows are already partitioned
    deletes      rows may be deletes of their key
    """

    schema: Schema
    timed: bool
    update_key: tuple[str, ...] | None = None
    owner_keys: tuple[str, ...] = ()
    deletes: bool = False

    @property
    def kind(self) -> str:
        """`append`, or `updating(key)`."""
        return "append" if self.update_key is None else f"updating({', '.join(self.update_key)})"


def bad_rows(schema: Schema) -> Stream:
    """The side output `bad` of a node with these input columns: they and the reason."""
    kept = tuple(field for field in schema if field.name != REASON)
    return Stream(Schema((*kept, Field(REASON, Primitive.STRING, nullable=False))), timed=False)
