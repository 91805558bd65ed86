"""Checks of steps and sinks against their input: columns, keys, and how rows are spread. Pure."""

from __future__ import annotations

from typing import assert_never

from headrace.core.errors import did_you_mean
from headrace.core.types import ListOf, Schema, Struct
from headrace.plan.partitioning import Broadcast, Forward, Global, Hash, Partitioning, Rebalance, Rescale
from headrace.plan.problems import Path, Problems
from headrace.plan.stream import Stream
from headrace.spec.fields import HashBy, Partition, Route

BROADCAST_REASON = "partition: broadcast gives every subtask every row: the result depends on the parallelism"
_ROUTES: dict[Route, Partitioning] = {
    Route.FORWARD: Forward(),
    Route.REBALANCE: Rebalance(),
    Route.RESCALE: Rescale(),
    Route.BROADCAST: Broadcast(),
    Route.GLOBAL: Global(),
}


def partitioning_of(partition: Partition | None, stream: Stream, path: Path, problems: Problems) -> Partitioning | None:
    """The partitioning that a node requests, checked against its input."""
    match partition:
        case None:
            return None
        case HashBy(columns=columns):
            with problems.every() as check:
                for column in columns:
                    with check():
                        require_key(stream.schema, column, (*path, "partition"), problems)
            chosen: Partitioning = Hash(tuple(columns))
        case Route():
            chosen = _ROUTES[partition]
        case _:
            assert_never(partition)
    if stream.update_key is not None and not isinstance(chosen, Forward | Global):
        allowed = Hash(stream.owner_keys)
        if chosen != allowed:
            raise problems.refuse(
                (*path, "partition"),
                f"rows that update each other must stay in order by key, and {chosen} would part them",
                "leave `partition` out",
            )
    return chosen


def spread_reasons(partitioning: Partitioning | None) -> tuple[str, ...]:
    """Reasons why, with this partitioning, a node's result does not depend on the log alone."""
    return (BROADCAST_REASON,) if isinstance(partitioning, Broadcast) else ()


def require_column(schema: Schema, column: str, path: Path, problems: Problems) -> None:
    """Rejects an unknown column, with the nearest known one."""
    if column not in schema:
        hint = did_you_mean(column, schema.names)
        columns = f"columns: {', '.join(schema.names)}"
        raise problems.refuse(path, f"no column {column!r}", f"{hint} {columns}" if hint else columns)


def require_key(schema: Schema, column: str, path: Path, problems: Problems) -> None:
    """Rejects an unknown column, and one whose values have no key group."""
    require_column(schema, column, path, problems)
    kind = schema.field(column).type
    if isinstance(kind, ListOf | Struct):
        raise problems.refuse(path, f"column {column!r} is {kind}: lists and structs cannot be keys")
