"""Rewrites pydantic's errors for users: a path that the user wrote, the problem, and the valid names.

Knows pydantic's error types and nothing of the models' meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from headrace.core.errors import did_you_mean, nearest
from headrace.core.text.synonyms import key_meant
from headrace.spec.findings import Finding, FindingsError, Path, joined

_Model = TypeVar("_Model", bound=BaseModel)

SHOWN_MAX = 80
"""Most characters of a value that a message repeats."""

_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_KINDS = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "a mapping",
    "mapping": "a mapping",
    "model": "a mapping",
    "dataclass": "a mapping",
    "datetime": "a time such as 2013-01-01T00:00:00Z",
}


def read_model(model: type[_Model], data: object) -> _Model:
    """`data` in its file form as a `model`. Raises FindingsError with every error, paths relative to `data`."""
    if not isinstance(data, Mapping):
        raise FindingsError([Finding(f"takes a mapping, not {kind_of(data)}")])
    nulls = _nulls(model, data)
    try:
        read = model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        found = translate(error, data, model)
        known = {finding.path for finding in nulls}
        raise FindingsError([*nulls, *(finding for finding in found if finding.path not in known)]) from error
    if nulls:
        raise FindingsError(nulls)
    return read


def _nulls(model: type[BaseModel], data: Mapping[Any, Any]) -> list[Finding]:
    """Keys without a value whose field requires one; a model's own validators may read None as text."""
    fields = {file_key(name, info): info.annotation for name, info in model.model_fields.items()}
    empty = [key for key, value in data.items() if value is None and key in fields]
    return [
        Finding(f"{key!r} has no value", "write one, or remove the key", (str(key),))
        for key in empty
        if fields[key] is not Any and type(None) not in get_args(fields[key])
    ]


def file_keys(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys that a pipeline file may use for this model."""
    return tuple(file_key(name, info) for name, info in model.model_fields.items())


def file_key(name: str, info: FieldInfo) -> str:
    """The key of one field in the file: its alias, else its name."""
    alias = info.validation_alias or info.alias
    return alias if isinstance(alias, str) else name


def unknown_key(key: str, valid: Sequence[str], path: Path = ()) -> Finding:
    """The finding for an unknown key."""
    meant = meant_key(key, valid)
    near = None if meant is None else f"did you mean {meant!r}?"
    remedy = joined(near, f"valid keys: {', '.join(valid)}" if valid else None)
    return Finding(f"unknown key {key!r}", remedy, (*path, key), on_key=True)


def meant_key(key: str, valid: Sequence[str]) -> str | None:
    """The valid key that is a synonym of an unknown one, or else near it."""
    return key_meant(key, valid) or nearest(key, valid)


def kind_of(data: object) -> str:
    """The kind of a value, for messages."""
    match data:
        case None:
            return "nothing"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            text = repr(data)
            return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}.."


def translate(error: ValidationError, data: Mapping[Any, Any], model: type[BaseModel]) -> list[Finding]:
    """All findings of a pydantic error, one per place: the branches of a union become one sentence."""
    places: dict[Path, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        places.setdefault(_written_path(details, data), []).append(details)
    findings: list[Finding] = []
    for path, branches in places.items():
        nested = _nested(branches)
        if nested:
            findings.extend(finding.under(*path) for finding in nested)
        elif len(branches) == 1:
            findings.append(_finding(path, branches[0], model))
        else:
            findings.append(_merged(path, branches, model))
    return _without_renamed(findings, places, model)


def _without_renamed(
    findings: list[Finding], places: Mapping[Path, list[ErrorDetails]], model: type[BaseModel]
) -> list[Finding]:
    """Leaves out a missing key that stands beside a synonym or a misspelling of it: both are one mistake."""
    unknown = [path for path, (first, *_) in places.items() if first["type"] == "extra_forbidden"]
    missing = {path for path, (first, *_) in places.items() if first["type"] == "missing"}
    meant = missing & {(*path[:-1], name) for path in unknown if (name := _meant_at(path, model)) is not None}
    return [finding for finding in findings if finding.path not in meant]


def _meant_at(path: Path, model: type[BaseModel]) -> str | None:
    """The key that the unknown one at the end of a path means."""
    above = _model_at(model, path[:-1])
    return None if above is None else meant_key(path[-1], file_keys(above))


def _nested(branches: list[ErrorDetails]) -> list[Finding]:
    found: list[Finding] = []
    for details in branches:
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, FindingsError):
            found.extend(cause.findings)
    return found


def _written_path(details: ErrorDetails, data: object) -> Path:
    """The part of pydantic's location that the user wrote; union branches and validators insert further names."""
    path: list[str] = []
    here = data
    names = details["loc"]
    for index, name in enumerate(names):
        below = _below(here, name)
        if below is not None:
            (here,) = below
            path.append(str(name))
        elif details["type"] == "missing" and index == len(names) - 1:
            path.append(str(name))
    return tuple(path)


def _below(data: object, name: int | str) -> tuple[object] | None:
    """The value at `name` inside of `data`, in a tuple because it may be None."""
    if isinstance(data, Mapping) and name in data:
        return (data[name],)
    if isinstance(data, list | tuple) and isinstance(name, int) and name < len(data):
        return (data[name],)
    return None


def _finding(path: Path, details: ErrorDetails, model: type[BaseModel]) -> Finding:
    kind = details["type"]
    name = _label(path)
    context = details.get("ctx", {})
    if kind == "missing":
        return Finding(f"missing {name}", f"add `{path[-1]}:` here", path)
    if kind == "extra_forbidden":
        above = _model_at(model, path[:-1])
        return unknown_key(path[-1], file_keys(above) if above else (), path[:-1])
    if kind in ("literal_error", "enum"):
        return _choice(path, details, str(context["expected"]), hidden=_is_secret(path, model))
    shown = "this value" if _is_secret(path, model) else kind_of(details["input"])
    if kind == "value_error":
        return Finding(str(context["error"]), None, path)
    if kind in _BOUNDS:
        word, bound = _BOUNDS[kind]
        return Finding(f"{shown} is out of range: {name} must be {word} {context[bound]}", None, path)
    if kind.endswith("too_short"):
        return Finding(f"{name} is empty or too short", f"it takes at least {context['min_length']}", path)
    takes = _takes(kind)
    if takes and details["input"] is None:
        return Finding(f"{name} has no value: it takes {takes}", None, path)
    if takes:
        return Finding(f"{name} takes {takes}, not {shown}", _list_remedy(takes, details["input"]), path)
    message = details["msg"]
    return Finding(message[:1].lower() + message[1:], None, path)


def _label(path: Path) -> str:
    """The name of the value at a path, for messages."""
    if not path:
        return "it"
    if path[-1].isdigit() and len(path) > 1:
        return f"element {path[-1]} of {path[-2]!r}"
    return repr(path[-1])


def _takes(kind: str) -> str | None:
    """The expected kind of a field, from pydantic's name of a type error; None for other errors."""
    wrong_type = kind.endswith(("_type", "_parsing")) or kind == "int_from_float"
    return _KINDS.get(kind.split("_", maxsplit=1)[0]) if wrong_type else None


def _list_remedy(takes: str, given: object) -> str | None:
    return f"write [{given}]" if takes == "a list" and isinstance(given, str) and given else None


def _choice(path: Path, details: ErrorDetails, expected: str, *, hidden: bool) -> Finding:
    valid = [item.strip().strip("'") for item in expected.replace(" or ", ", ").split(",")]
    given = details["input"]
    shown = "this value" if hidden else kind_of(given)
    near = did_you_mean(given, tuple(valid)) if isinstance(given, str) and not hidden else None
    return Finding(f"{shown} is not valid for {_label(path)}", joined(near, f"valid values: {', '.join(valid)}"), path)


def _merged(path: Path, branches: list[ErrorDetails], model: type[BaseModel]) -> Finding:
    """The finding for a value that several branches of a union rejected: the valid choices, or the best branch's
    message."""
    own = [branch for branch in branches if branch["type"] == "value_error"]
    if own:
        return _finding(path, own[0], model)
    valid = []
    for branch in branches:
        if branch["type"] == "literal_error":
            valid.append(str(branch.get("ctx", {})["expected"]).replace("'", ""))
        elif takes := _takes(branch["type"]):
            valid.append(takes)
    if not valid:
        return _finding(path, branches[0], model)
    shown = "this value" if _is_secret(path, model) else kind_of(branches[0]["input"])
    return Finding(f"{shown} is not valid for {_label(path)}", f"valid: {', or '.join(dict.fromkeys(valid))}", path)


def _model_at(model: type[BaseModel] | None, path: Path) -> type[BaseModel] | None:
    """The model that reads the value at `path`; None if there is not exactly one."""
    for name in path:
        if model is None:
            return None
        found = [info for field, info in model.model_fields.items() if file_key(field, info) == name]
        models = models_in(found[0].annotation) if found else []
        model = models[0] if len(models) == 1 else None
    return model


def models_in(annotation: object) -> list[type[BaseModel]]:
    """The models in a field's annotation, at any depth of unions and containers."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


def _is_secret(path: Path, model: type[BaseModel]) -> bool:
    above = _model_at(model, path[:-1])
    fields = above.model_fields.items() if above and path else ()
    return any(is_secret(info.json_schema_extra) for name, info in fields if file_key(name, info) == path[-1])


def is_secret(extra: object) -> bool:
    """Whether a field's extra marks it `secret()`."""
    return isinstance(extra, dict) and extra.get("secret") is True
