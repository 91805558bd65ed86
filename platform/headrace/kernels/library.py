"""Loads the compiled kernels, once per process.

`HEADRACE_KERNELS` is `on` (the default) or `off`. Without kernels every caller runs its Python code: same results,
slower.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from headrace.core.errors import UserError
from headrace.kernels.compiling import LIBRARY, SOURCES, source_digest

KERNELS_VARIABLE = "HEADRACE_KERNELS"
_KERNELS_MAX = 64
"""Most functions whose types are cached; more than there are."""
_LOG = logging.getLogger(__name__)

Kernel = Callable[..., Any]
"""A C function: accepts the addresses and numbers that its module declares, and releases the GIL."""


def is_loaded() -> bool:
    """Whether this process has kernels. Raises UserError for an unknown value of HEADRACE_KERNELS."""
    return library() is not None


@lru_cache(maxsize=_KERNELS_MAX)
def kernel(name: str, result: type[Any] | None, *arguments: type[Any]) -> Kernel:
    """The C function `name` with these types. Only if kernels are loaded."""
    found = library()
    assert found is not None, f"{name} is called only if kernels are loaded"
    function = found[name]
    function.restype, function.argtypes = result, list(arguments)
    return function


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The compiled kernels; None where they are switched off, or missing, which is logged once.

    Raises UserError for an unknown value of HEADRACE_KERNELS.
    """
    if not switched_on():
        return None
    try:
        return opened(LIBRARY)
    except KernelsMissingError as missing:
        _LOG.warning("kernels: %s; rows are processed without kernels: slower, with the same results", missing)
        return None


def switched_on() -> bool:
    """Whether HEADRACE_KERNELS is on. Raises UserError for an unknown value."""
    match os.environ.get(KERNELS_VARIABLE, "on"):
        case "on" | "":
            return True
        case "off":
            return False
        case other:
            raise UserError(f"{KERNELS_VARIABLE} is {other!r}: it takes on or off")


class KernelsMissingError(Exception):
    """The kernels cannot be loaded; the text is the reason and the remedy."""


def opened(path: Path) -> ctypes.CDLL:
    """The library at `path`. Raises KernelsMissingError: there is none, it does not load, or its sources are newer."""
    if sys.maxsize < 1 << 62 or sys.byteorder != "little":
        raise KernelsMissingError("they need a 64-bit little-endian machine")
    if not path.exists():
        raise KernelsMissingError(f"{path.name} is not in this installation: install a C compiler and headrace again")
    try:
        found = ctypes.CDLL(str(path))
    except OSError as cause:
        raise KernelsMissingError(f"{path.name} cannot be loaded: {cause}") from cause
    found.headrace_source_digest.restype = ctypes.c_char_p
    # an installed package has no sources; a checkout may have newer ones
    if SOURCES.is_dir() and found.headrace_source_digest().decode() != source_digest():
        raise KernelsMissingError(f"{path.name} is older than its sources: run make kernels")
    return found
