"""Frames handed to kernels without a copy: by the C stream interface of Arrow."""

from __future__ import annotations

import ctypes

_NAME = b"arrow_array_stream"
# a CPython call that ctypes has without a signature; it keeps the interpreter's lock
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def stream_address(capsule: object) -> int:
    """The address of the stream in a capsule of `__arrow_c_stream__`; valid while the capsule lives."""
    address = _pointer_of(capsule, _NAME)
    assert isinstance(address, int), "a capsule has a stream"
    return address
