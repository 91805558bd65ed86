"""Configuration models: durations, text scalars, strictness, secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headrace.core.config import Config, Duration, duration_text, parse_duration_ms, secret


class Sample(Config):
    every: Duration = 5
    count: int = 1
    on: bool = False
    text: str = ""
    password: str = secret(default="")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("0s", 0),
        ("5ms", 5),
        ("30s", 30_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("2d", 172_800_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms
    assert parse_duration_ms(ms) == ms


@pytest.mark.parametrize("text", ["", "5", "s", "5 parsecs", "1.5h", "-5s", "5sm", "h5", "1h-5m", "True"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration: write a number with ms, s, m, h, d or w"):
        parse_duration_ms(text)


def test_booleans_are_no_durations() -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(True)


@given(st.integers(0, 10**15))
def test_text_and_duration_say_the_same(ms: int) -> None:
    assert parse_duration_ms(duration_text(ms)) == ms


def test_the_shortest_text_is_chosen() -> None:
    assert [duration_text(ms) for ms in (0, 999, 1_000, 5_400_000, 86_400_000)] == ["0s", "999ms", "1s", "90m", "1d"]


def test_fields_type_their_text() -> None:
    sample = Sample.model_validate({"every": "1m", "count": "123", "on": "true", "text": "123"})
    assert (sample.every, sample.count, sample.on, sample.text) == (60_000, 123, True, "123")
    assert sample.model_dump(mode="json")["every"] == "1m"
    assert Sample.model_validate(sample.model_dump(mode="json")) == sample


def test_unknown_fields_and_changes_are_refused() -> None:
    with pytest.raises(ValidationError, match="cuont"):
        Sample.model_validate({"cuont": 1})
    with pytest.raises(ValidationError, match="frozen"):
        Sample().count = 2


def test_secrets_are_marked_and_not_printed() -> None:
    assert "hunter2" not in repr(Sample(password="hunter2"))
    assert Sample.model_json_schema()["properties"]["password"]["secret"] is True
