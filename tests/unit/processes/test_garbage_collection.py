"""Garbage collection of a command: the first one waits for a number of objects, and brings back what is usual."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from headrace.processes.garbage_collection import STARTING_OBJECTS, collect_as_usual, defer_first_collection


@pytest.fixture
def usual() -> Iterator[tuple[object, ...]]:
    """Thresholds and callbacks, which stay this process's."""
    gc.collect()
    yield _collector()
    collect_as_usual()


def test_the_first_collection_waits_for_its_number_of_objects_and_later_ones_do_not(usual: tuple[object, ...]) -> None:
    defer_first_collection()
    defer_first_collection()
    before = _collections()
    objects: list[list[int]] = [[] for _ in range(STARTING_OBJECTS // 2)]
    assert _collections() == before
    assert _collector() != usual
    objects += [[] for _ in range(STARTING_OBJECTS)]
    assert _collections() > before
    assert _collector() == usual


def test_a_deferral_ends_when_nobody_needs_it_any_more(usual: tuple[object, ...]) -> None:
    defer_first_collection()
    collect_as_usual()
    assert _collector() == usual
    collect_as_usual()
    assert _collector() == usual


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def _collector() -> tuple[object, ...]:
    return (*gc.get_threshold(), *gc.callbacks)
