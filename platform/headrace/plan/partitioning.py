"""Partitionings of an edge's rows over the reading subtasks. Data only; `exchange.edge.partition` implements them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Forward:
    """Subtask i feeds subtask i: equal parallelism."""

    def __str__(self) -> str:
        return "forward"


@dataclass(frozen=True, slots=True)
class Hash:
    """By key group of these columns."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"hash({', '.join(self.keys)})"


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Batches go to all subtasks in turn (round-robin)."""

    def __str__(self) -> str:
        return "rebalance"


@dataclass(frozen=True, slots=True)
class Rescale:
    """Batches go in turn to a subset of subtasks, which is this sender's alone as far as the parallelisms allow."""

    def __str__(self) -> str:
        return "rescale"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Every subtask gets every row."""

    def __str__(self) -> str:
        return "broadcast"


@dataclass(frozen=True, slots=True)
class Global:
    """Subtask 0 gets every row."""

    def __str__(self) -> str:
        return "global"


Partitioning = Forward | Hash | Rebalance | Rescale | Broadcast | Global
