"""Prepares the formats of a plan: each asks the outside once for a node and side, and what it learned serves the job's
whole life.

    known (attempt's record, savepoint) ──> the same question? ── yes ──> kept: nobody is asked
                                                               └─ no ───> Preparation.prepare

Every engine calls it before the first row, beside the enumerators and committers; never in a slot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from headrace.checkpoint.manifest import Formats, PreparedFormat, learned_of
from headrace.connect.format import FormatConfig, FormatContext, PreparedFormats
from headrace.core.errors import UserError
from headrace.core.types import Schema
from headrace.execution.connectors import Refusals
from headrace.plan.contexts import format_context
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec, StepSpec
from headrace.spec.travelling_files import file_hash

PREPARED_BYTES_MAX = 4 * 1024 * 1024
"""Limit of what one preparation returns, as JSON: slots, attempts and checkpoints hold it."""


def prepare_formats(plan: PhysicalPlan, known: Formats, *, sinks: bool = True) -> Formats:
    """Returns what all formats of the plan have prepared; nodes whose format asks nothing are left out.

    known   what was learned before, by this job or by that of its savepoint
    sinks   whether sinks are prepared, too

    The user errors of all formats are raised together; any other error is raised at once.
    """
    refusals = Refusals()
    prepared: Formats = {}
    for name, config, schema, context in _opened(plan, learned_of(known), sinks=sinks):
        question = _question(name, config, schema, context)
        answer = known.get(context.node, {}).get(context.side)
        if answer is None or answer.question != question:
            answer = None
            with refusals.collecting():
                learned = _asked(config, schema, context)
                answer = None if learned is None else PreparedFormat(question=question, learned=learned)
        if answer is not None:
            prepared.setdefault(context.node, {})[context.side] = answer
    refusals.raise_all()
    return prepared


def _opened(
    plan: PhysicalPlan, learned: PreparedFormats, *, sinks: bool
) -> Iterator[tuple[str, FormatConfig, Schema, FormatContext]]:
    for task in plan.tasks:
        for spec in task.nodes:
            if isinstance(spec, StepSpec) or (isinstance(spec, SinkSpec) and not sinks):
                continue
            schema = spec.schema if isinstance(spec, SourceSpec) else spec.encoded
            if spec.format is not None:
                yield spec.format.name, spec.format.config, schema, format_context(spec, learned)
            if spec.key_format is not None:
                context = format_context(spec, learned, "key")
                yield spec.key_format.name, spec.key_format.config, spec.key_schema, context


def _question(name: str, config: FormatConfig, schema: Schema, context: FormatContext) -> str:
    """The hash of all that a preparation may depend on."""
    files = sorted((path, file_hash(content)) for path, content in context.files.items())
    asked = [name, config.meaning(), str(schema), context.end, context.side, context.topic, files]
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _asked(config: FormatConfig, schema: Schema, context: FormatContext) -> dict[str, Any] | None:
    preparation = config.open_preparation(schema, context)
    if preparation is None:
        return None
    try:
        learned = dict(preparation.prepare())
    finally:
        preparation.close()
    size = len(json.dumps(learned))
    if size > PREPARED_BYTES_MAX:
        raise UserError(
            f"{context.node}: the schemas of its {context.side} take {size:,} bytes, and at most "
            f"{PREPARED_BYTES_MAX:,} are kept",
            remedy="name a schema with fewer types or references",
        )
    return learned
