"""Memory that ends at an unreadable page: whoever reads or writes one byte behind it ends the process."""

from __future__ import annotations

import ctypes
import mmap

_LIBC = ctypes.CDLL(None, use_errno=True)
_PROT_NONE = 0


class Guarded:
    """`size` bytes at `address`, the last of which is the last of its page; the next page cannot be accessed.

    Released with the object.
    """

    def __init__(self, size: int) -> None:
        pages = -(-size // mmap.PAGESIZE)
        self._memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._guard = begin + pages * mmap.PAGESIZE
        if _LIBC.mprotect(ctypes.c_void_p(self._guard), ctypes.c_size_t(mmap.PAGESIZE), _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
        self.size_max = pages * mmap.PAGESIZE
        self.resize(size)

    def resize(self, size: int) -> None:
        """Begins elsewhere, so that `size` bytes, at most `size_max`, end at the same place."""
        assert size <= self.size_max, "it has room"
        self.size = size
        self.address = self._guard - size

    def write(self, data: bytes) -> None:
        """Copies `data` to the begin."""
        assert len(data) <= self.size, "the data has room"
        ctypes.memmove(self.address, data, len(data))

    def read(self) -> bytes:
        """All bytes."""
        return ctypes.string_at(self.address, self.size)


def guarded_copy(data: bytes) -> Guarded:
    """A copy of `data` that ends at an unreadable page."""
    memory = Guarded(len(data))
    memory.write(data)
    return memory
