"""The verbs of steps: a closed union of frozen models, and their file form.

A verb's fields hold expressions as text; only their shape is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, assert_never

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from headrace.core.config import Duration
from headrace.spec.columns import ColumnName, Columns, check_column_name, schema_dict
from headrace.spec.model import FileModel
from headrace.spec.reading.findings import Finding, FindingsError, Path, collecting, wrong
from headrace.spec.reading.wording import kind_of, read_model
from headrace.spec.window import WindowField, window_dict

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
Pairs = tuple[tuple[str, str], ...]
"""(name, expression), or (old name, new name), in the file's order."""


def _written(text: object) -> object:
    if isinstance(text, str) and not text.strip():
        raise wrong("an expression is empty", "write an SQL expression")
    if text is None:
        raise wrong("there is no expression", "write an SQL expression")
    if not isinstance(text, str):
        remedy = "write one expression; `and` joins conditions" if isinstance(text, list) else "quote this expression"
        raise wrong(f"takes an SQL expression as text, not {kind_of(text)}", remedy if text else None)
    return text


Expression = Annotated[str, BeforeValidator(_written), Field(json_schema_extra={"format": "expression"})]
"""An SQL expression, as text."""


def quoted(column: str) -> str:
    """An SQL expression that reads the column."""
    return '"' + column.replace('"', '""') + '"'


def _named_expressions(data: object) -> object:
    """Parses `{name: <expression>}`; pairs are returned unchanged."""
    if isinstance(data, tuple):
        return data
    if not isinstance(data, Mapping):
        raise wrong(f"takes a mapping of column name to expression, not {kind_of(data)}", "write `name: expression`")
    if not data:
        raise wrong("is empty", "write `name: expression`, one a line")
    findings: list[Finding] = []
    pairs: list[tuple[str, object]] = []
    for name, text in data.items():
        with collecting(findings, str(name)):
            pairs.append((check_column_name(str(name)), _written(text)))
    if findings:
        raise FindingsError(findings)
    return tuple(pairs)


def _selected(data: object) -> object:
    """Parses `[col, ..]` or `{name: <expression>}`."""
    if isinstance(data, str) and data:
        raise wrong(f"takes a list of columns, or a mapping to expressions, not {kind_of(data)}", f"write [{data}]")
    if not isinstance(data, list):
        return _named_expressions(data)
    findings: list[Finding] = []
    names: list[str] = []
    for index, item in enumerate(data):
        with collecting(findings, str(index)):
            names.append(_listed_name(item, names))
    if findings or not names:
        raise FindingsError(findings or [Finding("is empty", "list at least one column")])
    return tuple((name, quoted(name)) for name in names)


def _listed_name(item: object, before: list[str]) -> str:
    if not isinstance(item, str):
        raise wrong(f"takes a column name, not {kind_of(item)}", "to compute a column, write `name: expression`")
    if item in before:
        raise wrong(f"column {item!r} is listed twice", "list it once")
    return check_column_name(item)


def _column_list(data: object) -> object:
    if isinstance(data, tuple):
        return data
    if isinstance(data, str) or not isinstance(data, list):
        raise wrong(
            f"takes a list of columns, not {kind_of(data)}", f"write [{data}]" if isinstance(data, str) else None
        )
    findings: list[Finding] = []
    names: list[str] = []
    for index, item in enumerate(data):
        with collecting(findings, str(index)):
            names.append(_listed_name(item, names))
    if findings:
        raise FindingsError(findings)
    return tuple(names)


def _renames(data: object) -> object:
    if isinstance(data, tuple):
        return data
    if not isinstance(data, Mapping) or not data:
        raise wrong(f"takes a mapping of old name to new name, not {kind_of(data or None)}", "write {old: new}")
    findings: list[Finding] = []
    targets: list[str] = []
    for old, new in data.items():
        with collecting(findings, str(old)):
            targets.append(_listed_name(new, targets))
    if findings:
        raise FindingsError(findings)
    return tuple(zip(map(str, data), targets, strict=True))


def _import_path(text: str) -> str:
    if not _FUNCTION.match(text):
        raise wrong(f"{text!r} is not an import path", "write package.module:function")
    return text


def _inputs(data: object) -> object:
    if isinstance(data, tuple):
        return data
    if not isinstance(data, list):
        raise wrong(f"takes a list of nodes, not {kind_of(data)}", "write [a, b]")
    if len(data) < 2:
        raise wrong(f"unites at least two nodes, not {len(data)}", "write [a, b]")
    findings: list[Finding] = []
    names: list[str] = []
    for index, item in enumerate(data):
        with collecting(findings, str(index)):
            if not isinstance(item, str):
                raise wrong(f"takes the name of a node, not {kind_of(item)}")
            if item in names:
                raise wrong(f"{item!r} is listed twice", "list each input once")
            names.append(item)
    if findings:
        raise FindingsError(findings)
    return tuple(names)


_EXPRESSIONS = {"type": "object", "additionalProperties": {"title": "expression", "type": ["string", "number"]}}
_COLUMNS = {"type": "array", "items": {"title": "column", "type": "string"}}
_NAMED = WithJsonSchema({**_EXPRESSIONS, "minProperties": 1})
_RENAMED = WithJsonSchema(
    {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"title": "new name", "type": ["string", "number"]},
    }
)
_LIST = WithJsonSchema(_COLUMNS)
_NODES = WithJsonSchema({"type": "array", "items": {"title": "node", "type": "string"}})
_SELECTED = WithJsonSchema({"anyOf": [_COLUMNS, _EXPRESSIONS]})

Named = Annotated[Pairs, BeforeValidator(_named_expressions), _NAMED]
ColumnList = Annotated[tuple[str, ...], BeforeValidator(_column_list), _LIST]


class Filter(FileModel):
    """Keeps the rows for which a predicate is true."""

    predicate: Expression = Field(description="an SQL predicate; rows for which it is true are kept")


class Select(FileModel):
    """Returns exactly these columns, in this order."""

    columns: Annotated[Pairs, BeforeValidator(_selected), _SELECTED] = Field(
        description="the columns of the result: [col, ..] or {name: expression}"
    )


class WithColumns(FileModel):
    """Adds columns, or replaces those with the same name."""

    columns: Named = Field(description="columns to add or replace: {name: expression}")


class Drop(FileModel):
    """Drops columns."""

    columns: ColumnList = Field(description="columns to leave out", min_length=1)


class Rename(FileModel):
    """Renames columns; the others stay as they are."""

    columns: Annotated[Pairs, BeforeValidator(_renames), _RENAMED] = Field(description="old name: new name")


class Explode(FileModel):
    """Emits one row for each element of a list column."""

    column: ColumnName = Field(description="a list column; each element becomes a row")


class Union(FileModel):
    """Merges the rows of several nodes; columns are matched by name, and their types are equal."""

    inputs: Annotated[tuple[str, ...], BeforeValidator(_inputs), _NODES] = Field(
        description="nodes whose rows are united, by column name"
    )


class Map(FileModel):
    """Calls a Python function with a polars DataFrame of the rows; it returns as many rows, in the same order.

    A function that raises, `sys.exit` included, makes its rows bad (`on_error`). One that ends its process (`os._exit`,
    a crash of native code) fails the attempt: the error names function and step.
    """

    function: Annotated[str, AfterValidator(_import_path)] = Field(description="package.module:function")
    columns: Columns = Field(
        validation_alias="schema", serialization_alias="schema", description="the columns that the function returns"
    )


class Aggregate(FileModel):
    """Aggregates rows by key and window. Without a window the aggregate is running, and its rows update.

    `lateness`: `row` judges a row by its own partition's watermark, `operator` by the step's (not replayable).
    `order`: `event` gives first and last the total order of rows, `arrival` the order they come in (not replayable).
    """

    key_by: ColumnList = Field(default=(), description="columns that rows are grouped by")
    window: WindowField | None = Field(default=None, description="windows of event time; none: a running aggregate")
    aggregate: Named = Field(description="columns to compute: {name: aggregate expression}")
    allowed_lateness_ms: Annotated[Duration, Field(ge=0)] = Field(
        default=0,
        validation_alias="allowed_lateness",
        serialization_alias="allowed_lateness",
        description="late rows still count for this long after their window closed; the result then updates",
    )
    lateness: Literal["row", "operator"] = Field(
        default="row", description="what judges a row late: its own partition, or the step as a whole"
    )
    order: Literal["event", "arrival"] = Field(default="event", description="the order that first and last follow")


Verb = Filter | Select | WithColumns | Drop | Rename | Explode | Union | Map | Aggregate

VERBS: dict[str, type[Verb]] = {
    "filter": Filter,
    "select": Select,
    "with_columns": WithColumns,
    "drop": Drop,
    "rename": Rename,
    "explode": Explode,
    "union": Union,
    "map": Map,
    "aggregate": Aggregate,
}
"""The verbs of the pipeline file."""
BESIDE_AGGREGATE = ("key_by", "window", "allowed_lateness", "lateness", "order")
LATER_VERBS = ("join", "dedup", "top", "process", "async_map", "match")
LATER_KEYS = ("emit",)


def verb_name(verb: Verb) -> str:
    """The key of a verb in the file."""
    return next(name for name, model in VERBS.items() if type(verb) is model)


def read_verb(name: str, body: Mapping[str, Any]) -> Verb:
    """The verb `name` of a step's mapping `body`. Raises FindingsError with paths inside the step."""
    model = VERBS[name]
    if body[name] is None:
        raise wrong(f"{name!r} has no value", "write one after the colon", name)
    if model is Map:
        return _under(name, lambda: read_model(Map, body[name]))
    if model is Aggregate:
        return read_model(Aggregate, {key: body[key] for key in ("aggregate", *BESIDE_AGGREGATE) if key in body})
    field = next(iter(model.model_fields))
    try:
        return read_model(model, {field: body[name]})
    except FindingsError as found:
        raise FindingsError([_moved(finding, (name,)) for finding in found.findings]) from found


def _under(name: str, read: Callable[[], Verb]) -> Verb:
    findings: list[Finding] = []
    with collecting(findings, name):
        return read()
    raise FindingsError(findings)


def _moved(finding: Finding, prefix: Path) -> Finding:
    """Replaces the verb's only field, which the file does not write, by the verb in the path."""
    return Finding(
        finding.message, finding.remedy, (*prefix, *finding.path[1:]), finding.on_key and len(finding.path) > 1
    )


def verb_dict(verb: Verb) -> dict[str, Any]:
    """The file form of a verb: the keys that it adds to a step."""
    match verb:
        case Filter(predicate=text):
            return {"filter": text}
        case Select(columns=columns):
            if all(text == quoted(name) for name, text in columns):
                return {"select": [name for name, _ in columns]}
            return {"select": dict(columns)}
        case WithColumns(columns=columns):
            return {"with_columns": dict(columns)}
        case Drop(columns=names):
            return {"drop": list(names)}
        case Rename(columns=columns):
            return {"rename": dict(columns)}
        case Explode(column=name):
            return {"explode": name}
        case Union(inputs=names):
            return {"union": list(names)}
        case Map():
            return {"map": {"function": verb.function, "schema": schema_dict(verb.columns)}}
        case Aggregate():
            return _aggregate_dict(verb)
        case _:
            assert_never(verb)


def _aggregate_dict(verb: Aggregate) -> dict[str, Any]:
    data = verb.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["aggregate"] = dict(verb.aggregate)
    if verb.window is not None:
        data["window"] = window_dict(verb.window)
    order = ("key_by", "window", "aggregate", "allowed_lateness", "lateness", "order")
    return {key: data[key] for key in order if key in data}
