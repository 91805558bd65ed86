"""Drop and rename: they change the set of columns and their names, but no row and no value."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from headrace.core.batch import hidden_columns
from headrace.core.errors import UserError
from headrace.core.types import Schema
from headrace.operators.operator import Collector, Operator, OperatorConfig, Stateless


@dataclass(frozen=True, slots=True)
class DropConfig(OperatorConfig):
    """`drop: [col]`."""

    node: str
    columns: tuple[str, ...]
    input: Schema

    def output(self) -> Schema:
        """The remaining columns. Raises UserError for an unknown column."""
        for name in self.columns:
            self.input_field(name)
        return Schema(tuple(field for field in self.input if field.name not in self.columns))

    def describe(self) -> str:
        """The dropped columns."""
        return ", ".join(self.columns)

    def open(self) -> Operator:
        """A new operator of this step."""
        return _Drop(self.output().names)


@dataclass(frozen=True, slots=True)
class RenameConfig(OperatorConfig):
    """`rename: {old: new}`: simultaneous, so two columns may swap their names. Columns keep their positions."""

    node: str
    names: tuple[tuple[str, str], ...]
    input: Schema

    def output(self) -> Schema:
        """The columns under their new names. Raises UserError for an unknown column, or one name for two columns."""
        for old, _ in self.names:
            self.input_field(old)
        new_names = dict(self.names)
        fields = tuple(replace(field, name=new_names.get(field.name, field.name)) for field in self.input)
        names = [field.name for field in fields]
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise UserError(f"after the rename two columns are named {doubled!r}", remedy="drop one of them first")
        return Schema(fields)

    def describe(self) -> str:
        """Old and new names."""
        return ", ".join(f"{old} to {new}" for old, new in self.names)

    def open(self) -> Operator:
        """A new operator of this step."""
        self.output()
        return _Rename(dict(self.names))


class _Drop(Stateless):
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        out.emit(batch[[*self._names, *hidden_columns(batch)]])


class _Rename(Stateless):
    def __init__(self, new_names: dict[str, str]) -> None:
        self._new_names = new_names

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        renamed = batch.clone()  # shares the columns; a tenth of the cost of DataFrame.rename
        renamed.columns = [self._new_names.get(name, name) for name in batch.columns]
        out.emit(renamed)
