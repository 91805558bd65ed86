"""Times, dates, decimals and base64 as kernels read them from text: rightly, or not at all."""

from __future__ import annotations

import base64
import decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.types import schema_of
from headrace.formats.text_values import parse_base64, parse_date, parse_decimal, parse_timestamp
from headrace.kernels.decode.csv_decode import csv_kernel

_ALPHABET = "0123456789-+:.TZ tz"
_ZONES = ["", "Z", "z", "+00:00", "-23:59", "+24:00", "+01:60", "+0100"]


@st.composite
def _time_text(draw: st.DrawFn) -> str:
    moment = draw(st.datetimes())
    fraction = draw(st.sampled_from(["", ".5", ".123", ".123456", ".123456789", ".1234567891", "."]))
    text = (
        moment.strftime("%Y").zfill(4) + moment.strftime("-%m-%dT%H:%M:%S") + fraction + draw(st.sampled_from(_ZONES))
    )
    if draw(st.integers(0, 2)) == 0:
        place = draw(st.integers(0, len(text) - 1))
        text = text[:place] + draw(st.sampled_from(_ALPHABET)) + text[place + 1 :]
    return text


def read(dtype: str, texts: list[str]) -> list[object]:
    """The kernel's values; NotImplemented where it is in doubt."""
    kernel = csv_kernel(schema_of({"x": dtype}), ["x"], delimiter=",", quote='"', null="NULL")
    assert kernel is not None
    frame, doubt = kernel.decode(pa.array([text.encode() for text in texts], pa.binary()))
    column = frame["x"].to_physical() if dtype in ("timestamp", "date") else frame["x"]
    values = iter(column.to_list())
    return [NotImplemented if unsure else next(values) for unsure in doubt.tolist()]


@given(st.lists(st.one_of(_time_text(), st.text(_ALPHABET, min_size=11, max_size=36)), min_size=1, max_size=8))
def test_times(texts: list[str]) -> None:
    wanted = [NotImplemented if (value := parse_timestamp(text)) is None else value for text in texts]
    is_number = [text.lstrip("+-").isdigit() for text in texts]
    found = read("timestamp", texts)
    assert [value for value, skip in zip(found, is_number, strict=True) if not skip] == [
        value for value, skip in zip(wanted, is_number, strict=True) if not skip
    ]


@given(
    st.lists(st.one_of(st.dates().map(str), st.text("0123456789-", min_size=10, max_size=10)), min_size=1, max_size=8)
)
def test_dates(texts: list[str]) -> None:
    assert read("date", texts) == [NotImplemented if (days := parse_date(text)) is None else days for text in texts]


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:f}"), min_size=1))
def test_decimals(texts: list[str]) -> None:
    for precision, scale in ((6, 2), (38, 0), (38, 38), (19, 7)):
        for text, found in zip(texts, read(f"decimal({precision},{scale})", texts), strict=True):
            wanted = parse_decimal(text, precision, scale)
            assert found is NotImplemented or found == wanted
            # up to 37 digits it is sure of every value that fits
            assert found is not NotImplemented or wanted is None or len(text.strip("-").replace(".", "")) > 37


def test_the_largest_decimals() -> None:
    most = decimal.Decimal(10**38 - 1)
    assert read("decimal(38,0)", [str(most), f"-{most}", str(most + 1), "0" * 40]) == [
        most,
        most.copy_negate(),
        *[NotImplemented] * 2,
    ]
    assert read("decimal(38,38)", ["0." + "9" * 38, "1", "0.0", "-0"])[1:] == [NotImplemented, 0, 0]


@given(st.binary(max_size=20), st.text("ABab01+/=", max_size=8))
def test_base64(data: bytes, text: str) -> None:
    texts = [base64.b64encode(data).decode(), text]
    found = read("binary", texts)
    assert found[0] == data
    assert found[1] is NotImplemented or found[1] == parse_base64(text)
