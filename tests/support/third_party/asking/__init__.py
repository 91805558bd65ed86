"""A format with a registry: a folder. It asks for its mark once, before the first row, and is told to wait for ids.

<registry>/mark    the text before each message, which only a preparation reads
<registry>/asked   a line for each preparation
<registry>/known   unless it is there, a decoder knows no schema of a message with `?` after its mark
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.connect.format import (
    NO_ENGINE,
    Decoded,
    Decoder,
    Encoder,
    FormatConfig,
    FormatContext,
    Messages,
    Preparation,
    Prepared,
    ReadFile,
    UnknownIds,
)
from headrace.connect.registry import Format
from headrace.core.config import Address, secret
from headrace.core.errors import ExternalError, UserError
from headrace.core.types import Schema
from headrace.formats.raw import RawFormat
from headrace.formats.registry.connection import RegistryConnection


class AskingFormat(FormatConfig):
    """`registry`: the folder. `ending`: after each text. `words`: a file, which the preparation learns."""

    registry: Annotated[str, Address()]
    password: str | None = secret(default=None)
    ending: str = ""
    words: str | None = None

    def named_files(self, read: ReadFile) -> Mapping[str, bytes]:
        return {} if self.words is None else {self.words: read(self.words)}

    def check_source(self, schema: Schema) -> list[str]:
        return [] if len(schema) == 1 else ["asking takes one column"]

    def check_sink(self, schema: Schema) -> list[str]:
        return self.check_source(schema)

    def open_preparation(self, schema: Schema, context: FormatContext) -> Preparation:
        return AskingPreparation(Path(self.registry), schema, context)

    def open_decoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Decoder:
        return AskingDecoder(schema.names[0], _mark(context), self.ending, Path(self.registry))

    def open_encoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Encoder:
        return AskingEncoder(schema.names[0], _mark(context), self.ending)


class AskingPreparation:
    def __init__(self, registry: Path, schema: Schema, context: FormatContext) -> None:
        self._registry, self._schema, self._context = registry, schema, context

    def prepare(self) -> Prepared:
        context = self._context
        if "refused" in self._schema.names:
            raise UserError(f"{context.node}: no schema has a column refused", remedy="rename it")
        try:
            mark = (self._registry / "mark").read_text()
        except FileNotFoundError as cause:
            raise ExternalError(f"{context.node}: the registry does not answer", retry=True) from cause
        with (self._registry / "asked").open("a") as file:
            file.write(f"{context.end} {context.node} {context.side} after {context.prepared}\n")
        return {"mark": mark, **{name: content.decode() for name, content in context.files.items()}}

    def close(self) -> None: ...


class AskingDecoder:
    def __init__(self, name: str, mark: str, ending: str, registry: Path) -> None:
        self._name, self._mark, self._ending, self._registry = name, mark, ending, registry

    def decode(self, messages: Messages) -> Decoded | UnknownIds:
        texts = pl.Series(self._name, pl.from_arrow(messages.values.cast(pa.large_string())))
        if texts.str.starts_with(f"{self._mark}?").any() and not (self._registry / "known").exists():
            return UnknownIds(("7",), "the registry, schema 7")
        good = (texts.str.starts_with(self._mark) & texts.str.ends_with(self._ending)).to_numpy()
        bad = np.flatnonzero(~good)
        rows = texts.filter(pl.Series(good)).str.strip_prefix(self._mark).str.strip_suffix(self._ending)
        return Decoded(rows.to_frame(), np.flatnonzero(good), bad, ("no mark",) * len(bad))


class AskingEncoder:
    def __init__(self, name: str, mark: str, ending: str) -> None:
        self._name, self._mark, self._ending = name, mark, ending

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        return (self._mark + rows[self._name] + self._ending).to_arrow()

    def file_header(self) -> bytes:
        return b""


def _mark(context: FormatContext) -> str:
    assert context.prepared is not None, "what was prepared reaches every place that opens the format"
    mark = context.prepared["mark"]
    assert isinstance(mark, str)
    return mark


class ConnectedFormat(RawFormat):
    """A format with a registry in its options, which it never asks."""

    registry: RegistryConnection


CONNECTED = Format("connected", "lines, and a registry that is not asked", ConnectedFormat)
FORMAT = Format("asking", "texts after a mark that a registry knows", AskingFormat)
