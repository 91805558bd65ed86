"""Messages of many schemas, some of them unknown, absent or unusable, in one batch."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.format import Decoded, Messages, UnknownIds
from headrace.core.arrow_arrays import binary_array
from headrace.core.types import schema_of
from headrace.formats.doubtful_rows import BadMessageError
from headrace.formats.json.decode import json_decoder
from headrace.formats.registry import framed_decoder
from headrace.formats.registry.framed_decoder import FramedDecoder
from headrace.formats.registry.frames import frame_head
from headrace.formats.registry.message_indexes import MessagePath
from headrace.formats.registry.schemas import WholeSchema

SCHEMA = schema_of({"n": "int64"})
REGISTRY = "http://registry:8081"


class Renamed:
    """JSON whose field has the name that the schema says: as if the schema's writer had called it so."""

    def __init__(self, schema: WholeSchema, _message: MessagePath | None) -> None:
        if schema.text == "unusable":
            raise BadMessageError("its field is no number")
        self._name = schema.text
        self._decoder = json_decoder(schema_of({schema.text: "int64"}))

    def decode(self, messages: Messages) -> Decoded:
        found = self._decoder.decode(messages)
        rows = found.rows.rename({self._name: "n"})
        return Decoded(rows, found.good, found.bad, found.reasons, found.skipped)


NAMES = {1: "a", 2: "b", 300: "c", 4: "unusable"}
KNOWN = {str(number): WholeSchema("JSON", name) for number, name in NAMES.items()}


def opened() -> FramedDecoder:
    return FramedDecoder(REGISTRY, Renamed, SCHEMA.empty())


def message(number: int, value: object, name: str | None = None) -> bytes:
    return frame_head(number) + b'{"%s": %s}' % ((name or NAMES.get(number, "x")).encode(), str(value).encode())


def decoded(decoder: FramedDecoder, values: Sequence[bytes | None]) -> Decoded:
    found = decoder.decode(Messages(binary_array(values)))
    assert isinstance(found, Decoded)
    return found


VALUES = st.one_of(
    st.builds(message, st.sampled_from([1, 2, 300, 4]), st.one_of(st.integers(-9, 9), st.just("[]"))),
    st.builds(message, st.just(77), st.just(0)),
    st.sampled_from([b"", b"{", None]),
)


@given(st.lists(VALUES, max_size=30))
def test_a_batch_gives_what_its_messages_give(values: list[bytes | None]) -> None:
    def told() -> FramedDecoder:
        decoder = opened()
        decoder.learn({**KNOWN, "77": None})
        return decoder

    whole, singles = decoded(told(), values), [decoded(told(), [value]) for value in values]
    assert whole.rows.equals(pl.concat([SCHEMA.empty(), *(each.rows for each in singles)]))
    assert whole.reasons == tuple(reason for each in singles for reason in each.reasons)
    assert whole.bad.tolist() == [index for index, each in enumerate(singles) if len(each.bad)]
    assert whole.skipped == values.count(None)
    good = [index for index, each in enumerate(singles) if each.rows.height]
    assert len(good) == len(values) if whole.good is None else whole.good.tolist() == good


def test_a_batch_waits_until_all_of_its_schemas_are_known() -> None:
    decoder, values = opened(), [message(1, 5), message(300, 7), message(1, 6)]
    batch = Messages(binary_array(values))
    assert decoder.decode(batch) == UnknownIds(("1", "300"), f"registry {REGISTRY}, schema 1 and 1 more")
    decoder.learn({"1": KNOWN["1"]})
    assert decoder.decode(batch) == UnknownIds(("300",), f"registry {REGISTRY}, schema 300")
    decoder.learn({"300": KNOWN["300"]})
    assert decoded(decoder, values).rows["n"].to_list() == [5, 7, 6]


def test_an_absent_schema_makes_its_rows_bad_and_is_asked_for_again() -> None:
    decoder, values = opened(), [message(1, 5), message(2, 7)]
    decoder.learn({"1": KNOWN["1"], "2": None})
    found = decoded(decoder, values)
    assert (found.rows["n"].to_list(), found.bad.tolist()) == ([5], [1])
    assert found.reasons == (f"registry {REGISTRY} has no schema 2",)
    assert decoder.decode(Messages(binary_array(values))) == UnknownIds(("2",), f"registry {REGISTRY}, schema 2")


def test_a_schema_that_makes_no_rows_is_the_reason() -> None:
    decoder = opened()
    decoder.learn(KNOWN)
    assert decoded(decoder, [message(4, 1), message(1, 1)]).reasons == ("schema 4: its field is no number",)


def test_a_guid_is_learned_as_it_is_named() -> None:
    decoder, guid = opened(), "89791762-2336-4186-9674-299b90a802e2"
    values = [b"\1" + bytes.fromhex(guid.replace("-", "")) + b'{"a": 1}']
    unknown = decoder.decode(Messages(binary_array(values)))
    assert isinstance(unknown, UnknownIds)
    assert unknown.ids == (guid,)
    decoder.learn({guid: KNOWN["1"]})
    assert decoded(decoder, values).rows["n"].to_list() == [1]


def test_what_is_kept_is_bounded_between_batches_and_not_within_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framed_decoder, "SCHEMAS_MAX", 2)
    monkeypatch.setattr(framed_decoder, "DECODERS_MAX", 1)
    monkeypatch.setattr(framed_decoder, "ASKED_MAX", 2)
    decoder, values = opened(), [message(number, number, "a") for number in range(1, 8)]
    same = KNOWN["1"]
    while isinstance(found := decoder.decode(Messages(binary_array(values))), UnknownIds):
        assert len(found.ids) <= 2
        decoder.learn(dict.fromkeys(found.ids, same))
    assert found.rows["n"].to_list() == list(range(1, 8))
    # the last ones are kept
    assert isinstance(decoder.decode(Messages(binary_array(values[-2:]))), Decoded)
    assert isinstance(decoder.decode(Messages(binary_array(values[:1]))), UnknownIds)


def test_a_batch_of_one_schema_keeps_its_rows_as_they_are() -> None:
    decoder = opened()
    decoder.learn(KNOWN)
    found = decoded(decoder, [message(1, 5)] * 3)
    assert found.good is None
    assert found.rows["n"].to_list() == [5, 5, 5]
