"""Where kernels find the columns of a frame: Arrow's C stream interface, without a copy (`c/arrow.h`)."""

from __future__ import annotations

import ctypes

# a prototype of its own: the types of `ctypes.pythonapi.PyCapsule_GetPointer` are those of the whole process
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def stream_address(capsule: object) -> int:
    """The address of the stream in what `__arrow_c_stream__` returned. It is released with the capsule."""
    address = _capsule_pointer(capsule, b"arrow_array_stream")
    assert isinstance(address, int), "PyCapsule_GetPointer raises where there is none"
    return address
