"""Which values of variables are hidden in the texts of a pipeline's job, and which ones everybody may read.

A value is public if every place of it is: the pipeline's name, which lists of jobs show, and addresses of systems in
fields that are made for them (`core.config.Address`). Everything else may be a secret. Words that stand in the file
itself are no secrets, nor are names of variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.connect import registry
from headrace.core.config import Address
from headrace.core.errors import UserError
from headrace.core.ids import PIPELINE_NAME
from headrace.core.text.concealment import HiddenTexts, hidden_texts
from headrace.spec.findings import Path
from headrace.spec.reading.locations import LocatedValue
from headrace.spec.reading.overrides import SetLocation
from headrace.spec.reading.variables import Variables
from headrace.spec.reading.yaml_tree import Scalar
from headrace.spec.wording import file_key

_ADDRESSES = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}(\s*,\s*[A-Za-z0-9._-]+:[0-9]{1,5})*\Z")
_NODES = ("sources", "sinks", "connections")


def hidden_values(variables: Variables, values: Mapping[Path, LocatedValue]) -> HiddenTexts:
    """The texts to hide for a file. values: every value of the file."""
    secret = {
        name: value
        for name, value in variables.values.items()
        if not all(_is_public(path, values[path].text or "") for path in variables.places[name])
    }
    return hidden_texts(secret, _source_texts(values)) if secret else {}


def _source_texts(values: Mapping[Path, LocatedValue]) -> list[str]:
    """What is written in the file: keys, and scalars before variables are replaced. Not in `--set`: a shell has
    replaced variables there."""
    texts = [path[-1] for path in values if path]
    for value in values.values():
        node = value.node
        if isinstance(node, Scalar) and node.text is not None and not isinstance(node.location, SetLocation):
            texts.append(node.text)
    return texts


def _is_public(path: Path, text: str) -> bool:
    if path == ("name",):
        return PIPELINE_NAME.match(text) is not None
    return _ADDRESSES.match(text.strip()) is not None and _is_address(path)


def _is_address(path: Path) -> bool:
    if len(path) != 4 or path[0] not in _NODES:
        return False
    try:
        connector = registry.connector(path[2])
    except UserError:
        return False
    return any(
        file_key(name, info) == path[3] and any(isinstance(mark, Address) for mark in info.metadata)
        for model in (connector.source, connector.sink)
        if model is not None
        for name, info in model.model_fields.items()
    )
