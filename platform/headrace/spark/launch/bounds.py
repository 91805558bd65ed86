"""The bounds of a replay: turns `--from` and `--until` into the `start` and `stop` of the pipeline's sources. Pure.

The connector defines their values: a name such as `latest`, a time, offsets by partition. A source whose connector has
no such field must be bounded, or it cannot be replayed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from headrace.checkpoint.manifest import Manifest
from headrace.connect.registry import connector, connector_names
from headrace.core.errors import UserError
from headrace.spec.pipeline import Pipeline

START, STOP = "start", "stop"
LATEST = "latest"


def bounded(pipeline: Pipeline, *, begin: str | None, end: str | Manifest | None) -> dict[str, Any]:
    """Returns the pipeline's file form with every source bounded: by `end`, else by its own stop, else by its current
    last offset.

    end   a value of `stop`, as text, or a savepoint: its positions. Raises UserError if no source can begin or end
          there.
    """
    document = pipeline.to_dict()
    takers: dict[str, set[str]] = {START: set(), STOP: set()}
    fields_of = {name: _fields(_connector_of(source)) for name, source in document["sources"].items()}
    logs = frozenset(name for name, fields in fields_of.items() if START in fields)
    for name, source in document["sources"].items():
        kind = _connector_of(source)
        for bound, given in ((START, begin), (STOP, end)):
            value = parsed(given) if isinstance(given, str) else given
            if bound not in fields_of[name] or not _is_meant(name, value, logs):
                continue
            takers[bound].add(name)
            if isinstance(value, Manifest):
                source[kind][bound] = _positions(value, name)
            elif value is not None:
                source[kind][bound] = _part_of(value, name, fields_of.keys() - logs)
            elif bound == STOP and source[kind].get(STOP) is None:
                source[kind][STOP] = LATEST
    for option, bound, value in (("--from", START, begin), ("--until", STOP, end)):
        if value is not None and not takers[bound]:
            raise UserError(
                f"{option}: no source of {pipeline.name} has a `{bound}`",
                remedy="leave it out: these sources are read as far as they go",
            )
    return document


def _is_meant(name: str, value: object, logs: frozenset[str]) -> bool:
    """Whether a bound applies to this source. A source that is not a log (files, say) has no times: offsets under its
    own name apply to it, or any offsets if no source of the pipeline is a log. Otherwise it is read to its end.
    """
    if value is None or value == LATEST or isinstance(value, Manifest) or name in logs:
        return True
    return isinstance(value, Mapping) and (name in value or not logs)


def _part_of(value: object, name: str, others: Collection[str]) -> object:
    """Returns a source's part of offsets by topic: a source that is no log uses its name as topic."""
    if not isinstance(value, Mapping):
        return value
    if name in others:
        return value.get(name, value)
    return {topic: offsets for topic, offsets in value.items() if topic not in others}


def up_to_now(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the file form with every source stopping at its current end, whatever its own stop."""
    sources: dict[str, Any] = {}
    for name, source in document["sources"].items():
        kind = _connector_of(source)
        sources[name] = {**source, kind: {**source[kind], STOP: LATEST}} if STOP in _fields(kind) else source
    return {**document, "sources": sources}


def begun(pipeline: Pipeline, begin: str | None) -> dict[str, Any]:
    """Returns the file form with its sources starting at `begin`. Raises UserError if no source can begin there."""
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
    """Parses a bound of the command line: JSON if it begins like an object, else the text."""
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
