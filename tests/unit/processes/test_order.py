"""Which descriptors a process keeps."""

from __future__ import annotations

import os

import pytest

from headrace.processes import order


@pytest.mark.parametrize("listed", [True, False])
def test_all_descriptors_but_the_kept_ones_are_closed(listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child; its exit code is the number of those that are open and should not be, or the other way round."""
    if not listed:
        monkeypatch.setattr(order, "OPEN_DESCRIPTORS", "/no/such/folder")
    pipe, high = os.pipe(), os.dup2(0, 200)
    child = os.fork()
    if child == 0:
        order.close_all_but({0, 1, 2, pipe[1], high})
        os._exit(sum(_is_open(number) != (number in {0, 1, 2, pipe[1], high}) for number in range(1024)))
    for number in (*pipe, high):
        os.close(number)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
