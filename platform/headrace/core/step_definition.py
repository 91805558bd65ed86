"""The definition of a step's output in terms of its state, as plain data. Manifests contain it, so that state can be
read as rows of the step's output, without the pipeline.

This module must not load what computes: the coordinator reads manifests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """The definition of an aggregating step (`AggregateConfig.definition`).

    keys         key columns, in order
    window       the window definition as text, e.g. `tumbling 3600000 offset 0 UTC`; None: a running aggregate
    aggregates   name -> SQL text, in output order
    input        the input columns that keys and aggregates read -> their types, as in a pipeline file
    """

    keys: tuple[str, ...]
    window: str | None
    aggregates: dict[str, str]
    input: dict[str, str]
    order: Literal["event", "arrival"] = "event"
