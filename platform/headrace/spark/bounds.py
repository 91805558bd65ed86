"""Where a replay begins and ends: `--from` and `--until` into the `start` and `stop` of the pipeline's sources. Pure.

What they may be is the connector's own business: a word, a time, offsets by partition. A source whose connector knows
no such field is bounded by itself, or it is an error to replay it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.checkpoint.manifest import Manifest
from headrace.connect.registry import connector, connector_names
from headrace.core.errors import UserError
from headrace.spec.pipeline import Pipeline

START, STOP = "start", "stop"
LATEST = "latest"


def bounded(pipeline: Pipeline, *, begin: str | None, end: str | Manifest | None) -> dict[str, Any]:
    """The pipeline's file form with every source bounded: by `end`, else by its own stop, else by the last offset there
    is now.

    end   what `stop` takes, as text, or a savepoint: its positions. Raises UserError where no source can begin or end
          as asked for.
    """
    document = pipeline.to_dict()
    takers: dict[str, set[str]] = {START: set(), STOP: set()}
    for name, source in document["sources"].items():
        kind = _connector_of(source)
        fields = _fields(kind)
        for bound, value in ((START, begin), (STOP, end)):
            if bound not in fields:
                continue
            takers[bound].add(name)
            if isinstance(value, Manifest):
                source[kind][bound] = _positions(value, name)
            elif value is not None:
                source[kind][bound] = parsed(value)
            elif bound == STOP and source[kind].get(STOP) is None:
                source[kind][STOP] = LATEST
    for option, bound, value in (("--from", START, begin), ("--until", STOP, end)):
        if value is not None and not takers[bound]:
            raise UserError(
                f"{option}: no source of {pipeline.name} has a `{bound}`",
                remedy="leave it out: these sources are read as far as they go",
            )
    return document


def up_to_now(document: Mapping[str, Any]) -> dict[str, Any]:
    """A pipeline's file form with every source up to what there is now, whatever it said of its stop."""
    sources: dict[str, Any] = {}
    for name, source in document["sources"].items():
        kind = _connector_of(source)
        sources[name] = {**source, kind: {**source[kind], STOP: LATEST}} if STOP in _fields(kind) else source
    return {**document, "sources": sources}


def begun(pipeline: Pipeline, begin: str | None) -> dict[str, Any]:
    """The pipeline's file form with its sources begun at `begin`. Raises UserError where none can begin there."""
    document = pipeline.to_dict()
    if begin is None:
        return document
    takers = [source for source in document["sources"].values() if START in _fields(_connector_of(source))]
    for source in takers:
        source[_connector_of(source)][START] = parsed(begin)
    if not takers:
        raise UserError(
            f"--from: no source of {pipeline.name} has a `{START}`",
            remedy="leave it out: these sources are read from their beginning",
        )
    return document


def parsed(text: str) -> object:
    """A bound from the command line: JSON where it looks like an object, else the text."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as cause:
        raise UserError(f"{text!r} is no JSON: {cause}", remedy='write {"0": 1200, "1": 1180}, by partition') from cause


def _positions(manifest: Manifest, source: str) -> dict[str, dict[str, int]]:
    state = manifest.sources.get(source)
    if state is None:
        known = ", ".join(sorted(manifest.sources)) or "none"
        raise UserError(f"the savepoint has no source {source!r}", remedy=f"its sources: {known}")
    positions: dict[str, dict[str, int]] = {}
    for split in state.splits:
        positions.setdefault(split.topic, {})[str(split.partition)] = split.position
    return positions


def _connector_of(source: Mapping[str, Any]) -> str:
    known = set(connector_names())
    return next(name for name in source if name in known)


def _fields(kind: str) -> frozenset[str]:
    config = connector(kind).source
    return frozenset() if config is None else frozenset(config.model_fields)
