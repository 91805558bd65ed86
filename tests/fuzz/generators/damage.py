"""Damages bytes: what a disk, a network or a producer with a fault does to a message."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Change = Callable[[int], bytes]

_INSERTED = (
    *(b"\0", b"\x01", b"\x1f", b"\x7f", b"\x80", b"\xc0\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f"),
    b"\xff",
    *(b"\xef\xbb\xbf", b"\n", b"\r", b"\t", b" ", b"\x0b", b"\x0c", b"\xc2\xa0", b"\xe2\x80\xa8", b'"', b"\\", b"{"),
    b"}",
    *(b"[", b"]", b",", b":", b"0", b"-", b".", b"e", b"E", b"+", b"n", b"u", b"null", b"=", b"/", b'""', b"\\u"),
    b'","',
)
_BEHIND = (
    b"}",
    b"]",
    b",",
    b"\0",
    b" \n",
    b"\x0b",
    b"{}",
    b" {}",
    b"x",
    b"null",
    b"\n\n\n",
    b"\xef\xbb\xbf",
    b"\xff",
    b'"',
)
_BEFORE = (b"\xef\xbb\xbf", b"\0", b" ", b"\n", b"{", b"[", b",", b"x", b"\xff\xfe", b"\x0b", b"\t\r\n ", b'"', b"\x1e")


def damaged(chance: Random, data: bytes) -> bytes:
    """The bytes with one kind of damage, once or twice."""
    data = _DAMAGES[chance.randrange(len(_DAMAGES))](chance, data)
    return damaged(chance, data) if chance.random() < 0.1 else data


def _truncated(chance: Random, data: bytes) -> bytes:
    # most often near the end, where only a bracket or quote is missing
    lost = chance.randrange(1, 5) if chance.random() < 0.4 else chance.randrange(len(data) + 1)
    return data[: max(len(data) - lost, 0)]


def _beheaded(chance: Random, data: bytes) -> bytes:
    return data[chance.randrange(len(data) + 1) :]


def _bit_flipped(chance: Random, data: bytes) -> bytes:
    return _replaced(chance, data, lambda byte: bytes([byte ^ 1 << chance.randrange(8)]))


def _byte_replaced(chance: Random, data: bytes) -> bytes:
    return _replaced(chance, data, lambda _: chance.choice(_INSERTED))


def _byte_lost(chance: Random, data: bytes) -> bytes:
    return _replaced(chance, data, lambda _: b"")


def _byte_repeated(chance: Random, data: bytes) -> bytes:
    return _replaced(chance, data, lambda byte: bytes([byte] * chance.randrange(2, 20)))


def _inserted(chance: Random, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(_INSERTED) + data[at:]


def _slice_moved(chance: Random, data: bytes) -> bytes:
    begin, end, to = sorted(chance.randrange(len(data) + 1) for _ in range(3))
    return data[:begin] + data[end:to] + data[begin:end] + data[to:]


def _slice_repeated(chance: Random, data: bytes) -> bytes:
    begin, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[begin:end] + data[end:]


def _appended(chance: Random, data: bytes) -> bytes:
    return data + chance.choice(_BEHIND)


def _prepended(chance: Random, data: bytes) -> bytes:
    return chance.choice(_BEFORE) + data


def _replaced(chance: Random, data: bytes, change: Change) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + change(data[at]) + data[at + 1 :]


_DAMAGES = (
    *(_truncated, _truncated, _beheaded, _bit_flipped, _bit_flipped, _byte_replaced, _byte_lost, _byte_repeated),
    *(_inserted, _inserted, _slice_moved, _slice_repeated, _appended, _prepended),
)
