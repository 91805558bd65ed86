"""Tells from the bytes of messages, without parsing, which of them might each be one object on one line of UTF-8."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.messages import message_bytes

_Mask = npt.NDArray[np.bool_]


def begin_objects(values: pa.Array) -> bool:
    """Whether every message begins with a brace."""
    data, places = message_bytes(values)
    filled = (places[1:] > places[:-1]).all()
    return bool(filled and (data[places[:-1]] == ord("{")).all())


def sift(values: pa.Array) -> _Mask:
    """Which messages begin with `{`, end with `}`, hold no newline and are UTF-8."""
    data, places = message_bytes(values)
    plausible = places[1:] - places[:-1] >= 2
    begins, ends = np.where(plausible, places[:-1], 0), np.where(plausible, places[1:] - 1, 0)
    if len(data):
        plausible &= (data[begins] == ord("{")) & (data[ends] == ord("}"))
    plausible[_holders(data == ord("\n"), places)] = False
    for index in _holders(data >= 0x80, places).tolist():
        if plausible[index] and not _is_utf8(values[index].as_py()):
            plausible[index] = False
    return plausible


def _holders(marked: _Mask, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The messages that hold a marked byte, in order."""
    found = np.searchsorted(places, np.flatnonzero(marked), side="right") - 1
    return np.unique(found)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
