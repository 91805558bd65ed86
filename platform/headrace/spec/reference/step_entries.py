"""The verbs of steps and the kinds of windows as entries of a reference, from their models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

from headrace.core.errors import UserError, did_you_mean
from headrace.spec.config_fields import ConfigField, config_fields
from headrace.spec.verbs.table import VERBS
from headrace.spec.verbs.verb import Form, Verb
from headrace.spec.window import KINDS


@dataclass(frozen=True, slots=True)
class StepEntry:
    """A verb or a kind of window: its fields under the keys that they have in a file, and an example in YAML."""

    name: str
    kind: Literal["verb", "window"]
    summary: str
    fields: tuple[ConfigField, ...]
    example: str


def step_entries() -> tuple[StepEntry, ...]:
    """Returns all verbs, then all kinds of windows."""
    verbs = (
        StepEntry(name, "verb", first_line(verb), verb_fields(name, verb), verb.EXAMPLE) for name, verb in VERBS.items()
    )
    windows = (
        StepEntry(kind, "window", first_line(model), config_fields(model), model.EXAMPLE)
        for kind, model in KINDS.items()
    )
    return (*verbs, *windows)


def entry_named(name: str) -> StepEntry:
    """Returns one entry. Raises UserError if there is none of that name."""
    entries = {entry.name: entry for entry in step_entries()}
    if name not in entries:
        remedy = did_you_mean(name, tuple(entries)) or f"verbs and windows: {', '.join(entries)}"
        raise UserError(f"there is no verb or window {name!r}", remedy=remedy)
    return entries[name]


def verb_fields(name: str, verb: type[Verb]) -> tuple[ConfigField, ...]:
    """The fields of a verb under the keys that they have in a step."""
    fields = config_fields(verb)
    match verb.FORM:
        case Form.STEP:
            return fields
        case Form.BLOCK:
            return tuple(replace(field, name=f"{name}.{field.name}") for field in fields)
        case Form.VALUE:
            return tuple(replace(field, name=name) for field in fields)
        case _:
            assert_never(verb.FORM)


def first_line(model: type) -> str:
    """Returns the first line of a model's docstring."""
    return (model.__doc__ or "").partition("\n")[0]
