"""A connector that makes slots stop where state is sealed, merged, written and acknowledged, when they load it.

The points are those of `stopping_kafka`, in the folder that $HEADRACE_TEST_POINTS names. Nothing is done that a
slot does not do.

    in-local-file   rows have been written to a local file that is not mapped yet
    in-seal         recent rows become a run
    in-merge        in the thread of merges
    before-upload   a snapshot is taken to be uploaded
    before-ack      its files are in storage, and the slot has not said so
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from stopping_kafka import Points  # type: ignore[import-not-found]  # beside it on the path of its processes
from waiting import WaitingSink  # type: ignore[import-not-found]

from headrace.connect.registry import Connector
from headrace.state.table import Table
from headrace.worker.state.uploader import Uploader

FOLDER = "HEADRACE_TEST_POINTS"


def _stops(owner: type, method: str, point: str, points: Any) -> None:
    inner: Callable[..., Any] = getattr(owner, method)

    def stopping(*arguments: Any, **named: Any) -> Any:
        points.reach(point)
        return inner(*arguments, **named)

    setattr(owner, method, stopping)


def _install(points: Any) -> None:
    _stops(Table, "_merged_recent", "in-seal", points)
    _stops(Table, "_merged", "in-merge", points)
    _stops(Uploader, "_upload", "before-upload", points)
    _stops(Uploader, "_settle", "before-ack", points)
    map_file = pa.memory_map

    def stopping(*arguments: Any, **named: Any) -> Any:
        points.reach("in-local-file")
        return map_file(*arguments, **named)

    pa.memory_map = stopping


if FOLDER in os.environ:
    _install(Points(os.environ[FOLDER]))


class NoSink(WaitingSink):  # type: ignore[misc]  # not typed here
    """No pipeline has it."""


CONNECTOR = Connector(name="stopping_state", summary="stops where slots handle state", sink=NoSink)
