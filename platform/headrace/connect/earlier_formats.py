"""Formats of packages that were written before formats had a context; adapted when their entry point is loaded.

    earlier   open_decoder(schema)            decode(values)     open_check(schema, node)
    now       open_decoder(schema, context)   decode(messages)   open_check(schema, context)

Encoders change like decoders.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Protocol, cast

from pydantic import create_model

from headrace.connect.format import NO_ENGINE, Decoded, Decoder, Encoder, FormatConfig, FormatContext, Messages
from headrace.connect.row_check import RowCheck
from headrace.core.types import Schema

if TYPE_CHECKING:
    import pyarrow as pa


def adapted(config: type[FormatConfig]) -> type[FormatConfig]:
    """Returns the format itself, or if its `open_decoder` takes a schema only, the same format by the present
    contract."""
    # self, schema, and the context whatever it is called
    if len(inspect.signature(config.open_decoder).parameters) > len(("self", "schema")):
        return config
    return create_model(
        config.__name__, __base__=(_Adapted, config), __module__=config.__module__, __doc__=config.__doc__
    )


class _EarlierDecoder(Protocol):
    def decode(self, values: pa.Array) -> Decoded: ...


class _ValuesDecoder:
    """Offers a decoder of values alone as one of messages."""

    def __init__(self, decoder: _EarlierDecoder) -> None:
        self._decoder = decoder

    def decode(self, messages: Messages) -> Decoded:
        """See Decoder."""
        return self._decoder.decode(messages.values)


class _Adapted(FormatConfig):
    """Comes before the earlier format in the order of bases: `super()` is that format."""

    def open_decoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Decoder:
        """Opens the earlier decoder."""
        return _ValuesDecoder(cast("_EarlierDecoder", super().open_decoder(schema)))  # type: ignore[safe-super]

    def open_encoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Encoder:
        """Opens the earlier encoder."""
        return super().open_encoder(schema)  # type: ignore[safe-super]

    def open_check(self, schema: Schema, context: FormatContext = NO_ENGINE) -> RowCheck | None:
        """Opens the earlier check, which takes the sink's name."""
        return super().open_check(schema, context.node)  # type: ignore[arg-type]
