"""Hadoop's token storage, written here as `Credentials.writeTokenStorageToStream` does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExternalError
from headrace.yarn.token_file import secrets_of


def vint(value: int) -> bytes:
    """`WritableUtils.writeVLong`."""
    if -112 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    base = -112
    if value < 0:
        value, base = ~value, -120
    count = (value.bit_length() + 7) // 8
    return (base - count).to_bytes(1, "big", signed=True) + value.to_bytes(count, "big")


def blob(data: bytes) -> bytes:
    return vint(len(data)) + data


def storage(tokens: list[list[bytes]], secrets: dict[str, bytes]) -> bytes:
    parts = [b"HDTS\0", vint(len(tokens)), *(blob(each) for token in tokens for each in token)]
    return b"".join([*parts, vint(len(secrets)), *(blob(k.encode()) + blob(v) for k, v in secrets.items())])


@given(
    st.lists(st.lists(st.binary(max_size=300), min_size=5, max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=40), st.binary(max_size=70_000), max_size=4),
)
def test_the_secrets_come_after_the_tokens(tokens: list[list[bytes]], secrets: dict[str, bytes]) -> None:
    assert secrets_of(storage(tokens, secrets)) == secrets


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_a_file_that_ends_too_early_is_refused(cut: int) -> None:
    with pytest.raises(ExternalError):
        secrets_of(storage([[b"a"] * 5], {"name": b"x" * 30})[:-cut])


def test_another_format_is_refused() -> None:
    with pytest.raises(ExternalError, match="unknown format"):
        secrets_of(b"HDTS\1")
