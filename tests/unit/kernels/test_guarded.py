"""The fence around buffers of kernel tests holds: without it those tests could not fail."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.kernels.guarded import guarded_copy
from support.repository import ROOT

READ_BEHIND = """
import ctypes
from support.kernels.guarded import guarded_copy

memory = guarded_copy(b"x" * {size})
print(ctypes.string_at(memory.address + {size} - 1, 1), flush=True)
ctypes.string_at(memory.address + {size}, 1)
"""


@pytest.mark.parametrize("size", [1, 4096, 5000])
def test_the_byte_behind_the_last_one_ends_the_process(size: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", READ_BEHIND.format(size=size)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "b'x'\n", run.stderr
    assert run.returncode < 0


def test_a_copy_holds_the_bytes() -> None:
    data = bytes(range(256)) * 20
    assert guarded_copy(data).read() == data
    assert guarded_copy(b"").read() == b""
