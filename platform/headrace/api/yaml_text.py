"""Renders a pipeline's file form as YAML text, which the loader reads back as an equal pipeline."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

_WIDTH = 100_000


def yaml_text(data: Mapping[str, Any]) -> str:
    """Returns the file form as YAML, in block style, every expression on one line."""
    from ruamel.yaml import YAML

    writer = YAML(typ="rt")
    # wide: a folded expression would load as the same text, but would not look as the user wrote it
    writer.width = _WIDTH
    writer.allow_unicode = True
    writer.indent(mapping=2, sequence=4, offset=2)
    target = io.StringIO()
    writer.dump(_escaped(data), target)
    return target.getvalue()


def _escaped(value: Any) -> Any:
    """Returns the data with `${` as `$${`: Python values hold no variables of files."""
    match value:
        case str():
            return value.replace("${", "$${")
        case Mapping():
            return {key: _escaped(item) for key, item in value.items()}
        case list() | tuple():
            return [_escaped(item) for item in value]
        case _:
            return value
