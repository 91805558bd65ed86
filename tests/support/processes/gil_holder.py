"""A program whose native code holds the GIL."""

HOLDS_THE_GIL = """
import collections, ctypes, itertools

# a loop in C, around a call that does not release the GIL: whoever reads a line knows that it is held
write = ctypes.PyDLL(None).write

def holds():
    lines = map(write, itertools.repeat(1), itertools.repeat(b"up\\n"), itertools.repeat(3))
    collections.deque(lines, maxlen=0)

holds()
"""
