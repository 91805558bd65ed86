"""The verbs of the pipeline file, and how a step is read and looked at through them. A new verb is a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from headrace.spec.findings import Finding, FindingsError, Path, collecting, wrong
from headrace.spec.verbs.aggregate import Aggregate
from headrace.spec.verbs.drop import Drop
from headrace.spec.verbs.explode import Explode
from headrace.spec.verbs.filter import Filter
from headrace.spec.verbs.map import Map
from headrace.spec.verbs.rename import Rename
from headrace.spec.verbs.select import Select
from headrace.spec.verbs.union import Union
from headrace.spec.verbs.verb import Form, Verb
from headrace.spec.verbs.with_columns import WithColumns
from headrace.spec.wording import read_model

_MODELS: tuple[type[Verb], ...] = (Filter, Select, WithColumns, Drop, Rename, Explode, Union, Map, Aggregate)
VERBS = {model.NAME: model for model in _MODELS}
"""In the order of the reference."""
BESIDE = {key: model for model in _MODELS for key in model.BESIDE}
"""Key of a step that belongs to a verb -> the verb."""
LATER_VERBS = ("join", "dedup", "top", "process", "async_map", "match")
LATER_KEYS = ("emit",)


def read_verb(name: str, body: Mapping[str, Any]) -> Verb:
    """The verb `name` of a step's mapping `body`. Raises FindingsError with paths inside the step."""
    model = VERBS[name]
    if body[name] is None:
        raise wrong(f"{name!r} has no value", "write one after the colon", name)
    match model.FORM:
        case Form.BLOCK:
            findings: list[Finding] = []
            with collecting(findings, name):
                return read_model(model, body[name])
            raise FindingsError(findings)
        case Form.STEP:
            return read_model(model, {key: body[key] for key in (name, *model.BESIDE) if key in body})
        case Form.VALUE:
            field = next(iter(model.model_fields))
            try:
                return read_model(model, {field: body[name]})
            except FindingsError as found:
                raise FindingsError([_moved(finding, (name,)) for finding in found.findings]) from found
        case _:
            assert_never(model.FORM)


def _moved(finding: Finding, prefix: Path) -> Finding:
    """Replaces the verb's only field, which the file does not write, by the verb in the path."""
    return Finding(
        finding.message, finding.remedy, (*prefix, *finding.path[1:]), finding.on_key and len(finding.path) > 1
    )


def named_inputs(node: Mapping[str, object]) -> tuple[tuple[str, Path], ...]:
    """The nodes that a step or sink reads, in its file form, which may have mistakes; each with its path in the
    node."""
    for name, model in VERBS.items():
        listed = node.get(name) if model.NAMES_INPUTS else None
        if isinstance(listed, list | tuple):
            return tuple((item, (name, str(at))) for at, item in enumerate(listed) if isinstance(item, str) and item)
    source = node.get("from")
    return ((source, ("from",)),) if isinstance(source, str) and source else ()
