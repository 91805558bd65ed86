"""Token files. `integration/hdfs/test_kerberos.py` reads those that Hadoop writes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.hdfs.token_file import TokenFileError, token_text

HDFS = b"HDFS_DELEGATION_TOKEN"


def number(value: int) -> bytes:
    """As `WritableUtils.writeVLong`."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([(-112 - size) % 256]) + value.to_bytes(size)


def field(content: bytes) -> bytes:
    return number(len(content)) + content


def token(kind: bytes, identifier: bytes = b"identifier", password: bytes = b"password") -> bytes:
    return field(identifier) + field(password) + field(kind) + field(b"127.0.0.1:8020")


def stored(*tokens: bytes) -> bytes:
    named = b"".join(field(b"alias %d" % place) + each for place, each in enumerate(tokens))
    return b"HDTS\0" + number(len(tokens)) + named + number(0)


def test_the_text_of_a_token() -> None:
    assert token_text(b" KQAQYWxp-_\n") == "KQAQYWxp-_"
    for content in (b"", b"\n", b"\xff"):
        with pytest.raises(TokenFileError):
            token_text(content)


@given(st.binary(max_size=300), st.binary(max_size=70_000))
def test_a_stored_token_is_found_among_others(identifier: bytes, password: bytes) -> None:
    own = token(HDFS, identifier, password)
    text = token_text(stored(token(b"YARN_AM_RM_TOKEN"), own, token(b"other")))
    assert "=" not in text
    assert base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) == own


@pytest.mark.parametrize("tokens", [[], [token(b"other")], [token(HDFS), token(HDFS, b"another one")]])
def test_not_exactly_one(tokens: list[bytes]) -> None:
    with pytest.raises(TokenFileError, match=r"has \d tokens of HDFS, and must have one"):
        token_text(stored(*tokens))


def test_other_versions_are_named() -> None:
    with pytest.raises(TokenFileError, match="version 1: write it in the format `java`"):
        token_text(b"HDTS\1")


@given(st.binary(max_size=60), st.integers(0, 200))
def test_a_damaged_file_is_refused(tail: bytes, end: int) -> None:
    for content in (b"HDTS\0" + tail, stored(token(HDFS))[:end]):
        try:
            token_text(content)
        except TokenFileError as error:
            assert "password" not in str(error)
